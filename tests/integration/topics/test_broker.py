"""What a real broker says of its topics: identities, ends, losses, transactions; and what Spark reads of them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from confluent_kafka import Producer

from integration.topics.conftest import event
from tidegate.core.ids import Connection
from tidegate.core.log import ORIGIN, REFUSED
from tidegate.envelopes.debezium import Debezium
from tidegate.errors import ConfigError, HistoryGone, SourceError, SourceUnavailable
from tidegate.sources.change_log import ChangeLog
from tidegate.sources.change_log.topic import brokers as kafka_client
from tidegate.spark.session import Sessions

pytestmark = [pytest.mark.servers, pytest.mark.spark]


def source(kafka, topic, **options):
    connection = Connection(name="events", kafka=kafka.bootstrap)
    return ChangeLog(connection=connection, topic=topic, envelope=Debezium(), **options)


def ask(kafka, topic, state=None, most=None, **options):
    with source(kafka, topic, **options).probe() as probe:
        return probe.after(state, most=most)


def row(number):
    return {"id": number, "name": f"n{number}", "amount": "BBo="}


def read(spark, log, span):
    session = Sessions(borrowed=spark).load_session()
    with log.probe() as probe:
        rows = log.read(session, probe, span.slices, probe.schema())
        found = rows.selectExpr("id", "name", "amount", ORIGIN, REFUSED).collect()
    return sorted((tuple(each) for each in found), key=lambda each: each[3])


def test_losses_stop(kafka):
    topic = kafka.create_topic(partitions=2)
    kafka.send(topic, *(event("c", row(n), 10 + n) for n in range(4)))
    first = ask(kafka, topic)
    assert first.state["offsets"] == {"0": 4, "1": 0}
    assert len(first.state["topic"]) > 10
    assert ask(kafka, topic, first.state).slices == ()
    with pytest.raises(HistoryGone, match="ends at offset 4, before the offset that was already read"):
        ask(kafka, topic, {**first.state, "offsets": {"0": 9, "1": 0}})
    kafka.send(topic, *(event("c", row(n), 20 + n) for n in range(4)))
    kafka.delete_before(topic, 4)
    assert ask(kafka, topic, first.state).events == 4, "nothing is lost that was not read"
    kafka.delete_before(topic, 6)
    with pytest.raises(HistoryGone, match="has lost 2 unread events"):
        ask(kafka, topic, first.state)
    with pytest.raises(HistoryGone, match="has lost its beginning"):
        ask(kafka, topic)
    assert ask(kafka, topic, start="earliest").events == 2
    kafka.delete_topic(topic)
    with pytest.raises(SourceError, match="there is no topic"):
        ask(kafka, topic, first.state)
    kafka.create_topic(topic, partitions=2)
    kafka.send(topic, *(event("c", row(n), 10 + n) for n in range(8)))
    with pytest.raises(HistoryGone, match="deleted and recreated"):
        ask(kafka, topic, first.state)


def test_a_compacted_topic_is_refused(kafka):
    with pytest.raises(ConfigError, match=r"is compacted \(cleanup\.policy=compact\)"):
        ask(kafka, kafka.create_topic(cleanup_policy="compact"))
    assert kafka_client.Brokers(Connection(name="events", kafka=kafka.bootstrap)).topic("none") is None


def test_nobody_answers():
    silent = Connection(name="silent", kafka="127.0.0.1:9", options={"sasl.password": "hidden-1"})
    with pytest.raises(SourceUnavailable, match="connection 'silent' does not answer") as raised:
        kafka_client.Brokers(silent).topic("t")
    assert "hidden-1" not in str(raised.value)


def test_spark_reads_the_offsets_that_were_named_and_nothing_uncommitted(kafka, spark):
    topic = kafka.create_topic(partitions=2)
    kafka.send(topic, *(event("c", row(n), 10 + n) for n in range(3)), (None, None))
    kafka.send(topic, *(event("c", row(n), 10 + n) for n in range(10, 13)), partition=1)
    kafka.send(topic, (None, "no JSON"), partition=1, raw=True)
    log = source(kafka, topic)
    span = ask(kafka, topic, most=4)
    assert (span.events, span.behind) == (4, 4)
    kafka.send(topic, event("c", row(99), 99))
    ten = Decimal("10.50")
    assert read(spark, log, span) == [
        (0, "n0", ten, f"topic {topic}, partition 0, offset 0", None),
        (1, "n1", ten, f"topic {topic}, partition 0, offset 1", None),
        (10, "n10", ten, f"topic {topic}, partition 1, offset 0", None),
        (11, "n11", ten, f"topic {topic}, partition 1, offset 1", None),
    ]
    # One transaction that was given up, one that was committed, one that is open.
    given_up, open_one = (
        Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{topic}-{name}"}) for name in "ab"
    )
    for producer in (given_up, open_one):
        producer.init_transactions(30)
        producer.begin_transaction()
    given_up.produce(topic, value=b"given up", partition=0)
    given_up.flush(30)
    given_up.abort_transaction(30)
    kafka.send(topic, event("c", row(50), 50), **{"transactional.id": f"{topic}-c"})
    open_one.produce(topic, value=b"open", partition=0)
    open_one.flush(30)
    rest = ask(kafka, topic, span.state)
    found = read(spark, log, rest)
    assert sorted(each[0] for each in found if each[4] is None) == [2, 12, 50, 99]
    (refused,) = (each for each in found if each[4] is not None)
    assert refused[3:] == (f"topic {topic}, partition 1, offset 3", "it is not a complete JSON object")
    open_one.abort_transaction(30)
    assert read(spark, log, ask(kafka, topic, rest.state)) == [], "marks of transactions are no events"
