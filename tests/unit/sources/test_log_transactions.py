"""A topic beside the one that tells of transactions: how far a load goes, who holds it back, and what is told of it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from tidegate.core.ids import Connection
from tidegate.core.log import Message
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.rows import Rows
from tidegate.errors import ConfigError, SourceError
from tidegate.sources.change_log.topic import brokers as kafka
from tidegate.sources.change_log.topic.log import TopicLog, TopicLogOptions

EVENTS = Connection(name="events", kafka="127.0.0.1:9092")
NOW = int(time.time() * 1000)
LONG_AGO = NOW - 7_200_000


def event(transaction, order, table="orders", op="u"):
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table}
    told = {"id": f"{transaction}:{order + 77}", "total_order": order, "data_collection_order": order}
    return {"op": op, "source": source, "after": {"id": order}, "transaction": told if transaction else None}


def end(transaction, **tables):
    counts = [{"data_collection": f"public.{name}", "event_count": count} for name, count in tables.items()]
    return {"status": "END", "id": f"{transaction}:9", "event_count": sum(tables.values()), "data_collections": counts}


def begin(transaction):
    return {"status": "BEGIN", "id": f"{transaction}:1", "event_count": None, "data_collections": None}


class Brokers(kafka.Brokers):
    """Brokers that hold messages in lists: of each topic one a partition, each with its time."""

    def __init__(self, topics, begins=None):
        super().__init__(EVENTS)
        self.topics = topics
        self.begins = begins or {}
        self.asked = []

    def topic(self, name):
        if name not in self.topics:
            return None
        ends = {part: len(log) for part, log in enumerate(self.topics[name])}
        begins = {part: self.begins.get(name, 0) for part in ends}
        return kafka.TopicOffsets(cluster="c1", topic=f"id of {name}", begins=begins, ends=ends, cleanup="delete")

    def scan(self, topic, spans):
        for part, (start, stop) in spans.items():
            self.asked.append((topic, part, start, stop))
            for offset in range(start, stop):
                value, at = self.topics[topic][part][offset]
                message = Message(key=None, value=None if value is None else json.dumps(value).encode())
                yield [kafka.ReadMessage(part, offset, at, message)]

    def offset_at(self, topic, moment):
        return next((n for n, (_, at) in enumerate(self.topics[topic][0]) if at >= moment), None)

    def add(self, topic, *values, part=0, at=NOW):
        self.topics[topic][part] += [(value, at) for value in values]


def brokers_of(*parts, ends=(), at=NOW, **options):
    topics = {"shop.public.orders": [[(each, at) for each in part] for part in parts]}
    return Brokers({**topics, "shop.transaction": [[(each, at) for each in ends]]}, **options)


def ask(brokers, state=None, most=None, **options):
    given = {"connection": EVENTS, "topic": "shop.public.orders", "envelope": Debezium(columns={"id": "bigint"})}
    log = TopicLog(TopicLogOptions(**{**given, "transactions": "shop.transaction", **options}), None)
    log._brokers = brokers
    return log.after(state, most=most), log.notes()


def offsets(span):
    return tuple(span.state["offsets"].values())


def test_a_transaction_waits_for_its_end_and_for_all_its_events_of_this_topic():
    brokers = brokers_of([event(1, 1), event(2, 1)], [event(1, 3)], ends=[begin(1), end(1, orders=2, items=1)])
    span, notes = ask(brokers)
    assert offsets(span) == (1, 1)
    assert (span.events, span.behind) == (2, 0), "a run does not drain what is held back"
    (note,) = notes
    assert note.startswith("transaction 2 holds back the end of the log since 20")
    assert note.endswith("Z: its end has not been reported yet; 1 message is waiting for it")
    waiting, notes = ask(brokers, span.state)
    assert waiting.slices == ()
    assert "transaction 2" in notes[0]
    brokers.add("shop.transaction", end(2, orders=2))
    span, notes = ask(brokers, span.state)
    assert span.slices == ()
    assert "1 of its 2 events have arrived" in notes[0]
    brokers.add("shop.public.orders", event(2, 2), part=1)
    span, notes = ask(brokers, span.state | waiting.state)
    assert (offsets(span), notes) == ((2, 2), ())


def test_a_limit_cuts_no_transaction_and_one_that_is_larger_is_taken_whole():
    big = [event(2, n) for n in range(1, 9)]
    log = [event(1, 1), *big, event(3, 1), event(4, 1)]
    ends = [end(1, orders=1), end(2, orders=8), end(3, orders=1), end(4, orders=1)]
    brokers = brokers_of(log, ends=ends)
    first, notes = ask(brokers, most=3)
    assert (offsets(first), first.events, first.behind) == ((1,), 1, 10)
    assert not [note for note in notes if "holds" in note], "a limit is no holder"
    second, notes = ask(brokers, first.state, most=3)
    assert offsets(second) == (9,)
    assert "one transaction of 8 messages exceeds max_events (3) and is loaded as a whole" in notes
    assert max(stop for topic, _, _, stop in brokers.asked if topic == "shop.public.orders") == 11
    third, notes = ask(brokers, second.state, most=3)
    assert (offsets(third), third.behind, notes) == ((11,), 0, ())


def test_what_is_told_again_neither_cuts_nor_waits():
    brokers = brokers_of([event(1, 1), event(1, 2), event(2, 1)], ends=[end(1, orders=2)])
    first, _ = ask(brokers)
    assert offsets(first) == (2,)
    # The connector starts anew amid the first transaction, and tells the second one from its beginning.
    brokers.add("shop.public.orders", event(1, 2), event(2, 1))
    brokers.add("shop.transaction", end(1, orders=2), begin(2))
    again, notes = ask(brokers, first.state)
    assert again.slices == (), "the second one's first event holds what comes after it"
    assert "transaction 2" in notes[0]
    brokers.add("shop.public.orders", event(2, 2))
    brokers.add("shop.transaction", end(2, orders=2))
    whole, notes = ask(brokers, first.state)
    assert (offsets(whole), notes) == ((6,), ())
    brokers.add("shop.public.orders", event(2, 2))
    brokers.add("shop.transaction", end(2, orders=2))
    rest, notes = ask(brokers, whole.state)
    assert (offsets(rest), notes) == ((7,), ()), "a part of one that the table has whole"


def test_a_part_that_is_told_again_much_later_is_known_by_where_its_transaction_ended():
    brokers = brokers_of(
        [event(1, 1), event(1, 2)], [event(2, 1)], ends=[end(1, orders=2), end(2, orders=1)], at=LONG_AGO
    )
    first, _ = ask(brokers)
    assert first.state["transactions"] == {"topic": "id of shop.transaction", "ended": 1, "latest": ["1", "2"]}
    brokers.add("shop.public.orders", event(1, 2), at=LONG_AGO)
    brokers.add("shop.transaction", end(1, orders=2), at=LONG_AGO)
    forgotten = {**first.state, "transactions": {**first.state["transactions"], "latest": []}}
    span, notes = ask(brokers, forgotten)
    assert (offsets(span), notes) == ((3, 1), ())
    set_back = {**forgotten, "transactions": {**forgotten["transactions"], "ended": -1}}
    assert ask(brokers, set_back)[0].slices == (), "it is that place which tells"


def test_events_that_were_taken_out_on_the_way_are_not_waited_for_once_a_later_transaction_is_there():
    brokers = brokers_of([event(1, 1)], ends=[end(1, orders=3)], at=LONG_AGO)
    held, notes = ask(brokers)
    assert held.slices == ()
    assert "1 of its 3 events" in notes[0]
    brokers.add("shop.public.orders", event(2, 1), at=LONG_AGO)
    brokers.add("shop.transaction", end(2, orders=1), at=LONG_AGO)
    span, notes = ask(brokers)
    assert (offsets(span), notes) == ((2,), ())


def test_a_position_amid_a_transaction_is_gone_on_from():
    brokers = brokers_of([event(1, 1), event(1, 2), event(2, 1)], ends=[end(1, orders=2), end(2, orders=1)])
    state = {"cluster": "c1", "topic": "id of shop.public.orders", "offsets": {"0": 1}}
    span, notes = ask(brokers, state)
    assert (offsets(span), notes) == ((3,), ())
    anew = {**state, "transactions": {"topic": "another", "ended": 99, "latest": []}}
    assert offsets(ask(brokers, anew)[0]) == (3,), "places of a topic that was made anew mean nothing"


def test_ends_that_retention_took_are_not_waited_for():
    log = [event(1, 1), event(2, 1)]
    brokers = brokers_of(log, ends=[end(1, orders=1)], at=LONG_AGO, begins={"shop.transaction": 1})
    brokers.add("shop.transaction", end(3, orders=1))
    brokers.add("shop.public.orders", event(4, 1))
    span, notes = ask(brokers)
    assert offsets(span) == (2,)
    assert "transaction 4" in notes[0]


def test_what_is_no_event_of_a_transaction_holds_nothing():
    log = [event(None, 1, op="r"), None, event(None, 2), event(None, 3)]
    span, notes = ask(brokers_of(log))
    assert offsets(span) == (4,)
    (note,) = notes
    assert note.startswith(
        "2 events have no transaction, so their transactions may be read in part (provide.transaction.metadata="
    )


def test_events_of_other_tables_in_the_topic_do_not_count():
    log = [event(1, 1), event(1, 2, table="items")]
    brokers = brokers_of(log, ends=[end(1, orders=1, items=7)])
    brokers.topics["all"] = brokers.topics["shop.public.orders"]
    options = {"topic": "all", "envelope": Debezium(table="public.orders", columns={"id": "bigint"})}
    assert offsets(ask(brokers, **options)[0]) == (2,)
    held, notes = ask(brokers, topic="all", envelope=Debezium(table="public.*", columns={"id": "bigint"}))
    assert held.slices == ()
    assert "2 of its 8 events" in notes[0]


def test_only_what_may_be_needed_is_read_of_the_ends():
    brokers = brokers_of([event(n, 1) for n in range(5)][1:], ends=[end(n, orders=1) for n in range(5)][1:])
    first, _ = ask(brokers)
    brokers.asked.clear()
    brokers.add("shop.public.orders", event(9, 1))
    brokers.add("shop.transaction", end(9, orders=1))
    ask(brokers, first.state)
    assert [each for each in brokers.asked if each[0] == "shop.transaction"] == [("shop.transaction", 0, 4, 5)]
    brokers.asked.clear()
    ask(brokers, {**first.state, "offsets": {"0": 5}})
    assert brokers.asked == [], "nothing waits, nothing is read"


def test_what_is_wrong_is_told():
    with pytest.raises(SourceError, match=r"there is no topic shop\.none, which should report transactions"):
        ask(brokers_of([event(1, 1)]), transactions="shop.none")
    brokers = brokers_of([event(1, 1)])
    brokers.topics["shop.transaction"] *= 2
    with pytest.raises(ConfigError, match="has 2 partitions, but the order of transactions is known only with one"):
        ask(brokers)
    good = TopicLogOptions(connection=EVENTS, topic="t", envelope=Debezium(columns={"id": "bigint"}))
    with pytest.raises(ConfigError, match="does not report transactions"):
        replace(good, envelope=Rows(), transactions="t")
