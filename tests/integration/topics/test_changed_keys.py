"""Updates by which the stream's key changes: the old row is deleted, or the event is refused."""

from __future__ import annotations

from typing import Any

import pytest

from support.engines import ENGINES, MYSQL, Event
from support.envelopes import bare, columns, told
from tidegate.core.log import CLEARS, REFUSED
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.flat import Flat
from tidegate.spark.dataframe_ops import DELETED, ORDER

pytestmark = [pytest.mark.spark]

MOVED = (
    "it changes code, which the stream's key has and the key of its message has not, so no event deletes the old row "
    "(`message.key.columns` can name it)"
)
UNSEEN = (
    "it does not tell whether code has changed, which the stream's key has: neither the key of its message nor the row "
    "before has it"
)
FLAT = (
    "it does not tell whether code has changed, which the stream's key has and the key of its message has not; "
    "envelope debezium may, by the row before"
)
KEYED = Debezium(columns={"id": "int", "code": "text"}, key=("code",))


def update(before: Any, op: str = "u") -> dict[str, Any]:
    place = MYSQL.place(2, 0) | {"connector": "mysql", "db": "shop", "table": "orders"}
    return bare(op, source=place, before=before, after={"id": 1, "code": "b"})


def test_an_update_that_changes_the_streams_key_is_refused(session):
    cases: list[tuple[Any, dict[str, Any], str | None]] = [
        ({"id": 1}, update({"id": 1, "code": "b"}), None),
        ({"id": 1}, update({"id": 1, "code": "a"}), MOVED),
        ({"id": 1}, update({"id": 1, "code": "B"}), MOVED),
        ({"id": 1}, update({"id": 1, "code": None}), UNSEEN),
        ({"id": 1}, update({"id": 1}), UNSEEN),
        ({"id": 1}, update(None), UNSEEN),
        ({"id": 1}, update(None, "c"), None),
        ({"id": 1}, update(None, "r"), None),
        ({"code": "b"}, update(None), None),
        ({"id": 1, "code": "b"}, update({"id": 1, "code": "b"}), None),
        (None, update({"id": 1, "code": "b"}), None),
        (None, update({"id": 1, "code": "a"}), MOVED),
        (None, update(None), None),
        ("Struct{id=1}", update(None), None),
        ("1", update({"id": 1, "code": "a"}), MOVED),
    ]
    cases += [
        ({"schema": {"type": "struct"}, "payload": key} if isinstance(key, dict) else key, {"payload": each}, why)
        for key, each, why in cases
    ]
    found = told(session, KEYED, [(key, each) for key, each, _ in cases])
    assert [event[REFUSED] for event in found] == [why for *_, why in cases]


def test_names_of_keys_that_paths_have_marks_for(session):
    envelope = Debezium(columns={"a.b": "int", "c d": "text"}, key=("a.b", "c d"))
    place = MYSQL.place(2, 0) | {"connector": "mysql", "db": "shop", "table": "orders"}
    same, moved = (
        bare("u", source=place, before={"a.b": 1, "c d": old}, after={"a.b": 1, "c d": "x"}) for old in ("x", "y")
    )
    found = told(session, envelope, [({"a.b": 1}, same), ({"a.b": 1}, moved), ({"a.b": 1, "c d": "x"}, moved)])
    assert [event[REFUSED] for event in found] == [None, MOVED.replace("code", "c d"), None]


def test_a_flattened_update_needs_the_streams_key_in_its_message(session):
    envelope = Flat(columns={"id": "int", "code": "text"}, key=("code",))
    added = {"__source_connector": "mysql", "__source_file": "b.000001", "__source_pos": 4, "__source_row": 0}
    row = {"id": 1, "code": "b", **added}
    cases = [
        ({"id": 1}, {**row, "__op": "u"}, FLAT),
        ({"id": 1}, {**row, "__op": "c"}, None),
        ({"code": "b"}, {**row, "__op": "u"}, None),
        (None, {**row, "__op": "u"}, None),
        ({"id": 1}, {**row, "__op": "d", "__deleted": "true"}, None),
    ]
    found = told(session, envelope, [(key, each) for key, each, _ in cases])
    assert [event[REFUSED] for event in found] == [why for *_, why in cases]


@pytest.mark.parametrize("name", ENGINES)
def test_a_key_of_the_table_that_changes_is_a_delete_and_then_an_insert(session, name):
    """Of one place in the log, with a tombstone between them; the key may have been another row's before."""
    engine, row = ENGINES[name], dict.fromkeys(ENGINES[name].columns)
    column, written = engine.key
    events = [
        Event(op=op, order=order, key=key, row=None if op in "dt" else row)
        for op, order, key in (
            ("d", (3, 0), 2), ("c", (3, 0), 3), ("d", (3, 1), 1), ("c", (3, 1), 2), ("d", (4, 0), 3), ("c", (4, 0), 1),
        )
    ]  # fmt: skip
    sent: list[Any] = []
    for event in events:
        key = {"payload": {column: written.written(event.key)}}
        sent += [(key, engine.message(event)), *([(key, None)] if event.op == "d" else [])]
    found = told(session, Debezium(key=(column,)), sent)
    assert [event[REFUSED] for event in found] == [None] * len(events)
    held: dict[int, bool] = {}
    for event in sorted(found, key=lambda each: each[ORDER]):
        held[int(columns(event)[column])] = not event[DELETED]
    assert held == {1: True, 2: True, 3: False}
    assert [(int(columns(event)[column]), event[DELETED]) for event in found] == [(e.key, e.op == "d") for e in events]


@pytest.mark.parametrize("name", ["mysql", "oracle"])
def test_a_truncate_clears_what_came_before_it(session, name):
    engine, row = ENGINES[name], dict.fromkeys(ENGINES[name].columns)
    events = [
        Event(op="r", order=(0, 0), key=1, row=row),
        Event(op="c", order=(2, 0), key=2, row=row),
        Event(op="t", order=(3, 0), key=0, row=None),
        Event(op="c", order=(3, 1), key=3, row=row),
    ]
    read, before, emptied, after = told(session, Debezium(), [(None, engine.message(event)) for event in events])
    assert [event[REFUSED] for event in (read, before, emptied, after)] == [None] * 4
    assert [event[CLEARS] for event in (read, before, emptied, after)] == [False, False, True, False]
    assert read[ORDER] < before[ORDER] < emptied[ORDER] < after[ORDER]
