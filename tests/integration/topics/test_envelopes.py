"""What Spark makes of messages as Debezium wrote them, and of such that nobody can take."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lake import QUICK
from tidegate.core.log import CLEARS, KEY, ORIGIN, PLACE, RAW, REFUSED, UNKNOWN, VALUE, Message, seeing
from tidegate.core.schema import Schema
from tidegate.envelopes import _avro as avro
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.debezium_avro import DebeziumAvro
from tidegate.envelopes.flat import Flat
from tidegate.spark.frames import GONE, ORDER
from tidegate.spark.session import Sessions
from unit.envelopes.test_avro import DELETE, ENVELOPE, INSERT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

GOLDEN = Path(__file__).parents[2] / "golden/envelopes"
HOLDER = "__debezium_unavailable_value"
Messages = Sequence[tuple[Any, Any]]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    found = Sessions(borrowed=spark).load_session()
    for name, value in QUICK.items():
        found.conf.set(name, value)
    return found


def golden(name: str) -> list[tuple[str | None, str | None]]:
    lines = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(each["key"], each["value"]) for each in map(json.loads, lines)]


def as_bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))).encode()


def told(session: SparkSession, envelope: Any, messages: Messages) -> list[dict[str, Any]]:
    """Events as the envelope tells them, by name; times as texts, which Python's cannot hold all of."""
    plain = [(as_bytes(key), as_bytes(value)) for key, value in messages]
    schema = envelope.schema([Message(key=key, value=value) for key, value in plain])
    rows = [
        (key and bytearray(key), None if value is None else bytearray(value), f"{n:03}", f"offset {n:03}")
        for n, (key, value) in enumerate(plain)
    ]
    columns = f"{KEY} binary, {VALUE} binary, {PLACE} string, {ORIGIN} string"
    found = _told(session.createDataFrame(rows, columns), envelope, schema)
    seen = seeing(envelope, [Message(key=key, value=value) for key, value in plain])
    known = _told(session.createDataFrame(rows, columns), seen, schema)
    assert str(known) == str(found), "what is known only makes it faster; as texts, where NaN is NaN"
    return found


def _told(messages: DataFrame, envelope: Any, schema: Schema) -> list[dict[str, Any]]:
    frame = envelope.events(messages, schema)
    assert frame.columns == [*schema.names, GONE, ORDER, UNKNOWN, CLEARS, REFUSED, ORIGIN, RAW]
    assert [kind for name, kind in frame.dtypes if name in schema.names] == [column.type.spark for column in schema]
    texts = [
        f"CAST(`{name}` AS string) AS `{name}`" if kind.startswith(("timestamp", "date")) else f"`{name}`"
        for name, kind in frame.dtypes
    ]
    found = (row.asDict() for row in frame.selectExpr(*texts).collect())
    return sorted(found, key=lambda event: event[ORIGIN])


def columns(event: dict[str, Any]) -> dict[str, Any]:
    return {
        name: bytes(value) if isinstance(value, bytearray) else value
        for name, value in event.items()
        if not name.startswith("__tidegate")
    }


