"""In which time zone a column without one is written, as far as what fills it says: its default, or a trigger.

Pure: the texts, and the current time, are passed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tidegate.core.schema import Column
from tidegate.dialects.shared.time_bounds import zone
from tidegate.errors import ConfigError

IN_UTC = r"\b(?P<utc>utc_timestamp\b|utc_date\b|datetime\s*\(\s*'now'\s*\)|strftime\s*\([^()]*'now'\s*\))"
IN_ZONE = r"at\s+time\s+zone\s+'(?P<at>[^']+)'|\btimezone\s*\(\s*'(?P<name>[^']+)'"
IN_THAT_OF_THE_MACHINE = r"'(?P<local>localtime)'"
WRITTEN = re.compile(f"{IN_UTC}|{IN_ZONE}|{IN_THAT_OF_THE_MACHINE}", re.IGNORECASE)
HALF_A_YEAR = timedelta(days=182)


def assigned(bodies: Iterable[str], column: str) -> list[str]:
    """What triggers with these bodies set a column to.

    Example:
        >>> assigned(['BEGIN NEW."at" := now(); NEW.on = 1; END'], "at")
        [' now()']
    """
    name = rf'new\s*\.\s*["`]?{re.escape(column)}["`]?\s*:?=(?P<value>[^;]*)'
    return [found["value"] for body in bodies for found in re.finditer(name, body, re.IGNORECASE)]


def must_be_written_in(where: str, texts: Iterable[str], column: Column, now: datetime) -> None:
    """Refuses the zone that a server suggests for a column where what fills the column writes it in another one.

    Args:
        where: that zone.
        texts: expressions that fill the column, in any database's SQL.

    Raises:
        ConfigError: an expression names a zone that shows another time now, or half a year before.
    """
    for text in texts:
        named = [found.lastgroup or "" for found in WRITTEN.finditer(text)]
        match = WRITTEN.search(text)
        if match is None or len(named) != 1:  # of several, the last one that is applied is not known
            continue
        name = "UTC" if named == ["utc"] else match[named[0]]
        if not _same(name, where, now):
            stated = {"UTC": "UTC", "LOCALTIME": "Europe/Oslo"}.get(name.upper(), name)
            raise ConfigError(
                f"column {column.name!r} has no time zone and is filled by `{text.strip()}`, which is not in the time "
                f"zone of the database, {where}",
                hint=f"Set `strategy: {{time_zone: {stated}}}` or similar: the zone in which all writers set the "
                "column.",
                column=column.name,
            )


def _same(name: str, where: str, now: datetime) -> bool:
    """Whether both zones show the same time, also half a year before; one that is not known may be any."""
    try:
        one, two = (_zone(each) for each in (name, where))
    except ConfigError:
        return True
    return all(at.astimezone(one).utcoffset() == at.astimezone(two).utcoffset() for at in (now, now - HALF_A_YEAR))


def _zone(name: str) -> ZoneInfo | None:
    """The zone of that name; None for that of the machine."""
    return None if name.lower() == "localtime" else zone(name.upper() if name.lower() in ("utc", "gmt") else name)
