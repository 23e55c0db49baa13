"""Decides what people see of quarantined rows, and which of them are loaded when they are replayed.

Called by `api.Project.quarantine`. Must never load a row that breaks a rule now, nor one whose key the table has with a
newer cursor; and never but by a commit that is fenced and verified like a load.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Batch, Latest
from tidegate.core.changes import ChangeSet
from tidegate.core.ids import new_load_id
from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.position import Position
from tidegate.core.quarantine import beside
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, Meaning
from tidegate.engine import quality, standing, verify
from tidegate.engine.landing import discarded_on_error, publish
from tidegate.engine.quarantine import Quarantine
from tidegate.engine.recover import Standing, next_sequence
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.work import Context
from tidegate.registry.leases import Lease
from tidegate.spark import sorting
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Rows of one stream that wait in its quarantine.

    Args:
        rules: rows by what they broke.
    """

    stream: str
    table: str
    rows: int = 0
    rules: dict[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay did.

    Args:
        rows: that were loaded.
        superseded: that the table has newer ones of; they wait no more.
        waiting: that still break a rule, or are events that cannot be taken; they stay.
        rules: those of them by what they break now.
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
    """The quarantines of some streams, for people."""

    streams: Sequence[Stream]
    context: Context

    def waiting(self) -> list[Waiting]:
        """How many rows of each stream wait, by rule; starts no Spark where none ever did."""
        return [self._listed(stream) for stream in self.streams]

    def show(self, limit: int = 20) -> list[dict[str, Any]]:
        """The rows of the first stream that wait, oldest load first, with the values that they have."""
        stream = self.streams[0]
        quarantine, since = self._of(stream)
        if not quarantine.filled:
            return []
        with self.context.session(small=True) as session, translated(f"reading {beside(stream.target)}"):
            rows = quarantine.rows(session, since).where("until IS NULL")
            shown = rows.orderBy("load", "rule").limit(limit).collect()
            return [{**row.asDict(), "at": row["at"].isoformat()} for row in shown]

    def replay(self) -> Replayed:
        """Asks the rules again of every row of the first stream that waits, and loads those that fulfil them now.

        Raises:
            TidegateError: nothing was published.
        """
        stream, context = self.streams[0], self.context
        context.registry.register(
            uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target)
        )
        with context.registry.lease(stream.uid) as lease, context.session(small=True) as session:
            stands = standing.recover(stream, context)
            quarantine = Quarantine.of(stream)
            if stands.since is None or stands.table.schema is None or not quarantine.filled:
                return Replayed(stream=stream.name)
            with context.registry.task(stream.uid, "replay", run_id=context.run_id) as payload:
                done = _Replay(
                    stream=stream, context=context, session=session, stands=stands, quarantine=quarantine
                ).run(stands.since, _own(stands.table.schema, stream), lease)
                payload |= {"rows": done.rows, "snapshot": done.snapshot}
            return done

    def _of(self, stream: Stream) -> tuple[Quarantine, Position | None]:
        return Quarantine.of(stream), stream.format.state(stream.target, stream.uid).position

    def _listed(self, stream: Stream) -> Waiting:
        quarantine, since = self._of(stream)
        rules: dict[str, int] = {}
        if quarantine.filled:
            with self.context.session(small=True) as session, translated(f"reading {beside(stream.target)}"):
                rows = quarantine.rows(session, since).where("until IS NULL")
                rules = {row[0]: row[1] for row in rows.groupBy("rule").count().orderBy("rule").collect()}
        return Waiting(stream=stream.name, table=str(beside(stream.target)), rows=sum(rules.values()), rules=rules)


