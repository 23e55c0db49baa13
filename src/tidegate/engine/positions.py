"""Shows, sets, adopts, rewinds and repairs positions for `tidegate state`.

Every change is recorded in the registry, and a sequence never decreases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.core.changes import ChangeSet
from tidegate.core.display import Shown, counted, done_by
from tidegate.core.effects import Apply, Insert
from tidegate.core.grouping import Grouping, grouping_of
from tidegate.core.ids import new_load_id
from tidegate.core.ledger import Ledger
from tidegate.core.maintenance_plan import maintenance_plan
from tidegate.core.plan import Mode, WriteChoice
from tidegate.core.ports.format import TableState
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.position_state import METHOD, method_of
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, Range, Slice
from tidegate.dialects.spark import Spark
from tidegate.engine import column_names, partitions
from tidegate.engine.assemble.assemble import TableLocation
from tidegate.engine.context import RunContext
from tidegate.engine.publish import discarded_on_error, publish
from tidegate.engine.reconcile import holds_rows, next_sequence
from tidegate.engine.recovery import restored_source
from tidegate.engine.recovery.recovery import unproven
from tidegate.engine.stream import Stream
from tidegate.engine.verification import comparison, expected
from tidegate.engine.verification.comparison import within
from tidegate.errors import CommitConflict, ConfigError, PlanError, PositionMissing, VerifyFailed
from tidegate.registry.leases import Lease
from tidegate.registry.reader import RegistryReader
from tidegate.registry.values import RegisteredPosition
from tidegate.spark import sql
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class StateView(Shown):
    """The positions of a stream in the table and in the registry, and whether they agree."""

    stream: str
    uid: str
    target: str
    table_exists: bool
    table_rows: int | None
    table: dict[str, Any] | None
    registry: dict[str, Any] | None
    agree: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


class States:
    """Shows positions of a project's streams, and changes them by hand; every change is recorded."""

    def __init__(
        self, find: Callable[..., Sequence[Stream]], context: Callable[[], RunContext], look: Callable[[str], StateView]
    ) -> None:
        self._find = find
        self._context = context
        self._look = look

    def show(self, name: str) -> StateView:
        """The positions in the table and in the registry; opens no source."""
        return self._look(name)

    def set(self, name: str, value: str) -> StateView:
        """Sets the position to a cursor value."""
        return set_value(self._one(name), self._context(), value, reason="state set")

    def adopt(self, name: str, value: str | None = None) -> StateView:
        """Adopts a table that has rows but no position, at `value` or its greatest cursor."""
        return adopt(self._one(name), self._context(), value)

    def rewind(self, name: str, to_sequence: int) -> StateView:
        """Sets the position back to an earlier load."""
        return rewind(self._one(name), self._context(), to_sequence)

    def loads(self, name: str, limit: int = 100) -> list[RegisteredPosition]:
        """The loads that `rewind` takes, newest first, also those whose version of the table has expired."""
        found: dict[int, RegisteredPosition] = {}
        for each in self._context().registry.positions(self._one(name).uid, limit=100_000):
            found.setdefault(each.position.sequence, each)
        return [found[number] for number in sorted(found, reverse=True)][:limit]

    def repair(self, *names: str) -> Sequence[StateView]:
        """Resets the registry to the tables' positions; without names, for every stream."""
        context = self._context()
        return [repair(stream, context) for stream in self._find(*names)]

    def _one(self, name: str) -> Stream:
        return self._find(name)[0]


def show(stream: Stream, context: RunContext) -> StateView:
    """Shows a position; changes nothing."""
    return look(stream, context.registry)


def look(stream: Stream | TableLocation, registry: RegistryReader) -> StateView:
    """The positions in the table and in the registry; opens no source."""
    table = stream.format.state(stream.target, stream.uid)
    remembered = registry.position(stream.uid)
    in_table = table.position.to_dict() if table.position else None
    in_registry = remembered.position.to_dict() if remembered else None
    return StateView(
        stream=stream.name,
        uid=stream.uid,
        target=str(stream.target),
        table_exists=table.exists,
        table_rows=table.rows,
        table=in_table,
        registry=in_registry,
        agree=in_table == in_registry,
    )


