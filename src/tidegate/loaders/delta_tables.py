"""Loaders that read the changes of a Delta table: from its change data feed, or by a timestamp column and its versions.

Rows count as loaded only once the caller confirms them, or the target shows their load.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.ids import new_load_id
from tidegate.errors import CheckFailed, ConfigError, HistoryGone
from tidegate.formats.delta.change_feed import OF_THE_FEED, WENT
from tidegate.loaders._applying import Checks, apply, position_of, sink_of
from tidegate.loaders._batches import GONE, Batch, key_of, marked, need_columns, not_outdated, one_a_key
from tidegate.loaders._cursor import TIMES, Cursor
from tidegate.loaders._places import Place, need, short_name, types_of
from tidegate.loaders._reads import Reads
from tidegate.loaders._records import Record, Records
from tidegate.loaders.incremental import LoadResult, new_rows, told
from tidegate.spark import dataframe_ops
from tidegate.spark.failures import everything, translated
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RANK = "__tidegate_present"
_NO_FEED = re.compile(r"DELTA_MISSING_CHANGE_DATA|DELTA_CHANGE_TABLE_FEED_DISABLED|change data was not recorded")
_NO_HISTORY = re.compile(
    r"DELTA_(?:VERSION_NOT_FOUND|VERSION_INVALID|LOG_FILE_NOT_FOUND|FILE_NOT_FOUND)|no longer exist"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Delta table that rows are read from."""

    spark: SparkSession
    place: Place

    @classmethod
    def of(cls, spark: SparkSession, where: str) -> Source:
        """The Delta table at a path or of a name. Raises ConfigError when it is none, SourceError when nothing is."""
        place = need(spark, where)
        if place.format != "delta":
            raise ConfigError(
                f"{where} is {place.format}, not Delta", hint="Use TimestampBasedLoader, or a Delta table."
            )
        return cls(spark=spark, place=place)

    def version(self) -> int:
        """The newest version."""
        return int(self.spark.sql(f"DESCRIBE HISTORY {self.place.sql} LIMIT 1").collect()[0]["version"])

    def at(self, version: int) -> DataFrame:
        """The rows of a version."""
        return self.spark.sql(f"SELECT * FROM {self.place.sql} VERSION AS OF {version}")

    def net(self, start: int, end: int, key: tuple[str, ...]) -> DataFrame:
        """The net change of every key in the versions, both inclusive, from the change data feed.

        Rows: one a key, as the feed leaves it, and `GONE`.

        Raises:
            HistoryGone: the feed was not on, or its files are gone.
        """
        reader = self.spark.read.option("readChangeFeed", "true")
        reader = reader.option("startingVersion", str(start)).option("endingVersion", str(end))
        where = self.place.where
        try:
            feed = reader.table(self.place.sql) if self.place.table else reader.format("delta").load(where)
            return _net(feed, key)
        except Exception as error:
            said = everything(error)
            if _NO_FEED.search(said) or _NO_HISTORY.search(said):
                raise HistoryGone(
                    f"{where} has no change data for its versions {start} to {end}",
                    hint="Set `delta.enableChangeDataFeed = true` on the source, and load it again into an empty "
                    "target with another metadata table.",
                ) from error
            raise


