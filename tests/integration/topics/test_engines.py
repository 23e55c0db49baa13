"""What is made of single events of MySQL, SQL Server, Oracle and MongoDB, and which of them nobody may guess."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from support.engines import HOLDER, KEPT, MYSQL, ORACLE, SQLSERVER, Event
from support.envelopes import bare, columns, told
from tidegate.core.log import REFUSED, UNKNOWN, Message
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.flat import Flat
from tidegate.errors import ConfigError
from tidegate.spark.dataframe_ops import DELETED, ORDER

pytestmark = [pytest.mark.spark]

LOST = "its `source` does not give its position in the database's log"
DOCUMENT = '{"_id": {"$oid": "596e275826f08b2730779e1f"},"n": {"$numberLong": "9007199254740993"},"x": 1.50}'
OID = '{"$oid": "596e275826f08b2730779e1f"}'
SCHEMA = {
    "type": "struct",
    "fields": [{"type": "string", "optional": True, "name": "io.debezium.data.Json", "field": "after"}],
}


def change(op: str, document: str | None, seconds: float, ord_: int = 1, **more: Any) -> dict[str, Any]:
    source = {"version": "3.3.2.Final", "connector": "mongodb", "name": "shop", "db": "shop", "collection": "orders"}
    source |= {"ts_ms": round(seconds * 1000), "ord": ord_, "snapshot": "true" if op == "r" else "false"}
    payload = {"before": None, "after": document, "updateDescription": None, "source": source, "op": op, **more}
    return {"schema": SCHEMA, "payload": payload}


def key(id_: str) -> dict[str, Any]:
    return {"schema": {"type": "struct", "fields": []}, "payload": {"id": id_}}


def test_documents_of_mongodb_are_kept_as_the_connector_writes_them(session):
    messages = [
        (key(OID), change("r", DOCUMENT, 2_000)),
        (key(OID), change("u", DOCUMENT.replace("1.50", "2"), 1_000, 2)),
        (key(OID), change("d", None, 1_000, 10)),
        (key(OID), None),
        (key('"1234"'), change("c", '{"_id": "1234","text": "é\\u0000 1.0 }"}', 1_001)),
        ({"id": "1234"}, change("c", '{"_id": 1234}', 1_001)),
    ]
    read, changed, gone, text, number = told(session, Debezium(), messages)
    assert [event[REFUSED] for event in (read, changed, gone, text, number)] == [None] * 5
    assert columns(read) == {"id": OID, "document": DOCUMENT}
    assert columns(changed) == {"id": OID, "document": DOCUMENT.replace("1.50", "2")}
    assert (gone["id"], gone[DELETED]) == (OID, True)
    assert read[ORDER] < changed[ORDER] < gone[ORDER], "a row of a snapshot is older, and 10 is more than 2"
    assert columns(text) == {"id": '"1234"', "document": '{"_id": "1234","text": "é\\u0000 1.0 }"}'}
    assert number["id"] == "1234", "a number, and another document than that with the text"


def test_what_a_transaction_of_mongodb_did_to_a_document_is_not_ordered_by_guess(session):
    """An insert and a delete have one place; with the metadata of transactions they have two."""
    place = (key("1"), change("c", '{"_id": 1}', 7)), (key("1"), change("d", None, 7))
    came, gone = told(session, Debezium(), place)
    assert came[ORDER] == gone[ORDER]
    numbered = [
        (name, {**each, "payload": {**each["payload"], "transaction": {"id": "x:1", "total_order": number}}})
        for number, (name, each) in enumerate(place, 9)
    ]
    came, gone = told(session, Debezium(), numbered)
    assert came[ORDER] < gone[ORDER]


def test_what_mongodb_does_not_tell_is_refused(session):
    described = {"removedFields": None, "updatedFields": '{"n": 1}', "truncatedArrays": None}
    messages = [
        (key("1"), change("u", None, 7, updateDescription=described)),
        (None, change("c", '{"_id": 1}', 7)),
        (key("1"), change("c", '{"_id": 1,"n": NaN}', 7)),
        (key("1"), change("c", "[1]", 7)),
        (key("1"), change("c", '{"_id": 1}', 7.25)),
        (key("1"), change("r", '{"_id": 1}', 7.25)),
    ]
    found = [event[REFUSED] for event in told(session, Debezium(), messages)]
    assert found == [
        "it has no document; the connector has to write it whole (`capture.mode.full.update.type=post_image`)",
        "its message has no key with the `id` of the document",
        "its document is not a JSON object",
        "its document is not a JSON object",
        "only a server clock orders it, which may go back (`wall_clock: true` in `envelope:` trusts it)",
        None,
    ]
    trusting = [event[REFUSED] for event in told(session, Debezium(wall_clock=True), messages)]
    assert trusting == [*found[:4], None, None]
    value = json.dumps(messages[-1][1]).encode()
    with pytest.raises(ConfigError, match="have no columns"):
        Debezium(columns={"_id": "int"}).schema([Message(key=None, value=value)])
    added = {"_id": 1, "__op": "c", "__source_connector": "mongodb", "__source_ts_ms": 7_000, "__source_ord": 1}
    (flat,) = told(session, Flat(columns={"_id": "int"}), [(None, added)])
    assert flat[REFUSED] == "it is a flattened document of MongoDB; read whole ones with envelope debezium"


def test_a_placeholder_of_oracle_says_unchanged_only_where_lobs_are_captured(session):
    oracle, row = replace(ORACLE, columns={"NOTE": ORACLE.columns["NOTE"]}), {"NOTE": None}
    changes = [("c", 1, row), ("u", 1, {"NOTE": KEPT}), ("c", 2, {"NOTE": KEPT}), ("d", 1, None)]
    events = [Event(op=op, order=(n, 0), key=key, row=each) for n, (op, key, each) in enumerate(changes)]
    messages: list[Any] = [(None, oracle.message(event)) for event in events]
    messages[-1][1]["payload"]["before"]["NOTE"] = HOLDER
    came, changed, renamed, gone = told(session, Debezium(), messages)
    assert (came[REFUSED], gone[REFUSED]) == (None, None)
    assert changed[REFUSED].startswith("column NOTE: its value is missing")
    came, changed, renamed, gone = told(session, Debezium(lob_enabled=True), messages)
    assert [event[REFUSED] for event in (came, changed, gone)] == [None] * 3
    assert changed[UNKNOWN] == ["NOTE"]
    assert "`lob.enabled=true`" in renamed[REFUSED], "of a row that came by this event"


def test_intervals_of_oracle_as_numbers_are_taken_only_if_stated(session):
    field = {"type": "int64", "name": "io.debezium.time.MicroDuration", "field": "FOR"}
    schema = {"type": "struct", "fields": [{"type": "struct", "fields": [field], "field": "after"}]}
    source = {**ORACLE.place(2, 0), "connector": "oracle"}
    message = {"schema": schema, "payload": bare(source=source, after={"FOR": 2_629_800_000_000})}
    with pytest.raises(ConfigError, match="an interval written as a number"):
        Debezium().schema([Message(key=None, value=json.dumps(message).encode())])
    (found,) = told(session, Debezium(columns={"FOR": "bigint"}), [(None, message)])
    assert (found["FOR"], found[REFUSED]) == (2_629_800_000_000, None)


def test_an_event_without_its_place_is_refused(session):
    cases = {ORACLE: ("txSeq", "commit_scn"), SQLSERVER: ("commit_lsn", "change_lsn"), MYSQL: ("file", "pos")}
    places = [
        {**engine.place(2, 0), "connector": engine.name, without: None}
        for engine, names in cases.items()
        for without in ("", *names)
    ]
    found = told(
        session, Debezium(columns={"id": "int"}), [(None, bare(source=each, after={"id": 1})) for each in places]
    )
    assert [event[REFUSED] for event in found] == [None, LOST, LOST] * 3
