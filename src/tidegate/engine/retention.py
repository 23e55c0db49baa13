"""Applies a stream's `retain:`: its source shows only the rows that the table keeps, and maintenance drops the others.

What a table keeps is part of its position and only ever moves on, whatever the clock says. So a load, a comparison and
a repair see the same rows on both sides, and none brings a dropped row back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tidegate.core.bounds import earlier
from tidegate.core.changes import ChangeSet
from tidegate.core.display import counted
from tidegate.core.effects import Mirror, Upsert
from tidegate.core.ids import new_load_id
from tidegate.core.maintenance_plan import NO_COLUMNS, maintenance_plan
from tidegate.core.plan import LoadPlan, Mode, Prune, WriteChoice
from tidegate.core.policies.deletes import Detect, Scope
from tidegate.core.policies.maintenance import Need, Step
from tidegate.core.policies.retention import DATED, Kept, Retain
from tidegate.core.policies.rules import OnFail
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.position_state import unvouched
from tidegate.core.schema import DATE, Column, Schema
from tidegate.core.slices import Partition
from tidegate.core.source_columns import follow
from tidegate.core.spelling import suggest
from tidegate.dialects.spark import Spark
from tidegate.engine.context import RunContext
from tidegate.engine.publish import discarded_on_error, publish
from tidegate.engine.reconcile import next_sequence
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, DeleteFuse, PositionMissing, VerifyFailed
from tidegate.registry.leases import Lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RUN = frozenset({"evolve", "stop", "keep"})
"""Modes of the contract that are run with a rule."""


def incompatibilities(stream: Stream) -> Iterator[str]:
    """Why rows of the stream cannot be dropped by age, one sentence each; none without a rule."""
    rule, policies = stream.policies.retain, stream.policies
    if rule is None:
        return
    if stream.source.retaining(Kept(column=rule.column, begin="2000-01-01")) is None:
        yield (
            "retain: asks the source for the rows that are kept, which is tested with tables and queries of PostgreSQL "
            "and SQLite alone"
        )
    if stream.writer.versions is not None:
        yield f"retain: drops rows by age, and write: {stream.writer.kind} keeps every version; use write: merge"
    yield from _moves(stream)
    if policies.deletes.soft:
        yield "retain: deletes rows, and `deletes: {apply: soft}` keeps deleted ones; remove one of them"
    if any(check.on_fail is OnFail.QUARANTINE for check in policies.checks):
        yield "retain: would drop rows that a quarantine brings back later; use `on_fail: stop` or `warn`"
    if other := sorted(set(policies.contract.values()) - RUN):
        yield f"retain: is not tested with contract: {other[0]}; use {', '.join(sorted(RUN))}"


def _moves(stream: Stream) -> Iterator[str]:
    """A row whose date is changed to an older one has to leave the table: who reads only changes never sees it go."""
    strategy, deletes = stream.strategy, stream.policies.deletes
    if strategy.learns:
        yield (
            f"retain: needs a method that sees rows leave, and strategy {strategy.kind} may choose one that does not; "
            "use checksum, snapshot_diff, full, or watermark with `deletes: {detect: key_diff}`"
        )
    elif Upsert in strategy.emits and (deletes.detect, deletes.scope) != (Detect.KEY_DIFF, Scope.TABLE):
        yield (
            "retain: a row whose date is changed to an older one leaves the table, which strategy "
            f"{strategy.kind} does not see; add `deletes: {{detect: key_diff}}`"
        )


def applied(stream: Stream, since: Position | None, context: RunContext) -> Stream:
    """The stream whose source shows only the rows that the table keeps.

    A new table, or one that is rewritten as a whole, keeps what the rule says now; any other, what its position says.

    Raises:
        ConfigError: rows were dropped by a rule that the project does not have any more.
    """
    rule, kept = stream.policies.retain, Kept.of(since)
    if context.full_refresh or since is None:
        kept = rule.at(_now(stream, context)) if rule is not None else None
    elif kept is not None and rule is not None and rule.column == _name_now(stream, kept, context):
        kept = replace(kept, column=rule.column)
    elif kept is not None:
        raise ConfigError(
            f"stream {stream.name!r}: rows whose {kept.column} is before {kept.begin} were dropped by `retain:`, which "
            f"the project no longer has for that column",
            hint=f"Restore `retain: {{column: {kept.column}, …}}`, or load every row again: `tidegate run "
            f"{stream.name} --full-refresh --yes`.",
        )
    if kept is None:
        return stream
    source = stream.source.retaining(kept)
    if source is None:
        raise ConfigError(f"stream {stream.name!r}: its source cannot be asked for the rows that `retain:` keeps")
    return replace(stream, source=source, kept=kept)


def _name_now(stream: Stream, kept: Kept, context: RunContext) -> str:
    """What the source calls the column by which rows were dropped; it is asked only where the project has another."""
    rule = stream.policies.retain
    if rule is None or rule.column == kept.column:
        return kept.column
    table = stream.format.state(stream.target, stream.uid)
    with stream.source.probe(context.sessions) as probe:
        names = follow(table.since_load.source_columns, probe.schema(), table.schema or probe.schema())
    return names.moved.get(kept.column, kept.column) if names is not None else kept.column


def _now(stream: Stream, context: RunContext) -> datetime:
    """By the clock of this machine, or by that of the source where it is behind: what is dropped does not come back."""
    with stream.source.probe(context.sessions) as probe:
        return min(context.now(), probe.now())


def notes(stream: Stream, now: datetime) -> tuple[str, ...]:
    """What `plan` says of the rule."""
    kept, rule = stream.kept, stream.policies.retain
    if kept is None or rule is None:
        return ()
    note = f"rows whose {kept.column} is before {kept.begin} are not loaded: `retain:` has dropped them"
    if rule.at(now).begin < kept.begin:
        note += f"; the rule now keeps more, and `tidegate run {stream.name} --full-refresh --yes` brings them back"
    return (note,)


def need(stream: Stream, context: RunContext) -> tuple[Need, ...]:
    """The step that drops rows, if the table may hold any; from metadata, without Spark."""
    found = _due(stream, context.now())
    if found is None:
        return ()
    return (Need(step=Step.RETAIN, reason=f"rows whose {found[1].column} is before {found[1].begin} are kept no more"),)


def _due(stream: Stream, now: datetime) -> tuple[TableState, Kept, Column] | None:
    """The table, what it is to keep, and the column; None if nothing is to be dropped.

    Raises:
        ConfigError: the table has no such column, or one without days.
    """
    rule = stream.policies.retain
    table = stream.format.state(stream.target, stream.uid) if rule is not None else None
    if rule is None or table is None or table.position is None or table.snapshot is None:
        return None
    column = dated(stream.name, rule, table.schema)
    kept, known = rule.at(now), Kept.of(table.position)
    # A clock that goes backwards brings no row back.
    if known is not None and known.column == kept.column and known.begin >= kept.begin:
        return None
    eve = earlier(kept.begin, timedelta(days=1))
    if eve is None:
        return None  # no day is before the first one
    high = eve if column.type == DATE else f"{eve} 23:59:59.999999"
    old = Prune(column=column.name, type=column.type, low=kept.dropped(column).low or "", high=high)
    return (table, kept, column) if stream.format.may_hold(stream.target, old) else None


def dated(stream: str, rule: Retain, columns: Schema | None) -> Column:
    """The rule's column. Raises ConfigError if there is none, or it has no days."""
    column = columns.find(rule.column) if columns is not None else None
    if column is None:
        near = suggest(rule.column, columns.names if columns is not None else ())
        raise ConfigError(f"stream {stream!r}: `retain:` names the column {rule.column!r}, which is not there; {near}")
    if column.type.kind not in DATED:
        raise ConfigError(
            f"stream {stream!r}: `retain:` needs a date or a timestamp, and {rule.column} is {column.label}",
            hint="Name another column.",
        )
    return column


