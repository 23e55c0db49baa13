"""Reads the changes between two snapshots of an Iceberg table.

Never queries a range with merge-on-read deletes: Iceberg refuses it, or returns rows that had already been deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.change_feed import FeedContent, Span
from tidegate.core.ids import Target
from tidegate.formats.iceberg.metadata import Metadata, Snapshot
from tidegate.spark import sql
from tidegate.spark.dataframe_ops import changelog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OF_ICEBERG = ("_change_type", "_change_ordinal", "_commit_snapshot_id")
UNLIKE = ('"map"', '"variant"')
"""Types of which Spark does not tell whether two values are equal."""


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
    """Every row that came or went; not those that a rewrite of their file only carried over.

    Iceberg's own view of this, `create_changelog_view`, fails on a table with a map. No stream loads one.
    """
    reader = session.read.option("start-snapshot-id", after).option("end-snapshot-id", upto)
    found = reader.table(f"{sql.table(target)}.changes")
    unlike = [field.name for field in found.schema.fields if any(kind in field.dataType.json() for kind in UNLIKE)]
    moved = _moved(found.drop(*unlike))
    return changelog(moved, deleted="_change_type = 'DELETE'", commit="_change_ordinal", drop=OF_ICEBERG)


def _moved(found: DataFrame) -> DataFrame:
    """Without rows that one commit took away and brought back as they were, each as often as it did both."""
    whole = ", ".join(sql.quote(name) for name in found.columns if name not in OF_ICEBERG)
    window = f"PARTITION BY _change_ordinal, {whole}"
    more = f"sum(IF(_change_type = 'DELETE', -1, 1)) OVER ({window}) AS __tidegate_more"
    number = f"row_number() OVER ({window}, _change_type ORDER BY _change_type) AS __tidegate_number"
    return (
        found.selectExpr("*", more, number)
        .where("__tidegate_number <= IF(_change_type = 'DELETE', -__tidegate_more, __tidegate_more)")
        .drop("__tidegate_more", "__tidegate_number")
    )


def _moves_rows(snapshot: Snapshot) -> bool:
    """Whether rows came or went: a rewrite of files moves none, and neither does an empty commit."""
    if snapshot.summary.get("operation") == "replace":
        return False
    counted = ("added-records", "deleted-records", "added-delete-files", "removed-delete-files")
    return any(snapshot.number(name) for name in counted) or "total-records" not in snapshot.summary


def _appends(snapshot: Snapshot) -> bool:
    return snapshot.summary.get("operation") == "append" and not snapshot.number("added-delete-files")