def repair(stream: Stream, context: RunContext) -> StateView:
    """Resets the registry to the table's position.

    Of a stream that is loaded by partitions it takes what Spark finds in each of them. Where the table's position
    does not vouch for that, because rows were changed behind it, the position is rewritten and does.
    """
    _register(stream, context)
    table = stream.format.state(stream.target, stream.uid)
    if table.position is None and holds_rows(table):
        raise PositionMissing(f"the table of stream {stream.name!r} has rows but no position to repair from")
    since = table.position
    if since is None or since.kind != stream.strategy.kind or method_of(since.state) is None:
        _reset_registry(stream, context, table)
        return show(stream, context)
    with context.registry.lease(stream.uid) as lease:
        table = stream.format.state(stream.target, stream.uid)
        _reset_registry(stream, context, table)
        if table.position is not None:
            _measure(stream, context, table, table.position, lease)
    return show(stream, context)


def set_value(stream: Stream, context: RunContext, value: str | None, *, reason: str) -> StateView:
    """Sets the position to a cursor value; the next run reads the rows after it.

    Raises:
        PlanError: the next run would add rows that the table already has.
        ConfigError: the source has yet to reach that value.
    """
    state = stream.strategy.resume(value)
    refuse_repeats(stream, context, stream.format.state(stream.target, stream.uid), state)
    return _stamp(stream, context, state, stream.strategy.resume_at(state), reason=reason)


def adopt(stream: Stream, context: RunContext, value: str | None = None) -> StateView:
    """Adopts a table that was filled by another tool.

    The position becomes `value`, else the greatest cursor that the table holds; of a stream that is loaded by files,
    the files that are there now. Where the table is meant to hold what the source holds up to there, that is proven
    first. A strategy that compares (checksum, full, snapshot_diff) proves it by its first load.

    Raises:
        ConfigError: there is nothing to adopt, or the stream already has a position.
        VerifyFailed: the table differs from the source; nothing was changed.
    """
    table = stream.format.state(stream.target, stream.uid)
    if table.position is not None:
        raise ConfigError(
            f"stream {stream.name!r} already has a position", hint=f"See it with `tidegate state show {stream.name}`."
        )
    if not holds_rows(table):
        raise ConfigError(
            f"the table of stream {stream.name!r} is empty: there is nothing to adopt", hint="Run the stream."
        )
    if value is None and stream.strategy.cursor:
        value = _greatest_cursor(stream, context, table)
    reason = "state adopt"
    with stream.source.probe(context.sessions, stream.bound_request) as probe:
        if (adopted := stream.strategy.adopted(probe)) is not None:
            state, listed = adopted
            _prove(stream, context, table, probe, Everything())
            _stamp(stream, context, state, None, reason=reason, proven=table)
            context.registry.keep_manifest(stream.uid, listed)
            return show(stream, context)
        state = stream.strategy.resume(value)
        stream.strategy.check_value(state, probe)
        value = stream.strategy.resume_at(state)
        if stream.strategy.cursor and (stream.writer.idempotent or stream.strategy.emits == {Insert}):
            part = Range(cursor=stream.strategy.cursor, after=None, upto=value, nulls=True)
            _prove(stream, context, table, probe, part)
    return _stamp(stream, context, state, value, reason=reason, proven=table)


def _prove(stream: Stream, context: RunContext, table: TableState, probe: Probe, part: Slice) -> None:
    """Compares what the table holds with what the source holds of the slice, by count and fingerprint."""
    with context.session() as session:
        target = comparison.fingerprint(stream, session, table, probe.schema())
        wanted = expected.of_part(stream, part, probe)
        source = probe.fingerprint(wanted.part, latest=wanted.latest)
        probe.verify_unchanged()
    if source != target:
        cursor = bool(stream.strategy.cursor)
        unseen = f", or adopt it as it is with `tidegate state set {stream.name} VALUE`" if cursor else ""
        what = "rows" if source.rows != target.rows else "values"
        raise VerifyFailed(
            f"the table of stream {stream.name!r} differs from its source: other {what}, "
            f"{counted(source.rows, 'row')} at the "
            f"source and {target.rows} in {stream.target}; nothing was adopted",
            hint=f"Run a full refresh with `tidegate run {stream.name} --full-refresh --yes`{unseen}.",
        )


