"""A stream of a SQLite table whose lake only says where it stands: for decisions that need no Spark."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.core.ids import Connection, Target
from tidegate.core.policies.deletes import Deletes
from tidegate.core.ports.format import SinceLoad, TableState
from tidegate.core.position import Position
from tidegate.core.source_columns import SourceColumns
from tidegate.engine.context import LoadContext, RunContext
from tidegate.engine.events import Journal
from tidegate.engine.reconcile import RecoveryState, RegistryRepair
from tidegate.engine.stream import Policies, Stream
from tidegate.registry.store import Registry
from tidegate.sources.database import Database
from tidegate.strategies.watermark import Watermark
from tidegate.writers.merge import Merge

THROUGH = "2025-01-10 00:00:00.000000"


def bare(strategy: Any, writer: Any, key: tuple[str, ...] = ("id",), **given: Any) -> Stream:
    """A stream without a source and a lake."""
    target = Target(lake="lake", namespace=("a",), table="b")
    parts = {"strategy": strategy, "writer": writer, "key": key, "source": None, "source_name": "t", "format": None}
    return Stream(**{"name": "s", "uid": "u", "target": target, **parts, **given})


@dataclass(kw_only=True)
class Told:
    """A format of which only the state of a table is asked."""

    table: TableState
    invisible: bool = True

    def state(self, target: Target, uid: str) -> TableState:  # noqa: ARG002 - there is one table
        return self.table


@dataclass(kw_only=True)
class Shop:
    """The table `t` with rows of every hour, its stream, and a registry."""

    folder: Path
    columns: str = "id integer primary key, at timestamp"
    key: tuple[str, ...] = ("id",)
    position: Position | None = None
    source_columns: SourceColumns | None = None
    strategy: Any = field(default_factory=lambda: Watermark(column="at"))
    writer: Any = field(default_factory=Merge)

    def sql(self, *statements: str) -> None:
        with sqlite3.connect(self.folder / "shop.db") as connection:
            for statement in statements:
                connection.execute(statement)
        connection.close()

    def fill(self, rows: int) -> None:
        self.sql(f"create table t ({self.columns})")
        values = ", ".join(f"({n}, '2025-01-{1 + n // 24:02} {n % 24:02}:00:00.000000')" for n in range(rows))
        self.sql(f"insert into t values {values}")

    def stream(self, *, rows: int | None = None, deletes: Deletes | None = None) -> Stream:
        since_load = SinceLoad(source_columns=self.source_columns)
        table = TableState(exists=True, snapshot="1", rows=rows, position=self.position, since_load=since_load)
        return Stream(
            name="t",
            uid="a1b2",
            source=Database(connection=Connection(name="shop", url=f"sqlite:///{self.folder / 'shop.db'}"), table="t"),
            source_name="shop: t",
            target=Target(lake="lake", namespace=("out",), table="t"),
            format=Told(table=table),
            strategy=self.strategy,
            writer=self.writer,
            key=self.key,
            policies=Policies(deletes=deletes or Deletes()),
        )

    def loaded(self, through: str = THROUGH, **state: Any) -> Position:
        self.position = Position(
            sequence=1,
            load_id="0" * 32,
            kind=self.strategy.kind,
            state={"cursor": ["at"], "value": through, **state},
            loaded_through=through,
        )
        return self.position

    def context(self, registry: Registry, **options: Any) -> RunContext:
        return RunContext(
            registry=registry,
            sessions=None,
            run_id="r",
            now=lambda: datetime(2025, 6, 1, tzinfo=UTC),
            redact=lambda text: text,
            **options,
        )

    def work(self, registry: Registry, probe: Any, stream: Stream, **options: Any) -> LoadContext:
        table = stream.format.state(stream.target, stream.uid)
        return LoadContext(
            stream=stream,
            context=self.context(registry, **options),
            journal=Journal(stream="t"),
            probe=probe,
            recovered=RecoveryState(table=table, since=self.position, repair=RegistryRepair.NOTHING),
        )
