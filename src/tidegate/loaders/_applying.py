"""One load of a target: reads its position, checks the rows, then makes one commit, or none if nothing changed.

The target is never touched before the checks have passed.
"""

from __future__ import annotations

import functools
import posixpath
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegate.core.display import counted
from tidegate.core.ids import new_load_id
from tidegate.core.position import Position
from tidegate.errors import CheckFailed, ConfigError, InternalError
from tidegate.loaders import _places as places
from tidegate.loaders._batches import DELETED, Batch, need_columns, refuse
from tidegate.loaders._delta import Delta
from tidegate.loaders._folder import Folder
from tidegate.loaders._iceberg import Iceberg, target_of
from tidegate.loaders._sink import Sink, uid_of
from tidegate.spark.caching import persisted
from tidegate.spark.dataframe_ops import count_if
from tidegate.spark.failures import translated
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a load.

    Args:
        table_name: the stream's name in the watermark store.
        records: rows that were added, changed or deleted in the target.
        deleted: those of them that were deleted.
        duration: of the whole call.
        old_watermark: the target's watermark before; None for a first load.
        new_watermark: the target's watermark now.
        gaps: missing numbers between the two; None if not counted.
        read: gives the rows; see `rows`.
    """

    table_name: str
    records: int
    deleted: int
    duration: timedelta
    old_watermark: str | None
    new_watermark: str | None
    gaps: int | None = None
    read: Callable[[], DataFrame] = field(repr=False, compare=False)

    def rows(self) -> DataFrame:
        """The rows that this load added or changed, as it left them, whatever is loaded later; not those it deleted.

        Rows: the columns of the target. They are read from the target's own history, so asking costs nothing before.

        Raises:
            HistoryGone: the target no longer holds them: versions were removed, the table was replaced, or a folder of
                files was rewritten by more than two later loads.
        """
        return self.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What the rows of a load have to fulfil.

    Args:
        max_rows: more rows stop the load; None for any number.
        not_null: columns without a NULL, but for rows that are deleted.
    """

    max_rows: int | None = None
    not_null: tuple[str, ...] = ()

    def need(self, rows: DataFrame, records: int, delete_if: str) -> None:
        """Raises CheckFailed.

        Args:
            delete_if: the condition of rows that are deleted.
        """
        if self.max_rows is not None and records > self.max_rows:
            raise CheckFailed(
                f"{counted(records, 'row')} would be loaded, more than max_rows={self.max_rows}; nothing was",
                hint="Check the source, or raise `max_rows=`.",
            )
        need_columns(rows, self.not_null)
        for name in self.not_null:
            problem = f"a NULL in column {name!r}; nothing was loaded"
            hint = "Correct them at the source, or remove the column from `not_null=`."
            refuse(rows, f"{quote(name)} IS NULL AND NOT {delete_if}", problem, hint, column=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load of a stream.

    Args:
        target: its path or name.
        name: of the stream.
        kind: of the loader.
        column: the one that the loader follows; None for none.
        format, partition_by: of a target that is not there yet.
    """

    spark: SparkSession
    target: str
    name: str
    kind: str
    column: str | None = None
    format: str | None = None
    partition_by: tuple[str, ...] = ()
    checks: Checks = Checks()

    def run(
        self, batch_of: Callable[[Position | None, Sink], Batch | None], note: Callable[[str | None], None]
    ) -> LoadResult:
        """Brings a batch into the target in one commit that carries the new position; no commit where neither is new.

        Args:
            batch_of: what is to be loaded behind the target's position; None for nothing.
            note: takes the new watermark once the target has it.

        Raises:
            ConfigError: another kind of loader filled the target.
            CheckFailed: see `Checks`.
            PositionMissing: the target has rows that no load of this name put there.
            PositionMoved: another load of the stream was first.
        """
        started = time.monotonic()
        with translated(f"loading {self.name}", self.target):
            sink = sink_of(self.spark, self.target, self.name, self.format, self.partition_by)
            since = self._since(sink)
            old = since.loaded_through if since else None
            batch = batch_of(since, sink)
            records, deleted, load_id = self._apply(sink, since, batch) if batch else (0, 0, None)
            new = batch.watermark if batch else old
            note(new)
        return LoadResult(
            table_name=self.name,
            records=records,
            deleted=deleted,
            duration=timedelta(seconds=time.monotonic() - started),
            old_watermark=old,
            new_watermark=new,
            gaps=batch.gaps if batch else None,
            read=functools.partial(self._rows, sink, load_id, _schema(batch, sink)),
        )

    def _rows(self, sink: Sink, load_id: str | None, schema: StructType) -> DataFrame:
        if load_id is None:
            return self.spark.createDataFrame([], schema)
        with translated(f"reading what was loaded by {self.name}", self.target):
            return sink.loaded(load_id)

    def _since(self, sink: Sink) -> Position | None:
        since = sink.position()
        if since is not None and since.load_id and (since.kind, since.state.get("column")) != (self.kind, self.column):
            raise ConfigError(
                f"{self.name!r} was loaded by a {since.kind} loader on column {since.state.get('column')!r}",
                hint="Continue with that loader, or load into another target.",
            )
        return since

    def _apply(self, sink: Sink, since: Position | None, batch: Batch) -> tuple[int, int, str | None]:
        """Rows that happened to the target, those of them that were deleted, and the load that put the others there."""
        load_id = batch.load_id or new_load_id()
        rows = persisted(batch.rows)
        try:
            delete_if = f"coalesce({DELETED}, false)" if batch.key else "false"
            records, deleted = count_if(rows, "true", delete_if)
            self.checks.need(rows, records, delete_if)
            if records or _advances(batch, since):
                position = Position(
                    sequence=(since.sequence if since else 0) + 1,
                    load_id=load_id,
                    kind=self.kind,
                    state={"column": self.column, **({"type": batch.type} if batch.type else {}), **batch.state},
                    loaded_through=batch.watermark,
                )
                if batch.key and records and since is not None:
                    sink.merge(rows, batch.key, DELETED, position)
                else:  # nothing is there that a row could change
                    sink.append(rows.where(f"NOT ({delete_if})").drop(DELETED), position)
        finally:
            rows.unpersist()
        return records, deleted, load_id if records > deleted else None


def sink_of(
    spark: SparkSession, path: str, name: str, wanted: str | None = None, partition_by: Sequence[str] = ()
) -> Sink:
    """The target at a path or of a name; it need not be there yet.

    Raises:
        ConfigError: of a format without a commit that carries a position, or a relative path of a Delta table.
    """
    uid, by = uid_of(name), tuple(partition_by)
    place = places.find(spark, path, wanted) or places.planned(path, wanted)
    kind = place.format or _default_of(spark, path)
    if kind == "delta":
        found = places.refuse_relative(places.Place(where=path, format="delta", table=place.table))
        return Delta(spark=spark, place=found, uid=uid, name=name, partition_by=by)
    if kind == "iceberg" and place.table:
        return Iceberg(spark=spark, target=target_of(spark, path), uid=uid, name=name, partition_by=by)
    if place.table or kind not in places.FILES:
        raise ConfigError(
            f"{path} cannot be a target: a commit to a {kind} table cannot hold a position",
            hint="Use a Delta or Iceberg table, a Delta path, or a folder of files.",
        )
    folder = path.rstrip("/") or posixpath.sep
    return Folder(spark=spark, path=folder, kind=kind, uid=uid, name=name, partition_by=by)


def _advances(batch: Batch, since: Position | None) -> bool:
    """Whether a position without new rows is worth a commit."""
    if since is None:
        return batch.watermark is not None
    known = {name: since.state.get(name) for name in batch.state}
    return batch.watermark != since.loaded_through or known != dict(batch.state)


def _schema(batch: Batch | None, sink: Sink) -> StructType:
    """The columns of the rows of a load: of one with nothing to load, those of its target."""
    rows = batch.rows.drop(DELETED) if batch else sink.read()
    if rows is None:
        raise InternalError("a load without rows has no target")
    return rows.schema


def _default_of(spark: SparkSession, name: str) -> str:
    """The format of a catalog's new tables, told by the catalog's class."""
    implementation = (spark.conf.get(f"spark.sql.catalog.{target_of(spark, name).lake}", "") or "").lower()
    return next((kind for kind in ("delta", "iceberg") if kind in implementation), "catalog's")
