"""Writes a load to a Delta table: rows, position and the load's number in one commit.

A write counts as done only when the table shows it: Delta silently skips a commit whose number it already has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.core.position import Position, property_name
from tidegate.errors import PositionMissing
from tidegate.formats.delta.staging import NUMBER, USER_METADATA
from tidegate.formats.delta.table import user_metadata
from tidegate.formats.shared.statements import merge
from tidegate.loaders._handover import handed_over
from tidegate.loaders._places import Place, ddl_of, find
from tidegate.loaders._sink import missing, moved
from tidegate.spark.failures import everything
from tidegate.spark.sql import names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECENT = 50
_TAKEN = re.compile(r"ConcurrentTransactionException|DELTA_CONCURRENT_TRANSACTION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What a table's history says of one version."""

    version: int
    operation: str
    parameters: Mapping[str, str]
    metadata: str | None


def position_in(history: Iterable[Commit], uid: str) -> Position | None:
    """The stream's position in a history, newest version first; None when it tells none.

    A restored version counts as what it restored, but the number of loads never goes down: Delta would take the next
    one for a repetition.

    Raises:
        PositionMissing: the table was restored to a version that the history does not name.
    """
    upto: int | None = None
    found: Position | None = None
    most = 0
    for commit in history:
        position = _carried(commit.metadata, uid)
        most = max(most, position.sequence if position else 0)
        if found is not None or (upto is not None and commit.version > upto):
            continue
        if commit.operation == "RESTORE":
            if not str(commit.parameters.get("version") or "").isdigit():
                raise PositionMissing(
                    "the table was restored to a timestamp, so it is unknown which loads it holds",
                    hint="Restore it to a version: `RESTORE TABLE … TO VERSION AS OF …`, then run again.",
                )
            upto = int(commit.parameters["version"])
        else:
            found = position
    if found is None:
        return Position(sequence=most, load_id="", kind="") if most else None
    return replace(found, sequence=most)


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

    def position(self) -> Position | None:
        """From the newest commit that carries one. Raises PositionMissing, see `Sink`."""
        if not self._exists():
            return None
        # Most often it is one of the last; a long history is read only when it is not.
        recent = self.history(RECENT)
        found = position_in(recent, self.uid)
        if (found is None or not found.load_id) and len(recent) == RECENT:
            found = position_in(self.history(), self.uid)
        if (found is None or not found.load_id) and self.spark.sql(f"SELECT 1 FROM {self.place.sql} LIMIT 1").collect():
            raise missing(self.place.where, self.name)
        return found

    def read(self) -> DataFrame | None:
        """The rows of the newest version."""
        return self.spark.sql(f"SELECT * FROM {self.place.sql}") if self._exists() else None

    def append(self, rows: DataFrame, position: Position) -> None:
        """Adds the rows; makes the table if it is not there. Raises PositionMoved."""
        options = {**self._number("", position), "userMetadata": user_metadata(self.uid, position)}
        if self.place.table:
            self._create(rows)
        with handed_over(rows, {}) as (session, view):
            writer = session.table(view).write.format("delta").mode("append").options(**options)
            try:
                if self.place.table:
                    writer.saveAsTable(self.place.sql)
                else:
                    writer.partitionBy(*(() if self._exists() else self.partition_by)).save(self.place.where)
            except Exception as error:
                self._not_ours(error)
                raise
        self._need_mark(position)

    def merge(self, rows: DataFrame, key: Sequence[str], gone: str, position: Position) -> None:
        """Updates, inserts and deletes by key. Raises PositionMoved."""
        self._create(rows.drop(gone))
        conf = {**self._number(NUMBER, position), USER_METADATA: user_metadata(self.uid, position)}
        columns = [name for name in rows.columns if name != gone]
        with handed_over(rows, conf) as (session, view):
            try:
                session.sql(merge(self.place.sql, view, columns=columns, key=key, gone=gone)).collect()
            except Exception as error:
                self._not_ours(error)
                raise
        self._need_mark(position)

    def history(self, limit: int | None = None) -> list[Commit]:
        """The newest commits, newest first; all of them without a limit."""
        text = f"DESCRIBE HISTORY {self.place.sql}{f' LIMIT {limit}' if limit else ''}"
        rows = self.spark.sql(text).select("version", "operation", "operationParameters", "userMetadata").collect()
        found = (Commit(version=row[0], operation=row[1], parameters=row[2] or {}, metadata=row[3]) for row in rows)
        return sorted(found, key=lambda commit: -commit.version)

    def _create(self, rows: DataFrame) -> None:
        if self._exists():
            return
        by = f" PARTITIONED BY ({names(self.partition_by)})" if self.partition_by else ""
        self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self.place.sql} ({ddl_of(rows)}) USING delta{by}")

    def _exists(self) -> bool:
        place = find(self.spark, self.place.where)
        return place is not None and place.format == "delta"

    def _number(self, prefix: str, position: Position) -> dict[str, str]:
        return {f"{prefix}txnAppId": self.uid, f"{prefix}txnVersion": str(position.sequence)}

    def _need_mark(self, position: Position) -> None:
        found = position_in(self.history(RECENT), self.uid)
        if found is None or found.load_id != position.load_id:
            raise moved(self.place.where, self.name)

    def _not_ours(self, error: Exception) -> None:
        """A number that another load took at the same time. Raises PositionMoved."""
        if _TAKEN.search(everything(error)):
            raise moved(self.place.where, self.name) from error


def _carried(metadata: str | None, uid: str) -> Position | None:
    try:
        values: Any = json.loads(metadata or "null")
        return Position.from_json(json.dumps(values[property_name(uid)]))
    except (ValueError, TypeError, KeyError):
        return None  # somebody else's words
