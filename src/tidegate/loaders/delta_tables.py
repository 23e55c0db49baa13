"""Loaders that read the changes of a Delta table: from its change data feed, or by a timestamp column and its versions.

Rows count as loaded only once the caller confirms them, or the target shows their load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.batch import Latest
from tidegate.core.ids import new_load_id
from tidegate.core.position import Position
from tidegate.errors import ConfigError, HistoryGone
from tidegate.loaders._applying import Load, LoadResult
from tidegate.loaders._batches import (
    Batch,
    key_of,
    marked,
    need_columns,
    need_keys,
    new_rows,
    not_outdated,
    one_a_key,
    refuse,
)
from tidegate.loaders._cursor import TIMES, Cursor
from tidegate.loaders._delta_source import Source, refuse_several
from tidegate.loaders._iceberg import target_of
from tidegate.loaders._places import is_name, short_name
from tidegate.loaders._records import Record, Records
from tidegate.loaders._sink import Sink
from tidegate.spark.failures import translated
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaLoader:
    """Follows a Delta table: what is read is noted in the metadata table, what is loaded in the target first.

    Args:
        column: the time that is followed; None where the versions alone tell what is new.
    """

    kind: ClassVar[str]

    def __init__(  # noqa: PLR0913, PLR0917 - what people tell a loader
        self,
        spark: SparkSession,
        source: str,
        metadata: str,
        primary_key: str | Sequence[str] | None,
        target: str | None,
        table_name: str | None,
        target_format: str | None,
        column: str | None = None,
    ) -> None:
        self.spark = spark
        self.name = table_name or short_name(target or source)
        self.key = key_of(primary_key)
        self._source = source
        self._target = target
        self._target_format = target_format
        self._column = column
        whole = target or source
        whole = str(target_of(spark, whole)) if is_name(whole) else whole.rstrip("/")
        self._records = Records(spark=spark, where=metadata, identifier=table_name or whole)
        self._pending: str | None = None

    def confirm(self) -> None:
        """The rows of the last `read_data` have arrived."""
        if self._pending is not None:
            self._records.confirm(self._pending)
            self._pending = None

    def _changes(self, last: Record | None, sink: Sink | None = None) -> tuple[DataFrame, Record]:
        """The rows that came since a read, and what there is to note of this one; processed when there are none.

        Args:
            sink: of a load, whose rows are those that the target does not have, with `DELETED` where there is a key.
        """
        raise NotImplementedError

    def _need_same(self, source: Source, last: Record, end: int) -> None:
        """Raises HistoryGone when the source, now at version `end`, is not the table that was read last."""
        if end < last.end or source.replaced(last, end):
            raise HistoryGone(
                f"{self._source} is at version {end} and was read up to {last.end}: it is a different table now",
                hint="Load it again into an empty target with another metadata table.",
            )

    def _read(self) -> DataFrame:
        with translated(f"reading {self._source}"):
            rows, record = self._changes(self._records.confirmed())
            self._records.add(record)
            self._pending = None if record.processed else record.load_id
            return rows

    def _load(self) -> LoadResult:
        if self._target is None:
            raise ConfigError("the loader has no target", hint="Pass `target=`, or use `read_data` and `confirm`.")
        noted: list[Record] = []

        def batch_of(since: Position | None, sink: Sink) -> Batch | None:
            rows, record = self._changes(self._records.landed(since), sink)
            noted.append(replace(record, processed=True))
            if record.processed:
                return None
            mark = str(record.end) if self._column is None else record.last
            state = {"start": record.start, "version": record.end, "committed": record.committed, "table": record.table}
            return Batch(rows=rows, key=self.key, watermark=mark, state=state, type=record.type, load_id=record.load_id)

        to, kind = self._target_format, self.kind
        load = Load(spark=self.spark, target=self._target, name=self.name, kind=kind, column=self._column, format=to)
        return load.run(batch_of, lambda _: self._records.add(*noted))


class DeltaCDFLoader(DeltaLoader):
    """Follows a Delta table by its change data feed, including deletes.

    Args:
        spark: any session with Delta.
        source: path or name of a Delta table.
        metadata: path or name of the metadata table, which is made if it is not there.
        primary_key: of the source, one name or several.
        target: where `load` brings the rows: a Delta path, a table's name, or a folder.
        table_name: what the target is called in the metadata table; by default its whole path or name.
        target_format: of a new target.
    """

    kind = "delta_cdf"

    def __init__(  # noqa: PLR0913, PLR0917 - what people tell a loader
        self,
        spark: SparkSession,
        source: str,
        metadata: str,
        primary_key: str | Sequence[str],
        target: str | None = None,
        table_name: str | None = None,
        *,
        target_format: str | None = None,
    ) -> None:
        super().__init__(spark, source, metadata, primary_key, target, table_name, target_format)

    def read_data(self) -> DataFrame:
        """The net change of every key since the last confirmed read, noted as pending; `confirm` ends it.

        A first read is the table as it is, rows of the CREATE commit included. A read that finds no new version is
        noted as processed. What an earlier read left pending becomes stale, and is read again.

        Rows: one a key, the source's columns and `__tidegate_gone`, true for a key that is no longer there.

        Raises:
            HistoryGone: the source's history does not reach back to the last read, or it was recreated since.
            DuplicateKeys: the source holds several rows of a key.
        """
        return self._read()

    def load(self) -> LoadResult:
        """Brings the changes into the target in one commit that names the version, then notes it.

        The target says where a load starts, whatever the metadata table says: a load that landed and was never noted
        is noted now.

        Raises:
            ConfigError: the loader has no target.
            HistoryGone, DuplicateKeys: as `read_data`.
            PositionMissing: the target has rows that no load of this name put there.
            PositionMoved: another load of this name came in between.
        """
        return self._load()

    def _changes(self, last: Record | None, sink: Sink | None = None) -> tuple[DataFrame, Record]:
        del sink  # whatever it has of a key, this is what becomes of it
        source = Source.of(self.spark, self._source)
        (end, committed), table = source.newest(), source.table()
        if last is None:
            rows = source.at(end)
            need_keys(rows, self.key)
            refuse_several(rows.selectExpr(*map(quote, self.key), "1 AS n"), self.key)
            return marked(rows), Record(load_id=new_load_id(), start=0, end=end, committed=committed, table=table)
        self._need_same(source, last, end)
        same = end == last.end
        rows = marked(source.at(end).limit(0)) if same else source.net(last.end + 1, end, self.key)
        return rows, Record(
            load_id=new_load_id(), start=last.end, end=end, committed=committed, table=table, processed=same
        )


class DeltaTimestampLoader(DeltaLoader):
    """Follows a Delta table by a time column; rows that were deleted are not seen.

    Args:
        spark: any session with Delta.
        source: path or name of a Delta table.
        metadata: path or name of the metadata table, which is made if it is not there.
        timestamp_column: a date, a timestamp with or without zone, or a text that sorts as its times do.
        primary_key: rows of the target are merged by it; appended without one.
        target: where `load` brings the rows.
        table_name: what the target is called in the metadata table; by default its whole path or name.
        from_timestamp, to_timestamp: inclusive bounds as text, in UTC for a column with zone.
        target_format: of a new target.
    """

    kind = "delta_timestamp"

    def __init__(  # noqa: PLR0913, PLR0917 - what people tell a loader
        self,
        spark: SparkSession,
        source: str,
        metadata: str,
        timestamp_column: str,
        primary_key: str | Sequence[str] | None = None,
        target: str | None = None,
        table_name: str | None = None,
        *,
        from_timestamp: str | None = None,
        to_timestamp: str | None = None,
        target_format: str | None = None,
    ) -> None:
        super().__init__(spark, source, metadata, primary_key, target, table_name, target_format, timestamp_column)
        self._time = timestamp_column
        self._bounds = (from_timestamp, to_timestamp)

    def read_data(self) -> DataFrame:
        """The rows at or after the last time read that were not read yet, noted as pending; `confirm` ends it.

        Rows of the last time itself are told apart by the version that was read; where that is gone they come again.

        Rows: the source's columns; with a key one a key, the latest.

        Raises:
            HistoryGone: the source was recreated since the last read.
            ConfigError: the column's type is another one than at the last read.
            CheckFailed: a row without a time or key.
            DuplicateKeys: rows of one key and time differ.
        """
        return self._read()

    def load(self) -> LoadResult:
        """Brings the rows into the target in one commit that names the time and the version, then notes it.

        Raises:
            As `read_data`, and as `DeltaCDFLoader.load`.
        """
        return self._load()

    def _changes(self, last: Record | None, sink: Sink | None = None) -> tuple[DataFrame, Record]:
        source = Source.of(self.spark, self._source)
        end, committed = source.newest()
        if last is not None:
            self._need_same(source, last, end)
        now = source.at(end)
        cursor = Cursor.of(self._time, dict(now.dtypes), TIMES)
        cursor.need_type(last.type if last else None)
        need_columns(now, self.key)
        problem = f"a NULL in column {self._time!r}, so no read ever reaches them"
        refuse(now, f"{cursor.name} IS NULL", problem, "Correct them at the source.", column=self._time)
        was = last.last if last else None
        rows = cursor.up_to_now(now, was)
        for sign, text in ((">=", self._bounds[0]), (">=", was), ("<=", self._bounds[1])):
            if text is not None:
                rows = rows.where(f"{cursor.name} {sign} {cursor.literal(text)}")
        if last is not None and was is not None:
            there = f"{cursor.name} = {cursor.literal(was)}"
            rows = rows.exceptAll(source.at(last.end).where(there).select(*map(quote, now.columns)))
        if self.key:
            rows = one_a_key(rows, Latest(key=self.key, order=(self._time,)))
        found = rows.selectExpr(f"{cursor.canonical(f'max({cursor.name})')} AS last", "count(*) AS n").collect()[0]
        record = Record(
            load_id=new_load_id(),
            start=last.end if last else 0,
            end=end,
            committed=committed,
            last=cursor.latest(was, found[0]),
            table=source.table(),
            type=cursor.type.spark,
            processed=last is not None and not found[1],
        )
        if sink is not None and not record.processed:
            present = sink.read() if self.key else None
            if present is not None:
                rows = not_outdated(rows, present, self.key, self._time, equal=False)
            rows = new_rows(rows, present, self.key, casts=sink.casts)
        return rows, record
