"""The metadata table of the Delta loaders: one row per read, which ends up confirmed or stale.

Rows count as loaded only once the caller confirms them, or the target shows their load.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.position import Position
from tidegate.dialects.spark import Spark
from tidegate.loaders._handover import like
from tidegate.loaders._places import find, planned, refuse_relative

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_text = Spark().string
COLUMNS = {
    "table_identifier": "string",
    "start_commit_ver": "bigint",
    "end_commit_ver": "bigint",
    "last_read_timestamp": "string",
    "is_processed": "boolean",
    "is_stale": "boolean",
    "load_id": "string",
    "read_at": "timestamp",
    "source_id": "string",
    "timestamp_type": "string",
    "end_committed_at": "timestamp",
}
# What the table of an earlier version lacks.
LATER = ("source_id", "timestamp_type", "end_committed_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One read of a source.

    Args:
        load_id: the mark of the read, and of the load that it led to.
        start, end: versions of the source; `start` was read before, but for a first read.
        committed: when the source's version `end` was, in milliseconds; None as for `table`.
        last: the greatest time that was read, as canonical text; None where no time is followed.
        table: the id that Delta gave the source when it was made; None of a read that did not note it.
        type: Spark's name of the time's type; None as for `table`.
        processed: the rows have arrived.
        stale: nobody ever confirmed them, and they were read again.
    """

    load_id: str
    start: int
    end: int
    committed: int | None = None
    last: str | None = None
    table: str | None = None
    type: str | None = None
    processed: bool = False
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The metadata table at a Delta path or of a name, as far as it is about one identifier."""

    spark: SparkSession
    where: str
    identifier: str

    def confirmed(self) -> Record | None:
        """The last read that arrived; whatever is not confirmed by now becomes stale, and is read again."""
        found = self._all()
        if any(not record.processed and not record.stale for record in found):
            self._update("is_stale = true", "NOT is_processed AND NOT is_stale")
        return next((record for record in reversed(found) if record.processed), None)

    def landed(self, since: Position | None) -> Record | None:
        """The last load, as the target tells it; it is noted now if a crash came before that."""
        self.confirmed()
        if since is None or not since.load_id:
            return None
        start, end = int(since.state["start"]), int(since.state["version"])
        time_read = since.loaded_through if since.state.get("column") else None
        last = Record(
            load_id=since.load_id,
            start=start,
            end=end,
            committed=since.state.get("committed"),
            last=time_read,
            table=since.state.get("table"),
            type=since.state.get("type"),
            processed=True,
        )
        if all(record.load_id != last.load_id for record in self._all()):
            self.add(last)
        return last

    def add(self, record: Record) -> None:
        """One more row."""
        values = (
            _text(self.identifier),
            f"{record.start}L",
            f"{record.end}L",
            _text_or_null(record.last),
            str(record.processed).lower(),
            str(record.stale).lower(),
            _text(record.load_id),
            "current_timestamp()",
            _text_or_null(record.table),
            _text_or_null(record.type),
            "NULL" if record.committed is None else f"timestamp_millis({record.committed})",
        )
        self._write(f"INSERT INTO {self._table} ({', '.join(COLUMNS)}) VALUES ({', '.join(values)})")

    def confirm(self, load_id: str) -> None:
        """The read with that mark has arrived."""
        self._update("is_processed = true", f"load_id = {_text(load_id)}")

    def _all(self) -> list[Record]:
        """What was read, oldest first; makes the table if it is not there."""
        if find(self.spark, self.where) is None:
            columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}) USING delta")
            return []
        known = self.spark.table(self._table).columns
        if lacking := [f"{name} {COLUMNS[name]}" for name in LATER if name not in known]:
            self._write(f"ALTER TABLE {self._table} ADD COLUMNS ({', '.join(lacking)})")
        own = f"table_identifier = {_text(self.identifier)}"
        columns = "*, unix_millis(end_committed_at) AS committed"
        found = self.spark.sql(f"SELECT {columns} FROM {self._table} WHERE {own} ORDER BY read_at").collect()
        return [
            Record(
                load_id=row["load_id"],
                start=row["start_commit_ver"],
                end=row["end_commit_ver"],
                committed=row["committed"],
                last=row["last_read_timestamp"],
                table=row["source_id"],
                type=row["timestamp_type"],
                processed=row["is_processed"],
                stale=row["is_stale"],
            )
            for row in found
        ]

    def _update(self, change: str, where: str) -> None:
        own = f"table_identifier = {_text(self.identifier)}"
        self._write(f"UPDATE {self._table} SET {change} WHERE {own} AND {where}")

    def _write(self, statement: str) -> None:
        with like(self.spark, {}) as session:
            session.sql(statement).collect()

    @property
    def _table(self) -> str:
        return refuse_relative(planned(self.where, "delta")).sql


def _text_or_null(value: str | None) -> str:
    return "NULL" if value is None else _text(value)
