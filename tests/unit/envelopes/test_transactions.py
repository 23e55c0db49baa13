"""Of which transaction a message of Debezium is, and what the topic of transactions says."""

from __future__ import annotations

import json

import pytest

from tidegate.core.log import Message
from tidegate.core.transactions import Ending, Member
from tidegate.envelopes import _transactions as transactions
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.flat import Flat

SOURCE = {"connector": "mariadb", "db": "shop", "table": "orders"}
TOLD = {"id": "0-1-7", "total_order": 3, "data_collection_order": 2}


def members(envelope, *values):
    plain = (each if each is None or isinstance(each, bytes) else json.dumps(each).encode() for each in values)
    return envelope.members([Message(key=None, value=value) for value in plain])


@pytest.mark.parametrize("separators", [(",", ":"), (", ", " : ")])
@pytest.mark.parametrize("wrapped", [False, True])
def test_the_place_of_an_event(separators, wrapped):
    event = {"before": None, "after": {"id": 1}, "source": SOURCE, "transaction": TOLD, "op": "u"}
    content = {"schema": {"fields": [{"field": "transaction"}]}, "payload": event} if wrapped else event
    value = json.dumps(content, separators=separators).encode()
    assert members(Debezium(), value) == [Member("0-1-7", 3)]
    assert members(Debezium(table="shop.orders"), value) == [Member("0-1-7", 3)]
    assert members(Debezium(table="shop.items"), value) == [None]


def test_a_row_that_looks_like_a_transaction_is_none():
    fake = {"id": "fake", "total_order": 1, "data_collection_order": 1}
    event = {"after": {"transaction": fake, "text": '"transaction": {}'}, "source": SOURCE, "op": "c"}
    assert members(Debezium(), event | {"transaction": TOLD}) == [Member("0-1-7", 3)]
    # Only a message that tells none beside such a row could be mistaken, and no connector writes one.
    assert members(Debezium(), {"after": {"transaction": {"id": "x"}}, "source": SOURCE, "op": "c"}) == [Member("")]


def test_what_is_no_streamed_event_is_of_no_transaction():
    snapshot = {"after": {"id": 1}, "source": SOURCE, "op": "r", "transaction": None}
    values = (snapshot, snapshot | {"op": "m"}, snapshot | {"op": "c"}, None, b"{", b"[]", b"7")
    assert members(Debezium(), *values) == [None, None, Member(""), None, None, None, None]


def test_messages_of_postgresql_share_the_number_of_the_transaction():
    values = [json.dumps({"transaction": TOLD | {"id": f"799:{lsn}"}, "op": "c"}).encode() for lsn in (5, 6)]
    assert members(Debezium(), *values) == [Member("799", 3)] * 2
    assert transactions.transaction("00000025:00000d08:0025") == "00000025:00000d08:0025"


def test_a_flattened_row_tells_it_by_fields_that_were_added():
    row = {"id": 1, "__op": "u", "__transaction_id": "799:5", "__transaction_total_order": 2, "__db": "shop"}
    row |= {"__table": "orders"}
    assert members(Flat(), row, {"schema": {}, "payload": row}) == [Member("799", 2)] * 2
    assert members(Flat(), {"id": 1, "__op": "r"}, {"id": 1, "__op": "u"}, None) == [None, Member(""), None]
    assert members(Flat(table="shop.items"), row) == [None]


def test_an_end_tells_how_many_events_each_table_has():
    counts = [{"data_collection": "shop.orders", "event_count": 2}, {"data_collection": "shop.items", "event_count": 1}]
    told = {"status": "END", "id": "799:9", "event_count": 3, "data_collections": counts}
    values = [told, {"payload": told}, {**told, "status": "BEGIN"}, {**told, "data_collections": None}, None]
    messages = [Message(key=None, value=None if each is None else json.dumps(each).encode()) for each in values]
    ending = Ending("799", {"shop.orders": 2, "shop.items": 1})
    assert Debezium().endings(messages) == [ending, ending, None, Ending("799", {}), None]


@pytest.mark.parametrize(
    ("table", "only", "taken"),
    [
        ("public.orders", None, True),
        ("shop.public.orders", None, True),
        ("public.o*", None, True),
        ("reorders", None, False),
        (None, "shop.public.orders", True),
        (None, "shop.public.items", False),
        (None, None, False),
    ],
)
def test_tables_are_known_by_the_names_that_ends_give_them(table, only, taken):
    assert transactions.takes(table, only, "public.orders") is taken