def test_postgresql_with_every_type(session):
    toast = json.loads(golden("postgresql")[0][1])
    toast["payload"]["op"] = "u"
    toast["payload"]["after"] |= {
        "tx": HOLDER,
        "j": HOLDER,
        "by": base64.b64encode(HOLDER.encode()).decode(),
        "ai": list(HOLDER.encode()),
        "at": [HOLDER],
    }
    renamed = {**toast, "payload": {**toast["payload"], "op": "c"}}
    messages = [*golden("postgresql"), (None, toast), (None, renamed)]
    snapshot, gone, came, beyond, unlogged, lost = told(session, Debezium(), messages)
    assert columns(snapshot) == {
        "id": 1,
        "s": 2,
        "b": 3,
        "n": Decimal("10.50"),
        "n0": Decimal(7),
        "nn": "1.25",
        "big": "123456789012345678901234567890.123",
        "r": 1.5,
        "d": 2.5,
        "ok": True,
        "dt": str(date(2025, 1, 31)),
        "ts": "2025-01-31 12:00:00.123456",
        "ts3": "2025-01-31 12:00:00.123",
        "tz": datetime(2025, 1, 31, 10, 0, 0, 123456, tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S.%f"),
        "tm": "12:00:00.500000",
        "tm3": "12:00:00.500000",
        "ttz": "10:00:00Z",
        "tx": "héé",
        "vc": "x",
        "ch": "ab   ",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        "j": '{"a": 1}',
        "jb": '{"b": 2}',
        "by": b"\xde\xad\xbe\xef",
        "m": "ok",
        "ai": [1, 2],
        "at": ["a", "b"],
        "ip": "10.0.0.1",
        "bt": "1010",
        "b1": True,
        "rg": "[1,5)",
        "iv": 86_400_000_000,
        "mo": Decimal("12.30"),
    }
    assert (snapshot[REFUSED], snapshot[RAW], snapshot[GONE], snapshot[UNKNOWN]) == (None, None, False, [])
    # A key that changed: both events have one place in the log, and the old key ends first.
    assert [(event["id"], event[GONE]) for event in (gone, came)] == [(2, True), (5, False)]
    assert snapshot[ORDER] < gone[ORDER] < came[ORDER] < beyond[ORDER]
    assert beyond[REFUSED] == "column dt: its value does not fit date", "a year before the first"
    assert "0044" not in beyond[REFUSED]
    assert beyond[RAW] == golden("postgresql")[-1][1]
    assert unlogged[UNKNOWN] == ["tx", "j", "by", "ai", "at"]
    assert "column tx: the database did not log its value when the key changed" in lost[REFUSED]
    assert (unlogged["tx"], unlogged["ai"], unlogged["vc"], unlogged[REFUSED]) == (None, None, "x", None)


def test_mariadb(session):
    snapshot, gone, came = told(session, Debezium(table="test_0.t"), golden("mariadb"))
    expected = {
        "id": 1,
        "ti": -1,
        "t1": 1,
        "su": 65535,
        "iu": 4_294_967_295,
        "bu": -1,
        "n": Decimal("10.50"),
        "f": 1.5,
        "d": 2.5,
        "dt": "2025-01-31",
        "tm": "-12:00:00.500000",
        "t0": "12:00:00.000000",
        "dtm": "2025-01-31 12:00:00",
        "dt6": "2025-01-31 12:00:00.123456",
        "ts": "2025-01-31 17:00:00.123456",
        "y": 2025,
        "vc": "héé",
        "tx": "tx",
        "bl": b"\xde\xad\xbe\xef",
        "vb": b"\x00\xff",
        "e": "b",
        "st": "x,y",
        "b1": True,
        "b9": "100000001",
        "j": '{"a": 1}',
    }
    assert columns(snapshot) == expected
    assert (gone[GONE], gone["id"], came["id"]) == (True, 1, 7)
    assert snapshot[ORDER] < gone[ORDER] < came[ORDER]
    assert told(session, Debezium(table="other.t"), golden("mariadb")) == []


SOURCES = {
    # The log's order, from first to last; each after the row of a snapshot, whose place in the log is the last.
    "postgresql": [
        {"lsn": "900", "sequence": '[null,"900"]'},
        {"lsn": "30", "sequence": '["9","30"]'},
        {"lsn": "20", "sequence": '["10","20"]'},
        {"lsn": "100", "sequence": '["10","100"]'},
    ],
    "mysql": [
        {"file": "bin.000100", "pos": 9, "row": 0},
        {"file": "bin.000009", "pos": 100, "row": 0},
        {"file": "bin.000010", "pos": 99, "row": 2},
        {"file": "bin.000010", "pos": 99, "row": 10},
    ],
    "sqlserver": [
        {"commit_lsn": "0000002c:00000f98:0003", "change_lsn": None},
        {"commit_lsn": "00000020:00000f98:0003", "change_lsn": "0000001A:00000f98:0002", "event_serial_no": 1},
        {"commit_lsn": "00000020:00000f98:0003", "change_lsn": "0000001b:00000f98:0002", "event_serial_no": 1},
        {"commit_lsn": "00000020:00000f98:0003", "change_lsn": "0000001b:00000f98:0002", "event_serial_no": 2},
    ],
    "oracle": [
        {"scn": "900"},
        {"scn": "50", "commit_scn": "99", "rs_id": "0x01", "ssn": 0},
        {"scn": "40", "commit_scn": "100", "rs_id": "0x01", "ssn": 0},
        {"scn": "40", "commit_scn": "100", "rs_id": "0x01", "ssn": 1},
    ],
    "mongodb": [
        {"ts_ms": 9000, "ord": 1},
        {"ts_ms": 999, "ord": 2},
        {"ts_ms": 1000, "ord": 2},
        {"ts_ms": 1000, "ord": 10},
    ],
}


def test_every_connector_has_its_own_order(session):
    messages = []
    for connector, places in SOURCES.items():
        for number, place in enumerate(places):
            source = {"connector": connector, **place}
            operation = "u" if number else "r"
            messages.append((None, {"op": operation, "after": {"id": len(messages)}, "source": source}))
    messages.append((None, {"op": "c", "after": {"id": 1}, "source": {"connector": "spanner", "lsn": 1}}))
    messages.append((None, {"op": "c", "after": {"id": 1}, "source": {"connector": "postgresql", "lsn": 1}}))
    *found, strange, without = told(session, Debezium(columns={"id": "int"}), messages)
    for start in range(0, len(found), 4):
        orders = [event[ORDER] for event in found[start : start + 4]]
        assert None not in orders
        assert orders == sorted(orders)
        assert len(set(orders)) == 4, orders
    assert "where it stands" in strange[REFUSED]
    assert "where it stands" in without[REFUSED], "never by the row's own place alone"


PLACE_IN_LOG = {"connector": "postgresql", "db": "d", "schema": "public", "table": "t", "sequence": '["1","5"]'}


def bare(op: str = "c", source: Any = PLACE_IN_LOG, **parts: Any) -> dict[str, Any]:
    return {"op": op, "source": source, **parts}


@pytest.mark.parametrize("wrapped", [False, True])
def test_what_cannot_be_taken_is_told_and_never_null(session, wrapped):
    stated = {"id": "int", "n": "decimal(6,2) as bytes", "at": "timestamp as MicroTimestamp"}
    cases: list[tuple[Any, str | None]] = [
        (b"\xff\xfe", "it is no text in UTF-8"),
        ('{"op":"c"', "it is no whole JSON object"),
        ('{"op":"c"} x', "it is no whole JSON object"),
        ('{"op":"m"', "it is no whole JSON object"),
        ("[]", "it is no whole JSON object"),
        ('"text"', "it is no whole JSON object"),
        ("", "it is no whole JSON object"),
        ({"id": 1}, "it has no `op`, so it is no event of Debezium"),
        (bare("x"), "its `op` is none that Debezium is known to write"),
        (bare(after=None), "it has no row"),
        (bare(after=[1]), "its row is no JSON object"),
        (bare(after={"id": 2**31}), "column id: its value does not fit int"),
        (bare(after={"id": "x"}), "column id: its value does not fit int"),
        (bare(after={"id": 1, "n": "BBoBBoBBoBBo"}), "column n: its value does not fit decimal(6,2)"),
        (bare(after={"id": 1, "n": "*"}), "column n: its value does not fit decimal(6,2)"),
        (bare(after={"id": 1, "n": 10.505}), "column n: its value does not fit decimal(6,2)"),
        (bare(after={"id": 1, "at": 2**63 - 1}), "column at: its value does not fit timestamp_ntz"),
        (bare(after={"id": 1, "at": "soon"}), "column at: its value does not fit timestamp_ntz"),
        (bare(after={"id": 1}, source=None), "its `source` does not tell where it stands in the log of its database"),
        (bare(after={"id": 1, "n": "BBo=", "at": 0}), None),
        (bare(after={"id": 1, "n": 1050, "at": None}), None),
    ]
    if wrapped:
        cases = [({"payload": value} if isinstance(value, dict) else value, reason) for value, reason in cases]
    found = told(session, Debezium(columns=stated), [({"id": 1}, value) for value, _ in cases])
    assert [event[REFUSED] for event in found] == [reason for _, reason in cases]
    for event, (value, reason) in zip(found, cases, strict=True):
        raw = base64.b64encode(value).decode() if isinstance(value, bytes) else as_bytes(value).decode()
        assert event[RAW] == (raw if reason else None)
    assert [event["n"] for event in found[-2:]] == [Decimal("10.50"), Decimal("1050.00")]


def carried(name: str, scale: int = 2) -> str:
    """The schema of a message of Connect whose row has one column beside its key."""
    parameters = {"scale": str(scale), "connect.decimal.precision": "9"}
    price = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters, "field": name}
    note = {"type": "string", "optional": True, "default": ',"payload":{', "field": "note"}
    fields = [{"type": "int32", "field": "id"}, price, note]
    row = [{"type": "struct", "fields": fields, "field": part} for part in ("before", "after")]
    return json.dumps({"type": "struct", "fields": [*row, {"type": "string", "field": "op"}]}, separators=(",", ":"))


