"""Compares the texts of a cursor by what they mean: dlt takes the greatest text, and leaves out records below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from typing import Any, Self

from tidegate.dialects.shared.time_bounds import EARLIEST_DAY
from tidegate.errors import SourceError

WHOLE = re.compile(r"[+-]?\d{1,100}")
MOMENT = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d\d)(-(?P<day>\d\d)"
    r"([Tt ](?P<time>\d\d:\d\d(:\d\d)?)([.,](?P<fraction>\d+))? ?(?P<zone>[Zz]|[+-]\d\d(:?\d\d)?)?)?)?)?"
)
PLAIN = re.compile(r"[0-9A-Za-z]+|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
"""Numbers of one length, such as ULIDs, ObjectIds and UUIDs, whose order is that of their texts if they have one."""


class CursorText(str):
    """A text of a cursor, in order of its meaning: whole numbers as such, times in ISO 8601 as moments.

    A time without a zone is UTC. Others are compared as texts if both are letters and digits of one length.

    Raises:
        SourceError: by a comparison with a text of which nobody knows whether it is greater.

    Example:
        >>> CursorText("9", "id") < "10", CursorText("2025-01-01T00:00:00.5Z", "at") > "2025-01-01T01:00:00+01:00"
        (True, True)
    """

    __slots__ = ("path",)
    path: str

    def __new__(cls, text: str, path: str) -> Self:
        """The text that was found at that path."""
        made = super().__new__(cls, text)
        made.path = path
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return NotImplemented
        one, two = self._ranks(other)
        return bool(one == two)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: str) -> bool:
        one, two = self._ranks(other)
        return bool(one < two)

    def __gt__(self, other: str) -> bool:
        one, two = self._ranks(other)
        return bool(one > two)

    __hash__ = str.__hash__

    def _ranks(self, other: str) -> tuple[Any, Any]:
        """Both as values whose order is known."""
        one, two = str(self), str(other)
        for rank in (_whole, _moment):
            ranks = rank(one), rank(two)
            if None not in ranks:
                return ranks
        if one == two or (len(one) == len(two) and PLAIN.fullmatch(one) and PLAIN.fullmatch(two)):
            return one, two
        raise SourceError(
            f"cursor {self.path!r} of the API has texts whose order is not known: {_form(one)} and {_form(two)}",
            hint="Use a field that holds numbers, times in ISO 8601, or letters and digits of one length, and write "
            "`initial_value:` in the same form; or leave `incremental:` out and use `write: merge`.",
        )


def ranked(path: str) -> Callable[[Any], Any]:
    """Makes the text at that path of a record a `CursorText`, in the record itself."""
    from dlt.common.jsonpath import compile_path  # noqa: PLC0415 - a second, and only where an API is asked

    place = compile_path(path)

    def of(record: Any) -> Any:
        if isinstance(record, Mapping):
            place.update(record, lambda text, *_: CursorText(text, path) if isinstance(text, str) else text)
        return record

    return of


def is_ahead(value: Any, now: datetime) -> bool:
    """Whether a cursor is a time to come, in every zone if it has none; no number is known to be a time.

    Example:
        >>> noon = datetime(2025, 1, 1, 12, tzinfo=UTC)
        >>> is_ahead("2025-01-01T12:00:01Z", noon), is_ahead("2025-01-02T01:00:00", noon), is_ahead("2099", noon)
        (True, False, False)
    """
    if isinstance(value, str):
        found = None if _whole(value) is not None else MOMENT.fullmatch(value)
        moments = _moment(value) if found else None
        if found is None or moments is None:
            return False
        moment, zoned = moments[0], found["zone"] is not None
    elif isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
        zoned = moment.tzinfo is not None
        moment = moment if zoned else moment.replace(tzinfo=UTC)
    else:
        return False
    return moment > (now if zoned else now + EARLIEST_DAY)


def _whole(text: str) -> int | None:
    return int(text) if WHOLE.fullmatch(text) else None


def _moment(text: str) -> tuple[datetime, str] | None:
    """The second, and the digits of its fraction, however many there are."""
    found = MOMENT.fullmatch(text)
    if found is None:
        return None
    day = f"{found['year']}-{found['month'] or '01'}-{found['day'] or '01'}"
    zone = (found["zone"] or "Z").upper()
    try:
        second = datetime.fromisoformat(f"{day}T{found['time'] or '00:00'}{zone}")
    except ValueError:
        return None
    return second.astimezone(UTC), (found["fraction"] or "").rstrip("0")


def _form(text: str) -> str:
    """What a text looks like; never the text, which is a value of a row."""
    if WHOLE.fullmatch(text):
        return "a whole number"
    if _moment(text) is not None:
        return "a time"
    return f"a text of {len(text)} {'letters and digits' if PLAIN.fullmatch(text) else 'characters'}"
