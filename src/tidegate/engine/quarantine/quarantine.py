"""Updates the quarantine of a stream for a load, and says which of its rows count.

Always written before the table: a crash between the two commits leaves rows that do not count, and never loses rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import QuarantinedRows
from tidegate.core.display import counted
from tidegate.core.effects import Insert, Mirror
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.ports.format import Receipt, TableState
from tidegate.core.position import Position
from tidegate.core.quarantine import COLUMNS, NamedColumns, Superseding, quarantine_of, uid_of
from tidegate.core.schema import Schema
from tidegate.dialects.spark import Spark
from tidegate.dialects.spark.row_text import row_text
from tidegate.engine import event_fence
from tidegate.engine.column_names import by_names_of
from tidegate.engine.context import RunContext
from tidegate.engine.publish import SideTable
from tidegate.engine.quarantine.superseded import Load, how, left, one_a_key
from tidegate.engine.reconcile import holds_rows
from tidegate.engine.stream import Stream
from tidegate.errors import VerifyFailed
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


COMPARED = frozenset({Mode.MERGE_DIFFERENCES, Mode.MERGE_PARTITIONS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The quarantine of one stream, as it stood when a load was planned."""

    stream: Stream
    state: TableState

    @classmethod
    def of(cls, stream: Stream) -> Quarantine:
        """The quarantine as it is now, read without Spark."""
        return cls(stream=stream, state=stream.format.state(quarantine_of(stream.target), uid_of(stream.uid)))

    @property
    def filled(self) -> bool:
        """Whether it holds a row of any load."""
        return self.state.exists and holds_rows(self.state)

    def kept(self, session: SparkSession) -> DataFrame:
        """Every row, as committed, including those of loads that were never committed."""
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

        kept = self.stream.format.read(session, quarantine_of(self.stream.target), self.state.snapshot)
        return dataframe_ops.completed(kept, COLUMNS)  # one that was made before lacks the later ones

    def rows(self, session: SparkSession, since: Position | None, columns: Schema | None = None) -> DataFrame:
        """Rows: those of committed loads; `until` is NULL unless a committed load released the row.

        Args:
            columns: those that the rows are to have, by the names that they have now; None for the names they were
                kept by.
        """
        from tidegate.spark import validation  # noqa: PLC0415 - rows are looked at, Spark is running

        rows = validation.landed(self.kept(session), since.sequence if since else 0)
        return rows if columns is None else validation.with_names(rows, self._names.moved(columns))

    @property
    def _names(self) -> NamedColumns:
        """What the source calls the columns by whose names the rows are kept."""
        return NamedColumns.of(self.state.position.state if self.state.position is not None else {})

    def unpacked(self, session: SparkSession, since: Position | None, columns: Schema) -> DataFrame:
        """The same rows with their columns, and the quarantine's own (see `validation.unpacked`)."""
        from tidegate.spark import validation  # noqa: PLC0415 - as above

        return validation.unpacked(self.rows(session, since, columns), row_text(columns))

    def waiting(self, session: SparkSession, since: Position | None, columns: Schema) -> DataFrame:
        """Rows: those of committed loads that still wait, with the columns of `validation.unpacked`."""
        from tidegate.spark import validation  # noqa: PLC0415 - as above

        rows = self.rows(session, since, columns)
        return validation.unpacked(rows.where("until IS NULL AND row IS NOT NULL"), row_text(columns))

    def after(self, session: SparkSession, load: Load, added: DataFrame | None) -> DataFrame | None:
        """The rows of the quarantine once the load is committed; None for none.

        Args:
            added: the rows that the load adds, as the quarantine keeps them.
        """
        from tidegate.spark import quarantined_rows, validation  # noqa: PLC0415 - as above

        plan = load.plan
        parts = [self.rows(session, plan.since, plan.columns)] if self.filled else []
        parts += [] if added is None else [added]
        if not parts:
            return None
        rows = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
        rows = left(self.stream, validation.unpacked(rows, row_text(plan.columns)), session, load)
        if added is not None and self.filled and _carries(self.stream, plan):
            rows = quarantined_rows.inherited(rows, key=plan.key, number=plan.position.sequence)
        return validation.repacked(rows)

    def replace(self, session: SparkSession, rows: DataFrame, context: RunContext, columns: Schema) -> Receipt:
        """It holds just these rows: one fenced commit.

        Args:
            columns: those of the rows, by the names that they have now.

        Raises:
            PositionMoved, CommitConflict: somebody else has written it since.
        """
        table = SideTable(
            lake=self.stream.format,
            target=quarantine_of(self.stream.target),
            stream=f"{self.stream.name} (quarantine)",
            uid=uid_of(self.stream.uid),
            kind="quarantine",
            columns=COLUMNS,
            state=self.state,
        )
        state = self._names.followed(columns).to_state()
        return table.commit(session, rows, Mode.OVERWRITE, now=context.now(), state=state)