def test_messages_of_known_schemas_among_others(session):
    old, new, strange = carried("n"), carried("n", scale=1), carried("m")
    event = json.dumps(bare(after={"id": 1, "n": "BBo=", "note": "x"}), separators=(",", ":"))
    whole = f'{{"schema":{old},"payload":{event}}}'
    cases: list[tuple[str, str | None, Any]] = [
        (whole, None, Decimal("10.50")),
        (f'{{"schema":{new},"payload":{event}}}', None, Decimal("105.00")),
        (f'{{"schema":{strange},"payload":{event}}}', "column n: its value does not fit decimal(6,2)", None),
        (f'{{"schema":{old},\n"payload":{event}}}', None, Decimal("10.50")),
        (event, None, Decimal("10.50")),
        (whole[:-1], "it is no whole JSON object", None),
        (whole[:-3], "it is no whole JSON object", None),
        (f'{{"schema":{old},"payload":[]}}', "it is no whole JSON object", None),
        (f'{{"schema":{old},"payload":null}}', "it has no `op`, so it is no event of Debezium", None),
        (f'{{"schema":{old},"payload":{event},"more":{{}}}}', None, Decimal("10.50")),
    ]
    envelope = Debezium(columns={"id": "int", "n": "decimal(6,2) as bytes", "note": "text"})
    found = told(session, envelope, [({"id": 1}, value) for value, _, _ in cases])
    assert [event[REFUSED] for event in found] == [reason for _, reason, _ in cases]
    assert [event["n"] for event in found] == [value for _, _, value in cases]
    for event, (value, reason, _) in zip(found, cases, strict=True):
        assert event[RAW] == (value if reason else None)


