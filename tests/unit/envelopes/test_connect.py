"""Which types the fields of Kafka Connect become, and what a project has to state where messages tell nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.core.log import Message
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, Column, Schema
from tidegate.envelopes import _connect as connect
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.flat import Flat
from tidegate.errors import ConfigError

GOLDEN = Path(__file__).parents[2] / "golden/envelopes"


def messages(name: str) -> list[Message]:
    lines = [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        Message(**{part: None if line[part] is None else line[part].encode() for part in ("key", "value")})
        for line in lines
    ]


def types(schema: Schema) -> dict[str, str]:
    return {column.name: f"{column.type.kind} {column.type}" for column in schema}


def test_the_columns_of_postgresql_as_debezium_tells_them():
    assert types(Debezium().schema(messages("postgresql"))) == {
        "id": "integer int",
        "s": "integer int",
        "b": "integer bigint",
        "n": "decimal decimal(10,2)",
        "n0": "decimal decimal(6,0)",
        "nn": "text string",
        "big": "text string",
        "r": "float float",
        "d": "float double",
        "ok": "boolean boolean",
        "dt": "date date",
        "ts": "timestamp timestamp_ntz",
        "ts3": "timestamp timestamp_ntz",
        "tz": "timestamptz timestamp",
        "tm": "time string",
        "tm3": "time string",
        "ttz": "text string",
        "tx": "text string",
        "vc": "text string",
        "ch": "text string",
        "u": "uuid string",
        "j": "json string",
        "jb": "json string",
        "by": "binary binary",
        "m": "text string",
        "ai": "array array<int>",
        "at": "array array<string>",
        "ip": "text string",
        "bt": "text string",
        "b1": "boolean boolean",
        "rg": "text string",
        "iv": "integer bigint",
        "mo": "decimal decimal(38,2)",
    }


def test_the_columns_of_mariadb_as_debezium_tells_them():
    found = types(Debezium().schema(messages("mariadb")))
    assert found["y"] == "integer int"
    assert found["st"] == found["e"] == found["b9"] == "text string"
    assert (found["dtm"], found["ts"]) == ("timestamp timestamp_ntz", "timestamptz timestamp")


def fields(*names: str) -> bytes:
    inside = [{"field": name, "type": "int64" if name == "id" else "string"} for name in names]
    rows = [{"field": part, "fields": inside} for part in ("before", "after")]
    return json.dumps({"schema": {"fields": rows}, "payload": {"op": "c"}}).encode()


def test_the_newest_message_tells_the_order_and_older_ones_what_is_gone():
    told = [Message(key=None, value=fields("id", "old")), Message(key=None, value=fields("id", "new"))]
    assert Debezium().schema(told).names == ("id", "new", "old")
    stated = Debezium(columns={"new": "json"}).schema(told)
    assert str(stated.columns[1].type.kind) == "json"
    broken = [Message(key=None, value=b"{"), Message(key=None, value=None), *told]
    assert Debezium().schema(broken).names == ("id", "new", "old")


def test_the_table_says_its_types_where_the_messages_say_too_little():
    own = Schema(columns=(Column(name="id", type=BIGINT, nullable=False), Column(name="new", type=TIMESTAMP)))
    found = Debezium().schema([Message(key=None, value=fields("id", "new"))], own)
    assert found == own
    bare = [Message(key=None, value=b'{"op": "c"}')]
    with pytest.raises(ConfigError, match="may be encoded as MicroTimestamp, Timestamp") as raised:
        Debezium().schema(bare, own)
    assert "columns: {new: timestamp_ntz as MicroTimestamp}" in raised.value.hint
    assert Debezium(columns={"new": "timestamp as Timestamp"}).schema(bare, own) == own


def test_a_flat_row_has_columns_and_what_was_added():
    inside = [{"field": name, "type": "string"} for name in ("a", "__op", "__lsn")]
    value = json.dumps({"schema": {"fields": inside}, "payload": {"a": "x"}}).encode()
    assert Flat().schema([Message(key=None, value=value)]).names == ("a",)
    assert Flat(columns={"a": "bigint"}).schema([Message(key=None, value=b'{"a": 1}')]).columns[0].type == BIGINT


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("decimal(10,2) as bytes", ("bytes", "Decimal", 2)),
        ("decimal(10,2) as string", ("string", "", None)),
        ("decimal(10,2) as double", ("double", "", None)),
        ("timestamp as MicroTimestamp", ("int64", "MicroTimestamp", None)),
        ("time as IsoTime", ("string", "IsoTime", None)),
        ("date", ("int64", "Date", None)),
        ("timestamptz", ("string", "ZonedTimestamp", None)),
        ("binary as hex", ("string", "Hex", None)),
        ("bigint", ("int64", "", None)),
    ],
)
def test_what_is_stated_of_a_column(text, written):
    _, found = connect.stated({"c": text})["c"]
    assert (found.type, found.name, found.scale) == written


@pytest.mark.parametrize("text", ["timestamp", "decimal(10,2)", "time", "binary"])
def test_a_type_that_is_written_in_several_ways_is_never_guessed(text):
    with pytest.raises(ConfigError, match="may be encoded as"):
        Debezium(columns={"c": text}).schema([Message(key=None, value=b'{"op": "c"}')])


@pytest.mark.parametrize("text", ["bigint as bytes", "timestamp as days", "money"])
def test_a_way_that_a_type_has_not_is_refused_at_once(text):
    with pytest.raises(ConfigError, match="columns: c"):
        Debezium(columns={"c": text})


def test_a_field_of_somebody_else_is_what_its_type_says():
    assert connect.type_of({"type": "string", "name": "com.example.Uuid"}) == TEXT
    assert str(connect.type_of({"type": "struct", "name": "io.debezium.data.geometry.Point"}).kind) == "json"
