"""Reads the changes between two snapshots of an Iceberg table.

Never queries a range with merge-on-read deletes: Iceberg refuses it, or returns rows that had already been deleted.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tidegate.core.change_feed import FeedContent, Span
from tidegate.core.ids import Target
from tidegate.formats.iceberg.metadata import Metadata, Snapshot
from tidegate.spark import sql
from tidegate.spark.dataframe_ops import changelog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELETES = "_change_type IN ('DELETE', 'UPDATE_BEFORE')"
OF_THE_VIEW = ("_change_type", "_change_ordinal", "_commit_snapshot_id")


def between(metadata: Metadata, after: str, upto: str) -> Span:
    """What the summaries of the snapshots tell of the range."""
    passed: list[Snapshot] = []
    start = None
    for each in metadata.ancestors(int(upto)):
        if str(each.id) == after:
            start = each
            break
        passed.append(each)
    if start is None:
        return Span(
            content=FeedContent.UNKNOWN,
            reason=f"snapshot {after} is not among those that the table keeps (it was expired or rolled back)",
        )
    moved = [each for each in passed if _moves_rows(each)]
    if not moved:
        return Span(content=FeedContent.NOTHING)
    if all(_appends(each) for each in moved):
        return Span(content=FeedContent.APPENDS, rows=sum(each.number("added-records") for each in moved))
    if any(each.number("total-delete-files") or each.number("added-delete-files") for each in (start, *passed)):
        return Span(content=FeedContent.UNKNOWN, reason="rows were deleted by delete files (merge-on-read)")
    return Span(content=FeedContent.CHANGES)


def appended(session: SparkSession, target: Target, after: str, upto: str) -> DataFrame:
    """The rows of the files that the range added; only these are read."""
    reader = session.read.option("start-snapshot-id", after).option("end-snapshot-id", upto)
    return reader.table(sql.table(target))


def changes(session: SparkSession, target: Target, after: str, upto: str) -> DataFrame:
    """Every row that came or went; rows that a rewrite of their file only carried over are left out by Iceberg."""
    view = f"tidegate_changes_{uuid.uuid4().hex}"
    options = f"map('start-snapshot-id', {sql.string(after)}, 'end-snapshot-id', {sql.string(upto)})"
    session.sql(
        f"CALL {sql.quote(target.lake)}.system.create_changelog_view(table => {sql.string(sql.table(target))}, "
        f"changelog_view => {sql.string(view)}, options => {options})"
    ).collect()
    return changelog(session.table(view), deleted=DELETES, commit="_change_ordinal", drop=OF_THE_VIEW)


def _moves_rows(snapshot: Snapshot) -> bool:
    """Whether rows came or went: a rewrite of files moves none, and neither does an empty commit."""
    if snapshot.summary.get("operation") == "replace":
        return False
    counted = ("added-records", "deleted-records", "added-delete-files", "removed-delete-files")
    return any(snapshot.number(name) for name in counted) or "total-records" not in snapshot.summary


def _appends(snapshot: Snapshot) -> bool:
    return snapshot.summary.get("operation") == "append" and not snapshot.number("added-delete-files")
