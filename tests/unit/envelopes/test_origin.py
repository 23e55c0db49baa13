"""Whose events they are: tables by their names, and the one that the newest message tells."""

from __future__ import annotations

import json

import pytest

from tidegate.core.log import Message
from tidegate.envelopes import _origin as origin
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.flat import Flat


def test_a_table_is_called_by_its_last_names_or_by_a_pattern():
    assert origin.is_of("public.t", "x") == "(x = 'public.t' OR endswith(x, concat('.', 'public.t')))"
    assert origin.is_of("shop_1.t*", "x") == "(x LIKE 'shop|_1.t%' ESCAPE '|' OR x LIKE '%.shop|_1.t%' ESCAPE '|')"


@pytest.mark.parametrize(
    ("source", "table"),
    [
        ({"connector": "postgresql", "db": "d", "schema": "public", "table": "t"}, "d.public.t"),
        ({"connector": "mysql", "db": "d", "table": "t"}, "d.t"),
        ({"connector": "mongodb", "db": "d", "collection": "c"}, "d.c"),
        (None, None),
    ],
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_newest_message_tells_the_table(source, table, wrapped):
    event = {"op": "c", "source": source}
    value = json.dumps({"payload": event} if wrapped else event).encode()
    older = json.dumps({"op": "c", "source": {"db": "d", "table": "older"}}).encode()
    logical = json.dumps({"op": "m", "source": {"db": "d", "schema": "", "table": ""}}).encode()
    messages = [Message(key=None, value=each) for each in (older, value, b"{", None, logical)]
    assert Debezium().table_of(messages, None) == (table or "d.older")
    assert Debezium().table_of(messages, "d.before") == "d.before"
    assert Debezium(table="d.*").table_of(messages, "d.before") is None, "the project says what is read"
    added = {f"__source_{name}": value for name, value in (source or {}).items()}
    rows = [{"id": 1, "__db": "d", "__table": "older"}, {"id": 1, **added} if table else {"id": 2}]
    flattened = [Message(key=None, value=json.dumps({"payload": row} if wrapped else row).encode()) for row in rows]
    if source is None or "collection" not in source:
        assert Flat().table_of(flattened, None) == (table or "d.older")


@pytest.mark.parametrize(
    ("stated", "before", "only", "own"),
    [
        (None, None, "d.b.t", [False, True, False]),
        ("t", None, "d.b.t", [False, True, False]),
        ("t", "d.a.t", "d.a.t", [True, False, False]),
        ("b.t", "d.a.t", "d.b.t", [False, True, False]),
        ("d2.b.t", "d.b.t", None, [False, False, False]),
        ("*.t", "d.a.t", None, [True, True, False]),
    ],
)
def test_a_name_without_a_star_stands_for_one_table(stated, before, only, own):
    names = [{"schema": schema, "table": "t"} for schema in ("a", "b")]
    sources = [{"connector": "postgresql", "db": "d", **name} for name in names]
    events = [Message(key=None, value=json.dumps({"op": "t", "source": each}).encode()) for each in sources]
    rows = [{"id": 1, **{f"__source_{name}": value for name, value in each.items()}} for each in sources]
    flattened = [Message(key=None, value=json.dumps(each).encode()) for each in rows]
    for envelope, messages in ((Debezium(table=stated), events), (Flat(table=stated), flattened)):
        assert envelope.table_of(messages, before) == only
        assert envelope.of_table(only).own([*messages, Message(key=None, value=None)]) == own
        assert (envelope.of_table("d.c.other").only is None) == (stated is not None), "of a table that was named before"
