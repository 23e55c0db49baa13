"""Marks the message that a SQL expression raises for an invalid value, and finds it again in a driver's error.

Drivers and Spark wrap the message in text of their own, so it has a start and an end marker. It never contains the
value.
"""

from __future__ import annotations

import re

BEGIN, END = "tidegate: ", " [tidegate]"
# Followed by `' ||` it is only the statement, quoted in an error about something else.
_SAID = re.compile(rf"{re.escape(BEGIN)}((?:(?!{re.escape(BEGIN)}).)+?){re.escape(END)}(?!' \|\|)", re.DOTALL)


def marked(sentence: str) -> str:
    """The sentence as an expression raises it; it names the column, never the value."""
    return f"{BEGIN}{sentence}{END}"


def marked_text(text: str) -> str | None:
    r"""The sentence that an error holds, without what stands around it; None where it holds none.

    Example:
        >>> marked_text("bad JSON path: 'tidegate: column ''x'' holds a value that is no decimal(18,4) [tidegate]')")
        "column 'x' holds a value that is no decimal(18,4)"
    """
    found = _SAID.search(text)
    return found[1].replace("''", "'").replace("\\'", "'").strip() if found else None
