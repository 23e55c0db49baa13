"""Logs of changes: each envelope written by hand, in files of every format and in tables of events."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from matrix.files import EPOCH, FORMATS, STATED, text
from matrix.histories import HELD, TYPES, identity
from matrix.model import CREATED, CURSOR, Event, Row

NOTHING: Row = dict.fromkeys(HELD)
Record = Mapping[str, Any]


def _row(event: Event) -> Row:
    """A delete has its key and the moment of the delete, and nothing else."""
    return event.row if event.row is not None else {**NOTHING, **identity(event.key), CURSOR: event.at}


def rows(event: Event) -> list[Record]:
    commit, place = event.order
    operation = "DELETE" if event.row is None else "INSERT" if commit % 2 else "update"
    return [{"operation": operation, "commit": commit, "place": place, **_row(event)}]


def dms(event: Event) -> list[Record]:
    commit, place = event.order
    operation = "D" if event.row is None else "I" if commit % 2 else "U"
    return [{"Op": operation, "commit": commit, "place": place, **_row(event)}]


def sqlserver_cdc(event: Event) -> list[Record]:
    commit, place = event.order
    lsn = {"__$start_lsn": f"0x{commit:020X}", "__$seqval": f"0x{place:020X}"}
    if event.row is None:
        return [{"__$operation": 1, **lsn, **_row(event)}]
    if commit % 2:
        return [{"__$operation": 2, **lsn, **event.row}]
    before = {**NOTHING, **identity(event.key), "name": "before"}
    return [{"__$operation": 3, **lsn, **before}, {"__$operation": 4, **lsn, **event.row}]


def debezium(event: Event) -> list[Record]:
    commit, place = event.order
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "t", "lsn": 10 * commit + place}
    source["sequence"] = json.dumps([str(10 * commit), str(10 * commit + place)])
    after = None if event.row is None else {name: _debezium(event.row[name]) for name in TYPES}
    operation = "d" if event.row is None else "c" if commit % 2 else "u"
    return [{"before": identity(event.key), "after": after, "source": source, "op": operation}]


def flat(event: Event) -> list[Record]:
    (message,) = debezium(event)
    row = message["after"] or {**dict.fromkeys(TYPES), **identity(event.key)}
    source = message["source"]
    added = {"__op": message["op"], "__table": "t", "__source_connector": "postgresql", "__source_schema": "public"}
    added |= {
        "__source_db": "shop",
        "__source_sequence": source["sequence"],
        "__deleted": str(event.row is None).lower(),
    }
    return [{**row, **added}]


def _debezium(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - EPOCH.date()).days
    return value if value is None or isinstance(value, int) else text(value)


STATED_DEBEZIUM = {
    **TYPES,
    "price": "decimal(10,2) as string",
    "seen_at": "timestamp as MicroTimestamp",
    CREATED: "timestamp as MicroTimestamp",
    CURSOR: "timestamp as MicroTimestamp",
}


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """How an event is written: the records, what the stream says of it, the columns beside those of the table."""

    records: Callable[[Event], list[Record]]
    stated: Any
    beside: Mapping[str, str]
    messages: bool = False
    dated_deletes: bool = False


ORDER = {"commit": "bigint", "place": "bigint"}
ENVELOPES = {
    "rows": Envelope(
        records=rows,
        stated={"kind": "rows", "sequence": ["commit", "place"]},
        beside={"operation": "text", **ORDER},
        dated_deletes=True,
    ),
    "dms": Envelope(
        records=dms,
        stated={"kind": "dms", "sequence": ["commit", "place"]},
        beside={"Op": "text", **ORDER},
        dated_deletes=True,
    ),
    "sqlserver_cdc": Envelope(
        records=sqlserver_cdc,
        stated={"kind": "sqlserver_cdc"},
        beside={"__$operation": "int", "__$start_lsn": "text", "__$seqval": "text"},
        dated_deletes=True,
    ),
    "debezium": Envelope(
        records=debezium, stated={"kind": "debezium", "columns": STATED_DEBEZIUM}, beside={}, messages=True
    ),
    "flat": Envelope(
        records=flat,
        stated={"kind": "flat", "connector": "postgresql", "columns": STATED_DEBEZIUM},
        beside={},
        messages=True,
    ),
}


def formats(envelope: str) -> tuple[str, ...]:
    """The formats of files in which events of that envelope are kept."""
    return ("json",) if ENVELOPES[envelope].messages else tuple(FORMATS)


@dataclass(kw_only=True)
class LogFiles:
    """A file of events for each phase."""

    folder: Path
    format: str
    envelope: str
    number: int = 0
    held: Mapping[str, str] = field(default_factory=lambda: TYPES)

    def connections(self) -> dict[str, Any]:
        return {}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        found = ENVELOPES[self.envelope]
        stated = {"columns": self._columns} if self.format in STATED and not found.messages else {}
        return {"path": f"in/*.{self.format}", "envelope": found.stated, **stated}

    def make(self) -> None:
        (self.folder / "in").mkdir()

    def change(self, events: Sequence[Event]) -> None:
        if not events:
            return
        self.number += 1
        records = [record for event in events for record in ENVELOPES[self.envelope].records(event)]
        path = self.folder / "in" / f"{self.number:04}.{self.format}"
        if ENVELOPES[self.envelope].messages:
            path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
        else:
            FORMATS[self.format](path, records, self._columns)

    def widen(self) -> None:
        self.held = HELD

    @property
    def _columns(self) -> dict[str, str]:
        return {**ENVELOPES[self.envelope].beside, **self.held}
