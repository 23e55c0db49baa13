"""Publishes or discards a staged load, and writes the side tables that the engine keeps beside a target.

A commit whose reply was lost is never assumed to have failed: the table itself decides.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Insert, Mirror
from tidegate.core.ids import Target, new_load_id
from tidegate.core.maintenance_plan import maintenance_plan
from tidegate.core.plan import LoadPlan, Mode, StreamRef, WriteChoice
from tidegate.core.ports.format import Format, Layout, Receipt, Staging, TableState
from tidegate.core.position import Position
from tidegate.core.schema import FOLLOWED, Schema, compare
from tidegate.core.slices import Everything
from tidegate.engine.reconcile import next_sequence
from tidegate.errors import CommitConflict, CommitUnknown, PositionMoved, TidegateError, WriteError
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def opened_meanwhile(
    lake: Format, session: SparkSession, target: Target, plan: LoadPlan
) -> Iterator[Callable[[], Staging]]:
    """Opens the load's version of the table while the block reads; a call waits for it.

    On an error the table stays as it was.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="stage") as pool:
        opened = pool.submit(lake.stage, session, target, plan)
        with discarded_on_error(opened.result):
            yield opened.result


@contextmanager
def opened_later(
    lake: Format, session: SparkSession, target: Target, plan: LoadPlan, *, prepare: Callable[[], None]
) -> Iterator[Callable[[], Staging]]:
    """Opens the load's version of a table that must be created or changed first, only when it is called.

    On an error before that call there is no table, or the one that was there.
    """
    with contextlib.ExitStack() as held:

        def opened() -> Staging:
            prepare()
            staging = lake.stage(session, target, plan)
            held.enter_context(discarded_on_error(lambda: staging))
            return staging

        yield opened


@contextmanager
def discarded_on_error(opened: Callable[[], Staging]) -> Iterator[None]:
    """Around a load's write: on an error the table stays as it was."""
    try:
        yield
    except CommitUnknown:
        raise  # the branch may be what landed: the next run looks for its mark
    except BaseException:
        with contextlib.suppress(TidegateError):  # what is left behind is invisible, and the next run drops it
            opened().discard()
        raise


def publish(lake: Format, target: Target, plan: LoadPlan, staging: Staging) -> Receipt:
    """Publishes; a refusal or a lost reply is settled by the table itself.

    Raises:
        PositionMoved: somebody else has loaded in between.
        CommitConflict, CommitUnknown: nobody has, and the load is not there.
    """
    try:
        return staging.publish()
    except (CommitConflict, CommitUnknown) as error:
        try:
            table = lake.state(target, plan.uid)
        except WriteError:
            raise error from None  # nobody can be asked
        if table.position is not None and table.position.load_id == plan.load_id:
            return staging.receipt()
        if table.position != plan.since:
            raise PositionMoved(
                f"another runner has loaded stream {plan.stream.name!r} in the meantime; this load was dropped",
                hint="Run again.",
            ) from error
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTable:
    """A table beside a stream's target that only the engine writes, each time in one fenced commit.

    Args:
        stream: the name of the stream, for people.
        uid: the identity of its loads; not the stream's.
        kind: the kind of its positions.
        state: its state when the current load was planned.
    """

    lake: Format
    target: Target
    stream: str
    uid: str
    kind: str
    columns: Schema
    state: TableState

    def commit(
        self, session: SparkSession, rows: DataFrame, mode: Mode, *, now: datetime, state: Mapping[str, Any]
    ) -> Receipt:
        """Appends the rows, or replaces the table with them.

        Args:
            mode: append or overwrite.
            state: the state of the position that the commit carries.

        Raises:
            PositionMoved, CommitConflict: somebody else has written it since.
        """
        plan = self._plan(mode, now, state)
        if not self.state.exists:
            self.lake.create(session, self.target, self.columns, Layout())
        elif plan.evolution.apply:
            self.lake.evolve(session, self.target, plan.evolution.apply, self.columns)
        if self.state.branches:
            self.lake.drop_branches(session, self.target, self.state.branches)
        staging = self.lake.stage(session, self.target, plan)
        with discarded_on_error(lambda: staging), translated(f"writing to {self.target}"):
            (staging.append if mode is Mode.APPEND else staging.overwrite)(rows)
            return publish(self.lake, self.target, plan, staging)

    def _plan(self, mode: Mode, now: datetime, state: Mapping[str, Any]) -> LoadPlan:
        load_id, table = new_load_id(), self.state
        changes = compare(source=self.columns, table=table.schema) if table.schema else ()
        number = next_sequence(table, table.position, 0)
        plan = maintenance_plan(
            StreamRef(name=self.stream, uid=self.uid, target=str(self.target)),
            table,
            Position(sequence=number, load_id=load_id, kind=self.kind, state=state, schema=self.columns.digest),
            at=now,
            changes=ChangeSet(slices=(Everything(),), effect=Insert() if mode is Mode.APPEND else Mirror()),
            columns=self.columns,
            write=WriteChoice(mode=mode, reason="what is kept beside the table"),
        )
        followed = tuple(change for change in changes if change.kind in FOLLOWED)
        return replace(plan, evolution=replace(plan.evolution, seen=changes, apply=followed))
