"""Formats results: a table on a terminal, plain aligned columns in a pipe.

Values are never truncated in a pipe, where a program may read them.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TextIO

from tidegate.core.display import as_text
from tidegate.core.visible import visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

COLOURS = {
    "loaded": "green",
    "unchanged": "dim",
    "changed": "yellow",
    "ok": "green",
    "failed": "red",
    "stopped": "red",
    "held": "yellow",
    "OK": "green",
    "ERROR": "red",
    "missing": "red",
    "interrupted": "yellow",
    "never": "dim",
    "due": "yellow",
    "late": "red",
    "running": "cyan",
}
NOTHING = frozenset({"", "-", "0"})
"""What an optional column says where there is nothing to say."""
WIDEST = 10_000
UNSAID = frozenset({"", "-"})
_WHOLE = re.compile(r"(\d\d:\d\d:\d\d)\.0+\b")
_NUMBER = re.compile(r"[\d,]+|[\d.,]+ (s|B|kB|MB|GB|TB)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text with column names.

    Args:
        optional: columns that a terminal shows only where a row has something in them; a pipe always gets them.
        minor: columns that a terminal leaves out where it is too narrow for all.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    optional: frozenset[str] = frozenset()
    minor: frozenset[str] = frozenset()

    @property
    def useful(self) -> Table:
        """The same without optional columns that have nothing to say."""
        empty = {
            name
            for place, name in enumerate(self.columns)
            if name in self.optional and all(row[place] in NOTHING for row in self.rows)
        }
        return self.without(empty)

    def without(self, names: AbstractSet[str]) -> Table:
        """The same without columns of these names, whole seconds without their fraction."""
        kept = [place for place, name in enumerate(self.columns) if name not in names]
        rows = tuple(tuple(_WHOLE.sub(r"\1", row[place]) for place in kept) for row in self.rows)
        return replace(self, columns=tuple(self.columns[place] for place in kept), rows=rows)


def render(table: Table, stream: TextIO) -> None:
    """Writes the table: on a terminal one that fits its width, in a pipe every cell whole."""
    if not stream.isatty():
        stream.write(as_text(table.columns, table.rows) + "\n")
        stream.flush()
        return
    from rich.console import Console  # noqa: PLC0415 - a pipe needs no Rich

    table = replace(table, rows=tuple(tuple(map(visible, row)) for row in table.rows))
    show(table, Console(file=stream, highlight=False))


def show(table: Table, console: Console) -> None:
    """Prints a table; or, where it is wider than the terminal, a block of lines for each row.

    A table is too wide where a number or a word of it would have to be broken.
    """
    from rich.measure import Measurement  # noqa: PLC0415 - a pipe needs no Rich

    for part in (table.useful, table.useful.without(table.minor)):
        made = _table(part)
        needed = Measurement.get(console, console.options.update(width=WIDEST), made).minimum
        if needed <= console.width or not table.rows:
            console.print(made)
            return
    console.print(_blocks(table.without(frozenset())))


def _table(table: Table) -> RenderableType:
    from rich import box  # noqa: PLC0415 - a pipe needs no Rich
    from rich.table import Table as RichTable  # noqa: PLC0415 - as above

    made = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for place, name in enumerate(table.columns):
        cells = {row[place] for row in table.rows} - UNSAID
        number = bool(cells) and all(map(_NUMBER.fullmatch, cells))
        made.add_column(name, justify="right" if number else "left", no_wrap=number)
    for row in table.rows:
        made.add_row(*map(_cell, row))
    return made


def _blocks(table: Table) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415 - a pipe needs no Rich
    from rich.padding import Padding  # noqa: PLC0415 - as above
    from rich.table import Table as RichTable  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    parts: list[RenderableType] = []
    for row in table.rows:
        block = RichTable.grid(padding=(0, 2, 0, 0))
        for name, cell in list(zip(table.columns, row, strict=True))[1:]:
            if cell not in (NOTHING if name in table.optional else UNSAID):
                block.add_row(Text(name, style="dim"), _cell(cell))
        parts += [Text(row[0], style="bold", overflow="fold"), Padding(block, (0, 0, 1, 2))]
    return Group(*parts)


def _cell(cell: str) -> RenderableType:
    from rich.text import Text  # noqa: PLC0415 - a pipe needs no Rich

    return Text(cell, style=COLOURS.get(cell, ""), overflow="fold")


def count(value: int | None) -> str:
    """Formats a number: `1,234`; a dash if unknown."""
    return "-" if value is None else f"{value:,}"


def size(value: int | None) -> str:
    """Formats bytes: `1.5 MB`; a dash if unknown."""
    if value is None:
        return "-"
    number = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def seconds(value: float | None) -> str:
    """Formats a duration: `1.3 s`."""
    return "-" if value is None else f"{value:.1f} s"


def yes(*, value: bool | None) -> str:
    """`yes`, `no`, or a dash if unknown."""
    return {True: "yes", False: "no", None: "-"}[value]
