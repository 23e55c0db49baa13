"""Six streams, append, upsert and change log into Iceberg and Delta, beside what their tables must hold.

That is what the simulated sources hold themselves. Tables are read by PyIceberg and delta-rs: nothing here asks
Tidegate.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from support.histories import Carrier, Event, lines
from support.lake import QUICK, delta_rows
from support.workspace import SqliteShop, Workspace

LAKES = {"iceberg": "lake", "delta": "versions"}
EVENT = {"operation": "text", "lsn": "bigint", "place": "bigint", "id": "bigint", "name": "text"}
WAYS: dict[str, dict[str, Any]] = {
    "append": {
        "source": {"connection": "shop", "table": "events"},
        "strategy": {"kind": "sequence", "column": "id"},
        "write": "append",
    },
    "upsert": {
        "source": {"connection": "shop", "table": "orders"},
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "updated_at"},
        "write": "merge",
    },
    "cdc": {
        "source": {
            "path": "events/*.json",
            "columns": EVENT,
            "envelope": {"kind": "rows", "sequence": ["lsn", "place"]},
        },
        "key": ["id"],
        "strategy": "cdc",
        "write": "merge",
    },
}
STREAMS = tuple(f"{write}_{form}" for form in LAKES for write in WAYS)
COLUMNS = {"append": ("id", "body"), "upsert": ("id", "amount", "updated_at"), "cdc": ("id", "name")}
SPARK = {
    **QUICK,
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


@dataclass(kw_only=True)
class World:
    """A project in a new folder; every choice comes from the seed."""

    folder: Path
    seed: int
    names: dict[int, str] = field(default_factory=dict)
    sent: list[Event] = field(default_factory=list)
    turn: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.shop = SqliteShop(path=self.folder / "shop.db")
        self.workspace = Workspace(folder=self.folder)
        (self.folder / "events").mkdir(parents=True)
        self.shop.sql(
            "create table events (id integer primary key autoincrement, body text)",
            "create table orders (id integer primary key, amount text, updated_at timestamp)",
        )
        named = (name.split("_") for name in STREAMS)
        self.workspace.write(
            {f"{write}_{form}": {**WAYS[write], "target": f"{LAKES[form]}.shop.{write}"} for write, form in named},
            connections={"shop": {"url": self.shop.url}},
            lakes={LAKES[form]: {"format": form, "warehouse": f"./{form}"} for form in LAKES},
            spark={"conf": SPARK},
        )

    def change(self) -> None:
        """Some rows of every source come, change or go; times are by the turn, each later than those before."""
        self.turn += 1
        statements = [f"insert into events (body) values ('{self._word()}')" for _ in range(self._some())]
        for number in range(self._some()):
            row = self.random.randrange(1, 200), self._word(), f"2025-01-01 00:00:00.{100 * self.turn + number:06}"
            statements.append(f"insert or replace into orders values {row}")
        self.shop.sql(*statements)
        events = [event for place in range(self._some()) for event in self._change_row(place)]
        # One more file, which repeats events and says them in no order; some are of earlier files.
        carried = Carrier(random=self.random).deliver(events)
        again = self.random.sample(self.sent, min(len(self.sent), 5))
        self.sent += events
        (self.folder / "events" / f"{self.turn:05}.json").write_text(lines([*carried, *again]), encoding="utf-8")

    def _some(self) -> int:
        return self.random.randrange(1, 60)

    def _word(self) -> str:
        return f"w{self.random.random():.6f}"

    def _change_row(self, place: int) -> list[Event]:
        """The events of one change in a transaction of three; a changed key is a delete and an insert."""
        old, new, name = self.random.randrange(40), self.random.randrange(40), self._word()

        def event(operation: str, key: int, value: str | None, step: int = 0) -> Event:
            order = {"lsn": 1000 * self.turn + place // 3, "place": 2 * (place % 3) + step}
            return {"operation": operation, **order, "id": key, "name": value}

        what = self.random.choice(("update", "delete", "move")) if old in self.names else "insert"
        if what in ("insert", "update") or (what == "move" and new in self.names):
            self.names[old] = name
            return [event("INSERT" if what == "insert" else "UPDATE", old, name)]
        moved = self.names.pop(old)
        gone = event("DELETE", old, None)
        if what == "delete":
            return [gone]
        self.names[new] = moved
        return [gone, event("INSERT", new, moved, 1)]

    def difference(self, name: str) -> dict[str, int]:
        """Rows that a table lacks, and what it has beyond them: an old version of a row is one of each."""
        write, form = name.split("_")
        if write == "cdc":
            truth: list[tuple[Any, ...]] = list(self.names.items())
        else:
            truth = self.shop.rows(f"select * from {WAYS[write]['source']['table']}")
        if form == "delta":
            found = delta_rows(str(self.folder / "delta" / "shop" / write))
        else:
            found = self.workspace.table(f"shop.{write}").scan().to_arrow().to_pylist()
        expected = Counter(tuple(map(str, row)) for row in truth)
        held = Counter(tuple(_text(row[column]) for column in COLUMNS[write]) for row in found)
        return {"lost": (expected - held).total(), "doubled": (held - expected).total()}

    def versions(self) -> list[int]:
        """How many commits each table has seen."""
        return [self._versions(*name.split("_")) for name in STREAMS]

    def _versions(self, write: str, form: str) -> int:
        if form == "iceberg":
            return self.workspace.snapshots(f"shop.{write}")
        try:
            return DeltaTable(str(self.folder / "delta" / "shop" / write)).version()
        except TableNotFoundError:
            return -1


def _text(value: Any) -> str:
    """A time with its microseconds, as the sources write it."""
    return value.isoformat(" ", "microseconds") if hasattr(value, "isoformat") else str(value)
