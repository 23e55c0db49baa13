"""Files of every format, written by libraries that are not the engine's: PyArrow, fastavro, and by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

from matrix.histories import HELD, HIDDEN, TYPES, identity, stamp
from matrix.model import CREATED, CURSOR, Event, Row

ARROW = {
    "id": pa.int64(),
    "uid": pa.string(),
    "code": pa.string(),
    "qty": pa.int32(),
    "price": pa.decimal128(10, 2),
    "name": pa.string(),
    "day": pa.date32(),
    "seen_at": pa.timestamp("us"),
    "created_at": pa.timestamp("us"),
    "updated_at": pa.timestamp("us"),
}
LOGICAL = {
    "bigint": "long",
    "int": "int",
    "text": "string",
    "uuid": "string",
    "boolean": "boolean",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "local-timestamp-micros"},
    "decimal(10,2)": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
}
EPOCH = datetime(1970, 1, 1)
Columns = Mapping[str, str]


def text(value: Any) -> str:
    """A value as CSV and JSON carry it."""
    if isinstance(value, datetime):
        return value.isoformat(" ", "microseconds")
    return value.isoformat() if isinstance(value, date) else str(value)


def csv(path: Path, rows: Sequence[Row], columns: Columns) -> None:
    """RFC 4180: NULL is nothing at all, everything else stands in quotes, quotes are doubled, lines end in CRLF."""
    lines = [",".join(columns)]
    for row in rows:
        values = (
            "" if (value := row[name]) is None else '"' + text(value).replace('"', '""') + '"' for name in columns
        )
        lines.append(",".join(values))
    path.write_bytes("".join(f"{line}\r\n" for line in lines).encode())


def jsonl(path: Path, rows: Sequence[Row], columns: Columns) -> None:
    plain = {"bigint", "int"}
    lines = [
        {name: row[name] if row[name] is None or columns[name] in plain else text(row[name]) for name in columns}
        for row in rows
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def parquet(path: Path, rows: Sequence[Row], columns: Columns) -> None:
    pa.parquet.write_table(arrow(rows, columns), path)


def orc(path: Path, rows: Sequence[Row], columns: Columns) -> None:
    pa.orc.write_table(arrow(rows, columns), path)


def avro(path: Path, rows: Sequence[Row], columns: Columns) -> None:
    schema = {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": ["null", LOGICAL[kind]]} for name, kind in columns.items()],
    }
    records = [{name: _avro(row[name]) for name in columns} for row in rows]
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), records)


def _avro(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    return value


def arrow(rows: Sequence[Row], columns: Columns) -> pa.Table:
    own = {"text": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "binary": pa.binary(), "boolean": pa.bool_()}
    kinds = {name: ARROW[name] if name in ARROW else own[kind] for name, kind in columns.items()}
    schema = pa.schema(list(kinds.items()))
    return pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows], schema=schema)


FORMATS: dict[str, Callable[[Path, Sequence[Row], Columns], None]] = {
    "csv": csv,
    "json": jsonl,
    "parquet": parquet,
    "avro": avro,
    "orc": orc,
}
STATED = ("csv", "json")


def source(kind: str, *, named: bool) -> dict[str, Any]:
    """Files of that format; `named` says that each row carries the name of its file."""
    stated = {"columns": TYPES} if kind in STATED else {}
    hidden = f"{HIDDEN}*" if kind == "json" else HIDDEN  # a file of JSON without rows has no column of that name
    return {"path": f"in/*.{kind}", **stated, "exclude": [hidden], **({"file_name": "source_file"} if named else {})}


def written(kind: str, path: Path, rows: Sequence[Row], columns: Columns, number: int) -> None:
    """A file of these rows and of a column that is not to be read: numbers in one file, texts in the next."""
    hidden: Any = number if number % 2 else str(number)
    held = {**columns, HIDDEN: "int" if number % 2 else "text"}
    FORMATS[kind](path, [{**row, HIDDEN: hidden} for row in rows], held)


@dataclass(kw_only=True)
class StateFiles:
    """Files that hold what a table holds now, each rewritten when rows of it change."""

    folder: Path
    format: str
    named: bool = False
    parts: int = 3
    writes: int = 0
    rows: dict[int, Row] = field(default_factory=dict)
    columns: Columns = field(default_factory=lambda: TYPES)

    def connections(self) -> dict[str, Any]:
        return {}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        return source(self.format, named=self.named)

    def make(self) -> None:
        (self.folder / "in").mkdir()
        for part in range(self.parts):
            self._write(part)

    def change(self, events: Sequence[Event]) -> None:
        for event in events:
            self.rows.pop(event.key, None)
            if event.row is not None:
                self.rows[event.key] = event.row
        for part in {event.key % self.parts for event in events}:
            self._write(part)

    def widen(self) -> None:
        """The files that are written from now on have a column more."""
        self.columns = HELD

    def spoil(self, text: str) -> None:
        """One file more, of one row with a price that is none."""
        row = {**dict.fromkeys(HELD), **identity(10**9), "code": "a", CREATED: stamp(10**6), CURSOR: stamp(10**6)}
        written(self.format, self._spoiled, [{**row, "price": text}], self.columns, self.writes)

    def clean(self) -> None:
        self._spoiled.unlink()

    @property
    def _spoiled(self) -> Path:
        return self.folder / "in" / f"spoiled.{self.format}"

    def _write(self, part: int) -> None:
        rows = [row for key, row in self.rows.items() if key % self.parts == part]
        hidden = self.folder / f"_part{part}"
        self.writes += 1
        written(self.format, hidden, rows, self.columns, self.writes)
        hidden.rename(self.folder / "in" / f"part{part}.{self.format}")


@dataclass(kw_only=True)
class Arrivals:
    """A new file for what changed, of each row as it is at the end of the phase."""

    folder: Path
    format: str
    named: bool = False
    number: int = 0
    columns: Columns = field(default_factory=lambda: TYPES)

    def connections(self) -> dict[str, Any]:
        return {}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        return source(self.format, named=self.named)

    def make(self) -> None:
        (self.folder / "in").mkdir()

    def change(self, events: Sequence[Event]) -> None:
        rows = list({event.key: event.row for event in events if event.row is not None}.values())
        self.number += 1
        file = self.folder / "in" / f"{self.number:04}.{self.format}"
        written(self.format, file, rows, self.columns, self.number)

    def widen(self) -> None:
        """The files that come from now on have a column more."""
        self.columns = HELD

    def remove(self, number: int) -> None:
        (self.folder / "in" / f"{number + 1:04}.{self.format}").unlink()
