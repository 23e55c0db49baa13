"""Which statistics of columns an Iceberg table has, and whether they are worth computing again.

Statistics belong to a snapshot, and readers take the newest ones among its ancestors. Source: Iceberg specification,
"Table Statistics"; Puffin specification, "apache-datasketches-theta-v1 blob type".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.core.display import counted
from tidegate.core.policies.maintenance import CHANGED_SHARE, Upkeep
from tidegate.errors import ConfigError
from tidegate.formats.iceberg.metadata import COMPACTION, Metadata, Snapshot

DISTINCT = "apache-datasketches-theta-v1"
"""The blob that tells how many distinct values a column has."""
_CHANGES = ("added-records", "deleted-records", "added-position-deletes", "added-equality-deletes")


def columns(metadata: Metadata, upkeep: Upkeep) -> Mapping[str, int]:
    """The columns whose distinct values are to be counted, each with its field: those that are listed, or all that can.

    Raises:
        ConfigError: one that is listed is not in the table, or holds lists.
    """
    counted = {field["name"]: int(field["id"]) for field in metadata.fields() if isinstance(field["type"], str)}
    listed = upkeep.rules.statistics
    if isinstance(listed, bool):
        return counted if listed else {}
    if strange := [name for name in listed if name not in counted]:
        raise ConfigError(
            f"maintenance: statistics names {', '.join(strange)}, of which table {upkeep.target} has no column with "
            f"values that can be counted",
            hint=f"Name some of {', '.join(counted)}, or `statistics: true` for all.",
        )
    return {name: counted[name] for name in listed}


def due(metadata: Metadata, upkeep: Upkeep) -> str | None:
    """Why statistics are worth computing; None where those that readers find are good enough."""
    wanted, found = columns(metadata, upkeep), _statistics(metadata)
    current = metadata.snapshot(metadata.main)
    if not wanted or current is None or not current.number("total-records"):
        return None
    changed = 0
    for each in metadata.ancestors(metadata.main):
        if each.id in found:
            if missing := [name for name, ident in wanted.items() if ident not in found[each.id]]:
                return f"column {missing[0]} has none"
            share = changed / current.number("total-records")
            stale = share > 0 if upkeep.force else share >= CHANGED_SHARE
            return f"{counted(changed, 'row')} came or went since the last, {share:.0%} of the table" if stale else None
        changed += _changed(each)
    return "the table has none"


def _statistics(metadata: Metadata) -> Mapping[int, frozenset[int]]:
    """The columns whose distinct values are known, by snapshot."""
    return {each["snapshot-id"]: frozenset(_counted(each)) for each in metadata.raw.get("statistics") or ()}


def _counted(statistics: Mapping[str, Any]) -> Iterator[int]:
    for blob in statistics["blob-metadata"]:
        if blob["type"] == DISTINCT and "ndv" in (blob.get("properties") or {}):
            yield from blob["fields"]


def _changed(snapshot: Snapshot) -> int:
    """Rows that a commit added or removed; a file that is written again counts with all its rows."""
    if snapshot.summary.get("operation") == COMPACTION:
        return 0
    return sum(map(snapshot.number, _CHANGES))
