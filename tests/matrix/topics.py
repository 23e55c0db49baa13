"""Topics of a real broker: events as Debezium writes them, in JSON, flattened, and in Avro with a schema registry."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro
from confluent_kafka import Producer

from matrix import logs
from matrix.histories import TYPES, identity
from matrix.model import KEY, UID, Event
from support.schema_registry import registry_of

LOGICAL = {
    "decimal(10,2)": {
        "type": "bytes",
        "scale": 2,
        "precision": 10,
        "connect.name": "org.apache.kafka.connect.data.Decimal",
        "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "logicalType": "decimal",
    },
    "date": {"type": "int", "connect.name": "io.debezium.time.Date"},
    "timestamp": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
    "bigint": "long",
    "int": "int",
    "text": "string",
    "uuid": "string",
}
ROW = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": name, "type": LOGICAL[kind] if name in (KEY, UID) else ["null", LOGICAL[kind]]}
        for name, kind in TYPES.items()
    ],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [
        *({"name": name, "type": "string"} for name in ("connector", "db", "schema", "table", "sequence")),
        {"name": "lsn", "type": "long"},
    ],
}
EVENT = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {"name": "before", "type": ["null", ROW]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
    ],
}
SCHEMAS: Mapping[int, Any] = {
    7: {"type": "record", "name": "Key", "fields": [{"name": KEY, "type": "long"}, {"name": UID, "type": "string"}]},
    8: EVENT,
}


@cache
def registry() -> str:
    """The URL of a schema registry that knows `SCHEMAS`; it ends with the process."""
    return registry_of(SCHEMAS)


def avro(number: int, record: Mapping[str, Any]) -> bytes:
    """The wire format of a registry: a zero byte, the schema's number in four bytes, Avro's binary encoding."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(SCHEMAS[number]), dict(record))
    return b"\x00" + number.to_bytes(4, "big") + written.getvalue()


def in_json(event: Event, envelope: str) -> tuple[bytes, bytes]:
    (record,) = logs.ENVELOPES[envelope].records(event)
    return json.dumps(identity(event.key)).encode(), json.dumps(record).encode()


def in_avro(event: Event, envelope: str) -> tuple[bytes, bytes]:
    (record,) = logs.debezium(event)
    row = None if event.row is None else {**record["after"], "price": event.row["price"]}
    whole = {**record, "before": {**dict.fromkeys(TYPES), **identity(event.key)}, "after": row}
    return avro(7, identity(event.key)), avro(8, whole)


@dataclass(frozen=True, kw_only=True)
class Written:
    """How events of one envelope are written to a topic."""

    message: Callable[[Event, str], tuple[bytes, bytes]]
    stated: Any


ENVELOPES: Mapping[str, Written] = {
    "debezium": Written(message=in_json, stated=logs.ENVELOPES["debezium"].stated),
    "debezium_avro": Written(message=in_avro, stated={"kind": "debezium_avro"}),
    "flat": Written(message=in_json, stated=logs.ENVELOPES["flat"].stated),
}


@dataclass(kw_only=True)
class Topic:
    """One topic; the URL is `broker/topic`."""

    url: str
    envelope: str

    def connections(self) -> dict[str, Any]:
        asked = {"registry": registry()} if self.envelope == "debezium_avro" else {}
        return {"events": {"kafka": self.url.partition("/")[0], **asked}}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        topic = self.url.partition("/")[2]
        return {"connection": "events", "topic": topic, "envelope": ENVELOPES[self.envelope].stated}

    def make(self) -> None:
        """The topic is there."""

    def change(self, events: Sequence[Event]) -> None:
        broker, _, topic = self.url.partition("/")
        producer = Producer({"bootstrap.servers": broker, "acks": "all"})
        for event in events:
            key, value = ENVELOPES[self.envelope].message(event, self.envelope)
            producer.produce(topic, key=key, value=value, partition=0)
        assert producer.flush(30) == 0
