"""Messages in the wire format of a schema registry, their bytes written by hand from its text and from Avro's."""

from __future__ import annotations

import json

import pytest

from support.schema_registry import registry_of
from tidegate.core.log import Message
from tidegate.envelopes import _avro as avro
from tidegate.envelopes.debezium_avro import DebeziumAvro
from tidegate.errors import ConfigError

AMOUNT = {
    "type": "bytes",
    "scale": 2,
    "precision": 10,
    "connect.version": 1,
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
    "connect.name": "org.apache.kafka.connect.data.Decimal",
    "logicalType": "decimal",
}
AT = {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"}
VALUE = {
    "type": "record",
    "name": "Value",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "amount", "type": ["null", AMOUNT], "default": None},
        {"name": "at", "type": AT},
        {"name": "ratio", "type": "double"},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.public.orders",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
SCHEMAS = avro.prepared({7: json.dumps(ENVELOPE), 258: json.dumps("long")})

# Fixture 1, after Confluent's "Wire format" and Avro's "Binary Encoding". A long is zigzag, then seven bits a byte.
INSERT = bytes.fromhex(
    "00"  # the format
    "00000007"  # schema 7
    "00"  # before: branch 0 of the union, null
    "02"  # after: branch 1 (zigzag 2), the record
    "54"  # id: 42, zigzag 84
    "02"
    "06"
    "c3a962"  # name: branch 1, three bytes, "éb"
    "02"
    "04"
    "041a"  # amount: branch 1, two bytes, 1050
    "02"  # at: 1, zigzag 2
    "000000000000f03f"  # ratio: 1.0, the lowest byte first
    "02"
    "63"  # op: one byte, "c"
)
# Fixture 2: numbers of several bytes, negative ones, one that is none.
DELETE = bytes.fromhex(
    "00"
    "00000007"
    "02"  # before: the record
    "ac02"  # id: 150, zigzag 300 = 0b10_0101100
    "00"  # name: null
    "02"
    "02"
    "ff"  # amount: one byte, -1
    "ffffffffffffffffff01"  # at: the least long
    "000000000000f87f"  # ratio: not a number
    "00"  # after: null
    "02"
    "64"  # op: "d"
)


def decoded(message: bytes):
    text, problem = avro.reader(SCHEMAS)(message)
    assert problem is None
    return json.loads(text)


def test_an_insert_written_by_hand():
    found = decoded(INSERT)
    row = {"id": 42, "name": "éb", "amount": "BBo=", "at": 1, "ratio": 1.0}
    assert found["payload"] == {"before": None, "after": row, "op": "c"}


def test_a_delete_written_by_hand():
    row = {"id": 150, "name": None, "amount": "/w==", "at": -(2**63), "ratio": "NaN"}
    assert decoded(DELETE)["payload"] == {"before": row, "after": None, "op": "d"}


def test_the_schema_is_told_in_the_words_of_connect():
    parts = {each["field"]: each for each in decoded(INSERT)["schema"]["fields"]}
    assert parts["after"]["fields"] == parts["before"]["fields"], "a type that is named is the same the second time"
    told = {each["field"]: each for each in parts["after"]["fields"]}
    assert (told["id"]["type"], told["id"]["optional"]) == ("int32", False)
    assert (told["name"]["type"], told["name"]["optional"]) == ("string", True)
    assert told["amount"]["parameters"] == {"scale": "2", "connect.decimal.precision": "10"}
    assert told["at"]["name"] == "io.debezium.time.MicroTimestamp"


def test_the_columns_are_those_that_json_would_tell():
    envelope = DebeziumAvro().with_registry(registry_of({7: ENVELOPE}))
    found = envelope.schema([Message(key=None, value=each) for each in (b"\x00\x00\x00\x01\x02x", INSERT)])
    assert [(column.name, str(column.type)) for column in found] == [
        ("id", "int"),
        ("name", "string"),
        ("amount", "decimal(10,2)"),
        ("at", "timestamp_ntz"),
        ("ratio", "double"),
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "wire format"),
        (b"\x00\x00\x00", "wire format"),
        (b'{"op": "c"}', "wire format"),
        (b"\x00\x00\x00\x01\x01" + INSERT[5:], "has no schema 257"),
        (INSERT[:-1], "does not match its schema"),
        (INSERT + b"\x00", "longer than its schema allows"),
        (b"\x00\x00\x00\x01\x02\x02\x02", "longer than its schema allows"),
    ],
)
def test_what_is_not_written_by_its_schema_is_told(message, reason):
    text, problem = avro.reader(SCHEMAS)(message)
    assert text is None
    assert reason in problem


def test_a_registry_has_to_be_named():
    with pytest.raises(ConfigError, match="need a schema registry"):
        DebeziumAvro().with_registry(None)