def rewind(stream: Stream, context: RunContext, to_sequence: int) -> StateView:
    """Sets the position back to an earlier load; rows stay, and are read again by the next run.

    Raises:
        PlanError: the next run would add rows that the table already has.
    """
    known = (entry.position for entry in context.registry.positions(stream.uid, limit=100_000))
    position = next((found for found in known if found.sequence == to_sequence), None)
    if position is None:
        raise ConfigError(
            f"the registry has no load {to_sequence} of stream {stream.name!r}",
            hint=f"`tidegate history {stream.name} --versions` lists the loads.",
        )
    # The table does not go back, so it holds other rows than those of which an earlier commit says something.
    reason = f"state rewind to load {to_sequence}"
    table = stream.format.state(stream.target, stream.uid)
    position = column_names.as_loaded_last(position, table, context)
    refuse_repeats(stream, context, table, position.state)
    state = stream.strategy.unclaimed(position.state)
    _stamp(stream, context, state, position.loaded_through, reason=reason)
    context.registry.set_files_back(stream.uid, position)
    return show(stream, context)


def _register(stream: Stream, context: RunContext) -> None:
    context.registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))


def _reset_registry(stream: Stream, context: RunContext, table: TableState) -> None:
    context.registry.set_position(
        stream.uid,
        table.position,
        snapshot=table.position_snapshot,
        table_uuid=table.uuid,
        reason="state repair: the table's position",
        verified=unproven(stream),
    )


def _measure(stream: Stream, context: RunContext, table: TableState, since: Position, lease: Lease) -> None:
    """Keeps what each partition of the table holds, once the table's position vouches for it."""
    compared = stream.strategy.partitions
    with context.session() as session, stream.source.probe(context.sessions) as probe:
        known = method_of(since.state) or {}
        grouping = compared.grouping(probe) if compared is not None else grouping_of(known)
        columns, method = probe.schema(), grouping.to_dict()
        found = partitions.measured(stream, context, session, grouping=grouping, columns=columns)
        if partitions.trusted(found, since, columns) is None or known != method:
            position = replace(
                since,
                sequence=next_sequence(table, since, context.registry.last_sequence(stream.uid)),
                load_id=new_load_id(),
                state=measured_state(stream.strategy, since.state, method, found),
                schema=columns.digest,
            )
            # Fenced by the version that was there before anything was measured.
            _commit(
                stream, context, table, position, lease=lease, session=session, reason="state repair: measured by Spark"
            )
        context.registry.keep_ledger(stream.uid, method, found, filters=_filters(found, grouping, probe))


def measured_state(
    strategy: Strategy, state: Mapping[str, Any], method: Mapping[str, Any], found: Ledger
) -> dict[str, Any]:
    """A position's state once the table was measured: where loads continue stays; of its rows only this is known."""
    return {**strategy.unclaimed(state), METHOD: dict(method), **found.voucher()}


def _filters(found: Ledger, grouping: Grouping, probe: Probe) -> dict[str, tuple[str, str]]:
    """Each partition in the words of source and table, by its label."""
    columns, spark = probe.schema(), Spark()
    column = columns.find(grouping.column) if grouping.column else None
    parts = {label: grouping.part(grouping.bucket(label), column) for label in found.entries}
    return {label: (probe.condition(part), spark.among([part], columns)) for label, part in parts.items()}


def _stamp(  # noqa: PLR0913 - what a position is made of
    stream: Stream,
    context: RunContext,
    state: Mapping[str, Any],
    through: str | None,
    *,
    reason: str,
    proven: TableState | None = None,
) -> StateView:
    """One commit without rows that carries the position, fenced like a load.

    Whoever sets a position vouches for it: the source counts as the one to continue from as it is now, whatever an
    earlier run found.

    Args:
        proven: the table as it was compared with its source; another version of it gets no position.
    """
    _register(stream, context)
    with context.registry.lease(stream.uid) as lease:
        table = stream.format.state(stream.target, stream.uid)
        if not table.exists or table.schema is None:
            raise ConfigError(f"the table of stream {stream.name!r} does not exist yet", hint="Run the stream first.")
        if proven is not None and proven.snapshot != table.snapshot:
            raise CommitConflict(f"the table of stream {stream.name!r} was written to while it was being inspected")
        known = context.registry.last_sequence(stream.uid)
        with stream.source.probe(context.sessions, stream.bound_request) as probe:
            stream.strategy.check_value(state, probe)
            position = Position(
                sequence=next_sequence(table, table.position, known),
                load_id=new_load_id(),
                kind=stream.strategy.kind,
                source=probe.identity(),
                clock=probe.clock(),
                state=state,
                loaded_through=through,
                schema=table.position.schema if table.position else table.schema.digest,
                writer=table.position.writer if table.position else stream.writer.signature,
                retained=table.position.retained if table.position else {},
                witness=restored_source.witness(stream, probe, None),
            )
        with context.session(small=True) as session:
            _commit(stream, context, table, position, lease=lease, session=session, reason=reason, vouched=True)
    return show(stream, context)


