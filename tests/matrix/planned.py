"""The same histories of columns without a database, Spark or a lake: what the engine plans, done to dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from matrix.columns import Columns, Source, Stream
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Mirror
from tidegate.core.ids import Connection
from tidegate.core.outcome import Result
from tidegate.core.plan import Reset, WriteFacts
from tidegate.core.policies.contract import ColumnMapping
from tidegate.core.ports.format import TableState
from tidegate.core.schema import TEXT, ChangeKind, Column, ColumnIds, Schema
from tidegate.core.slices import Everything
from tidegate.core.source_columns import SourceColumns
from tidegate.engine.events import Event, Listener, Moment, Stage
from tidegate.engine.planner import PlanInputs, make_plan
from tidegate.engine.stream import Policies
from tidegate.errors import SchemaRefused
from tidegate.sources.database import Database
from tidegate.strategies.full import Full
from tidegate.writers.merge import Merge
from unit.engine.sqlite_streams import bare

NOW = datetime(2025, 1, 1, tzinfo=UTC)
SHOP = Database(connection=Connection(name="shop", url="sqlite:///shop.db"), table="t")


@dataclass(kw_only=True)
class Table:
    """A table by the ids of its columns, as a format has it, and what its last commit says of them."""

    ids: dict[str, str] = field(default_factory=dict)
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    told: str = ""
    numbers: int = 0

    @property
    def state(self) -> TableState:
        columns = Schema(columns=tuple(Column(name=name, type=TEXT) for name in self.ids))
        return TableState(
            exists=bool(self.ids), snapshot="1" if self.ids else None, schema=columns if self.ids else None
        )

    def copy(self) -> Table:
        return replace(self, ids=dict(self.ids), rows={key: dict(row) for key, row in self.rows.items()})

    def added(self, name: str) -> None:
        self.numbers += 1
        self.ids[name] = str(self.numbers)


@dataclass(kw_only=True)
class PlannedProject:
    """Loads as the engine plans them, and does to a table what each plan says."""

    source: Source
    streams: Mapping[str, Stream]
    goes_back: bool
    tables: dict[str, Table] = field(default_factory=dict)
    commits: dict[str, list[Table]] = field(default_factory=dict)

    def close(self) -> None:
        """Nothing is open."""

    def run(self, *names: str, parallel: int = 1, full_refresh: bool = False, on_event: Listener | None = None) -> Any:
        return SimpleNamespace(streams=[self._run(name, full_refresh, on_event or (lambda _: None)) for name in names])

    def _run(self, name: str, full_refresh: bool, tell: Listener) -> Any:
        try:
            self._load(self.streams[name], self.tables.setdefault(name, Table()), full_refresh, tell)
        except SchemaRefused as error:
            return SimpleNamespace(stream=name, outcome=Result.STOPPED, error=error)
        return SimpleNamespace(stream=name, outcome=Result.LOADED, error=None)

    def _load(self, stream: Stream, table: Table, full_refresh: bool, tell: Listener) -> None:
        reset = full_refresh and bool(table.ids)
        made = make_plan(
            bare(Full(), Merge(), ("id",), source=SHOP, policies=Policies(contract=dict(stream.contract))),
            PlanInputs(
                table=table.state,
                since=None,
                changes=ChangeSet(slices=(Everything(),), effect=Mirror(), state={}, rows=len(self.source.rows)),
                columns=self._columns(stream, table),
                identity="shop",
                clock=1,
                witness={},
                facts=WriteFacts(effect=Mirror(), rows=3, table_rows=5, reset=RESET if reset else None),
                before=SourceColumns.from_json(table.told, table.ids),
            ),
            now=NOW,
        )
        tell(Event(stream=stream.name, stage=Stage.PLAN, moment=Moment.DONE))
        for name in made.columns.names if not table.ids else ():
            table.added(name)
        for change in made.evolution.apply:
            if change.kind is ChangeKind.RENAME:
                table.ids[change.column] = table.ids.pop(change.old or "")
            elif change.kind is ChangeKind.ADD_COLUMN:
                table.added(change.column)
        tell(Event(stream=stream.name, stage=Stage.WRITE, moment=Moment.DONE))
        numbers = {name: number for number, name in self.source.read.items()}
        old = {} if reset else table.rows
        table.rows = {}
        for key, row in self.source.rows.items():
            values = {table.ids[name]: row.get(numbers[name]) for name in made.columns.names}
            table.rows[key] = {**old.get(key, {}), **values}
        told = made.evolution.source_columns
        table.told = told.to_json(table.ids) if told is not None else ""
        self.commits.setdefault(stream.name, []).append(table.copy())
        tell(Event(stream=stream.name, stage=Stage.ADVANCE, moment=Moment.PUBLISHED))

    def _columns(self, stream: Stream, table: Table) -> Schema:
        """The columns of the source, without those that the contract leaves out."""
        source = self.source  # of which another relation gives a number to another column
        numbers = {name: str(number + source.relation) for number, name in source.names.items()}
        ids = ColumnIds(relation=str(source.relation), columns=numbers, takes=lambda name: name not in source.excluded)
        columns = Schema(columns=tuple(Column(name=name, type=TEXT) for name in source.read.values()), ids=ids)
        known = table.state.schema
        if known is None:
            return columns
        mapping = ColumnMapping(table=known, contract=stream.contract, key=("id",))
        apart = {change.column for change in mapping.unloaded_changes(columns)}
        return replace(columns, columns=tuple(column for column in columns if column.name not in apart))

    def versions(self, name: str) -> list[Any]:
        known = list(enumerate(self.commits.get(name, [])))[::-1]
        return [SimpleNamespace(id=load, load=load, readable=True, current=load == known[0][0]) for load, _ in known]

    def rollback(self, name: str, to: int) -> None:
        table = self.commits[name][to].copy()
        if not self.goes_back:
            table.ids, table.numbers = self.tables[name].ids, self.tables[name].numbers
        self.tables[name] = table
        self.commits[name].append(table.copy())


RESET = Reset()


@dataclass(kw_only=True)
class PlannedColumns(Columns):
    """Histories of what the planner decides alone; of a format whose versions have names of their own, or have not."""

    def _sql(self, *statements: str, told: str = "") -> None:
        self.told += [told] if told else statements

    def _stream(self, number: int) -> Stream:
        stream = super()._stream(number)
        return replace(
            stream, contract={**stream.contract, "add_column": self.chance.choice(("evolve", "discard", "stop"))}
        )

    def _between(self) -> list[Callable[[], None]]:
        return [self._interrupt, self._load]

    def _after(self) -> list[Callable[[], None]]:
        return [self._roll_back, self._load]

    def _rows(self, name: str) -> list[dict[str, Any]]:
        table = self.project.tables.get(name, Table())
        return [{column: row.get(one) for column, one in table.ids.items()} for row in table.rows.values()]

    def _opened(self, check: Mapping[str, Any] | None = None) -> Any:
        known = self.__dict__.get("project")
        found = PlannedProject(source=self.source, streams=self.streams, goes_back=self.format == "delta")
        return replace(found, tables=known.tables, commits=known.commits) if known else found
