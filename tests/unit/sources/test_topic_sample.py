"""Which messages of a topic tell the columns of a load, and whose events they are."""

from __future__ import annotations

import json

import pytest

from tidegate.core.ids import Connection
from tidegate.core.log import Message
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.flat import Flat
from tidegate.errors import ColumnsUnknown
from tidegate.sources.change_log.topic import brokers as kafka
from tidegate.sources.change_log.topic.log import TopicLog, TopicLogOptions

EVENTS = Connection(name="events", kafka="127.0.0.1:9092")


class Brokers(kafka.Brokers):
    """Brokers that hold one topic, a list of messages for each partition."""

    def __init__(self, *parts):
        super().__init__(EVENTS)
        self.parts = parts
        self.scanned = 0

    def topic(self, _):
        ends = {part: len(values) for part, values in enumerate(self.parts)}
        begins = dict.fromkeys(ends, 0)
        return kafka.TopicOffsets(cluster="c1", topic="t1", begins=begins, ends=ends, cleanup="delete")

    def scan(self, _topic, spans):
        for part, (start, stop) in spans.items():
            self.scanned += stop - start
            messages = [Message(key=None, value=value) for value in self.parts[part][start:stop]]
            yield [kafka.ReadMessage(part, start + n, start + n, each) for n, each in enumerate(messages)]

    def written_at(self, *_):
        return None


def message(table, *names):
    fields = [{"field": name, "type": "int64"} for name in names]
    schema = {"fields": [{"field": "after", "fields": fields}]}
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table}
    return json.dumps({"schema": schema, "payload": {"op": "c", "source": source}}).encode()


OWN, FOREIGN = message("orders", "id"), message("items", "id", "price")


def log_of(*parts, **envelope) -> TopicLog:
    log = TopicLog(TopicLogOptions(connection=EVENTS, topic="orders", envelope=Debezium(**envelope)), None)
    log._brokers = Brokers(*parts)
    return log


def state_of(log, **more):
    offsets = {str(part): len(values) for part, values in enumerate(log._brokers.parts)}
    return {"cluster": "c1", "topic": "t1", "offsets": offsets, **more}


@pytest.mark.parametrize("at", [0, 500, 970])
def test_messages_of_other_tables_tell_no_columns(at):
    log = log_of([FOREIGN] * at + [OWN] + [FOREIGN] * (1000 - at), [FOREIGN] * 3, table="public.orders")
    assert log.after(None, most=None).state["offsets"] == {"0": 1001, "1": 3}
    assert log.schema().names == ("id",)
    assert log.after(None, most=None).state["table"] == "shop.public.orders", "of the tables that the project may mean"


def test_where_a_load_has_no_event_of_the_table_earlier_ones_tell_the_columns():
    log = log_of([OWN, *[FOREIGN] * 900], table="public.orders")
    state = state_of(log, offsets={"0": 1})
    assert log.after(state, most=100).state["offsets"] == {"0": 101}
    assert log.schema().names == ("id",)


def test_where_there_are_no_earlier_ones_later_ones_tell_them():
    log = log_of([*[FOREIGN] * 900, OWN], table="public.orders")
    assert log.after(None, most=100).state["offsets"] == {"0": 100}
    assert log.schema().names == ("id",)


def test_a_topic_without_an_event_of_the_table_waits_for_one():
    log = log_of([FOREIGN] * 30, table="public.orders")
    span = log.after(None, most=None)
    assert (span.slices, span.state) == ((), {})
    with pytest.raises(ColumnsUnknown):
        log.schema()
    stated = log_of([FOREIGN] * 30, table="public.orders", columns={"id": "bigint"})
    assert stated.after(None, most=None).state["offsets"] == {"0": 30}, "its columns are known"


def test_the_oldest_messages_of_a_load_tell_columns_that_are_gone_by_its_end():
    first, then = message("orders", "id", "old"), message("orders", "id", "new")
    log = log_of([first, *[then] * 200])
    log.after(None, most=None)
    assert log.schema().names == ("id", "new", "old")
    assert log._brokers.scanned == 40, "a few at both ends"
    log.after(state_of(log, offsets={"0": 1}), most=None)
    assert log.schema().names == ("id", "new")


def test_all_events_are_of_the_table_that_the_position_names():
    log = log_of([OWN] * 30)
    first = log.after(None, most=None)
    assert first.state["table"] == "shop.public.orders"
    log = log_of([*[OWN] * 30, *[FOREIGN] * 30])
    later = log.after(first.state, most=None)
    assert later.state["table"] == "shop.public.orders"
    envelope, messages = log._of_one_table()
    assert (envelope.only, {each.value for each in messages}) == ("shop.public.orders", {OWN})
    assert log.schema().names == ("id",)
    log = log_of([*[OWN] * 30, *[FOREIGN] * 30])
    assert log.after(None, most=None).state["table"] == "shop.public.items", "of a first load the newest says it"
    assert log.schema().names == ("id", "price")


def test_which_flattened_messages_may_be_of_the_table():
    def own(envelope, **added):
        row = {"id": 1, **{f"__{name}": value for name, value in added.items()}}
        return envelope.own([Message(key=None, value=json.dumps(row).encode())])[0]

    of_orders = Flat(table="public.orders")
    assert own(of_orders, table="orders", schema="public", db="shop")
    assert own(of_orders, table="orders"), "it does not say of which schema"
    assert own(of_orders)
    assert not own(of_orders, table="items")
    assert not own(of_orders, table="orders", schema="old")
    assert own(Flat().of_table("shop.orders"), table="orders")
    assert own(Flat().of_table("orders"), table="orders", db="shop")
    assert not own(Flat().of_table("shop.orders"), table="orders", db="shop2")
    assert not own(Flat().of_table("shop.orders"), table="items")
    assert Flat().own([Message(key=None, value=None)]) == [False]


def test_the_fields_that_rows_may_have():
    def fields(envelope, *values, table=None):
        return envelope.of_columns([Message(key=None, value=value) for value in values], table).fields

    table = Schema(columns=(Column(name="id", type=BIGINT),))
    assert fields(Debezium(), message("orders", "id", "old"), message("orders", "id", "new")) == ("id", "new", "old")
    assert fields(Debezium(), message("orders", "id", "new"), table=table) == ("id", "new")
    assert fields(Debezium(columns={"id": "bigint"}), b'{"op": "c"}') == ("id",)
    assert fields(Debezium(columns={"id": "bigint"}), b'{"op": "c"}', table=table) is None, (
        "the table tells its columns"
    )
    assert fields(Debezium(), b'{"op": "c"}') is None
