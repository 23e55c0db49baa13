"""Parses durations such as `5m` or `1h30m`.

A number without a unit is an error.
"""

from __future__ import annotations

import re
from datetime import timedelta

UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
PART = r"\d+(?:\.\d+)?(?:ms|s|m|h|d|w)"
PATTERN = rf"^(?:{PART})+$"


def duration(value: object) -> timedelta:
    """A length of time from a text such as `500ms`, `0s`, `5m`, `1h30m` or `7d`.

    Raises:
        ValueError: no number, no unit, an unknown unit, or longer than a `timedelta` can be.

    Example:
        >>> duration("1h30m")
        datetime.timedelta(seconds=5400)
    """
    if isinstance(value, timedelta) and value >= timedelta(0):
        return value
    text = value.strip() if isinstance(value, str) else str(value)
    if text == "0":
        return timedelta(0)
    if not re.fullmatch(PATTERN, text, re.ASCII):
        raise ValueError("must be a duration: a number and its unit, such as 500ms, 30s, 5m, 1h or 7d")
    try:
        parts = re.findall(r"([\d.]+)([a-z]+)", text)
        return sum((float(number) * UNITS[unit] for number, unit in parts), timedelta(0))
    except OverflowError as error:
        raise ValueError("is too long a duration") from error
