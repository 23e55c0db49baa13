"""Applies a batch to a target: checks it, then makes one commit, or none if nothing changed.

The target is never touched before the checks have passed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.ids import new_load_id
from tidegate.core.position import Position
from tidegate.errors import CheckFailed, ConfigError
from tidegate.loaders import _places as places
from tidegate.loaders._batches import GONE, Batch, need_columns
from tidegate.loaders._delta import Delta
from tidegate.loaders._folder import Folder
from tidegate.loaders._iceberg import Iceberg, target_of
from tidegate.loaders._sink import Sink, uid_of
from tidegate.spark.dataframe_ops import count_if
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """What the rows of a load have to fulfil.

    Args:
        max_rows: more rows stop the load; None for any number.
        not_null: columns without a NULL, but for rows that are deleted.
    """

    max_rows: int | None = None
    not_null: tuple[str, ...] = ()

    def need(self, rows: DataFrame, records: int, gone: str) -> None:
        """Raises CheckFailed.

        Args:
            gone: the condition of rows that are deleted.
        """
        if self.max_rows is not None and records > self.max_rows:
            raise CheckFailed(
                f"{records} rows would be loaded, more than max_rows={self.max_rows}; nothing was",
                hint="Check the source, or raise `max_rows=`.",
            )
        need_columns(rows, self.not_null)
        for name in self.not_null:
            (bad,) = count_if(rows, f"{quote(name)} IS NULL AND NOT {gone}")
            if bad:
                raise CheckFailed(
                    f"{bad} rows have a NULL in column {name!r}; nothing was loaded",
                    hint="Correct them at the source, or remove the column from `not_null=`.",
                    column=name,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Rows that happened to the target, and those of them that were deleted."""

    records: int
    deleted: int


def apply(  # noqa: PLR0913 - a batch, its target, and what the position says
    sink: Sink,
    since: Position | None,
    batch: Batch,
    *,
    kind: str,
    column: str | None,
    checks: Checks,
    load_id: str | None = None,
) -> Applied:
    """One commit that carries the rows and the new position; none when neither is new.

    Raises:
        CheckFailed: see `Checks`.
        PositionMoved: another load of the stream was first.
    """
    rows = batch.rows.persist()
    try:
        gone = f"coalesce({GONE}, false)" if batch.key else "false"
        records, deleted = count_if(rows, "true", gone)
        checks.need(rows, records, gone)
        if records or batch.watermark != (since.loaded_through if since else None):
            position = Position(
                sequence=(since.sequence if since else 0) + 1,
                load_id=load_id or new_load_id(),
                kind=kind,
                state={"column": column, **batch.state},
                loaded_through=batch.watermark,
            )
            if batch.key and records and since is not None:
                sink.merge(rows, batch.key, GONE, position)
            else:  # nothing is there that a row could change
                sink.append(rows.where(f"NOT ({gone})").drop(GONE), position)
    finally:
        rows.unpersist()
    return Applied(records=records, deleted=deleted)


def position_of(sink: Sink, name: str, *, kind: str, column: str | None) -> Position | None:
    """Where the target stands. Raises ConfigError when another kind of loader put it there, PositionMissing."""
    since = sink.position()
    if since is not None and since.load_id and (since.kind, since.state.get("column")) != (kind, column):
        raise ConfigError(
            f"{name!r} was loaded by a {since.kind} loader on column {since.state.get('column')!r}",
            hint="Continue with that loader, or load into another target.",
        )
    return since


def sink_of(
    spark: SparkSession, path: str, name: str, wanted: str | None = None, partition_by: Sequence[str] = ()
) -> Sink:
    """The target at a path or of a name; it need not be there yet.

    Raises:
        ConfigError: of a format without a commit that carries a position.
    """
    uid, by = uid_of(name), tuple(partition_by)
    place = places.find(spark, path, wanted) or places.planned(path, wanted)
    kind = place.format or _default_of(spark, path)
    if kind == "delta":
        found = places.Place(where=path, format="delta", table=place.table)
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


def _default_of(spark: SparkSession, name: str) -> str:
    """The format of a catalog's new tables, told by the catalog's class."""
    told = (spark.conf.get(f"spark.sql.catalog.{target_of(spark, name).lake}", "") or "").lower()
    return next((kind for kind in ("delta", "iceberg") if kind in told), "catalog's")
