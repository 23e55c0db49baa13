"""Reads the changes between two snapshots of an Iceberg table.

Never queries a range with merge-on-read deletes: Iceberg refuses it, or returns rows that had already been deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.change_feed import FeedContent, Span
from tidegate.core.ids import Target
from tidegate.core.schema import Schema
from tidegate.errors import SourceMoved
from tidegate.formats.iceberg.metadata import Metadata, Snapshot
from tidegate.formats.iceberg.named import as_seen
from tidegate.spark import sql
from tidegate.spark.dataframe_ops import DELETED, ORDER, changelog

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


@dataclass(frozen=True, slots=True)
class Feed:
    """The changes after one snapshot up to another.

    Args:
        load: the table's metadata as of now.
    """

    load: Callable[[Target], Metadata | None]
    session: SparkSession
    target: Target
    after: str
    upto: str

    def appended(self, columns: Schema) -> DataFrame:
        """The rows of the files that the range added; only these are read."""
        found = self._read()
        return found.selectExpr(*self._named(found, columns))

    def changes(self, columns: Schema) -> DataFrame:
        """Every row that came or went; not those that a rewrite of their file only carried over.

        Iceberg's own view of this, `create_changelog_view`, fails on a table with a map. No stream loads one.
        """
        found = self._read(".changes")
        named = self._named(found, columns)
        unlike = [field.name for field in found.schema.fields if any(kind in field.dataType.json() for kind in UNLIKE)]
        moved = _moved(found.drop(*unlike))
        rows = changelog(moved, deleted="_change_type = 'DELETE'", commit="_change_ordinal", drop=OF_ICEBERG)
        return rows.selectExpr(*named, DELETED, ORDER)

    def _read(self, kind: str = "") -> DataFrame:
        reader = self.session.read.option("start-snapshot-id", self.after).option("end-snapshot-id", self.upto)
        return reader.table(f"{sql.table(self.target)}{kind}")

    def _named(self, found: DataFrame, columns: Schema) -> list[str]:
        """The select list of these columns from rows that have the table's present ones.

        Raises:
            SourceMoved: a column came or went, or got another name, at this very moment.
        """
        metadata = self.load(self.target)
        now = metadata.fields() if metadata is not None else []
        kept = {str(field["id"]) for field in now}
        names = [name for name in found.columns if name not in OF_ICEBERG]
        if metadata is None or names != [field["name"] for field in now] or any(c.ident not in kept for c in columns):
            raise SourceMoved(f"the columns of {self.target} were changed while it was being read", hint="Run again.")
        return as_seen(metadata, None, columns)


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
