"""Shows quarantined rows and replays them, for `tidegate quarantine`.

Loads only rows that pass all checks now and were not superseded, in a commit that is fenced and verified like a load.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.changes import ChangeSet
from tidegate.core.display import Shown
from tidegate.core.effects import Apply, Effect, Insert, Upsert
from tidegate.core.ids import new_load_id
from tidegate.core.maintenance_plan import maintenance_plan
from tidegate.core.plan import KeyFacts, LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging, TableState
from tidegate.core.position import Position
from tidegate.core.quarantine import quarantine_of
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything
from tidegate.engine import event_fence, hooks
from tidegate.engine.applied_events import Applied
from tidegate.engine.context import RunContext
from tidegate.engine.planner import fence
from tidegate.engine.publish import discarded_on_error, publish
from tidegate.engine.quality import quality
from tidegate.engine.quarantine.quarantine import Quarantine
from tidegate.engine.quarantine.superseded import one_a_key
from tidegate.engine.quarantine.waiting import waiting_rows
from tidegate.engine.reconcile import RecoveryState, next_sequence
from tidegate.engine.recovery import recovery
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verification import events, proof
from tidegate.errors import VerifyFailed
from tidegate.registry.leases import Lease
from tidegate.spark import quarantined_rows, validation
from tidegate.spark.caching import persisted
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineSummary:
    """The quarantined rows of one stream.

    Args:
        rules: number of rows by failed check.
    """

    stream: str
    table: str
    rows: int = 0
    rules: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed(Shown):
    """The result of a replay.

    Args:
        rows: how many were loaded.
        superseded: events superseded by newer ones; no longer quarantined.
        waiting: rows that still fail a check, and events that cannot be applied; they stay in the quarantine.
        rules: the number of these rows by failed check.
    """

    stream: str
    rows: int = 0
    superseded: int = 0
    waiting: int = 0
    rules: dict[str, int] = field(default_factory=dict)
    snapshot: str | None = None

    @property
    def exit_code(self) -> int:
        """0, or 4 when rows stay."""
        return 4 if self.waiting else 0

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """The quarantines of some streams."""

    streams: Sequence[Stream]
    context: RunContext

    def waiting(self) -> list[QuarantineSummary]:
        """The number of quarantined rows of each stream by check; without Spark where that can read the table."""
        return [self._listed(stream) for stream in self.streams]

    def show(self, limit: int = 20) -> list[dict[str, Any]]:
        """The quarantined rows of the first stream with their values, oldest load first."""
        stream = self.streams[0]
        quarantine, since = self._of(stream)
        if not quarantine.filled:
            return []
        with self.context.session(small=True) as session, translated(f"reading {quarantine_of(stream.target)}"):
            rows = quarantine.rows(session, since).where("until IS NULL")
            shown = rows.orderBy("load", "rule").limit(limit).collect()
            return [{**row.asDict(), "at": row["at"].isoformat()} for row in shown]

    def replay(self) -> Replayed:
        """Checks every quarantined row of the first stream again, and loads the rows that pass now.

        Raises:
            TidegateError: nothing was published.
        """
        done = self._replay()
        hooks.after(self.streams[0], self.context)
        return done

    def _replay(self) -> Replayed:
        stream, context = self.streams[0], self.context
        context.registry.register(
            uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target)
        )
        with context.registry.lease(stream.uid) as lease, context.session(small=True) as session:
            recovered = recovery.recover(stream, context)
            quarantine = Quarantine.of(stream)
            if recovered.since is None or recovered.table.schema is None or not quarantine.filled:
                return Replayed(stream=stream.name)
            with context.registry.task(stream.uid, "replay", run_id=context.run_id) as payload:
                done = _Replay(
                    stream=stream, context=context, session=session, recovered=recovered, quarantine=quarantine
                ).run(recovered.since, _own(recovered.table, recovered.table.schema, stream), lease)
                payload |= {"rows": done.rows, "rows_affected": done.rows, "snapshot": done.snapshot}
            return done

    def _of(self, stream: Stream) -> tuple[Quarantine, Position | None]:
        return Quarantine.of(stream), stream.format.state(stream.target, stream.uid).position

    def _listed(self, stream: Stream) -> QuarantineSummary:
        quarantine, since = self._of(stream)
        rules = waiting_rows(stream.format, stream.target, stream.uid)
        if rules is None:
            with self.context.session(small=True) as session, translated(f"reading {quarantine_of(stream.target)}"):
                rows = quarantine.rows(session, since).where("until IS NULL")
                rules = {row[0]: row[1] for row in rows.groupBy("rule").count().orderBy("rule").collect()}
        return QuarantineSummary(
            stream=stream.name, table=str(quarantine_of(stream.target)), rows=sum(rules.values()), rules=rules
        )


def _own(table: TableState, columns: Schema, stream: Stream) -> Schema:
    """The columns of the table that come from the source, and what the source calls them."""
    own = {*stream.added.names, *stream.writer.own}
    known = table.since_load.source_columns
    ids = known.ids if known is not None else None
    numbers = ids.columns if ids is not None else {}
    found = (replace(column, ident=numbers.get(column.name)) for column in columns if column.name not in own)
    return Schema(columns=tuple(found), ids=ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """Rows that may be written, and how they are verified.

    Args:
        applied: stores what is applied, if they are events.
        again: the same rows, derived a second time for verification, if they are events.
        rows: the rows that the table must have for their keys; None if every row must be found as a version.
        superseded: rows that are not written because something newer was applied.
    """

    checked: Checked
    applied: Applied | None = None
    again: Checked | None = None
    rows: DataFrame | None = None
    superseded: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replay:
    """One replay, under the stream's lease."""

    stream: Stream
    context: RunContext
    session: SparkSession
    recovered: RecoveryState
    quarantine: Quarantine

    def run(self, since: Position, columns: Schema, lease: Lease) -> Replayed:
        doing = f"replaying rows of {self.stream.target}"
        with contextlib.ExitStack() as held, translated(doing):
            plan = self._plan(since, columns)
            rows = self.quarantine.unpacked(self.session, since, columns)
            rows = quarantined_rows.with_lacks(rows, columns) if self.stream.strategy.applies_events else rows
            judged = persisted(quality.judged(self.stream, columns, rows, key=self.stream.key))
            held.callback(judged.unpersist)
            passed, stay = (int(n) for n in validation.measured(judged, validation.REPLAY_COUNTS))
            done = Replayed(stream=self.stream.name, waiting=stay, rules=validation.broken_now(judged))
            if not passed:
                return done
            ready = self._ready(judged.where(validation.PASSED), plan)
            held.callback(quality.release, ready.checked)
            if ready.again is not None:
                held.callback(quality.release, ready.again)
            self.context.save(plan)
            # First, as with every load: until the table's commit lands, these rows wait still.
            closed = validation.closed(judged, validation.PASSES, plan.position.sequence)
            self.quarantine.replace(self.session, validation.repacked(closed), self.context, columns)
            snapshot = self._load(ready, plan, lease, held)
            return replace(done, rows=passed - ready.superseded, superseded=ready.superseded, snapshot=snapshot)

    def _ready(self, rows: DataFrame, plan: LoadPlan) -> _Ready:
        stream, writer = self.stream, self.stream.writer
        latest = Latest(key=plan.key, order=stream.strategy.cursor) if plan.key else None
        batch = Batch(latest=latest, keys_unique=False, skip_equal=False)
        if isinstance(plan.changes.effect, Apply):
            return self._events(rows, plan)
        if (versions := writer.versions) is not None:
            at, ended = f"{validation.META}at", f"{validation.META}ended"
            stored = stream.format.read(self.session, stream.target, self.recovered.table.snapshot)
            changes = versions.replayed(rows, plan, stream.strategy.cursor, stored=stored, at=at, ended=ended)
            checked = writer.check(changes, plan, batch)
            if not stream.strategy.applies_events:
                return _Ready(checked=checked)
            checked = replace(checked, folded=quarantined_rows.remembered(rows, stream.key))
            return _Ready(checked=checked, applied=event_fence.remembered(stream, self.session, plan))
        if one_a_key(stream):
            stored = stream.format.read(self.session, stream.target, self.recovered.table.snapshot)
            wanted = quarantined_rows.as_kept(rows, stored, plan.columns, key=plan.key)
        else:
            wanted = rows.selectExpr(*validation.named(plan.columns))
        latest = Latest(key=plan.key, order=stream.order) if plan.key else None
        checked = writer.check(wanted, plan, replace(batch, latest=latest, skip_equal=True))
        return _Ready(checked=checked, rows=wanted)

    def _events(self, rows: DataFrame, plan: LoadPlan) -> _Ready:
        stream, writer = self.stream, self.stream.writer
        applied = event_fence.remembered(stream, self.session, plan)
        known = applied.fence()
        if writer.versions is None:
            # What was forgotten of a key had ended the wait of its older events already.
            known = replace(known, horizon=None)
        found = quarantined_rows.as_events(rows, plan.columns.names)
        latest = Latest(key=plan.key, order=stream.strategy.cursor)
        batch = Batch(latest=latest, keys_unique=False, skip_equal=False, fence=known)
        checked = writer.check(found, plan, batch)
        superseded = checked.folded.superseded if checked.folded else 0
        again = writer.check(found, plan, replace(batch, reread=True))
        return _Ready(checked=checked, applied=applied, again=again, superseded=superseded)

    def _load(self, ready: _Ready, plan: LoadPlan, lease: Lease, held: contextlib.ExitStack) -> str | None:
        stream, level = self.stream, self.stream.policies.verify
        staging = stream.format.stage(self.session, stream.target, plan)
        held.enter_context(discarded_on_error(lambda: staging))
        lease.check()
        if ready.applied is not None and ready.checked.folded is not None:
            ready.applied.keep(ready.checked.folded)
        checked = stream.writer.write(ready.checked, plan, staging)
        verified = None
        if level is not VerifyLevel.NONE:
            verified = self._verified(ready, checked, plan, staging)
        lease.check()
        receipt = publish(stream.format, stream.target, plan, staging)
        uuid = self.recovered.table.uuid
        self.context.registry.advance(plan, snapshot=receipt.snapshot, table_uuid=uuid, verified=verified)
        return receipt.snapshot

    def _verified(self, ready: _Ready, checked: Checked, plan: LoadPlan, staging: Staging) -> bool | None:
        """Raises VerifyFailed if the committed version does not contain the rows."""
        versions, level, seen = self.stream.writer.versions, self.stream.policies.verify, not staging.invisible
        if ready.again is not None:
            table = staging.read_keys(ready.again.keys, prune=ready.again.prune)
            both = events.sides(self.stream, ready.again, table, plan, level)
        elif ready.rows is not None:
            kept = proof.measured(ready.rows, plan, level)
            both = proof.Sides(source=kept, table=proof.table_side(plan, staging, checked, level))
        elif versions is not None:
            versions.prove(checked, plan, staging)
            if unseen := versions.unseen(checked, plan, staging):
                raise VerifyFailed(
                    f"stream {plan.stream.name!r}: {plan.stream.target} does not have {unseen} of the rows at "
                    f"their time",
                    load_id=plan.load_id,
                )
            return True
        return proof.judge(plan, level, both, again=lambda: both.source, verify_unchanged=_unchanged, seen=seen).equal

    def _plan(self, since: Position, columns: Schema) -> LoadPlan:
        stream, table, load_id = self.stream, self.recovered.table, new_load_id()
        number = next_sequence(table, since, self.context.registry.last_sequence(stream.uid))
        own = stream.writer.added(columns, stream.strategy.cursor)
        changes = self._changes(since)
        if type(changes.effect) in stream.writer.accepts:
            write = stream.writer.choose(
                WriteFacts(effect=changes.effect, rows=None, table_rows=table.rows, keys=KeyFacts(columns=stream.key))
            )
        else:
            write = WriteChoice(mode=Mode.APPEND, reason="the quarantined rows are not in the table")
        state = dict(since.state)
        if stream.strategy.applies_events:  # what was applied before goes on to count
            logged = Apply(rules=stream.strategy.event_rules())
            state |= fence(stream, replace(changes, effect=logged), since, number, load_id)
        return maintenance_plan(
            stream.ref,
            replace(table, position=since),
            replace(since, sequence=number, load_id=load_id, state=state),
            at=self.context.now(),
            changes=changes,
            columns=columns,
            key=stream.key,
            write=write,
            deletes=stream.policies.deletes,
            added=Schema(columns=(*stream.added, *own)),
        )

    def _changes(self, since: Position) -> ChangeSet:
        """The effect of the rows: events if they came from a log, otherwise rows that were read late."""
        stream = self.stream
        effect: Effect = Upsert() if stream.key else Insert()
        if stream.strategy.applies_events:
            # A history that its loads date takes rows at the time of the load that read them.
            versions = stream.writer.versions
            dated = versions is None or versions.moment(()) is not None
            effect = Apply(rules=stream.strategy.event_rules()) if dated else effect
        return ChangeSet(
            slices=(Everything(),),
            effect=effect,
            state=since.state,
            reason="quarantined rows are replayed",
        )


def _unchanged() -> None:
    """Does nothing: a committed version does not change."""
