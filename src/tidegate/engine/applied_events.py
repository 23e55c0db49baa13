"""Keeps the last applied event order of every key, deleted keys included, so that old events are never applied again.

Stored in a side table beside the target, written before the target's commit becomes visible. Records of a load that was
not committed never count, and those of committed loads are never lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Fence, Folded, Latest
from tidegate.core.effects import event_rules
from tidegate.core.ids import Target
from tidegate.core.log import EventRules
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.policies.deletes import DELETED_AT
from tidegate.core.ports.format import TableState
from tidegate.core.position_state import EventFence
from tidegate.core.schema import BIGINT, BOOLEAN, TEXT, TIMESTAMPTZ, ChangeKind, Column, Schema
from tidegate.dialects.spark import LONG_STRINGS, Spark
from tidegate.engine.publish import SideTable
from tidegate.engine.stream import Stream
from tidegate.errors import PositionMoved
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SUFFIX = "__tidegate_applied"
NUMBER, LOAD, AT, MARK = "__tidegate_load", "__tidegate_load_id", "__tidegate_at", "__tidegate_mark"
FLOOR, HORIZON, OPEN, STALE, FOREIGN = "floor", "horizon", "open", "stale", "foreign"
LOADS, NEWEST, LAST, MARKS = "loads", "newest", "load", "marks"
"""What its position says: loads since it was compacted, an order that none of its rows is above, and of the rows of
this load and all that landed before it the marks; these last two only where it has no others."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """The events that a stream's table has applied, as of one load's plan.

    Rows of the side table: one per key and load: the key, `ORDER`, whether the key was deleted, `KNOWN` as JSON, the
    load's number, id and time; and marks: rows without a key, with orders at or below which nothing counts.
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

    @property
    def rules(self) -> EventRules:
        """The plan's rules; for a replay, whose rows may no longer be events, the stream's."""
        return event_rules(self.plan.changes.effect) or self.stream.strategy.event_rules()

    def fence(self) -> Fence:
        """The records that count, and the table's rows, for applying this load's events."""
        rules, marks = self.rules, self._marks
        return Fence(
            records=self._records if self._counts else None,
            newest=self._newest if self._counts else None,
            open=bool(marks.get(OPEN)),
            floor=_greatest(rules.floor, marks.get(FLOOR)),
            horizon=marks.get(HORIZON),
            present=self._present if updates(self.plan) else None,
        )

    def keep(self, folded: Folded) -> None:
        """Stores what this load applies; it counts once the load's own commit is visible."""
        rows, loads = self._new(folded), self._commit_state.get(LOADS, 0) + 1
        if loads > self.rules.compact_after or self._marks.get(STALE):
            # The next load asks for the rest.
            mode, rows, state = Mode.OVERWRITE, self._compacted().unionByName(rows), {LOADS: 1}
        else:
            mode, state = (
                Mode.APPEND,
                {LOADS: loads, **fence_statistics(self._marks, self._newest, folded, self.plan.load_id)},
            )
        self._table.commit(self.session, rows, mode, now=datetime.now(UTC), state=state)

    def rename(self) -> None:
        """Renames its columns as the load is about to rename those of the stream's table.

        It comes first: a load that ends in between finds the table's renames in its plan again, and nothing to do here.
        """
        known = self._state.schema
        changes = tuple(
            change
            for change in self.plan.evolution.apply
            if change.kind is ChangeKind.RENAME and known and known.find(change.old or "")
        )
        if changes:
            self.stream.format.evolve(self.session, self.target, changes, self._schema)

    @property
    def _table(self) -> SideTable:
        return SideTable(
            lake=self.stream.format,
            target=self.target,
            stream=self.stream.name,
            uid=self.uid,
            kind="applied",
            columns=self._schema,
            state=self._followed if self.plan.renamed else self._state,
        )

    @property
    def _followed(self) -> TableState:
        """Its state since its columns were renamed, which moves no row."""
        found = self.stream.format.state(self.target, self.uid)
        if found.position != self._state.position:
            raise PositionMoved(
                f"another runner has loaded stream {self.stream.name!r} in the meantime; this load was dropped",
                hint="Run again.",
            )
        return found

    @cached_property
    def _state(self) -> TableState:
        return self.stream.format.state(self.target, self.uid)

    @property
    def _schema(self) -> Schema:
        from tidegate.spark.dataframe_ops import ORDER  # noqa: PLC0415 - as above
        from tidegate.spark.latest_events import KNOWN, WAS_DELETED  # noqa: PLC0415 - rows are looked at, Spark is running

        own = {ORDER: TEXT, WAS_DELETED: BOOLEAN, KNOWN: TEXT, NUMBER: BIGINT, LOAD: TEXT, AT: TIMESTAMPTZ, MARK: TEXT}
        return Schema(
            columns=(
                *(Column(name=column.name, type=column.type.stored) for column in self._carried),
                *(Column(name=name, type=kind) for name, kind in own.items()),
            )
        )

    @property
    def _carried(self) -> tuple[Column, ...]:
        """The columns of the stream's table that are kept of an event."""
        return tuple(column for name in self.plan.key if (column := self.plan.columns.find(name)))

    @property
    def _commit_state(self) -> Mapping[str, Any]:
        """The state in the side table's last commit."""
        return self._state.position.state if self._state.position else {}

    @property
    def _known(self) -> EventFence | None:
        """The fence in the target's position; None if it has none."""
        return EventFence.of(self.plan.since.state) if self.plan.since else None

    @property
    def _own(self) -> EventFence:
        """The fence once this load is committed."""
        return EventFence.written(self.plan.position.state)

    @property
    def _counts(self) -> bool:
        """Whether some of its rows may count."""
        return self._state.snapshot is not None and self._landed is not None

    @cached_property
    def _every(self) -> DataFrame:
        """Every row of the version that this load was planned with, with the columns that are kept now."""
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

        rows = self.stream.format.read(self.session, self.target, self._state.snapshot)
        return dataframe_ops.completed(rows.withColumnsRenamed(dict(self.plan.renamed)), self._schema)

    @property
    def _landed(self) -> str | None:
        """The condition of rows of committed loads; None if there can be none."""
        known, own = self._known, self._own
        if known is None or known.number <= own.after:
            return None
        number, load = known.number, Spark().string(known.load)
        return f"{NUMBER} > {own.after} AND ({NUMBER} < {number} OR ({NUMBER} = {number} AND {LOAD} = {load}))"

    @property
    def _stale(self) -> str:
        """The condition of rows that would count by mistake once this load is committed."""
        own = self._own
        landed = f"NOT ({self._landed})" if self._landed is not None else "true"
        return f"{NUMBER} > {own.after} AND {NUMBER} < {own.number} AND {landed}"

    @cached_property
    def _marks(self) -> Mapping[str, Any]:
        """`FLOOR`, `HORIZON` and `OPEN` of the rows that count; and whether there are `STALE` and `FOREIGN` ones.

        The last commit has them if it belongs to the target's last load: then everything it knew of was committed.
        """
        if self._state.snapshot is None:
            return {}
        landed = self._known is not None and self._known.load == self._commit_state.get(LAST)
        marks: Mapping[str, Any] = self._commit_state[MARKS] if landed else self._asked()
        return marks

    def _asked(self) -> Mapping[str, Any]:
        from tidegate.spark.dataframe_ops import ORDER  # noqa: PLC0415 - as above
        from tidegate.spark.latest_events import KNOWN  # noqa: PLC0415 - as above

        landed = self._landed or "false"
        foreign = f"{NUMBER} >= {self._own.number}"
        asked = {
            FLOOR: f"max(CASE WHEN {landed} AND {MARK} = '{FLOOR}' THEN {ORDER} END)",
            HORIZON: f"max(CASE WHEN {landed} AND {MARK} = '{HORIZON}' THEN {ORDER} END)",
            OPEN: f"count_if({landed} AND {KNOWN} IS NOT NULL) > 0",
            STALE: f"count_if({self._stale}) > 0",
            FOREIGN: f"count_if({foreign}) > 0",
        }
        with translated(f"reading {self.target}"):
            # Files that hold none of these are not opened.
            some = self._every.where(f"{MARK} IS NOT NULL OR {KNOWN} IS NOT NULL OR ({self._stale}) OR {foreign}")
            row = some.selectExpr(*(f"{sql} AS `{name}`" for name, sql in asked.items())).collect()[0]
        return row.asDict()

    @cached_property
    def _newest(self) -> str | None:
        """The greatest order among its rows; None if there is no row."""
        from tidegate.spark.dataframe_ops import ORDER  # noqa: PLC0415 - as above

        state = self._commit_state
        if self._state.snapshot is not None and NEWEST not in state:
            with translated(f"reading {self.target}"):
                state = {NEWEST: self._every.selectExpr(f"max({ORDER}) AS o").collect()[0][0]}
        return state.get(NEWEST)

    def _records(self, keys: DataFrame | None) -> DataFrame:
        """One row per key, see `Fence`; records are ranked only for the given keys."""
        from tidegate.spark import dataframe_ops, latest_events  # noqa: PLC0415 - as above

        events = self._every.where(f"{self._landed} AND {MARK} IS NULL")
        wanted = events if keys is None else dataframe_ops.of_keys(events, keys, self.plan.key)
        newest = dataframe_ops.latest(wanted, Latest(key=self.plan.key, order=(dataframe_ops.ORDER, NUMBER)))
        known = f"from_json({latest_events.KNOWN}, 'map<string, string>', map({LONG_STRINGS})) AS {latest_events.KNOWN}"
        quoted = [Spark().quote(name) for name in self.plan.key]
        return newest.selectExpr(
            *quoted, f"{dataframe_ops.ORDER} AS {latest_events.APPLIED}", latest_events.WAS_DELETED, known
        )

    def _present(self) -> DataFrame:
        return present(self.stream, self.session, self.plan)

    def _new(self, folded: Folded) -> DataFrame:
        from tidegate.spark import dataframe_ops, latest_events  # noqa: PLC0415 - as above

        spark = Spark()
        tags = self._tags(self.plan.position.sequence, self.plan.load_id)
        keys = [spark.quote(name) for name in self.plan.key]
        held = latest_events.KNOWN
        known = f"CASE WHEN size({held}) > 0 THEN to_json({held}) END AS {held}"
        rows = folded.applied.selectExpr(
            *keys,
            dataframe_ops.ORDER,
            f"{dataframe_ops.DELETED} AS {latest_events.WAS_DELETED}",
            known,
            *tags,
            f"CAST(NULL AS string) AS {MARK}",
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
        from tidegate.spark.dataframe_ops import ORDER  # noqa: PLC0415 - as above

        spark = Spark()
        marks = {ORDER: spark.string(order), MARK: spark.string(mark)}
        marks |= {name: text for text, _, name in (tag.rpartition(" AS ") for tag in tags)}
        row = (
            f"{marks.get(column.name, f'CAST(NULL AS {column.type.spark})')} AS {spark.quote(column.name)}"
            for column in self._schema
        )
        return self.session.sql("SELECT 1").selectExpr(*row)

    def _compacted(self) -> DataFrame:
        """The records of keys that were touched recently; rows of other loads that may still be committed stay.

        The greatest dropped order becomes a mark: nothing at or below it counts for a key without a record.
        """
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

        foreign = self._every.where(f"{NUMBER} >= {self._own.number}")
        if self._landed is None:
            return foreign
        seconds = int(self.rules.remember.total_seconds())
        young = f"{AT} >= {self._tags(0, '')[2].rpartition(' AS ')[0]} - INTERVAL '{seconds}' SECOND"
        landed = self._every.where(self._landed)
        young_keys, old_keys = self._by_age(landed.where(f"{MARK} IS NULL"), young)
        (dropped,) = old_keys.selectExpr(f"max({dataframe_ops.ORDER}) AS o").collect()[0]
        kept = young_keys.unionByName(foreign)
        known = self._known or self._own
        tags = self._tags(known.number, known.load)
        for mark, order in ((FLOOR, self._marks.get(FLOOR)), (HORIZON, _greatest(dropped, self._marks.get(HORIZON)))):
            if order is not None:
                kept = kept.unionByName(self._mark(mark, order, tags))
        return kept

    def _by_age(self, rows: DataFrame, young: str) -> tuple[DataFrame, DataFrame]:
        """One row per key: for keys that were touched recently, and for the others."""
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

        one = dataframe_ops.latest(rows, Latest(key=self.plan.key, order=(dataframe_ops.ORDER, NUMBER)))
        return one.where(young), one.where(f"NOT ({young})")


def fence_statistics(marks: Mapping[str, Any], newest: str | None, folded: Folded, load: str) -> dict[str, Any]:
    """What the commit of a load records for the next one; no marks if rows of other loads are left.

    Args:
        marks, newest: the values before this load.
    """
    statistics: dict[str, Any] = {NEWEST: _greatest(newest, folded.newest, folded.emptied)}
    if marks.get(FOREIGN):
        return statistics
    after = {FLOOR: _greatest(marks.get(FLOOR), folded.emptied), OPEN: marks.get(OPEN) or folded.open}
    return statistics | {LAST: load, MARKS: {HORIZON: marks.get(HORIZON), **after}}


def updates(plan: LoadPlan) -> bool:
    """Whether existing rows of the table stay."""
    return plan.base is not None and plan.write.mode is not Mode.OVERWRITE


def based(stream: Stream, session: SparkSession, plan: LoadPlan) -> DataFrame:
    """Every row of the table that the load is planned on, by the names that the load gives to its columns.

    A version keeps the names that it had, and whether this load has changed those of the table by now does not matter:
    no plan gives a column a name that another one had.
    """
    return stream.format.read(session, stream.target, plan.base).withColumnsRenamed(dict(plan.renamed))


def present(stream: Stream, session: SparkSession, plan: LoadPlan) -> DataFrame:
    """The rows of the table that the load is planned on, without those that are marked as deleted."""
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

    rows = based(stream, session, plan)
    if plan.deletes.policy.soft and DELETED_AT in rows.columns:
        rows = rows.where(f"{DELETED_AT} IS NULL")
    return dataframe_ops.completed(rows, plan.table if stream.writer.versions else plan.columns)


def _greatest(*orders: str | None) -> str | None:
    return max((each for each in orders if each is not None), default=None)
