"""What Spark makes of messages as each connector and each envelope writes them."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pytest

from support.envelopes import HOLDER, PLACE_IN_LOG, as_bytes, bare, columns, golden, told
from support.schema_registry import registry_of
from tidegate.core.log import CLEARS, RAW, REFUSED, UNKNOWN, Message
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.debezium_avro import DebeziumAvro
from tidegate.envelopes.flat import UNNAMED, Flat
from tidegate.spark.dataframe_ops import DELETED, ORDER
from unit.envelopes.test_avro import DELETE, ENVELOPE, INSERT

pytestmark = [pytest.mark.spark]


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
        "id": 1, "s": 2, "b": 3, "n": Decimal("10.50"), "n0": Decimal(7), "nn": "1.25",
        "big": "123456789012345678901234567890.123", "r": 1.5, "d": 2.5, "ok": True, "dt": "2025-01-31",
        "ts": "2025-01-31 12:00:00.123456", "ts3": "2025-01-31 12:00:00.123",
        "tz": "2025-01-31 10:00:00.123456",
        "tm": "12:00:00.500000", "tm3": "12:00:00.500000", "ttz": "10:00:00Z", "tx": "héé", "vc": "x", "ch": "ab   ",
        "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "j": '{"a": 1}', "jb": '{"b": 2}', "by": b"\xde\xad\xbe\xef",
        "m": "ok", "ai": [1, 2], "at": ["a", "b"], "ip": "10.0.0.1", "bt": "1010", "b1": True, "rg": "[1,5)",
        "iv": 86_400_000_000, "mo": Decimal("12.30"),
    }  # fmt: skip
    assert (snapshot[REFUSED], snapshot[RAW], snapshot[DELETED], snapshot[UNKNOWN]) == (None, None, False, [])
    # A key that changed: both events have one place in the log, and the old key ends first.
    assert [(event["id"], event[DELETED]) for event in (gone, came)] == [(2, True), (5, False)]
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
        "id": 1, "ti": -1, "t1": 1, "su": 65535, "iu": 4_294_967_295, "bu": -1, "n": Decimal("10.50"), "f": 1.5,
        "d": 2.5, "dt": "2025-01-31", "tm": "-12:00:00.500000", "t0": "12:00:00.000000", "dtm": "2025-01-31 12:00:00",
        "dt6": "2025-01-31 12:00:00.123456", "ts": "2025-01-31 17:00:00.123456", "y": 2025, "vc": "héé", "tx": "tx",
        "bl": b"\xde\xad\xbe\xef", "vb": b"\x00\xff", "e": "b", "st": "x,y", "b1": True, "b9": "100000001",
        "j": '{"a": 1}',
    }  # fmt: skip
    assert columns(snapshot) == expected
    assert (gone[DELETED], gone["id"], came["id"]) == (True, 1, 7)
    assert snapshot[ORDER] < gone[ORDER] < came[ORDER]
    assert told(session, Debezium(table="other.t"), golden("mariadb")) == []


SOURCES = {
    # A row of a snapshot, whose place in the log is the last one, and a change after it. How changes are ordered among
    # themselves is in `property/test_event_orders.py`.
    "postgresql": [{"lsn": "900", "sequence": '[null,"900"]'}, {"lsn": "30", "sequence": '["9","30"]'}],
    "mysql": [{"file": "bin.000100", "pos": 9, "row": 0}, {"file": "bin.000009", "pos": 100, "row": 0}],
    "sqlserver": [
        {"commit_lsn": "0000002c:00000f98:0003", "change_lsn": None},
        {"commit_lsn": "00000020:00000f98:0003", "change_lsn": "0000001A:00000f98:0002", "event_serial_no": 1},
    ],
    "oracle": [{"scn": "900"}, {"scn": "50", "commit_scn": "99", "rs_id": "0x01", "ssn": 0}],
    "mongodb": [{"ts_ms": 9000, "ord": 1}, {"ts_ms": 999, "ord": 2}],
}


def test_a_change_is_newer_than_a_row_of_a_snapshot_for_every_connector(session):
    messages = [
        (None, {"op": operation, "after": {"id": 1}, "source": {"connector": connector, **place}})
        for connector, places in SOURCES.items()
        for operation, place in zip("ru", places, strict=True)
    ]
    messages.append((None, {"op": "c", "after": {"id": 1}, "source": {"connector": "spanner", "lsn": 1}}))
    messages.append((None, {"op": "c", "after": {"id": 1}, "source": {"connector": "postgresql", "lsn": 1}}))
    *found, strange, without = told(session, Debezium(columns={"id": "int"}), messages)
    orders = [event[ORDER] for event in found]
    assert None not in orders
    assert [read < changed for read, changed in zip(orders[::2], orders[1::2], strict=True)] == [True] * len(SOURCES)
    assert "its position" in strange[REFUSED]
    assert "its position" in without[REFUSED], "never by the row's own place alone"


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
    assert (deleted["id"], deleted[DELETED], deleted[CLEARS]) == (7, True, False), "its key tells which row"
    assert (cleared["id"], cleared[DELETED], cleared[CLEARS], cleared[REFUSED]) == (None, False, True, None)
    assert deleted[ORDER] < cleared[ORDER]
    every = told(session, Debezium(columns={"id": "int"}, table="public.*"), messages)
    assert [event["id"] for event in every] == [7, None, 8]
    assert every[1][CLEARS]
    assert "one of the tables that `table: public.*` stands for" in every[1][REFUSED], "rows of the others stay"
    plain = [Message(key=as_bytes(key), value=as_bytes(value)) for key, value in messages[:-2]]
    mine = Debezium(columns={"id": "int"})
    *_, strange = told(session, mine.of_table(mine.table_of(plain, None)), messages)
    assert strange[REFUSED] == "it is not of table d.public.t, as the others are; name one in full with `table:`"


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
    assert (gone[DELETED], gone["id"], gone[REFUSED]) == (True, 2, None)
    assert unlogged[UNKNOWN] == ["schema"]
    assert "its position" in strange[REFUSED]
    assert broken[REFUSED] == "it is not a complete JSON object"
    inside = [{"field": "id", "type": "int32"}, *({"field": name, "type": "string"} for name in added)]
    wrapped = {"schema": {"type": "struct", "fields": inside}, "payload": {"id": 5, **added}}
    other = {"id": 6, **added, "__table": "other"}
    found, broken = told(session, Flat(table="t"), [(None, wrapped), (None, other), (None, "[1")])
    assert (columns(found), found[REFUSED]) == ({"id": 5}, None)
    assert broken[REFUSED] == "it is not a complete JSON object", "whose event it is, nobody can tell"


FLATTENED = {"__op": "u", "__source_connector": "postgresql", "__source_sequence": '["1","5"]'}


def flattened(key, **named):
    return None, {"id": key, **FLATTENED, **{f"__{name}": value for name, value in named.items()}}


def test_flattened_rows_of_another_table_are_refused_as_far_as_they_name_it(session):
    messages = [
        flattened(1, db="d", schema="shop1", table="orders"),
        flattened(2, db="d", schema="shop2", table="orders"),
        flattened(3, table="orders"),
        flattened(4),
    ]
    envelope = Flat(columns={"id": "int"}).of_table("d.shop1.orders")
    found = told(session, envelope, messages)
    reason = "it is not of table d.shop1.orders, as the others are; name one in full with `table:`"
    assert [event[REFUSED] for event in found] == [None, reason, None, None]


def test_a_flattened_row_that_does_not_name_its_table_fully_is_no_other_tables(session):
    messages = [
        flattened(1, schema="public", table="orders"),
        flattened(2, schema="old", table="orders"),
        flattened(3, table="orders"),
        flattened(4, db="d", table="orders"),
        flattened(5),
        flattened(6, db="public", table="orders", source_connector="mysql"),
        flattened(7, db="other", table="orders", source_connector="mysql"),
    ]
    found = told(session, Flat(columns={"id": "int"}, table="public.orders"), messages)
    assert [event["id"] for event in found] == [1, 3, 4, 5, 6]
    named, *unnamed, _ = found
    assert named[REFUSED] is None
    assert {event[REFUSED] for event in unnamed} == {UNNAMED.format("public.orders")}
    whole = told(session, Flat(columns={"id": "int"}, table="d.public.orders"), messages[:1])
    assert "as fully as `table: d.public.orders`" in whole[0][REFUSED]


BARE = "it has fields that are none of the columns: new, other; state them under `columns:` of the envelope"
WITHIN_LOAD = (
    "it has fields that are none of the columns: new; they came and went within this load, so let it take fewer events "
    "(`max_events`)"
)


@pytest.mark.parametrize("flat", [False, True])
def test_a_field_that_is_no_column_is_never_left_out_in_silence(session, flat):
    def message(op, row, *names):
        if flat:
            row = {**row, **FLATTENED, "__op": op}
            inside = [{"field": name, "type": "int32"} for name in (*names, *FLATTENED)]
            return row if not names else {"schema": {"type": "struct", "fields": inside}, "payload": row}
        event = bare(op, **{"before" if op == "d" else "after": row})
        fields = [{"field": "after", "fields": [{"field": name, "type": "int32"} for name in names]}]
        return event if not names else {"schema": {"type": "struct", "fields": fields}, "payload": event}

    envelope = (Flat if flat else Debezium)(columns={"id": "int"})
    known = [Message(key=None, value=as_bytes(message("c", {"id": 1}, "id")))]
    messages = [
        message("c", {"id": 1}),
        message("u", {"id": 2, "new": None, "other": 1}),
        message("d", {"id": 3, "new": 1}),
        message("c", {"id": 4}, "id"),
        message("c", {"id": 5, "new": 1}, "id", "new"),
    ]
    found = told(session, envelope.of_columns(known, None), [(None, each) for each in messages])
    assert [event[REFUSED] for event in found] == [None, BARE, None, None, WITHIN_LOAD]
    assert [event[REFUSED] for event in told(session, envelope, [(None, each) for each in messages])] == [None] * 5


def test_avro_by_the_schemas_of_a_registry(session):
    source = {"name": "source", "type": {"type": "record", "name": "Source", "fields": [
        {"name": "connector", "type": "string"}, {"name": "sequence", "type": ["null", "string"]}]}}  # fmt: skip
    whole = {**ENVELOPE, "fields": [*ENVELOPE["fields"], source]}
    place = bytes([2 * 10]) + b"postgresql" + b"\x02" + bytes([2 * 9]) + b'["1","5"]'
    messages = [(None, INSERT + place), (None, DELETE + place), (None, b"\x00\x00\x00\x00\x09ab"), (None, INSERT)]
    came, gone, unknown, cut = told(session, DebeziumAvro().with_registry(registry_of({7: whole})), messages)
    assert columns(came) == {
        "id": 42,
        "name": "éb",
        "amount": Decimal("10.50"),
        "at": "1970-01-01 00:00:00.000001",
        "ratio": 1.0,
    }
    assert gone[REFUSED] == "column at: its value does not fit timestamp_ntz"
    assert unknown[REFUSED] == "the registry has no schema 9"
    assert unknown[RAW] == base64.b64encode(messages[2][1]).decode()
    assert cut[REFUSED] == "it does not match its schema"


DIGITS = [base64.b64encode(bytes([byte])).decode() for byte in HOLDER.encode()]
PLACEHOLDERS = {
    "text": HOLDER,
    "bytea": base64.b64encode(HOLDER.encode()).decode(),
    "hstore as JSON": f'{{"{HOLDER}":"{HOLDER}"}}',
    "hstore as a map": {HOLDER: HOLDER},
    "text[]": [HOLDER],
    "bytea[]": [base64.b64encode(HOLDER.encode()).decode()],
    "uuid[]": ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"],
    "int[]": list(HOLDER.encode()),
    "float8[]": [float(byte) for byte in HOLDER.encode()],
    "boolean[]": [True] * len(HOLDER),
    "numeric(9,0)[]": DIGITS,
    "numeric[]": [{"scale": 0, "value": digit} for digit in DIGITS],
}
"""As Debezium's `UnchangedToastedPlaceholder` writes an unchanged value of each type."""