def _commit(  # noqa: PLR0913 - what a commit is made of
    stream: Stream,
    context: RunContext,
    table: TableState,
    position: Position,
    *,
    lease: Lease,
    session: SparkSession,
    reason: str,
    vouched: bool = False,
) -> None:
    """Of no rows; refused if the table is not at the version that was looked at."""
    plan = maintenance_plan(
        stream.ref,
        table,
        position,
        at=context.now(),
        changes=ChangeSet(slices=(), effect=Insert(), state=position.state, rows=0),
        columns=table.schema or Schema(columns=()),
        key=stream.key,
        write=WriteChoice(mode=Mode.APPEND, reason="has a position but no rows"),
    )
    staging = stream.format.stage(session, stream.target, plan)
    with discarded_on_error(lambda: staging):
        staging.append(staging.read().limit(0))
        lease.check()
        receipt = publish(stream.format, stream.target, plan, staging)
    context.registry.set_position(
        stream.uid, position, snapshot=receipt.snapshot, table_uuid=table.uuid, reason=reason, vouched=vouched
    )


def _greatest_cursor(stream: Stream, context: RunContext, table: TableState) -> str | None:
    column = table.schema.find(stream.strategy.cursor[0]) if table.schema else None
    if column is None:
        raise ConfigError(
            f"the table of stream {stream.name!r} has no column {stream.strategy.cursor[0]!r} to adopt a position from",
            hint=f"Name it: `tidegate state adopt {stream.name} --at VALUE`.",
        )
    greatest = Spark().text_of(f"max({sql.quote(column.name)})", column.type)
    with context.session(small=True) as session:
        rows = stream.format.read(session, stream.target, table.snapshot)
        value: str | None = rows.selectExpr(f"{greatest} AS greatest").collect()[0][0]
    return value


def refuse_repeats(stream: Stream, context: RunContext, table: TableState, state: Mapping[str, Any]) -> None:
    """Looks into the table for rows that the next run would read again.

    Args:
        state: the strategy's part of the position to be.

    Raises:
        PlanError: there are some, or nothing tells.
    """
    unmoved = table.position is not None and table.position.state == state
    if _takes_twice(stream) or not holds_rows(table) or table.schema is None or unmoved:
        return
    cursor, value = stream.strategy.cursor, stream.strategy.resume_at(state)
    again = f"or run a full refresh: `tidegate run {stream.name} --full-refresh --yes`."
    if not cursor or value is None or any(table.schema.find(name) is None for name in cursor):
        raise PlanError(
            f"stream {stream.name!r}: from that position on write: {stream.writer.kind} would add rows again that "
            f"{stream.target} already has, and nothing shows which rows these are",
            hint=f"Undo loads with `tidegate rollback {stream.name} --to VERSION`, {again}",
        )
    where = within(Range(cursor=cursor, after=str(value), upto=None), table.schema)
    with context.session(small=True) as session, translated(f"reading {stream.target}"):
        rows = stream.format.read(session, stream.target, table.snapshot).where(where).count()
    if rows:
        raise PlanError(
            f"stream {stream.name!r}: {counted(rows, 'row')} of {stream.target} {done_by(rows, 'are')} after that "
            f"position, and write: {stream.writer.kind} would add them again",
            hint=f"Delete them first, in Spark `DELETE FROM {stream.target} WHERE {where}`, {again}",
        )


def _takes_twice(stream: Stream) -> bool:
    """Whether a row that comes again changes nothing; in a history that its loads date an event does."""
    writer, strategy = stream.writer, stream.strategy
    versions = writer.versions
    by_loads = versions is not None and versions.moment(strategy.cursor) is None
    return writer.idempotent and not (by_loads and Apply in strategy.emits)
