"""Writes a load to a Delta table: rows, position and the load's number in one commit.

A write counts as done only when the table shows it: Delta silently skips a commit whose number it already has.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.position import Position
from tidegate.errors import PositionMissing
from tidegate.formats.delta.log import Commit
from tidegate.formats.delta.staging import NUMBER, USER_METADATA
from tidegate.formats.delta.table import ancestors, position_of, user_metadata
from tidegate.formats.shared.statements import merge
from tidegate.loaders._batches import aligned, need_kept
from tidegate.loaders._handover import handed_over
from tidegate.loaders._places import Place, create, find
from tidegate.loaders._sink import history_expired, missing, moved
from tidegate.spark.failures import everything

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECENT = 50
VIEW = "tidegate_batch"
_REPLACES_ALL = re.compile(r"(?:CREATE OR )?REPLACE TABLE|CLONE|TRUNCATE")
_TAKEN = re.compile(r"ConcurrentTransactionException|DELTA_CONCURRENT_TRANSACTION")


@dataclass(frozen=True, slots=True)
class History:
    """What a table's history says of its versions."""

    commits: Mapping[int, Commit]

    @classmethod
    def of(cls, commits: Iterable[Commit]) -> History:
        """The history of these commits."""
        return cls({commit.version: commit for commit in commits})

    def commit(self, version: int) -> Commit | None:
        """The commit of a version, as far as the history reaches."""
        return self.commits.get(version)

    def same_files(self, version: int) -> Sequence[int]:  # noqa: ARG002 - whatever the version is
        """None: a history lists no files."""
        return ()

    def position(self, uid: str) -> Position | None:
        """The stream's position; None when the history tells none.

        A restored version counts as what it restored, and what was loaded before others replaced or emptied the table
        counts for nothing. But the number of loads never goes down: Delta would take the next one for a repetition.

        Raises:
            PositionMissing: the table was restored to a version that the history does not name.
            WriteError: a position is damaged or was written by a newer version.
        """
        positions = filter(None, (position_of(commit, uid) for commit in self.commits.values()))
        most = max((position.sequence for position in positions), default=0)
        for commit in ancestors(self, max(self.commits, default=-1)):
            if commit is None:
                break
            asked = commit.info["operationParameters"] or {}
            if commit.info["operation"] == "RESTORE" and not str(asked.get("version")).isdigit():
                raise PositionMissing(
                    "the table was restored to a timestamp, so it is unknown which loads it holds",
                    hint="Restore it to a version: `RESTORE TABLE … TO VERSION AS OF …`, then run again.",
                )
            if (found := position_of(commit, uid)) is not None:
                return replace(found, sequence=most)
            if _replaces_all(commit):
                break
        return Position(sequence=most, load_id="", kind="") if most else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A Delta table.

    Args:
        place: its path or name.
        uid: of the stream.
        name: of the stream, for people.
        partition_by: columns of a table that has to be made.
    """

    spark: SparkSession
    place: Place
    uid: str
    name: str
    partition_by: tuple[str, ...] = ()

    @property
    def casts(self) -> bool:
        """As Spark does for a table of a catalog; a path takes the types that it has."""
        return self.place.table

    def position(self) -> Position | None:
        """From the newest commit that carries one. Raises PositionMissing, see `Sink`."""
        if not self._exists():
            return None
        # Most often it is one of the last; a long history is read only when it is not.
        recent = self._history(RECENT)
        found = recent.position(self.uid)
        if (found is None or not found.load_id) and len(recent.commits) == RECENT:
            found = self._history().position(self.uid)
        if (found is None or not found.load_id) and self.spark.sql(f"SELECT 1 FROM {self.place.sql} LIMIT 1").collect():
            raise missing(self.place.where, self.name)
        return found

    def read(self) -> DataFrame | None:
        """The rows of the newest version."""
        return self.spark.sql(f"SELECT * FROM {self.place.sql}") if self._exists() else None

    def append(self, rows: DataFrame, position: Position) -> None:
        """Adds the rows; makes the table if it is not there. Raises PositionMoved, SchemaRefused."""
        need_kept(rows, self._partitions())
        options = {**self._number("", position), "userMetadata": user_metadata(self.uid, position)}
        if self.place.table:
            self._create(rows)
        with handed_over(rows) as given, self._committing(position):
            writer = given.write.format("delta").mode("append").options(**options)
            if self.place.table:
                writer.saveAsTable(self.place.sql)
            else:
                writer.partitionBy(*(() if self._exists() else self.partition_by)).save(self.place.where)

    def merge(self, rows: DataFrame, key: Sequence[str], delete_if: str, position: Position) -> None:
        """Updates, inserts and deletes by key. Raises PositionMoved, SchemaRefused."""
        need_kept(rows.where(f"NOT {delete_if}"), self._partitions())
        self._create(rows.drop(delete_if))
        conf = {**self._number(NUMBER, position), USER_METADATA: user_metadata(self.uid, position)}
        columns = [name for name in rows.columns if name != delete_if]
        with handed_over(rows, conf) as given, self._committing(position):
            given.createOrReplaceTempView(VIEW)
            given.sparkSession.sql(merge(self.place.sql, VIEW, columns=columns, key=key, delete_if=delete_if)).collect()

    def loaded(self, load_id: str) -> DataFrame:
        """What the version of that load has more than the one before it. Raises HistoryGone."""
        commits = self._history().commits.values() if self._exists() else ()
        versions = [
            commit.version for commit in commits if (at := position_of(commit, self.uid)) and at.load_id == load_id
        ]
        if not versions:
            raise history_expired(self.place.where, self.name)
        version = min(versions)
        rows = self._at(version)
        return rows.exceptAll(aligned(self._at(version - 1), rows)) if version else rows

    def _at(self, version: int) -> DataFrame:
        return self.spark.sql(f"SELECT * FROM {self.place.sql} VERSION AS OF {version}")

    def _history(self, limit: int | None = None) -> History:
        """The newest commits; all of them without a limit."""
        text = f"DESCRIBE HISTORY {self.place.sql}{f' LIMIT {limit}' if limit else ''}"
        commits = self.spark.sql(text).select("version", "operation", "operationParameters", "userMetadata").collect()
        return History.of(Commit(row["version"], ({"commitInfo": row.asDict()},)) for row in commits)

    def _create(self, rows: DataFrame) -> None:
        if not self._exists():
            self.spark.sql(create(self.place.sql, "delta", rows, self.partition_by))

    def _partitions(self) -> Sequence[str]:
        if not self._exists():
            return self.partition_by
        columns: Sequence[str] = self.spark.sql(f"DESCRIBE DETAIL {self.place.sql}").collect()[0]["partitionColumns"]
        return columns

    def _exists(self) -> bool:
        place = find(self.spark, self.place.where)
        return place is not None and place.format == "delta"

    def _number(self, prefix: str, position: Position) -> dict[str, str]:
        return {f"{prefix}txnAppId": self.uid, f"{prefix}txnVersion": str(position.sequence)}

    @contextlib.contextmanager
    def _committing(self, position: Position) -> Iterator[None]:
        """One write. Raises PositionMoved when another load took its number, before it or at the same time."""
        try:
            yield
        except Exception as error:
            if _TAKEN.search(everything(error)):
                raise moved(self.place.where, self.name) from error
            raise
        found = self._history(RECENT).position(self.uid)
        if found is None or found.load_id != position.load_id:
            raise moved(self.place.where, self.name)


def _replaces_all(commit: Commit) -> bool:
    """Whether the commit left no row of the version before it."""
    operation, asked = commit.info["operation"], commit.info["operationParameters"] or {}
    if operation == "WRITE":
        part = asked.get("predicate") or asked.get("isDynamicPartitionOverwrite") == "true"
        return asked.get("mode") == "Overwrite" and not part
    if operation == "DELETE":
        return asked.get("predicate") in ("[]", '["true"]')
    return _REPLACES_ALL.match(operation) is not None
