"""Reads one snapshot of an Iceberg table, lists those that can be restored, and restores one.

A snapshot that was never the current one is not listed: it may be half a load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tidegate.core.ids import Target
from tidegate.core.policies.maintenance import Version
from tidegate.core.position import Position, property_name
from tidegate.core.schema import Schema
from tidegate.errors import CommitConflict
from tidegate.formats.iceberg.metadata import Metadata
from tidegate.formats.iceberg.named import as_now, as_seen
from tidegate.spark import sql
from tidegate.spark.dataframe_ops import completed
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(
    session: SparkSession,
    target: Target,
    snapshot: str | None,
    load: Callable[[Target], Metadata | None],
    columns: Schema | None = None,
) -> DataFrame:
    """The rows of a snapshot, by the names that the table has for its columns.

    Args:
        snapshot: None for a table that has none.
        load: the table's metadata as of now.
        columns: those to read, as the table named them before.
    """
    if snapshot is None:
        found = session.sql(f"SELECT * FROM {sql.table(target)}")
        return found if columns is None else completed(found.where("false"), columns)
    number, metadata = int(snapshot), load(target)
    found = session.sql(f"SELECT * FROM {sql.table(target)} VERSION AS OF {number}")
    if metadata is None:
        return found
    named = as_now(metadata, number) if columns is None else as_seen(metadata, number, columns)
    return found if named is None else found.selectExpr(*named)


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