def test_a_column_that_is_absent_is_no_placeholder(session):
    """Neither says a value; but of a new row the placeholder stands for one that is lost."""
    said = [*({"id": 1, "name": each} for each in PLACEHOLDERS.values()), {"id": 1}, {"id": 1, "name": None}]
    operations = {"u": None, "c": "REPLICA IDENTITY", "r": "REPLICA IDENTITY"}
    messages = [(None, bare(op, after=after)) for op in operations for after in said]
    found = told(session, Debezium(columns={"id": "bigint", "name": "text"}), messages)
    for of_op, wanted in zip((found[n :: len(said)] for n in range(len(said))), [*PLACEHOLDERS, "", None], strict=True):
        for event, reason in zip(of_op, operations.values(), strict=True):
            assert event[UNKNOWN] == ([] if wanted is None else ["name"]), wanted
            assert (reason in event[REFUSED]) if wanted and reason else (event[REFUSED] is None), wanted
            assert event["name"] is None
    shop = bare("u", after={"id": 1, "name": [HOLDER, HOLDER]})
    assert told(session, Debezium(columns={"id": "bigint", "name": "text"}), [(None, shop)])[0][UNKNOWN] == []


UPPER = "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"
OF_SQL_SERVER = {
    "connector": "sqlserver",
    "commit_lsn": "00000025:00000448:0003",
    "change_lsn": "00000025:00000448:0002",
}
ROW = {"id": 1, "x": UPPER, "y": UPPER}
ADDED = {"__op": "c", "__table": "t", **{f"__source_{name}": value for name, value in OF_SQL_SERVER.items()}}


@pytest.mark.parametrize(
    ("envelope", "message"),
    [(Debezium, bare(source=OF_SQL_SERVER, after=ROW)), (Flat, ROW | ADDED)],
    ids=["debezium", "flat"],
)
def test_a_uuid_is_in_small_letters_whoever_wrote_it(session, envelope, message):
    """SQL Server's connector writes capital ones as a text; a database's fingerprint has small ones."""
    stated = {"id": "bigint", "x": "uuid", "y": "text"}
    (event,) = told(session, envelope(columns=stated), [(None, message)])
    assert (event[REFUSED], event["x"], event["y"]) == (None, UPPER.lower(), UPPER)