def test_rows_that_the_parser_of_the_whole_message_does_not_find(session):
    after = {"_id": 1, "raw": "x", "place": 2}
    mongodb = {"connector": "mongodb", "db": "d", "collection": "c", "ts_ms": 1_000, "ord": 1}
    messages = [
        (None, bare(after=json.dumps(after), source=mongodb)),
        (None, {"payload": bare(after=json.dumps(after), source=mongodb)}),
        (None, bare("d", before=after, after=None)),
        (None, {"payload": bare("d", before=after, after=None)}),
        ({"_id": 1}, bare("d", after=None)),
        (None, bare(before=5, after=after)),
    ]
    found = told(session, Debezium(columns={"_id": "int", "raw": "text", "place": "int"}), messages)
    assert [event[REFUSED] for event in found] == [None] * len(messages)
    assert [columns(event) for event in found] == [
        {**after, "raw": None, "place": None} if n == 4 else after for n in range(len(messages))
    ], "a column may be called as a step of the decoding is"


def test_numbers_to_the_last_digit(session):
    stated = {
        "id": "int",
        "d": "decimal(38,0) as bytes",
        "s": "decimal(38,10) as string",
        "f": "decimal(12,3) as double",
    }
    most = 10**38 - 1
    wholes = [0, 1, -1, 127, 128, -128, -129, 2**63 - 1, -(2**63), 2**63, 2**64 + 5, -(2**96) - 7, most, -most]

    def encoded(number: int) -> str:
        size = max(1, (number.bit_length() + 8) // 8)
        return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()

    rows = [{"id": n, "d": encoded(number), "s": "-0.1234567890", "f": 1.25e3} for n, number in enumerate(wholes)]
    rows.append({"id": 99, "d": encoded(most + 1), "s": None, "f": None})
    *found, beyond = told(session, Debezium(columns=stated), [(None, bare(after=row)) for row in rows])
    assert [int(event["d"]) for event in found] == wholes
    assert {(event["s"], event["f"]) for event in found} == {(Decimal("-0.1234567890"), Decimal("1250.000"))}
    assert beyond[REFUSED] == "column d: its value does not fit decimal(38,0)"


def test_events_of_the_table_and_those_of_others(session):
    other = {**PLACE_IN_LOG, "table": "other"}
    messages = [
        ({"id": 7}, bare("d", before=None, after=None)),
        (None, bare("t")),
        (None, bare("m", after=None)),
        (None, bare(source=other, after={"id": 8})),
        ({"id": 9}, None),
    ]
    deleted, cleared = told(session, Debezium(columns={"id": "int"}, table="public.t"), messages)
    assert (deleted["id"], deleted[GONE], deleted[CLEARS]) == (7, True, False), "its key tells which row"
    assert (cleared["id"], cleared[GONE], cleared[CLEARS], cleared[REFUSED]) == (None, False, True, None)
    assert deleted[ORDER] < cleared[ORDER]
    every = told(session, Debezium(columns={"id": "int"}, table="public.*"), messages)
    assert [event["id"] for event in every] == [7, None, 8]
    plain = [Message(key=as_bytes(key), value=as_bytes(value)) for key, value in messages[:-2]]
    mine = Debezium(columns={"id": "int"}).of_one_table(plain)
    assert mine.only == "d.public.t"
    *_, strange = told(session, mine, messages)
    assert strange[REFUSED] == "it is of another table than the newest event; name one by `table:`"


def test_flattened_rows(session):
    added = {"__op": "u", "__table": "t", "__source_connector": "postgresql", "__source_sequence": '["1","5"]'}
    messages = [
        (None, {"id": 1, "schema": "a", "payload": "b", **added}),
        (None, {"id": 2, "schema": "a", "payload": None, **added, "__deleted": "true", "__op": "d"}),
        (None, {"id": 3, "schema": HOLDER, "payload": None, **added}),
        (None, {"id": 4, "schema": "a", "payload": None}),
        (None, "[1"),
        ({"id": 2}, None),
    ]
    stated = {"id": "int", "schema": "text", "payload": "text"}
    came, gone, unlogged, strange, broken = told(session, Flat(columns=stated), messages)
    assert (columns(came), came[REFUSED]) == ({"id": 1, "schema": "a", "payload": "b"}, None)
    assert (gone[GONE], gone["id"], gone[REFUSED]) == (True, 2, None)
    assert unlogged[UNKNOWN] == ["schema"]
    assert "where it stands" in strange[REFUSED]
    assert broken[REFUSED] == "it is no whole JSON object"
    inside = [{"field": "id", "type": "int32"}, *({"field": name, "type": "string"} for name in added)]
    wrapped = {"schema": {"type": "struct", "fields": inside}, "payload": {"id": 5, **added}}
    (found,) = told(session, Flat(table="t"), [(None, wrapped)])
    assert (columns(found), found[REFUSED]) == ({"id": 5}, None)


def test_avro_by_the_schemas_of_a_registry(session, monkeypatch):
    source = {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
        {"name": "connector", "type": "string"}, {"name": "sequence", "type": ["null", "string"]}]}}  # fmt: skip
    whole = {**ENVELOPE, "fields": [*ENVELOPE["fields"], source]}
    place = bytes([2 * 10]) + b"postgresql" + b"\x02" + bytes([2 * 9]) + b'["1","5"]'
    monkeypatch.setattr(avro, "fetched", lambda _, numbers: {n: json.dumps(whole) for n in numbers if n == 7})
    messages = [(None, INSERT + place), (None, DELETE + place), (None, b"\x00\x00\x00\x00\x09ab"), (None, INSERT)]
    came, gone, unknown, cut = told(session, DebeziumAvro().asking("http://127.0.0.1:1"), messages)
    assert columns(came) == {
        "id": 42,
        "name": "éb",
        "amount": Decimal("10.50"),
        "at": "1970-01-01 00:00:00.000001",
        "ratio": 1.0,
    }
    assert gone[REFUSED] == "column at: its value does not fit timestamp_ntz"
    assert unknown[REFUSED] == "the registry does not know its schema 9"
    assert unknown[RAW] == base64.b64encode(messages[2][1]).decode()
    assert cut[REFUSED] == "it is not written by its schema"
