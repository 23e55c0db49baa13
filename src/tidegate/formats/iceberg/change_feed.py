"""Reads the changes between two snapshots of an Iceberg table.

Never queries a range with merge-on-read deletes: Iceberg refuses it, or returns rows that had already been deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.change_feed import EMPTY, FeedContent, Span
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
_PATH, _COMMIT = "__tidegate_path", "__tidegate_commit"
UNLIKE = ('"map"', '"variant"')
"""Types of which Spark does not tell whether two values are equal."""


def between(metadata: Metadata, after: str, upto: str) -> Span:
    """What the summaries of the snapshots tell of the range."""
    passed, start = _passed(metadata, after, upto)
    if start is None:
        return Span(
            content=FeedContent.UNKNOWN,
            reason=f"snapshot {after} is not among those that the table keeps (it was expired or rolled back)",
        )
    then, now = (
        {field["name"]: field["id"] for field in fields} for fields in (metadata.fields_at(start.id), metadata.fields())
    )
    if any(now.get(name, number) != number for name, number in then.items()):
        # It has none of the other's values, although no row moved.
        return Span(
            content=FeedContent.UNKNOWN, reason=f"a column has the name that another one had in snapshot {after}"
        )
    moved = [each for each in passed if _moves_rows(each)]
    if not moved:
        return Span(content=FeedContent.NOTHING)
    if all(_appends(each) for each in moved):
        return Span(content=FeedContent.APPENDS, rows=sum(each.number("added-records") for each in moved))
    if any(map(_has_deletes, (start, *passed))):
        return Span(content=FeedContent.UNKNOWN, reason="rows were deleted by delete files (merge-on-read)")
    return Span(content=FeedContent.CHANGES)


def restore_reason(metadata: Metadata, loaded: str, upto: str) -> str | None:
    """Why a snapshot does not stand on the one that was loaded; None where it does, or where that has expired."""
    kept = EMPTY not in (loaded, upto) and metadata.snapshot(int(loaded)) is not None
    if not kept or any(str(each.id) == loaded for each in metadata.ancestors(int(upto))):
        return None
    return f"the source shows snapshot {upto}, which does not stand on {loaded}, which was loaded (it was rolled back)"


def beside_deletes(metadata: Metadata, after: str, upto: str) -> bool:
    """Whether a version of the range has rows that are deleted beside their files, of which none came from the range.

    Iceberg refuses to scan the changes of such a version, whoever deleted the rows, and whenever.
    """
    passed, _ = _passed(metadata, after, upto)
    return any(map(_has_deletes, passed)) and all(_appends(each) for each in passed if _moves_rows(each))


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
        metadata = self.load(self.target)
        if metadata is not None and beside_deletes(metadata, self.after, self.upto):
            return self._in_order(metadata, columns)
        found = self._read(".changes")
        named = self._named(found, columns)
        unlike = [field.name for field in found.schema.fields if any(kind in field.dataType.json() for kind in UNLIKE)]
        moved = _moved(found.drop(*unlike))
        rows = changelog(moved, deleted="_change_type = 'DELETE'", commit="_change_ordinal", drop=OF_ICEBERG)
        return rows.selectExpr(*named, DELETED, ORDER)

    def _in_order(self, metadata: Metadata, columns: Schema) -> DataFrame:
        """The rows of the files that a range without deletes added, in the order of its commits."""
        found = self._read()
        rows = found.selectExpr(*self._named(found, columns), f"_file AS {_PATH}")
        since = metadata.sequence_number(int(self.after))
        entries = self.session.read.table(f"{sql.table(self.target)}.all_entries")
        # A file is added once; maintenance only lists it again, in another manifest.
        added = entries.where(f"status = 1 AND sequence_number > {since}")
        files = added.selectExpr(f"data_file.file_path AS {_PATH}", f"sequence_number AS {_COMMIT}").distinct()
        unknown = sql.string(f"a file of {self.target} is in no manifest of the range that added it")
        commit = f"coalesce({_COMMIT}, CAST(raise_error({unknown}) AS bigint))"
        joined = rows.join(files.hint("broadcast"), on=[_PATH], how="left")
        return changelog(joined, deleted="false", commit=commit, drop=(_PATH, _COMMIT))

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


def _passed(metadata: Metadata, after: str, upto: str) -> tuple[list[Snapshot], Snapshot | None]:
    """The snapshots of the range, newest first, and the one before them; None if that is not kept."""
    passed: list[Snapshot] = []
    for each in metadata.ancestors(int(upto)):
        if str(each.id) == after:
            return passed, each
        passed.append(each)
    return passed, None


def _has_deletes(snapshot: Snapshot) -> bool:
    return bool(snapshot.number("total-delete-files") or snapshot.number("added-delete-files"))


def _moves_rows(snapshot: Snapshot) -> bool:
    """Whether rows came or went: a rewrite of files moves none, and neither does an empty commit."""
    if snapshot.summary.get("operation") == "replace":
        return False
    counted = ("added-records", "deleted-records", "added-delete-files", "removed-delete-files")
    return any(snapshot.number(name) for name in counted) or "total-records" not in snapshot.summary


def _appends(snapshot: Snapshot) -> bool:
    return snapshot.summary.get("operation") == "append" and not snapshot.number("added-delete-files")
