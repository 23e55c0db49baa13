"""Six streams, append, upsert and change log into Iceberg and Delta, beside a model of what their tables must hold.

The model is the simulated sources themselves. Tables are read by PyIceberg and delta-rs: nothing here asks Tidegate.
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
FORMATS = tuple(LAKES)
WRITES = ("append", "upsert", "cdc")
STREAMS = tuple(f"{write}_{form}" for form in FORMATS for write in WRITES)
COLUMNS = {"append": ("id", "body"), "upsert": ("id", "amount", "updated_at"), "cdc": ("id", "name")}
EVENT = {"operation": "text", "lsn": "bigint", "place": "bigint", "id": "bigint", "name": "text"}
SPARK = {
    **QUICK,
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


def stream(write: str, form: str) -> dict[str, Any]:
    """A stream as the project file has it."""
    ways: dict[str, dict[str, Any]] = {
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
    return {**ways[write], "target": f"{LAKES[form]}.shop.{write}"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """What a table lacks of the model, and what it has beyond it: an old version of a row is one of each."""

    lost: int = 0
    doubled: int = 0


@dataclass(kw_only=True)
class World:
    """A project in a new folder; every choice comes from the seed."""

    folder: Path
    seed: int
    events: list[tuple[int, str]] = field(default_factory=list)
    orders: dict[int, tuple[str, str]] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    sent: list[Event] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.shop = SqliteShop(path=self.folder / "shop.db")
        self.workspace = Workspace(folder=self.folder)
        (self.folder / "events").mkdir(parents=True)
        self.shop.sql(
            "create table events (id integer primary key autoincrement, body text)",
            "create table orders (id integer primary key, amount text, updated_at timestamp)",
        )
        self.workspace.write(
            {f"{write}_{form}": stream(write, form) for form in FORMATS for write in WRITES},
            connections={"shop": {"url": self.shop.url}},
            lakes={LAKES[form]: {"format": form, "warehouse": f"./{form}"} for form in FORMATS},
            spark={"conf": SPARK},
        )

    def change(self) -> None:
        """Some rows of every source come, change or go."""
        events, orders = [], []
        for _ in range(self.random.randrange(1, 60)):
            number = len(self.events) + 1
            self.events.append((number, f"b{self.random.random():.6f}"))
            events.append(f"insert into events (body) values ('{self.events[-1][1]}')")
        for _ in range(self.random.randrange(1, 60)):
            number, clock = self.random.randrange(1, 200), len(orders) + 100 * self.files
            row = f"a{self.random.random():.6f}", f"2025-01-01 00:00:{clock // 1000000:02}.{clock % 1000000:06}"
            self.orders[number] = row
            orders.append(f"insert or replace into orders values ({number}, '{row[0]}', '{row[1]}')")
        self.shop.sql(*events, *orders)
        self._send([event for place in range(self.random.randrange(1, 60)) for event in self._change_row(place)])

    def _change_row(self, place: int) -> list[Event]:
        """The events of one change in a transaction of three; a changed key is a delete and an insert."""
        old, new, name = self.random.randrange(40), self.random.randrange(40), f"n{self.random.random():.6f}"
        order = {"lsn": 1000 * self.files + place // 3}
        first, second = ({**order, "place": 2 * (place % 3) + number} for number in range(2))
        if old not in self.names:
            self.names[old] = name
            return [{"operation": "INSERT", **first, "id": old, "name": name}]
        what = self.random.choice(("update", "delete", "move"))
        if what == "update" or (what == "move" and new in self.names):
            self.names[old] = name
            return [{"operation": "UPDATE", **first, "id": old, "name": name}]
        moved = self.names.pop(old)
        gone = {"operation": "DELETE", **first, "id": old, "name": None}
        if what == "delete":
            return [gone]
        self.names[new] = moved
        return [gone, {"operation": "INSERT", **second, "id": new, "name": moved}]

    def _send(self, events: list[Event]) -> None:
        """One more file, which repeats events and says them in no order; some are of earlier files."""
        carried = Carrier(random=self.random).deliver(events)
        again = self.random.sample(self.sent, min(len(self.sent), 5))
        self.sent += events
        self.files += 1
        (self.folder / "events" / f"{self.files:05}.json").write_text(lines([*carried, *again]), encoding="utf-8")

    def expected(self, write: str) -> Counter[tuple[str, ...]]:
        """The rows that a table must hold."""
        truth: dict[str, list[tuple[Any, ...]]] = {
            "append": [*self.events],
            "upsert": [(number, *row) for number, row in self.orders.items()],
            "cdc": [*self.names.items()],
        }
        return Counter(tuple(map(str, row)) for row in truth[write])

    def held(self, write: str, form: str) -> Counter[tuple[str, ...]]:
        """The rows that a table holds, each as often as it does."""
        if form == "delta":
            found = delta_rows(str(self.folder / "delta" / "shop" / write))
        else:
            found = self._iceberg(write).scan().to_arrow().to_pylist()
        return Counter(tuple(_text(row[name]) for name in COLUMNS[write]) for row in found)

    def difference(self, name: str) -> Difference:
        """A table beside the model."""
        write, form = name.split("_")
        expected, held = self.expected(write), self.held(write, form)
        return Difference(lost=(expected - held).total(), doubled=(held - expected).total())

    def versions(self) -> list[int]:
        """How many commits each table has seen; one that is not there has seen none."""
        return [
            self._delta_version(write) if form == "delta" else len(self._iceberg(write).metadata.snapshots)
            for form in FORMATS
            for write in WRITES
        ]

    def _delta_version(self, write: str) -> int:
        try:
            return DeltaTable(str(self.folder / "delta" / "shop" / write)).version()
        except TableNotFoundError:
            return -1

    def _iceberg(self, write: str) -> Any:
        return self.workspace.table(f"shop.{write}")


def _text(value: Any) -> str:
    """A time with its microseconds, as the sources write it."""
    return value.isoformat(" ", "microseconds") if hasattr(value, "isoformat") else str(value)
