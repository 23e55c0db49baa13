"""A lake under test: plans, rows and whole loads for the suite of table formats."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.ids import Target, new_load_id
from tidegate.core.maintenance_plan import maintenance_plan
from tidegate.core.plan import LoadPlan, Mode, StreamRef, WriteChoice
from tidegate.core.ports.format import Format, Layout, Staging
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.core.slices import Everything
from tidegate.testing.frames import frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UID = "0123456789abcdef"
ROWS = Schema(
    columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT), Column(name="changed_at", type=TIMESTAMP))
)
"""The columns of every table of the suite that states no others."""


@dataclass(kw_only=True)
class FormatBench(ABC):
    """A format under test, a session for its loads, and tables that no two tests share.

    A format's author adds what only that format knows: a reader that is not the format itself, and what somebody else
    may do to a table.

    Args:
        lake: the first part of every target's name.
        namespace: the parts between the lake and the table.
    """

    format: Format
    session: SparkSession
    lake: str = "lake"
    namespace: tuple[str, ...] = ("shop",)
    _names: Iterator[int] = field(default_factory=itertools.count)

    @abstractmethod
    def oracle(self, target: Target) -> list[dict[str, Any]]:
        """The visible rows, sorted by their values, NULL last, as a reader sees them that is not the format."""

    @abstractmethod
    def insert(self, target: Target, *values: Any) -> None:
        """One row, values in the order of the table's columns, that somebody else commits."""

    @abstractmethod
    def alter(self, target: Target) -> None:
        """Somebody else changes the table without touching a row: a property, one more column."""

    @abstractmethod
    def compact(self, target: Target) -> None:
        """Somebody else commits a version that has the same rows."""

    def target(self, name: str | None = None) -> Target:
        """A table that nobody has used."""
        return Target(lake=self.lake, namespace=self.namespace, table=name or f"t{next(self._names)}")

    def table(self, schema: Schema = ROWS, layout: Layout | None = None, **named: Any) -> Target:
        """A new, empty table."""
        target = self.target(**named)
        self.format.create(self.session, target, schema, layout or Layout())
        return target

    def plan(self, target: Target, mode: Mode, *, uid: str = UID, **changes: Any) -> LoadPlan:
        """A plan on the table as it stands.

        Args:
            changes: fields of the plan that are to be others.
        """
        state = self.format.state(target, uid)
        load_id = new_load_id()
        sequence = state.position.sequence + 1 if state.position else 1
        plan = maintenance_plan(
            StreamRef(name="orders", uid=uid, target=str(target)),
            state,
            Position(sequence=sequence, load_id=load_id, kind="test", state={"upto": str(sequence)}),
            at=datetime.now(UTC),
            changes=ChangeSet(slices=(Everything(),), effect=Upsert()),
            columns=ROWS,
            key=("id",),
            write=WriteChoice(mode=mode, reason="the test says so"),
        )
        return replace(plan, **changes)

    def rows(self, *rows: Sequence[Any], schema: Schema = ROWS) -> DataFrame:
        """Rows as a source would give them; times as text."""
        values = (
            {
                column.name: datetime.fromisoformat(value) if column.type == TIMESTAMP and value else value
                for value, column in zip(row, schema, strict=True)
            }
            for row in rows
        )
        return frame(self.session, schema.columns, values)

    def load(self, target: Target, mode: Mode, *rows: Sequence[Any], uid: str = UID) -> LoadPlan:
        """One whole load, published."""
        plan = self.plan(target, mode, uid=uid)
        staging = self.format.stage(self.session, target, plan)
        put(staging, self.rows(*rows), mode)
        staging.publish()
        return plan

    def ids(self, target: Target) -> list[int]:
        """The visible ids, with multiplicity."""
        return sorted(row["id"] for row in self.oracle(target))

    def put_or_publish(self, staging: Staging, mode: Mode, *rows: Sequence[Any]) -> None:
        """The step that makes a load visible: of what was put already, or the write itself."""
        if not self.format.invisible:
            put(staging, self.rows(*rows), mode)
        staging.publish()


def put(staging: Staging, rows: DataFrame, mode: Mode) -> None:
    """Writes the rows in that mode."""
    if mode is Mode.APPEND:
        staging.append(rows)
    elif mode is Mode.OVERWRITE:
        staging.overwrite(rows)
    else:
        staging.merge(rows, prune=(), skip_equal=False)
