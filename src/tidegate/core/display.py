"""Formats results as text in a terminal and as HTML tables in a notebook."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from tidegate.core.visible import visible, visible_line

NOTHING: tuple[object, ...] = (None, "", (), {})
"""What a value has where there is nothing to show."""


class Shown:
    """A dataclass whose values people look at: `str()` is text, a notebook shows a table.

    `shown` names the fields that are worth a column; every field unless given. What a value does not have is left out.
    """

    __slots__ = ()
    shown: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        rows = self._rows()
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name.ljust(width)}  {visible(value)}" for name, value in rows)

    def _repr_html_(self) -> str:
        return as_html(("", ""), self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        found = ((name.replace("_", " "), getattr(self, name)) for name in names_of(type(self)))
        return [(name, text_of(value)) for name, value in found if value not in NOTHING]


def names_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a result that are shown."""
    own: tuple[str, ...] = getattr(kind, "shown", ())
    return own or tuple(field.name for field in dataclasses.fields(kind) if field.repr)


def text_of(value: object) -> str:
    """A value for people: nothing for None, yes and no, times to the second.

    Example:
        >>> text_of(True), text_of(1234567), text_of(None), text_of(("a", "b"))
        ('yes', '1,234,567', '', 'a, b')
    """
    match value:
        case bool():
            text = "yes" if value else "no"
        case int():
            text = f"{value:,}"
        case float():
            text = f"{value:,.1f}"
        case datetime():
            text = value.isoformat(" ", "seconds")
        case dict():
            text = ", ".join(f"{name} {text_of(item)}" for name, item in value.items())
        case tuple() | list():
            text = ", ".join(map(text_of, value))
        case _:
            text = "" if value is None else str(value)
    return text


def counted(number: int, what: str, do: str = "") -> str:
    """A number of things, and what they do.

    Args:
        do: a verb as several things do it.

    Example:
        >>> counted(1, "row"), counted(20000, "row"), counted(1, "row", "have"), counted(2, "row", "wait")
        ('1 row', '20,000 rows', '1 row has', '2 rows wait')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}{f' {done_by(number, do)}' if do else ''}"


def ahead_of_clock(rows: int) -> str:
    """That rows of a source wait until the time that they state.

    Example:
        >>> ahead_of_clock(1)
        'the cursor of 1 row is ahead of the clock; the row is loaded when that time has come, or once it is corrected'
    """
    that = "the row is" if rows == 1 else "the rows are"
    return (
        f"the cursor of {counted(rows, 'row')} is ahead of the clock; {that} loaded when that time has come, or once "
        f"it is corrected"
    )


def done_by(number: int, do: str) -> str:
    """A verb as so many things do it.

    Example:
        >>> done_by(1, "have"), done_by(1, "exist"), done_by(2, "exist")
        ('has', 'exists', 'exist')
        >>> done_by(1, "empty"), done_by(1, "were")
        ('empties', 'was')
    """
    alone = {"have": "has", "are": "is", "were": "was", "empty": "empties"}
    return alone.get(do, f"{do}s") if number == 1 else do


def as_text(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, as wide as their longest value; each row is one line.

    Example:
        >>> print(as_text(("stream", "rows"), [("orders", "12"), ("customers", "3")]))
        stream     rows
        orders     12
        customers  3
    """
    lines = [columns, *(tuple(map(visible_line, row)) for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_html(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as an HTML table."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns) if any(columns) else ""
    body = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def short_duration(span: timedelta) -> str:
    """A duration in its two largest units.

    Example:
        >>> [short_duration(timedelta(minutes=each)) for each in (0.5, 5, 60, 3064)]
        ['30 s', '5 min', '1 h', '2 d 3 h']
    """
    rest, found = max(int(span.total_seconds()), 0), []
    for name, seconds in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, rest = divmod(rest, seconds)
        found += [f"{number} {name}"] if number else []
    return " ".join(found[:2]) or "0 s"