def as_read(  # noqa: PLR0913 - a version of a table, and what waits
    stream: Stream,
    session: SparkSession,
    rows: DataFrame,
    *,
    table: TableState,
    since: Position | None,
    columns: Schema,
) -> tuple[DataFrame, int]:
    """The rows of a table as if no row had been quarantined, and the number of quarantined rows.

    A quarantined row replaces the table's row of its key, which is older; in a history only if nothing newer is known
    of the key.

    Args:
        table: its state; that version of it counts.
        rows: the rows of that version that correspond to present rows of the source.
    """
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running
    from tidegate.spark import quarantined_rows as versions  # noqa: PLC0415 - as above

    rows, writer = dataframe_ops.completed(rows, columns), stream.writer
    quarantine = Quarantine.of(stream)
    if not quarantine.filled:
        return rows, 0
    waiting = quarantine.waiting(session, since, columns)
    quarantined = waiting.count()
    history = writer.versions
    each = history is not None and stream.strategy.emits == {Insert}
    if history is not None and not each:
        stored = by_names_of(stream.format.read(session, stream.target, table.snapshot), table, columns)
        moment = history.moment(stream.strategy.cursor)
        waiting = versions.still_current(waiting, stored, key=stream.key, moment=moment, known=history.known)
    elif stream.strategy.applies_events and one_a_key(stream):
        waiting = versions.applied(waiting, rows, columns, key=stream.key)
    if one_a_key(stream) and not each:
        rows = dataframe_ops.without_keys(rows, waiting, stream.key)
    return dataframe_ops.completed(rows, columns).unionAll(dataframe_ops.completed(waiting, columns)), quarantined


def quarantine_rows(context: RunContext, stream: Stream, session: SparkSession, load: Load) -> QuarantinedRows | None:
    """The quarantine as of the commit of the load; None if the load adds nothing to it.

    Writes nothing if no row is bad and no quarantined row is superseded.
    """
    from tidegate.spark import validation  # noqa: PLC0415 - rows are looked at, Spark is running

    quarantine, plan, bad = Quarantine.of(stream), load.plan, load.bad
    if not bad and not quarantine.filled:
        return None
    with translated(f"quarantining rows of {plan.stream.target}"):
        after = quarantine.after(session, load, _added_rows(stream, load) if bad else None)
        if after is None or (not bad and not validation.stale(quarantine.kept(session), after)):
            return None
        quarantine.replace(session, after, context, plan.columns)
        if not bad:
            return None
        held = Quarantine.of(stream).kept(session).where(f"load_id = '{plan.load_id}'")
        if (found := held.count()) != bad:
            raise VerifyFailed(
                f"stream {stream.name!r}: {counted(bad, 'row', 'were')} to be quarantined, but the quarantine has "
                f"{found}; nothing was published",
                load_id=plan.load_id,
            )
        frame = validation.unpacked(held.where("row IS NOT NULL"), row_text(plan.columns))
        key, kept = load.rule.key if load.rule else plan.key, _kept(stream, load, frame)
        return QuarantinedRows(rows=bad, frame=frame, last=f"{validation.META}last", key=key, kept=kept)


