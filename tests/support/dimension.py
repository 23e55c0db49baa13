"""A table of versions and the loads that fill it, by the writer scd2 alone; no source and no registry."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from support.lake import Lake
from tidegate.core.batch import Batch, Checked, Fence, Latest
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Effect, Upsert
from tidegate.core.ids import Target
from tidegate.core.plan import WriteFacts
from tidegate.core.ports.format import Layout
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything
from tidegate.spark import dataframe_ops, sql
from tidegate.testing.contracts.lake import ROWS, UID
from tidegate.writers.scd2 import Scd2

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
UPSERT = Upsert()


def day(number: int | None) -> str | None:
    return None if number is None else f"2024-01-{number:02}T00:00:00"


@dataclass(kw_only=True)
class Dimension:
    """A table of versions and the loads that fill it."""

    lake: Lake
    writer: Scd2 = field(default_factory=Scd2)
    cursor: tuple[str, ...] = ("changed_at",)
    schema: Schema = ROWS
    key: tuple[str, ...] = ("id",)
    target: Target = field(init=False)
    hours: Any = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        columns = Schema(columns=(*self.schema, *self.writer.added(self.schema, self.cursor)))
        self.target = self.lake.table(columns, Layout(partition_by=self.writer.partition_by))

    def load(self, *rows: Sequence[Any], effect: Effect = UPSERT, parts: Any = None, **plan: Any) -> Checked:
        """One whole load, proven and published. Rows of a log end with `gone` and `order`."""
        names = [*self.schema.names]
        ddl = [f"{sql.quote(column.name)} {column.type.spark}" for column in self.schema]
        if isinstance(effect, Apply):
            ddl += ["__tidegate_gone boolean", "__tidegate_order bigint"]
        frame = self.lake.session.createDataFrame([tuple(map(self.value, row)) for row in rows], ", ".join(ddl))
        assert frame.columns[: len(names)] == names
        return self.put(frame, effect, parts or (Everything(),), **plan)

    def value(self, value: Any) -> Any:
        return datetime.fromisoformat(value) if isinstance(value, str) and value[4:5] == "-" else value

    def put(self, frame: Any, effect: Effect, parts: Any, **changes: Any) -> Checked:
        state = self.lake.format.state(self.target, UID)
        choice = self.writer.choose(
            WriteFacts(effect=Upsert(), rows=None, table_rows=state.rows if state.snapshot else 0)
        )
        plan = self.lake.plan(
            self.target,
            choice.mode,
            changes=ChangeSet(slices=parts, effect=effect),
            columns=self.schema,
            added=self.writer.added(self.schema, self.cursor),
            key=self.key,
            **{"created_at": NOW + timedelta(hours=next(self.hours)), **changes},
        )
        staging = self.lake.format.stage(self.lake.session, self.target, plan)
        fence = Fence(present=lambda: self.present(plan)) if state.snapshot else Fence()
        batch = Batch(
            latest=Latest(key=plan.key, order=self.cursor),
            keys_unique=False,
            skip_equal=False,
            fence=fence if isinstance(effect, Apply) else None,
        )
        checked = None
        try:
            checked = self.writer.check(frame, plan, batch)
            checked = self.writer.write(checked, plan, staging)
            self.writer.prove(checked, plan, staging)
        except BaseException:
            staging.discard()
            raise
        finally:
            if checked is not None and checked.held is not None:
                checked.held.unpersist()
        staging.publish()
        return checked

    def present(self, plan: Any) -> Any:
        return dataframe_ops.completed(self.lake.format.read(self.lake.session, self.target, plan.base), plan.table)

    def rows(self) -> list[dict[str, Any]]:
        return self.lake.oracle(self.target)

    def seen(self, *columns: str) -> list[tuple[Any, ...]]:
        """Versions as tuples: id, name, day it began, day it ended, whether it is current."""
        wanted = ("id", "name", self.writer.valid_from, self.writer.valid_to, self.writer.is_current, *columns)
        found = [tuple(told(row[name]) for name in wanted) for row in self.rows()]
        return sorted(found, key=lambda row: (row[0], str(row[2]), str(row[3])))


def told(value: Any) -> Any:
    """A time as the day of January 2024 that it is, or as the hours of the load that dated it."""
    if not isinstance(value, datetime):
        return value
    plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    hours = (plain - NOW.replace(tzinfo=None)) / timedelta(hours=1)
    if 0 <= hours < 100:
        return f"load {int(hours)}"
    return plain.day if (plain.year, plain.month) == (2024, 1) else plain.isoformat()
