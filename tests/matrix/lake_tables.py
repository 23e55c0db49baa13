"""Tables of a lake as sources: one commit a phase, made by Spark's own MERGE as somebody else would make it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.histories import TYPES
from matrix.logs import ENVELOPES
from matrix.model import KEY, Event
from tidegate.formats.delta import Delta
from tidegate.formats.iceberg import Iceberg
from tidegate.spark.session import Sessions

KINDS = {
    "bigint": "bigint",
    "text": "string",
    "int": "int",
    "decimal(10,2)": "decimal(10,2)",
    "date": "date",
    "timestamp": "timestamp_ntz",
}
COLUMNS = ", ".join(f"{name} {KINDS[kind]}" for name, kind in TYPES.items())
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"


@dataclass(kw_only=True)
class LakeTable:
    """A table of Iceberg or Delta outside of the lake that is loaded."""

    folder: Path
    spark: Any
    format: str

    def connections(self) -> dict[str, Any]:
        return {}

    def lakes(self) -> dict[str, Any]:
        if self.format == "delta":
            return {}
        return {"raw": {"format": "iceberg", "catalog": {"type": "sqlite", "path": "raw.db"}, "warehouse": "./raw"}}

    def source(self, name: str) -> dict[str, Any]:
        return {"delta": "raw/t"} if self.format == "delta" else {"iceberg": "raw.s.t"}

    @property
    def columns(self) -> str:
        return COLUMNS

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
        self.session.sql(f"CREATE TABLE {self.table} ({self.columns}) USING {self.format} {more}")

    def change(self, events: Sequence[Event]) -> None:
        last = {event.key: event for event in events}.values()
        if not last:
            return
        rows = [
            (
                event.row is None,
                *(event.row[name] if event.row else event.key if name == KEY else None for name in TYPES),
            )
            for event in last
        ]
        self.session.createDataFrame(rows, f"gone boolean, {COLUMNS}").createOrReplaceTempView("changes")
        self.session.sql(
            f"MERGE INTO {self.table} t USING changes c ON t.id = c.id "
            "WHEN MATCHED AND c.gone THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = c.{name}' for name in TYPES)} "
            f"WHEN NOT MATCHED AND NOT c.gone THEN INSERT ({', '.join(TYPES)}) "
            f"VALUES ({', '.join(f'c.{name}' for name in TYPES)})"
        )


@dataclass(kw_only=True)
class EventTable(LakeTable):
    """A table to which events are added, one commit a phase."""

    envelope: str

    def source(self, name: str) -> dict[str, Any]:
        return {**super().source(name), "envelope": ENVELOPES[self.envelope].stated}

    @property
    def columns(self) -> str:
        stated = {**ENVELOPES[self.envelope].beside, **TYPES}
        return ", ".join(f"`{name}` {KINDS[kind]}" for name, kind in stated.items())

    def change(self, events: Sequence[Event]) -> None:
        records = [record for event in events for record in ENVELOPES[self.envelope].records(event)]
        names = [*ENVELOPES[self.envelope].beside, *TYPES]
        rows = [tuple(record[name] for name in names) for record in records]
        if rows:
            self.session.createDataFrame(rows, self.columns).createOrReplaceTempView("events")
            self.session.sql(f"INSERT INTO {self.table} SELECT * FROM events")