class DeltaCDFLoader:
    """Follows a Delta table by its change data feed, including deletes.

    Args:
        spark: any session with Delta.
        source: path or name of a Delta table.
        metadata: path or name of the metadata table, which is made if it is not there.
        primary_key: of the source, one name or several.
        target: where `load` brings the rows: a Delta path, a table's name, or a folder.
        table_name: what the target is called in the metadata table; by default its last part.
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
        self.spark = spark
        self.name = table_name or short_name(target or source)
        self.key = key_of(primary_key)
        self._source = source
        self._target = target
        self._target_format = target_format
        self._reads = Reads(Records(spark=spark, where=metadata, identifier=self.name))

    def read_data(self) -> DataFrame:
        """The net change of every key since the last confirmed read, noted as pending; `confirm` ends it.

        A first read is the table as it is, rows of the CREATE commit included. A read that finds no new version is
        noted as processed. What an earlier read left pending becomes stale, and is read again.

        Rows: one a key, the source's columns and `__tidegate_gone`, true for a key that is no longer there.

        Raises:
            HistoryGone: the source's history does not reach back to the last read.
            DuplicateKeys: the source holds several rows of a key.
        """
        with translated(f"reading {self._source}"):
            return self._reads.read(self._changes)

    def confirm(self) -> None:
        """The rows of the last `read_data` have arrived."""
        self._reads.confirm()

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
        started = time.monotonic()
        with translated(f"loading {self.name}"):
            sink = sink_of(self.spark, _need(self._target), self.name, self._target_format)
            since = position_of(sink, self.name, kind=self.kind, column=None)
            rows, record = self._changes(self._reads.landed(since))
            done = None
            if not record.processed:
                state = {"start": record.start, "version": record.end}
                batch = Batch(rows=rows, key=self.key, watermark=str(record.end), state=state)
                done = apply(sink, since, batch, kind=self.kind, column=None, checks=Checks(), load_id=record.load_id)
            self._reads.note(replace(record, processed=True))
        return told(self.name, started, since, done, watermark=str(record.end))

    def _changes(self, read: Record | None) -> tuple[DataFrame, Record]:
        """The net changes since a read, and what there is to note of this one."""
        last = read.end if read else None
        source = Source.of(self.spark, self._source)
        end = source.version()
        if last is not None and end < last:
            raise HistoryGone(
                f"{self._source} is at version {end} but was read up to {last}: it is a different table now",
                hint="Load it again into an empty target with another metadata table.",
            )
        record = Record(load_id=new_load_id(), start=last or 0, end=end, processed=last == end)
        if last is None:
            rows = marked(one_a_key(source.at(end), Latest(key=self.key, order=())))
        elif last == end:
            rows = marked(source.at(end).limit(0))
        else:
            rows = source.net(last + 1, end, self.key)
        return rows, record


class DeltaTimestampLoader:
    """Follows a Delta table by a time column; rows that were deleted are not seen.

    Args:
        spark: any session with Delta.
        source: path or name of a Delta table.
        metadata: path or name of the metadata table, which is made if it is not there.
        timestamp_column: a date, a timestamp with or without zone, or a text that sorts as its times do.
        primary_key: rows of the target are merged by it; appended without one.
        target: where `load` brings the rows.
        table_name: what the target is called in the metadata table; by default its last part.
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
        self.spark = spark
        self.name = table_name or short_name(target or source)
        self.key = key_of(primary_key)
        self._column = timestamp_column
        self._source = source
        self._target = target
        self._bounds = (from_timestamp, to_timestamp)
        self._target_format = target_format
        self._reads = Reads(Records(spark=spark, where=metadata, identifier=self.name))

    def read_data(self) -> DataFrame:
        """The rows at or after the last time read that were not read yet, noted as pending; `confirm` ends it.

        Rows of the last time itself are told apart by the version that was read; where that is gone they come again.

        Rows: the source's columns; with a key one a key, the latest.

        Raises:
            CheckFailed: a row without a time or key.
            DuplicateKeys: rows of one key and time differ.
        """
        with translated(f"reading {self._source}"):
            return self._reads.read(self._rows)

    def confirm(self) -> None:
        """The rows of the last `read_data` have arrived."""
        self._reads.confirm()

    def load(self) -> LoadResult:
        """Brings the rows into the target in one commit that names the time and the version, then notes it.

        Raises:
            As `read_data`, and as `DeltaCDFLoader.load`.
        """
        started = time.monotonic()
        with translated(f"loading {self.name}"):
            sink = sink_of(self.spark, _need(self._target), self.name, self._target_format)
            since = position_of(sink, self.name, kind=self.kind, column=self._column)
            rows, record = self._rows(self._reads.landed(since))
            done = None
            if not record.processed:
                present = sink.read() if self.key else None
                if present is not None:
                    rows = not_outdated(rows, present, self.key, self._column, equal=False)
                rows = new_rows(rows, present, self.key)
                state = {"start": record.start, "version": record.end}
                batch = Batch(rows=rows, key=self.key, watermark=record.last, state=state)
                done = apply(
                    sink, since, batch, kind=self.kind, column=self._column, checks=Checks(), load_id=record.load_id
                )
            self._reads.note(replace(record, processed=True))
        return told(self.name, started, since, done, watermark=record.last)

    def _rows(self, last: Record | None) -> tuple[DataFrame, Record]:
        """The rows that were not read yet, and what there is to note of the read."""
        source = Source.of(self.spark, self._source)
        end = source.version()
        now = source.at(end)
        cursor = Cursor.of(self._column, types_of(now), TIMES)
        need_columns(now, self.key)
        (bad,) = dataframe_ops.count_if(now, f"{cursor.name} IS NULL")
        if bad:
            raise CheckFailed(
                f"{bad} rows have a NULL in column {self._column!r}, so no read ever reaches them",
                hint="Correct them at the source.",
                column=self._column,
            )
        rows = self._within(now, cursor, last)
        if last is not None and last.last is not None:
            there = f"{cursor.name} = {cursor.literal(last.last)}"
            rows = rows.exceptAll(source.at(last.end).where(there).select(*map(quote, now.columns)))
        if self.key:
            rows = one_a_key(rows, Latest(key=self.key, order=(self._column,)))
        found = rows.selectExpr(f"{cursor.canonical(f'max({cursor.name})')} AS last", "count(*) AS n").collect()[0]
        record = Record(
            load_id=new_load_id(),
            start=last.end if last else 0,
            end=end,
            last=cursor.latest(last.last if last else None, found[0]),
            processed=last is not None and not found[1],
        )
        return rows, record

    def _within(self, rows: DataFrame, cursor: Cursor, last: Record | None) -> DataFrame:
        low, high = self._bounds
        lows = [cursor.literal(text) for text in (low, last.last if last else None) if text is not None]
        for text in lows:
            rows = rows.where(f"{cursor.name} >= {text}")
        return rows if high is None else rows.where(f"{cursor.name} <= {cursor.literal(high)}")


def _net(feed: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """One row a key, as the feed leaves it; `GONE` for a key that is no longer there.

    A row that an update gave another key is gone under its old one.
    """
    ranked = feed.selectExpr("*", f"NOT ({WENT}) AS {_RANK}", f"{WENT} AS {GONE}")
    # What a row was before is of no account beside what it is, in one version.
    last = one_a_key(ranked.drop("_commit_timestamp").distinct(), Latest(key=key, order=("_commit_version", _RANK)))
    return last.drop(*OF_THE_FEED, _RANK)


def _need(target: str | None) -> str:
    if target is None:
        raise ConfigError("the loader has no target", hint="Pass `target=`, or use `read_data` and `confirm`.")
    return target
