"""Decides what the quarantine of a stream holds once a load has landed, and which of its rows count.

Called by the checks of a load, before its table is written, and by whoever looks at quarantined rows. Must never be
written after the table: a kill between the two commits has to leave rows that do not count, never rows that are gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import Aside, Latest
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.position import Position
from tidegate.core.protocols import Receipt, TableState
from tidegate.core.quarantine import COLUMNS, beside, uid_of
from tidegate.core.schema import Schema
from tidegate.dialects._row_text import row_text
from tidegate.dialects.spark import Spark
from tidegate.engine.landing import Beside
from tidegate.engine.recover import holds_rows
from tidegate.engine.stream import Stream
from tidegate.engine.work import Context
from tidegate.errors import VerifyFailed
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WHOLE = (Mode.OVERWRITE, Mode.MERGE_DIFFERENCES)
SLICES = (Mode.OVERWRITE_PARTITIONS, Mode.MERGE_PARTITIONS, Mode.REPLACE_FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """The quarantine of one stream, as it stood when a load was planned."""

    stream: Stream
    state: TableState

    @classmethod
    def of(cls, stream: Stream) -> Quarantine:
        """As it stands; asked without Spark."""
        return cls(stream=stream, state=stream.format.state(beside(stream.target), uid_of(stream.uid)))

    @property
    def filled(self) -> bool:
        """Whether it holds a row of any load."""
        return self.state.exists and holds_rows(self.state)

    def kept(self, session: SparkSession) -> DataFrame:
        """Every row, as committed; also those of loads that never landed."""
        return self.stream.format.read(session, beside(self.stream.target), self.state.snapshot)

    def rows(self, session: SparkSession, since: Position | None) -> DataFrame:
        """Rows: those of loads that landed; `until` is NULL where none that landed has taken it back."""
        from tidegate.spark import sorting  # noqa: PLC0415 - rows are looked at, Spark is running

        return sorting.landed(self.kept(session), since.sequence if since else 0)

    def unpacked(self, session: SparkSession, since: Position | None, columns: Schema) -> DataFrame:
        """The same rows with their columns, and the quarantine's own (see `sorting.unpacked`)."""
        from tidegate.spark import sorting  # noqa: PLC0415 - as above

        return sorting.unpacked(self.rows(session, since), row_text(columns))

    def waiting(self, session: SparkSession, since: Position | None, columns: Schema) -> DataFrame:
        """Rows: those that landed and wait, with their columns and the quarantine's own (see `sorting.unpacked`)."""
        from tidegate.spark import sorting  # noqa: PLC0415 - as above

        rows = self.rows(session, since)
        return sorting.unpacked(rows.where("until IS NULL AND row IS NOT NULL"), row_text(columns))

    def after(self, session: SparkSession, plan: LoadPlan, read: DataFrame) -> DataFrame:
        """What it holds once the load has landed, but for the rows that the load itself adds.

        Rows whose key or slice the load reads again do not wait any more: what was read last is what stands.
        """
        from tidegate.spark import sorting  # noqa: PLC0415 - as above

        rows = sorting.unpacked(self.rows(session, plan.since), row_text(plan.columns))
        number = plan.position.sequence
        if plan.write.mode in WHOLE or plan.since is None:
            closed = sorting.closed(rows, "true", number)
        elif plan.write.mode in SLICES:
            closed = sorting.closed(rows, Spark().among(plan.changes.slices, plan.columns), number)
        elif plan.key:
            closed = sorting.closed_by_key(rows, read, plan.key, number)
        else:
            closed = rows
        return sorting.repacked(closed)

    def replace(self, session: SparkSession, rows: DataFrame, context: Context) -> Receipt:
        """It holds just these rows: one fenced commit.

        Raises:
            PositionMoved, CommitConflict: somebody else has written it since.
        """
        table = Beside(
            lake=self.stream.format,
            target=beside(self.stream.target),
            stream=f"{self.stream.name} (quarantine)",
            uid=uid_of(self.stream.uid),
            kind="quarantine",
            columns=COLUMNS,
            state=self.state,
        )
        return table.commit(session, rows, Mode.OVERWRITE, now=context.now(), told={})


def as_read(
    stream: Stream, session: SparkSession, rows: DataFrame, *, since: Position | None, columns: Schema
) -> tuple[DataFrame, int]:
    """The rows of a table as they would be had none been set aside, and how many rows wait in the quarantine.

    A row that waits stands for its key: what the table has of that key is older.
    """
    from tidegate.spark import frames  # noqa: PLC0415 - rows are looked at, Spark is running

    rows = frames.completed(rows, columns)
    quarantine = Quarantine.of(stream)
    if not quarantine.filled:
        return rows, 0
    waiting = quarantine.waiting(session, since, columns)
    if stream.key:
        rows = frames.without_keys(rows, waiting, stream.key)
    return frames.completed(rows, columns).unionAll(frames.completed(waiting, columns)), waiting.count()


def put_aside(  # noqa: PLR0913 - the load, and what was found of its rows
    context: Context,
    stream: Stream,
    session: SparkSession,
    plan: LoadPlan,
    *,
    read: DataFrame,
    bad: int,
    rule: Latest | None,
) -> Aside | None:
    """The quarantine as it will count once the load has landed; None where the load adds nothing to it.

    Nothing is written where nothing changes: no row is bad, and none that waits was read again.

    Args:
        read: every row of the load; with `sorting.ERRORS` where some are bad.
        bad: how many of them are not loaded.
        rule: tells the last row of each key; None where no two rows have one.
    """
    from tidegate.spark import sorting  # noqa: PLC0415 - rows are looked at, Spark is running

    quarantine = Quarantine.of(stream)
    if not bad and not quarantine.filled:
        return None
    with translated(f"setting rows of {plan.target} aside"):
        after = quarantine.after(session, plan, read) if quarantine.filled else None
        if not bad and after is not None and not sorting.stale(quarantine.kept(session), after):
            return None
        mine = sorting.bad(read, row_text(plan.columns), rule, _stamp(plan)) if bad else None
        parts = [part for part in (after, mine) if part is not None]
        rows = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
        quarantine.replace(session, rows, context)
        if not bad:
            return None
        held = Quarantine.of(stream).kept(session).where(f"load_id = '{plan.load_id}'")
        if (there := held.count()) != bad:
            raise VerifyFailed(
                f"stream {stream.name!r}: {bad} rows were to be set aside, the quarantine has {there}; "
                "nothing was published",
                load_id=plan.load_id,
            )
        frame = sorting.unpacked(held.where("row IS NOT NULL"), row_text(plan.columns))
        return Aside(rows=bad, frame=frame, last=f"{sorting.META}last", key=plan.key)


def _stamp(plan: LoadPlan) -> tuple[str, str, str]:
    at = f"TIMESTAMP '{plan.created_at.isoformat()}'"
    return f"{plan.position.sequence}L", f"'{plan.load_id}'", at
