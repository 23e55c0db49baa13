"""Decides what is remembered of the events that a table has taken: of every key the last order, deleted keys included.

Called by the pipeline around a load of events. It is kept in a table beside the target and written before the target's
commit. Must never count what a load left behind that did not land, nor lose what the landed ones wrote.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Fence, Folded, Latest
from tidegate.core.deletes import DELETED_AT
from tidegate.core.ids import Target
from tidegate.core.log import EventRules
from tidegate.core.plan import FENCE, LoadPlan, Mode
from tidegate.core.protocols import TableState
from tidegate.core.schema import BIGINT, BOOLEAN, TEXT, TIMESTAMPTZ, Column, Schema
from tidegate.dialects.spark import Spark
from tidegate.engine.landing import Beside
from tidegate.engine.stream import Stream
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX = "__tidegate_applied"
NUMBER, LOAD, AT, MARK = "__tidegate_load", "__tidegate_load_id", "__tidegate_at", "__tidegate_mark"
FLOOR, HORIZON = "floor", "horizon"
LOADS = 64
"""Loads after which what is kept is written anew, one row a key."""
FEW = 4
"""Rows kept for each event of a load, up to which all of them are read along with the events."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What a stream's table has taken, as of one load's plan.

    Rows of the table: one a key and load: the key, `ORDER`, whether the key ended, `fold.KNOWN` as JSON, the load's
    number and id, when; and marks: rows without a key, of orders at or below which nothing counts.
    """

    stream: Stream
    session: SparkSession
    plan: LoadPlan

    @property
    def target(self) -> Target:
        """The table beside the stream's."""
        return replace(self.stream.target, table=self.stream.target.table + SUFFIX)

    @property
    def uid(self) -> str:
        """The identity of the stream's loads into it."""
        return hashlib.sha256(f"{self.stream.uid}\0applied".encode()).hexdigest()[:16]

    def fence(self) -> Fence:
        """What counts of it, and the table's rows, for the fold of this load's events."""
        rules = self.plan.changes.events or EventRules()
        rows = self._rows
        marks = self._marks
        floors = [each for each in (rules.floor, marks.get(FLOOR)) if each is not None]
        return Fence(
            records=None if rows is None else partial(self._records, rows),
            told=None if rows is None else self._told(rows),
            open=bool(marks.get("open")),
            floor=max(floors, default=None),
            horizon=marks.get(HORIZON),
            present=self._present(),
        )

    def keep(self, folded: Folded) -> None:
        """Remembers what this load applies; counts from the moment on at which the load's own commit is seen."""
        rows = self._new(folded)
        old, marks = self._all, self._marks
        loads = self._state.position.state["loads"] + 1 if self._state.position else 1
        anew = old is not None and (loads > LOADS or bool(marks.get("stale")))
        if old is not None and anew:
            rows, loads = self._compacted(old).unionByName(rows), 1
        mode = Mode.OVERWRITE if anew else Mode.APPEND
        self._table.commit(self.session, rows, mode, now=datetime.now(UTC), told={"loads": loads})

    @property
    def _table(self) -> Beside:
        return Beside(
            lake=self.stream.format,
            target=self.target,
            stream=self.stream.name,
            uid=self.uid,
            kind="applied",
            columns=self._schema,
            state=self._state,
        )

    @cached_property
    def _state(self) -> TableState:
        return self.stream.format.state(self.target, self.uid)

    @property
    def _schema(self) -> Schema:
        from tidegate.spark.fold import KNOWN, WAS_GONE  # noqa: PLC0415 - rows are looked at, Spark is running
        from tidegate.spark.frames import ORDER  # noqa: PLC0415 - as above

        key = (column for name in self.plan.key if (column := self.plan.columns.find(name)))
        own = {ORDER: TEXT, WAS_GONE: BOOLEAN, KNOWN: TEXT, NUMBER: BIGINT, LOAD: TEXT, AT: TIMESTAMPTZ, MARK: TEXT}
        return Schema(
            columns=(
                *(Column(name=column.name, type=column.type.stored) for column in key),
                *(Column(name=name, type=kind) for name, kind in own.items()),
            )
        )

    @cached_property
    def _all(self) -> DataFrame | None:
        """Every row, as of the version that this load was planned with."""
        if not self._state.exists or self._state.snapshot is None:
            return None
        return self.stream.format.read(self.session, self.target, self._state.snapshot)

    @cached_property
    def _rows(self) -> DataFrame | None:
        """Those that count."""
        if self._all is None or self._landed is None:
            return None
        return self._all.where(self._landed)

    @property
    def _landed(self) -> str | None:
        """The condition of rows of loads that landed; None where none can have."""
        since, own = self.plan.since, self.plan.position.state[FENCE]
        known = since.state.get(FENCE) if since else None
        if known is None or known["number"] <= own["after"]:
            return None
        number, load = int(known["number"]), Spark().string(str(known["load"]))
        return f"{NUMBER} > {int(own['after'])} AND ({NUMBER} < {number} OR ({NUMBER} = {number} AND {LOAD} = {load}))"

    @property
    def _stale(self) -> str:
        """The condition of rows that would count by mistake once this load has landed."""
        own = self.plan.position.state[FENCE]
        landed = f"NOT ({self._landed})" if self._landed is not None else "true"
        return f"{NUMBER} > {int(own['after'])} AND {NUMBER} < {int(own['number'])} AND {landed}"

    @cached_property
    def _marks(self) -> dict[str, Any]:
        from tidegate.spark.fold import KNOWN  # noqa: PLC0415 - as above
        from tidegate.spark.frames import ORDER  # noqa: PLC0415 - as above

        if self._all is None:
            return {}
        landed = self._landed or "false"
        asked = {
            FLOOR: f"max(CASE WHEN {landed} AND {MARK} = '{FLOOR}' THEN {ORDER} END)",
            HORIZON: f"max(CASE WHEN {landed} AND {MARK} = '{HORIZON}' THEN {ORDER} END)",
            "open": f"count_if({landed} AND {KNOWN} IS NOT NULL)",
            "stale": f"count_if({self._stale})",
        }
        with translated(f"reading {self.target}"):
            # Files that hold none of these are not opened.
            some = self._all.where(f"{MARK} IS NOT NULL OR {KNOWN} IS NOT NULL OR ({self._stale})")
            row = some.selectExpr(*(f"{sql} AS `{name}`" for name, sql in asked.items())).collect()[0]
        return {name: value for name, value in row.asDict().items() if value is not None}

    def _told(self, rows: DataFrame) -> DataFrame | None:
        """Every order that is kept, where they are few beside the events of the load; see `Fence`."""
        from tidegate.spark import fold, frames  # noqa: PLC0415 - as above

        kept, events = self._state.rows, self.plan.changes.rows
        if kept is None or events is None or kept > FEW * events or self._marks.get("open"):
            return None
        keys = [Spark().quote(name) for name in self.plan.key]
        return rows.where(f"{MARK} IS NULL").selectExpr(*keys, f"{frames.ORDER} AS {fold.APPLIED}")

    def _records(self, rows: DataFrame, keys: DataFrame | None) -> DataFrame:
        """One row a key, see `Fence`: what the loads told of a key is ranked for the keys asked for alone."""
        from tidegate.spark import fold, frames  # noqa: PLC0415 - as above

        told = rows.where(f"{MARK} IS NULL")
        wanted = told if keys is None else frames.of_keys(told, keys, self.plan.key)
        newest = frames.latest(wanted, Latest(key=self.plan.key, order=(frames.ORDER, NUMBER)))
        known = f"from_json({fold.KNOWN}, 'map<string, string>') AS {fold.KNOWN}"
        quoted = [Spark().quote(name) for name in self.plan.key]
        return newest.selectExpr(*quoted, f"{frames.ORDER} AS {fold.APPLIED}", fold.WAS_GONE, known)

    def _present(self) -> DataFrame | None:
        """The rows of the table that the load is planned on, without those that are marked as deleted."""
        if self.plan.base is None or self.plan.write.mode is Mode.OVERWRITE:
            return None
        from tidegate.spark import frames  # noqa: PLC0415 - as above

        rows = self.stream.format.read(self.session, self.stream.target, self.plan.base)
        if self.plan.deletes.soft and DELETED_AT in rows.columns:
            rows = rows.where(f"{DELETED_AT} IS NULL")
        return frames.completed(rows, self.plan.columns)

    def _new(self, folded: Folded) -> DataFrame:
        from tidegate.spark import fold, frames  # noqa: PLC0415 - as above

        spark = Spark()
        tags = self._tags(self.plan.position.sequence, self.plan.load_id)
        keys = [spark.quote(name) for name in self.plan.key]
        known = f"CASE WHEN size({fold.KNOWN}) > 0 THEN to_json({fold.KNOWN}) END AS {fold.KNOWN}"
        rows = folded.applied.selectExpr(
            *keys, frames.ORDER, f"{frames.GONE} AS {fold.WAS_GONE}", known, *tags, f"CAST(NULL AS string) AS {MARK}"
        )
        return rows if folded.emptied is None else rows.unionByName(self._mark(FLOOR, folded.emptied, tags))

    def _tags(self, number: int, load: str) -> tuple[str, ...]:
        spark = Spark()
        at = self.plan.created_at.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
        return (
            f"CAST({number} AS bigint) AS {NUMBER}",
            f"{spark.string(load)} AS {LOAD}",
            f"{spark.literal(TIMESTAMPTZ, at)} AS {AT}",
        )

    def _mark(self, mark: str, order: str, tags: tuple[str, ...]) -> DataFrame:
        from tidegate.spark import fold, frames  # noqa: PLC0415 - as above

        spark = Spark()
        key = [
            f"CAST(NULL AS {column.type.spark}) AS {spark.quote(column.name)}"
            for column in self._schema
            if column.name in self.plan.key
        ]
        return self.session.sql("SELECT 1").selectExpr(
            *key,
            f"{spark.string(order)} AS {frames.ORDER}",
            f"CAST(NULL AS boolean) AS {fold.WAS_GONE}",
            f"CAST(NULL AS string) AS {fold.KNOWN}",
            *tags,
            f"'{mark}' AS {MARK}",
        )

    def _compacted(self, old: DataFrame) -> DataFrame:
        """One row a key of those that count and are young enough; what others left that may still land stays.

        The greatest order that is dropped becomes a mark: nothing at or below it counts for a key of which nothing is
        kept.
        """
        from tidegate.spark import frames  # noqa: PLC0415 - as above

        own = self.plan.position.state[FENCE]
        foreign = old.where(f"{NUMBER} >= {int(own['number'])}")
        if self._landed is None:
            return foreign
        rules = self.plan.changes.events or EventRules()
        seconds = int(rules.remember.total_seconds())
        young = f"{AT} >= {self._tags(0, '')[2].rpartition(' AS ')[0]} - INTERVAL '{seconds}' SECOND"
        landed = old.where(self._landed)
        one = frames.latest(landed.where(f"{MARK} IS NULL"), Latest(key=self.plan.key, order=(frames.ORDER, NUMBER)))
        (dropped,) = one.where(f"NOT ({young})").selectExpr(f"max({frames.ORDER}) AS o").collect()[0]
        kept = one.where(young).unionByName(foreign)
        known = self.plan.since.state[FENCE] if self.plan.since else own
        tags = self._tags(int(known["number"]), str(known["load"]))
        horizons = [each for each in (dropped, self._marks.get(HORIZON)) if each is not None]
        for mark, order in ((FLOOR, self._marks.get(FLOOR)), (HORIZON, max(horizons, default=None))):
            if order is not None:
                kept = kept.unionByName(self._mark(mark, order, tags))
        return kept
