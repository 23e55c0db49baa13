"""Writes a load to an Iceberg table in the caller's catalog: to a branch, then by fast-forward.

Reads the table's metadata through Spark, because only Spark may have access to the catalog, and otherwise uses the
format's staging. Never writes to main.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.core import schema as types
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Insert, Upsert
from tidegate.core.ids import Target, split_name
from tidegate.core.maintenance_plan import maintenance_plan
from tidegate.core.plan import LoadPlan, Mode, StreamRef, WriteChoice, branch_prefix
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position, property_name
from tidegate.core.schema import Column, Schema
from tidegate.core.slices import Everything
from tidegate.errors import CommitConflict
from tidegate.formats.iceberg.metadata import Metadata
from tidegate.formats.iceberg.staging import IcebergStaging, drop_branch
from tidegate.loaders._batches import aligned
from tidegate.loaders._handover import handed_over
from tidegate.loaders._places import create
from tidegate.loaders._sink import history_expired, missing, moved
from tidegate.spark.sql import namespaces, table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Iceberg:
    """An Iceberg table.

    Args:
        target: its catalog, namespace and name.
        uid: of the stream.
        name: of the stream, for people.
        partition_by: columns of a table that has to be made.
    """

    spark: SparkSession
    target: Target
    uid: str
    name: str
    partition_by: tuple[str, ...] = ()

    @property
    def casts(self) -> bool:
        """As Spark does for a table of a catalog."""
        return True

    def position(self) -> Position | None:
        """From the snapshots behind the visible one. Raises PositionMissing, see `Sink`."""
        metadata = load(self.spark, self.target)
        if metadata is None or metadata.main is None:
            return None
        found = metadata.position(self.uid)
        position = found[0] if found else None
        if found and _emptied(metadata, found[1].id):
            position = Position(sequence=found[0].sequence, load_id="", kind="")
        known = position is not None and position.load_id
        if not known and self.spark.sql(f"SELECT 1 FROM {table(self.target)} LIMIT 1").collect():
            raise missing(str(self.target), self.name)
        return position

    def read(self) -> DataFrame | None:
        """The visible rows."""
        if load(self.spark, self.target) is None:
            return None
        return self.spark.sql(f"SELECT * FROM {table(self.target)}")

    def append(self, rows: DataFrame, position: Position) -> None:
        """Adds the rows; makes the table if it is not there. Raises PositionMoved."""
        self._load(rows, Mode.APPEND, position)

    def merge(self, rows: DataFrame, key: Sequence[str], delete_if: str, position: Position) -> None:
        """Updates, inserts and deletes by key. Raises PositionMoved."""
        self._load(rows, Mode.MERGE_ON_READ, position, tuple(key), delete_if)

    def loaded(self, load_id: str) -> DataFrame:
        """What the snapshots of that load have more than the one before them. Raises HistoryGone."""
        metadata = load(self.spark, self.target)
        kept = metadata.raw["snapshots"] if metadata else ()
        marked = [each for each in kept if _load_of(each, self.uid) == load_id]
        if not marked:
            raise history_expired(str(self.target), self.name)
        first, last = marked[0], marked[0]
        for each in marked[1:]:
            last = each if each["parent-snapshot-id"] == last["snapshot-id"] else last
        rows = self._at(last["snapshot-id"])
        before = first["parent-snapshot-id"]
        if before is not None and all(each["snapshot-id"] != before for each in kept):
            raise history_expired(str(self.target), self.name)
        return rows if before is None else rows.exceptAll(aligned(self._at(before), rows))

    def _at(self, snapshot: int) -> DataFrame:
        return self.spark.sql(f"SELECT * FROM {table(self.target)} VERSION AS OF {snapshot}")

    def _load(
        self, rows: DataFrame, mode: Mode, position: Position, key: tuple[str, ...] = (), delete_if: str | None = None
    ) -> None:
        columns = tuple(name for name in rows.columns if name != delete_if)
        self._create(rows.select(*columns) if delete_if else rows)
        with handed_over(rows) as given:
            session = given.sparkSession
            metadata = load(session, self.target)
            found = metadata.position(self.uid) if metadata else None
            # The branch starts at the version that the position was read from, or the load starts over.
            if (found[0].sequence if found else 0) + 1 != position.sequence:
                raise moved(str(self.target), self.name)
            main = metadata.main if metadata else None
            staging = IcebergStaging(
                session=session,
                target=self.target,
                plan=self._plan(None if main is None else str(main), mode, position, columns, key),
                load=lambda: load(session, self.target),
                table=lambda: None,
                warehouse=None,
            )
            try:
                staging.open()
                if key:
                    staging.merge(given, prune=(), skip_equal=False, delete_if=delete_if)
                else:
                    staging.append(given)
                staging.publish()
            except BaseException as error:
                staging.discard()
                if isinstance(error, CommitConflict):
                    raise moved(str(self.target), self.name) from error
                raise
            self._drop_branches(session)
        # The caller's session would go on reading the version that it knows.
        self.spark.sql(f"REFRESH TABLE {table(self.target)}")

    def _drop_branches(self, session: SparkSession) -> None:
        """Whoever left a branch of this stream started from a version that is no longer the newest."""
        try:
            now = load(session, self.target)
            for branch in now.branches(branch_prefix(self.uid)) if now else ():
                drop_branch(session, self.target, branch, None)
        except Exception as error:  # noqa: BLE001 - the rows are published, and the next load tries again
            log.warning("%s is loaded, but a branch of an earlier load could not be dropped: %s", self.target, error)

    def _plan(
        self, base: str | None, mode: Mode, position: Position, columns: tuple[str, ...], key: tuple[str, ...]
    ) -> LoadPlan:
        # The staging takes names from the columns and leaves their types to the table.
        schema = Schema(columns=tuple(Column(name=name, type=types.TEXT) for name in columns))
        return maintenance_plan(
            StreamRef(name=self.name, uid=self.uid, target=str(self.target)),
            TableState(exists=True, snapshot=base),
            position,
            at=datetime.now(UTC),
            changes=ChangeSet(slices=(Everything(),), effect=Upsert() if key else Insert()),
            columns=schema,
            key=key,
            write=WriteChoice(mode=mode, reason="a loader's batch"),
        )

    def _create(self, rows: DataFrame) -> None:
        if load(self.spark, self.target) is not None:
            return
        for namespace in namespaces(self.target):
            self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        self.spark.sql(create(table(self.target), "iceberg", rows, self.partition_by))


def _emptied(metadata: Metadata, since: int) -> bool:
    """Whether others removed every row after that snapshot; a load that deletes the last rows says so itself."""
    later = itertools.takewhile(lambda each: each.id != since, metadata.ancestors(metadata.main))
    return any(each.summary.get("total-records") == "0" and not _of_a_load(each.summary) for each in later)


def _of_a_load(summary: Mapping[str, str]) -> bool:
    return any(name.startswith("tidegate.") for name in summary)


def _load_of(snapshot: Mapping[str, Any], uid: str) -> str | None:
    text = snapshot["summary"].get(property_name(uid))
    return Position.from_json(text).load_id if text else None


def target_of(spark: SparkSession, name: str) -> Target:
    """The whole name of a table, completed as the session completes it."""
    parts = split_name(name)
    if len(parts) < 3 and spark.conf.get(f"spark.sql.catalog.{parts[0]}", None) is None:
        here = (spark.catalog.currentCatalog(), *split_name(spark.catalog.currentDatabase()))
        parts = (*here[: 3 - len(parts)], *parts) if len(parts) == 1 else (here[0], *parts)
    return Target(lake=parts[0], namespace=tuple(parts[1:-1]), table=parts[-1])


def load(spark: SparkSession, target: Target) -> Metadata | None:
    """The table's metadata, as far as Spark's own tables of it tell; None when there is no such table."""
    name = table(target)
    if not spark.catalog.tableExists(name):
        return None
    spark.sql(f"REFRESH TABLE {name}")
    refs = {
        row[0]: {"snapshot-id": row[1]} for row in spark.sql(f"SELECT name, snapshot_id FROM {name}.refs").collect()
    }
    snapshots = spark.sql(
        f"SELECT snapshot_id, parent_id, summary FROM {name}.snapshots ORDER BY committed_at"
    ).collect()
    properties = dict(row[:2] for row in spark.sql(f"SHOW TBLPROPERTIES {name}").collect())
    return Metadata(
        {
            "current-snapshot-id": refs["main"]["snapshot-id"] if "main" in refs else None,
            "refs": refs,
            "snapshots": [
                {"snapshot-id": row[0], "parent-snapshot-id": row[1], "summary": dict(row[2])} for row in snapshots
            ],
            "properties": properties,
        }
    )
