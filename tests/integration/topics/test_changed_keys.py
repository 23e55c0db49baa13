"""Updates by which the stream's key changes: the old row is deleted, or the event is refused."""

from __future__ import annotations

from typing import Any

import pytest

from support.engines import MYSQL
from support.envelopes import bare, told
from tidegate.core.log import REFUSED
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.flat import Flat

pytestmark = pytest.mark.spark

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