def _own(table: Schema, stream: Stream) -> Schema:
    """The columns of the table that come from the source."""
    return Schema(columns=tuple(column for column in table if column.name not in stream.added.names))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replay:
    """One replay, under the stream's lease."""

    stream: Stream
    context: Context
    session: SparkSession
    stands: Standing
    quarantine: Quarantine

    def run(self, since: Position, columns: Schema, lease: Lease) -> Replayed:
        doing = f"replaying rows of {self.stream.target}"
        with contextlib.ExitStack() as held, translated(doing):
            plan = self._plan(since, columns)
            rows = self.quarantine.unpacked(self.session, since, columns)
            judged = quality.judged(self.stream, columns, rows, key=self.stream.key)
            if self.stream.key and self.stream.strategy.cursor:
                table = self.stream.format.read(self.session, self.stream.target, self.stands.table.snapshot)
                judged = sorting.superseded(judged, table, self.stream.key, self.stream.strategy.cursor)
            judged = judged.persist()
            held.callback(judged.unpersist)
            passed, older, waiting = (int(n) for n in sorting.measured(judged, sorting.REPLAY_COUNTS))
            rules = sorting.broken_now(judged)
            done = Replayed(stream=self.stream.name, superseded=older, waiting=waiting, rules=rules)
            if not passed and not older:
                return done
            closed = sorting.closed(judged, sorting.DONE, plan.position.sequence)
            self.context.save(plan)
            # First, as with every load: until the table's commit lands, these rows wait still.
            self.quarantine.replace(self.session, sorting.repacked(closed), self.context)
            receipt = self._load(judged.where(sorting.PASSED), plan, lease, held)
            return replace(done, rows=passed, snapshot=receipt)

    def _load(self, rows: DataFrame, plan: LoadPlan, lease: Lease, held: contextlib.ExitStack) -> str | None:
        stream, level = self.stream, self.stream.verify
        wanted = rows.selectExpr(*sorting.named(plan.columns))
        latest = Latest(key=plan.key, order=stream.strategy.cursor) if plan.key else None
        batch = Batch(latest=latest, keys_unique=False, skip_equal=True)
        checked = stream.writer.check(wanted, plan, batch)
        held.callback(quality.release, checked)
        staging = stream.format.stage(self.session, stream.target, plan)
        held.enter_context(discarded_on_error(lambda: staging))
        lease.check()
        checked = stream.writer.write(checked, plan, staging)
        verified = None
        if level is not VerifyLevel.NONE:
            kept = verify.measured(wanted, plan, level)
            both = verify.Sides(source=kept, table=verify.table_side(plan, staging, checked, level))
            seen = not staging.invisible
            verified = verify.judge(plan, level, both, again=lambda: kept, still=_still, seen=seen).equal
        lease.check()
        receipt = publish(stream.format, stream.target, plan, staging)
        uuid = self.stands.table.uuid
        self.context.registry.advance(plan, snapshot=receipt.snapshot, table_uuid=uuid, verified=verified)
        return receipt.snapshot

    def _plan(self, since: Position, columns: Schema) -> LoadPlan:
        stream, table, load_id = self.stream, self.stands.table, new_load_id()
        number = next_sequence(table, since, self.context.registry.last_sequence(stream.uid))
        meaning = Meaning.UPSERTS if stream.key else Meaning.NEW
        if meaning in stream.writer.accepts:
            write = stream.writer.choose(WriteFacts(rows=None, table_rows=table.rows, key=stream.key))
        else:
            write = WriteChoice(mode=Mode.APPEND, reason="the rows that wait are not in the table")
        return LoadPlan(
            load_id=load_id,
            stream=stream.name,
            uid=stream.uid,
            target=str(stream.target),
            created_at=self.context.now(),
            base=table.snapshot,
            since=since,
            position=replace(since, sequence=number, load_id=load_id),
            changes=ChangeSet(
                slices=(Everything(),), meaning=meaning, state=since.state, reason="quarantined rows are replayed"
            ),
            columns=columns,
            key=stream.key,
            schema_changes=(),
            evolve=(),
            write=write,
            deletes=stream.deletes,
            added=stream.added,
        )


def _still() -> None:
    """Nothing: what is committed stands still."""
