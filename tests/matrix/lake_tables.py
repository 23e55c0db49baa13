"""Tables of a lake as sources: one commit a phase, made by Spark's own MERGE as somebody else would make it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matrix.histories import ADDED, HELD, HIDDEN, TYPES, identity
from matrix.logs import ENVELOPES, NOTHING
from matrix.model import Event
from tidegate.formats.delta import Delta
from tidegate.formats.iceberg import Iceberg
from tidegate.spark.session import Sessions

KINDS = {
    "bigint": "bigint",
    "text": "string",
    "uuid": "string",
    "int": "int",
    "decimal(10,2)": "decimal(10,2)",
    "date": "date",
    "timestamp": "timestamp_ntz",
}
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


@dataclass(kw_only=True)
class LakeTable:
    """A table of Iceberg or Delta outside of the lake that is loaded.

    It has a map more, which changes with every row and is not to be read.
    """

    folder: Path
    spark: Any
    format: str
    held: Mapping[str, str] = field(default_factory=lambda: TYPES)
    phases: int = 0

    def connections(self) -> dict[str, Any]:
        return {}

    def lakes(self) -> dict[str, Any]:
        if self.format == "delta":
            return {}
        return {"raw": {"format": "iceberg", "catalog": {"type": "sqlite", "path": "raw.db"}, "warehouse": "./raw"}}

    def source(self, name: str) -> dict[str, Any]:
        return {**self._place, "exclude": [HIDDEN]}

    @property
    def _place(self) -> dict[str, Any]:
        return {"delta": "raw/t"} if self.format == "delta" else {"iceberg": "raw.s.t"}

    @property
    def columns(self) -> str:
        return ", ".join(f"{name} {KINDS[kind]}" for name, kind in self.held.items())

    @property
    def declared(self) -> str:
        return f"{self.columns}, {HIDDEN} map<string,int>"

    @property
    def hidden(self) -> str:
        """Another value of the map at every phase."""
        return f"map('phase', {self.phases})"

    @property
    def named(self) -> str:
        return ", ".join([*self.held, HIDDEN])

    def make(self) -> None:
        if self.format == "delta":
            self.table = f"delta.`{self.folder / 'raw' / 't'}`"
            lake: Any = Delta(name="raw", folder=self.folder)
        else:
            self.table = "raw.s.t"
            catalog = {"type": "sqlite", "path": "raw.db"}
            lake = Iceberg(name="raw", warehouse="./raw", catalog=catalog, folder=self.folder)
        self.session = Sessions(borrowed=self.spark, lakes=[lake.spark_conf()]).load_session()
        self.session.conf.set("spark.sql.shuffle.partitions", "1")
        if self.format == "iceberg":
            self.session.sql("CREATE NAMESPACE IF NOT EXISTS raw.s")
        more = FEED if self.format == "delta" else ""
        self.session.sql(f"CREATE TABLE {self.table} ({self.declared}) USING {self.format} {more}")

    def widen(self) -> None:
        self.held = HELD
        self.session.sql(f"ALTER TABLE {self.table} ADD COLUMNS ({ADDED} {KINDS[HELD[ADDED]]})")

    def change(self, events: Sequence[Event]) -> None:
        self.phases += 1
        last = {event.key: event for event in events}.values()
        if not last:
            return
        rows = [
            (event.row is None, *((event.row or {**NOTHING, **identity(event.key)})[name] for name in self.held))
            for event in last
        ]
        self.session.createDataFrame(rows, f"gone boolean, {self.columns}").createOrReplaceTempView("changes")
        self._merge()
        if any(event.row is None for event in events) and (kept := [event.key for event in last if event.row]):
            self._twice(kept[0])
            self._beside(kept[-1])

    def _twice(self, key: int) -> None:
        """A row is there twice for two commits, which no load sees."""
        one = self.session.sql(f"SELECT {', '.join(self.held)} FROM {self.table} WHERE id = {key}").collect()
        self.session.createDataFrame(one, self.columns).createOrReplaceTempView("one")
        self.session.sql(f"INSERT INTO {self.table} ({self.named}) SELECT *, {self.hidden} FROM one")
        self.session.sql(f"DELETE FROM {self.table} WHERE id = {key}")
        self.session.sql(f"INSERT INTO {self.table} ({self.named}) SELECT *, {self.hidden} FROM one")

    def _beside(self, key: int) -> None:
        """Another row of a key is there for one commit and goes again: what was told of the key last is a delete."""
        one = ", ".join("'beside'" if name == "code" else name for name in (*self.held, HIDDEN))
        self.session.sql(f"INSERT INTO {self.table} ({self.named}) SELECT {one} FROM {self.table} WHERE id = {key}")
        self.session.sql(f"DELETE FROM {self.table} WHERE id = {key} AND code = 'beside'")

    def _merge(self) -> None:
        self.session.sql(
            f"MERGE INTO {self.table} t USING changes c ON t.id = c.id "
            "WHEN MATCHED AND c.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = c.{name}' for name in self.held)}, "
            f"t.{HIDDEN} = {self.hidden} WHEN NOT MATCHED AND NOT c.gone THEN INSERT ({self.named}) "
            f"VALUES ({', '.join(f'c.{name}' for name in self.held)}, {self.hidden})"
        )


@dataclass(kw_only=True)
class EventTable(LakeTable):
    """A table to which events are added, one commit a phase."""

    envelope: str

    def source(self, name: str) -> dict[str, Any]:
        return {**self._place, "envelope": ENVELOPES[self.envelope].stated}

    @property
    def declared(self) -> str:
        return self.columns

    @property
    def columns(self) -> str:
        stated = {**ENVELOPES[self.envelope].beside, **self.held}
        return ", ".join(f"`{name}` {KINDS[kind]}" for name, kind in stated.items())

    def change(self, events: Sequence[Event]) -> None:
        records = [record for event in events for record in ENVELOPES[self.envelope].records(event)]
        names = [*ENVELOPES[self.envelope].beside, *self.held]
        rows = [tuple(record[name] for name in names) for record in records]
        if rows:
            self.session.createDataFrame(rows, self.columns).createOrReplaceTempView("events")
            self.session.sql(f"INSERT INTO {self.table} SELECT * FROM events")
