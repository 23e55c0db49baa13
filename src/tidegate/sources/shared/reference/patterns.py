"""Parses dates and timestamps by a Java `DateTimeFormatter` pattern, such as `dateFormat:`.

A text must match the whole pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

from tidegate.errors import ConfigError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
OFFSET = re.compile(r"([+-])(\d{1,2}):?(\d{2})?(?::?(\d{2}))?")
FIELDS = {
    "y": ("year", {1: r"\d{1,9}", 2: r"\d{2}", 4: r"\d{4}"}),
    "u": ("year", {1: r"\d{1,9}", 4: r"\d{4}"}),
    "M": ("month", {1: r"\d{1,2}", 2: r"\d{2}", 3: "[A-Za-z]{3}"}),
    "L": ("month", {1: r"\d{1,2}", 2: r"\d{2}", 3: "[A-Za-z]{3}"}),
    "d": ("day", {1: r"\d{1,2}", 2: r"\d{2}"}),
    "H": ("hour", {1: r"\d{1,2}", 2: r"\d{2}"}),
    "h": ("half", {1: r"\d{1,2}", 2: r"\d{2}"}),
    "m": ("minute", {1: r"\d{1,2}", 2: r"\d{2}"}),
    "s": ("second", {1: r"\d{1,2}", 2: r"\d{2}"}),
    "a": ("noon", {1: "[AaPp][Mm]"}),
}
ZONES = {"X": "Z|[+-][0-9:]+", "x": "[+-][0-9:]+", "Z": "[+-][0-9:]+", "V": r"[\w/+-]+", "z": r"[\w/+-]+"}


@cache
def parser(pattern: str) -> Callable[[str], datetime]:
    """The function from a text to its moment; naive where the pattern has no zone.

    Raises:
        ConfigError: a pattern with letters that this parser does not know.

    Example:
        >>> parser("dd.MM.yyyy HH:mm")("31.01.2025 23:59")
        datetime.datetime(2025, 1, 31, 23, 59)
    """
    compiled = re.compile("".join(_piece(found, pattern) for found in TOKEN.finditer(_optional(pattern))))

    def parsed(text: str) -> datetime:
        found = compiled.fullmatch(text)
        if found is None:
            raise ValueError("a string that does not match the pattern")
        return _moment({name: value for name, value in found.groupdict().items() if value is not None})

    return parsed


def zone_of(text: str) -> timezone | ZoneInfo:
    """A zone by its offset or name. Raises ValueError."""
    text = text.strip()
    if text in ("Z", "z", "UTC", "GMT"):
        return UTC
    found = OFFSET.fullmatch(text.removeprefix("UTC").removeprefix("GMT"))
    if found is None:
        try:
            return ZoneInfo(text)
        except (KeyError, OSError) as error:
            raise ValueError("no time zone") from error
    sign, hours, minutes, seconds = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    return timezone(-offset if sign == "-" else offset)


def _optional(pattern: str) -> str:
    if "[" not in pattern and "]" not in pattern:
        return pattern
    raise _unknown(pattern, "[")


def _piece(found: re.Match[str], pattern: str) -> str:
    quoted, letter, other = found.groups()
    if quoted is not None:
        return re.escape(quoted.replace("''", "'") or "'")
    if other is not None:
        return re.escape(other)
    length = len(found[0])
    if letter == "S":
        return rf"(?P<fraction>\d{{1,{length}}})"
    if letter in ZONES:
        return f"(?P<zone>{ZONES[letter]})"
    name, widths = FIELDS.get(letter, ("", {}))
    width = widths.get(length) or widths.get(1 if length < 2 else -1)
    if width is None:
        raise _unknown(pattern, found[0])
    return f"(?P<{name}>{width})"


def _moment(parts: dict[str, str]) -> datetime:
    year = int(parts.get("year", "1970"))
    if len(parts.get("year", "1970")) == 2:
        year += 2000
    month = parts.get("month", "1")
    hour = int(parts.get("hour", "0"))
    if "half" in parts:
        hour = int(parts["half"]) % 12 + (12 if parts.get("noon", "am").lower() == "pm" else 0)
    fraction = parts.get("fraction", "").ljust(6, "0")
    if fraction[6:].strip("0"):
        raise ValueError("digits beyond microseconds")
    found = datetime(  # noqa: DTZ001 - the zone, if there is one, follows
        year,
        int(month) if month.isdigit() else MONTHS.index(month.lower()) + 1,
        int(parts.get("day", "1")),
        hour,
        int(parts.get("minute", "0")),
        int(parts.get("second", "0")),
        int(fraction[:6]),
    )
    return found.replace(tzinfo=zone_of(parts["zone"])) if "zone" in parts else found


def _unknown(pattern: str, part: str) -> ConfigError:
    return ConfigError(
        f"the pattern {pattern!r} contains {part!r}, which the reader that verifies files does not support",
        hint="Known letters: y M d H h a m s S X x Z V. Load the column as text, or set `verify: none`.",
    )