def drop(stream: Stream, context: RunContext, lease: Lease, session: SparkSession) -> str:
    """Drops the rows in one fenced commit, which also says what the table keeps from then on; returns what it did.

    Raises:
        DeleteFuse: more rows than one load may delete.
        VerifyFailed: the commit kept one of them, or lost another; it is not published where the format can hold it.
    """
    found = _due(stream, _now(stream, context))
    if found is None:
        return "nothing to drop: by the clock of the source these rows are kept"
    table, kept, column = found
    part = kept.dropped(column)
    rows = stream.format.read(session, stream.target, table.snapshot)
    old = Spark().among([part], table.schema or NO_COLUMNS)
    every, dropped = rows.count(), rows.where(old).count()
    _guard(stream, context, dropped, every, kept)
    plan = _plan(stream, context, table, kept, part)
    staging = stream.format.stage(session, stream.target, plan)
    with discarded_on_error(lambda: staging):
        staging.overwrite(rows.limit(0), [part])
        seen = staging.read()
        if seen.where(old).count() or seen.count() != every - dropped:
            raise VerifyFailed(f"stream {stream.name!r}: the table does not hold exactly the rows that `retain:` keeps")
        lease.check()
        receipt = publish(stream.format, stream.target, plan, staging)
    remembered = context.registry.position(stream.uid)
    context.registry.set_position(
        stream.uid,
        plan.position,
        snapshot=receipt.snapshot,
        table_uuid=table.uuid,
        reason=f"retain: {counted(dropped, 'row')} before {kept.begin} dropped",
        verified=remembered.verified if remembered is not None else None,
    )
    return f"{counted(dropped, 'row')} dropped, kept from {kept.begin}"


