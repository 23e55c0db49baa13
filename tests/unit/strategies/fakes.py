"""A table in memory that answers a strategy's questions as a database would."""

# ruff: noqa: ARG002 - it answers like a probe and needs not everything that a probe is told

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from support.probes import PartialProbe
from tidegate.core.batch import Latest
from tidegate.core.changes import ChangeSet, SafeBound, SliceStats
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import Grouping
from tidegate.core.plan import Prune
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.schema import TEXT, TIMESTAMPTZ, Column, Schema
from tidegate.core.slices import Everything, Partition, Range, Slice

SCHEMA = Schema(
    columns=(
        Column(name="id", type=TEXT, nullable=False),
        Column(name="updated_at", type=TIMESTAMPTZ),
        Column(name="created_at", type=TIMESTAMPTZ),
    )
)


@dataclass(kw_only=True)
class Table(PartialProbe):
    """Rows by id: their cursor columns as canonical texts."""

    rows: dict[str, dict[str, str | None]] = field(default_factory=dict)
    safe: str | None = "2025-01-31 00:00:00.000000"
    final: bool = True
    latest: str | None = None
    utc: str | None = None
    generated: int | None = None
    grant: str | None = None
    held_by: tuple[str, ...] = ()
    source: str = "memory"
    ticks: int = 1
    schema_: Schema = SCHEMA
    asked: list[str] = field(default_factory=list)

    def put(self, row: str, updated_at: str | None, created_at: str | None = None) -> None:
        """Inserts or updates a row."""
        self.rows[row] = {"updated_at": updated_at, "created_at": created_at}
        self.ticks += 1

    def schema(self) -> Schema:
        return self.schema_

    def identity(self) -> str:
        return self.source

    def clock(self) -> int:
        return self.ticks

    def unique(self, key: Sequence[str]) -> bool:
        return list(key) == ["id"]

    def edge(self) -> SafeBound:
        return SafeBound(
            upto=self.safe,
            held_by=self.held_by,
            final=self.final,
            clock=self.latest,
            in_utc=self.utc,
            generated=self.generated,
            grant=self.grant,
        )

    def stats(self, part: Slice) -> SliceStats:
        found = self._rows(part, "stats")
        cursors = [value for row in found if (value := _cursor(self.rows[row], part)) is not None]
        beyond = [row for row in self.rows.values() if isinstance(part, Range) and _later(row, part)]
        return SliceStats(rows=len(found), last=max(cursors, default=None), later=len(beyond))

    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        found = [value for row in self._rows(part, "key_bounds") if (value := self.rows[row][column]) is not None]
        known = self.schema().find(column)
        return Prune(column=column, type=known.type, low=min(found), high=max(found)) if found and known else None

    def now(self) -> datetime:
        return datetime(2025, 1, 31, tzinfo=UTC)

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        found = self._rows(part, "fingerprint")
        return Fingerprint.of_texts(row_text([row, *self.rows[row].values()]) for row in found)

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> dict[Slice, Fingerprint]:
        assert since is None
        self.asked.append("partitions")
        before, self.asked = self.asked, []
        found = {part: self.fingerprint(part) for part in only}
        self.asked = before
        return {part: one for part, one in found.items() if one.rows}

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        return len(self._rows(part, "count"))

    def verify_unchanged(self) -> None:
        return None

    def notes(self) -> tuple[str, ...]:
        return ()

    def _rows(self, part: Slice, question: str) -> list[str]:
        self.asked.append(question)
        return [row for row, values in self.rows.items() if _inside(values, part)]


def _cursor(values: dict[str, str | None], part: Slice) -> str | None:
    if isinstance(part, Everything):
        return None
    return next((values[name] for name in part.cursor if values[name] is not None), None)


def _later(values: dict[str, str | None], part: Range) -> bool:
    cursor = _cursor(values, part)
    return part.upto is not None and cursor is not None and cursor > part.upto


def _inside(values: dict[str, str | None], part: Slice) -> bool:
    if isinstance(part, Everything):
        return True
    if isinstance(part, Partition):
        value = values[part.column]
        return value is not None and (part.low or "") <= value and (part.high is None or value < part.high)
    cursor = _cursor(values, part)
    if cursor is None:
        return part.nulls
    return (part.after is None or cursor > part.after) and part.upto is not None and cursor <= part.upto


@dataclass(kw_only=True)
class Stream:
    """A strategy, its position, and what has been loaded by it."""

    table: Table
    strategy: Strategy
    position: Position | None = None
    loaded: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def run(self) -> ChangeSet | None:
        """One load."""
        self.table.asked.clear()
        changes = self.strategy.detect(self.table, self.position)
        if changes is None:
            return None
        for part in changes.slices:
            for row in self.table._rows(part, "read"):
                self.loaded[row] = dict(self.table.rows[row])
        self.position = Position(
            sequence=self.position.sequence + 1 if self.position else 1,
            load_id="load",
            kind=self.strategy.kind,
            source=self.table.identity(),
            clock=self.table.clock(),
            state=changes.state,
            loaded_through=changes.loaded_through,
            schema=self.table.schema().digest,
        )
        return changes