def _kept(stream: Stream, load: Load, waiting: DataFrame) -> DataFrame | None:
    """The keys whose rows stay in a table that becomes what is read: as versions, or for what only the table has."""
    from tidegate.spark import dataframe_ops, validation  # noqa: PLC0415 - rows are looked at, Spark is running

    plan = load.plan
    if not isinstance(plan.changes.effect, Mirror):
        return None
    if stream.writer.versions is not None:
        return waiting
    if not _carries(stream, plan) or plan.write.mode not in COMPARED:
        return None
    return (
        waiting if load.unique else dataframe_ops.without_keys(waiting, validation.good(load.read, plan.key), plan.key)
    )


def carried(stream: Stream, session: SparkSession, load: Load, table: TableState) -> DataFrame | None:
    """What rows that the load supersedes have in columns that it does not write, see `Verdicts.carried`.

    Args:
        table: the state of the stream's table before the load.
    """
    from tidegate.spark import quarantined_rows  # noqa: PLC0415 - rows are looked at, Spark is running

    plan, quarantine = load.plan, Quarantine.of(stream)
    if table.schema is None or not quarantine.filled or not _carries(stream, plan):
        return None
    known, unwritten = plan.evolution.source_columns, plan.evolution.unwritten
    columns = [column for column in plan.columns if column.name in plan.key]
    columns += [column for column in table.schema if column.name in unwritten]
    schema = Schema(columns=tuple(columns), ids=known.ids if known is not None else None)
    with translated(f"reading {quarantine_of(stream.target)}"):
        rows = quarantine.unpacked(session, plan.position, schema)
        found = quarantined_rows.superseded(rows, unwritten, key=plan.key, number=plan.position.sequence)
        found = found.localCheckpoint()  # Spark 4.1 cannot merge from a view over another table of a lake
        return None if found.isEmpty() else found


def _carries(stream: Stream, plan: LoadPlan) -> bool:
    """Whether rows of the table keep values that the load does not write."""
    by_key = one_a_key(stream) and stream.writer.versions is None
    return by_key and bool(plan.evolution.unwritten) and plan.deletes.reset is None


def release_deleted_keys(
    stream: Stream, session: SparkSession, plan: LoadPlan, deleted: DataFrame, context: RunContext
) -> None:
    """Releases quarantined rows of keys that were deleted at the source, once the load that found this is committed."""
    from tidegate.spark import dataframe_ops, quarantined_rows, validation  # noqa: PLC0415 - rows are looked at, Spark is running

    quarantine, number = Quarantine.of(stream), plan.position.sequence
    if not quarantine.filled:
        return
    with translated(f"reading {quarantine_of(stream.target)}"):
        rows = quarantine.unpacked(session, plan.position, plan.columns)
        keys = deleted.selectExpr(*map(Spark().quote, plan.key), f"{number + 1}L AS {dataframe_ops.NUMBER}")
        after = validation.repacked(quarantined_rows.by_order(rows, keys, key=plan.key, order=(), number=number))
        if validation.stale(quarantine.kept(session), after):
            quarantine.replace(session, after, context, plan.columns)


def _added_rows(stream: Stream, load: Load) -> DataFrame:
    """The rows that the load adds."""
    from tidegate.core.log import UNKNOWN  # noqa: PLC0415 - as above
    from tidegate.spark import dataframe_ops, quarantined_rows, validation  # noqa: PLC0415 - as above

    plan, effect = load.plan, load.plan.changes.effect
    read = load.read
    order = dataframe_ops.ORDER if UNKNOWN in read.columns else None
    if isinstance(effect, Mirror) and effect.log is not None:
        order = Spark().string(effect.log.floor or "")  # rows read in bulk are older than any event that counts
    elif isinstance(effect, Mirror) and stream.strategy.applies_events:
        fence = event_fence.remembered(stream, read.sparkSession, plan).fence()
        read, order = quarantined_rows.after_events(read, fence, key=plan.key), dataframe_ops.ORDER
    each = how(stream, load) in (Superseding.EVENT, Superseding.VERSION, Superseding.NOTHING)
    return validation.bad(read, row_text(plan.columns), load.rule, _stamp(plan), log_order=order, each=each)


def _stamp(plan: LoadPlan) -> tuple[str, str, str]:
    at = f"TIMESTAMP '{plan.created_at.isoformat()}'"
    return f"{plan.position.sequence}L", f"'{plan.load_id}'", at