def _plan(stream: Stream, context: RunContext, table: TableState, kept: Kept, part: Partition) -> LoadPlan:
    """The commit of no rows in place of those that go; its position goes on from the table's."""
    if table.position is None or table.schema is None:
        raise PositionMissing(f"the table of stream {stream.name!r} has not been loaded yet")
    position = replace(
        table.position,
        sequence=next_sequence(table, table.position, context.registry.last_sequence(stream.uid)),
        load_id=new_load_id(),
        # What partitions held is another thing now: the next load measures them.
        state=unvouched(table.position.state),
        retained=kept.to_dict(),
    )
    return maintenance_plan(
        stream.ref,
        table,
        position,
        at=context.now(),
        changes=ChangeSet(slices=(part,), effect=Mirror(), state=position.state, rows=0),
        columns=table.schema,
        key=stream.key,
        write=WriteChoice(mode=Mode.REPLACE_FILES, reason="rows that are no longer kept are dropped"),
    )


def _guard(stream: Stream, context: RunContext, dropped: int, every: int, kept: Kept) -> None:
    """Raises DeleteFuse if more rows would go than one load may delete."""
    if context.allow_deletes:
        change = ("DELETES GUARDED", "DELETES ALLOWED")
        context.registry.record(stream.uid, change, reason="maintain --allow-deletes")
        return
    # A rule by age is a way to find deletes, so the limit holds without being set.
    limited = replace(stream.policies.deletes, detect=Detect.KEY_DIFF)
    most = limited.most(every)
    if most is not None and dropped > most:
        raise DeleteFuse(
            f"stream {stream.name!r}: `retain:` would drop {dropped:,} of {counted(every, 'row')} of "
            f"{stream.target}, those before "
            f"{kept.begin}; one maintenance may delete at most {most} ({limited.limit})",
            hint=f"Check the rule and the clock; if these rows are to go, allow it once: `tidegate maintain "
            f"{stream.name} --allow-deletes`.",
        )
