"""Formats results: a table on a terminal, plain aligned columns in a pipe.

Values are never truncated in a pipe, where a program may read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from tidegate.core.display import as_text

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
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text with column names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def render(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Writes the table."""
    if stream.isatty():
        _rich(columns, rows, stream)
    else:
        stream.write(as_text(columns, rows) + "\n")
        stream.flush()


def _rich(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    from rich import box  # noqa: PLC0415 - a pipe needs no Rich
    from rich.console import Console  # noqa: PLC0415 - as above
    from rich.table import Table as RichTable  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = RichTable(*columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(cell, style=COLOURS.get(cell, ""), overflow="fold") for cell in row))
    Console(file=stream).print(table)


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
