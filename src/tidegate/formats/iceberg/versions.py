"""Lists the snapshots of an Iceberg table that can be restored, and restores one.

A snapshot that was never the current one is not listed: it may be half a load.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.core.ids import Target
from tidegate.core.policies.maintenance import Version
from tidegate.core.position import Position, property_name
from tidegate.errors import CommitConflict
from tidegate.formats.iceberg.metadata import Metadata
from tidegate.spark import sql
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def versions(metadata: Metadata, uid: str) -> Iterator[Version]:
    """The snapshots that were the visible one and are kept, oldest first; one that became it twice is listed once."""
    seen = dict(metadata.seen())
    for number, made_at in seen.items():
        snapshot = metadata.snapshot(number)
        if snapshot is not None:
            yield Version(
                id=str(number),
                made_at=made_at,
                load=_load(metadata, number, uid),
                rows=snapshot.rows,
                operation=str(snapshot.summary.get("operation", "")),
                current=number == metadata.main,
            )


def rollback(session: SparkSession, target: Target, version: str, metadata: Metadata, warehouse: str | None) -> None:
    """Makes the snapshot the visible one, if what is visible now is still what was looked at.

    Raises:
        CommitConflict: another writer came in between.
    """
    if version not in {str(number) for number, _ in metadata.seen()}:
        raise CommitConflict(f"snapshot {version} of {target} no longer exists")
    with translated(f"rolling back {target}", warehouse):
        session.sql(
            f"CALL {sql.quote(target.lake)}.system.set_current_snapshot("
            f"table => {sql.string(sql.table(target))}, snapshot_id => {int(version)})"
        ).collect()


def _load(metadata: Metadata, number: int, uid: str) -> int | None:
    mark = property_name(uid)
    for each in metadata.ancestors(number):
        if mark in each.summary:
            return Position.from_json(each.summary[mark]).sequence
    return None
