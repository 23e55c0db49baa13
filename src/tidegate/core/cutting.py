"""Cuts texts of others, such as errors of servers, so that a secret in them can still be masked afterwards.

What masks secrets looks for whole ones. A cut leaves the beginning of one behind, so it leaves a mark by which that
beginning is recognized, whatever its length. Every text that is shortened before it is masked is shortened here.
"""

from __future__ import annotations

from collections.abc import Iterator

CUT = "[…]"
LONGEST_LINE = 300
"""Characters of an error that is not ours."""


def cut(text: str, most: int) -> str:
    """The text, or its first characters and the mark.

    Example:
        >>> cut("no login for hunter2", 16), cut("no login", 16)
        ('no login for hun[…]', 'no login')
    """
    return text if len(text) <= most else f"{text[:most]}{CUT}"


def first_line(error: object, most: int = LONGEST_LINE) -> str:
    """What fits on one line of a text or of an error that is not ours."""
    line, *more = str(error).strip().splitlines() or ["no message"]
    return cut(line, most) if not more or len(line) > most else f"{line}{CUT}"


def begun_at_cuts(text: str, secret: str) -> Iterator[tuple[int, int]]:
    """Where the text ends within the secret at a cut, or with it: the span of each such beginning.

    Example:
        >>> list(begun_at_cuts("no login for hun[…], try again", "hunter2"))
        [(13, 16)]
    """
    at = text.find(CUT)
    while at >= 0:
        lengths = range(min(len(secret), at), 0, -1)
        begun = next((length for length in lengths if text.startswith(secret[:length], at - length)), 0)
        if begun:
            yield at - begun, at
        at = text.find(CUT, at + 1)
