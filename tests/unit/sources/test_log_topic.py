"""A log kept in a topic: which offsets are read next, and what stops it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tidegate import config
from tidegate.core.ids import Connection
from tidegate.core.log import Message
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.core.slices import Everything, LogRange
from tidegate.engine.assemble import assemble
from tidegate.envelopes.debezium import Debezium
from tidegate.envelopes.rows import Rows
from tidegate.errors import ConfigError, HistoryGone, SourceError
from tidegate.sources.change_log.topic import brokers as kafka
from tidegate.sources.change_log.topic.log import Start, TopicLog, TopicLogOptions

TWO = kafka.TopicOffsets(cluster="c1", topic="t1", begins={0: 0, 1: 0}, ends={0: 10, 1: 4}, cleanup="delete")
EVENTS = Connection(name="events", kafka="127.0.0.1:9092")
COLUMNS = {"id": "bigint"}


class Brokers(kafka.Brokers):
    """Brokers that hold one topic."""

    def __init__(self, ends):
        super().__init__(EVENTS)
        self.ends = ends
        self.asked = []
        self.scanned = []
        self.content = {}

    def topic(self, _):
        return self.ends

    def scan(self, _topic, spans):
        self.scanned.append(spans)
        for part, (start, stop) in spans.items():
            for offset in range(start, stop):
                value = self.content.get((part, offset), b'{"op": "c"}')
                yield [kafka.ReadMessage(part, offset, offset, Message(key=None, value=value))]

    def written_at(self, _topic, offsets):
        self.asked.append(dict(offsets))
        return datetime.now(UTC) - timedelta(seconds=90)


def log_of(ends, **options) -> TopicLog:
    given = {"connection": EVENTS, "topic": "orders", "envelope": Debezium(columns=COLUMNS), **options}
    log = TopicLog(TopicLogOptions(**given), None)
    log._brokers = Brokers(ends)
    return log


def state_of(ends, **offsets):
    found = {str(part): end for part, end in ends.ends.items()} | {key[1:]: at for key, at in offsets.items()}
    return {"cluster": ends.cluster, "topic": ends.topic, "offsets": found}


def test_a_first_load_takes_every_partition_from_its_beginning():
    span = log_of(TWO).after(None, most=None)
    assert span.slices == (
        LogRange(part="orders:0", after="-1", upto="9"),
        LogRange(part="orders:1", after="-1", upto="3"),
    )
    assert span.state == {"cluster": "c1", "topic": "t1", "offsets": {"0": 10, "1": 4}}
    assert (span.events, span.behind, span.bulk) == (14, 0, False)


def test_a_later_load_goes_on_where_the_position_ends_and_takes_new_partitions_whole():
    more = replace(TWO, begins={0: 5, 1: 0, 2: 0}, ends={0: 12, 1: 4, 2: 3})
    span = log_of(more).after(state_of(TWO), most=None)
    assert [(part.part, part.after, part.upto) for part in span.slices] == [
        ("orders:0", "9", "11"),
        ("orders:2", "-1", "2"),
    ]
    assert span.state["offsets"] == {"0": 12, "1": 4, "2": 3}


def test_nothing_new_is_nothing_to_read():
    assert log_of(TWO).after(state_of(TWO), most=None).slices == ()


def test_a_load_takes_at_most_so_many_events_in_equal_shares_and_says_how_far_it_stays_behind():
    log = log_of(TWO)
    span = log.after(None, most=6)
    assert span.state["offsets"] == {"0": 3, "1": 3}
    assert (span.events, span.taken, span.behind) == (6, 6, 8)
    assert log._brokers.asked == [{0: 3, 1: 3}], "the oldest of those that wait"
    (note,) = log.notes()
    assert note in {"8 events are waiting, the oldest for 90 s", "8 events are waiting, the oldest for 91 s"}
    log.schema()
    assert log._brokers.scanned == [{0: (0, 3), 1: (0, 3)}], "columns are told by what is read, not by what comes after"


def test_the_lag_is_what_lies_after_the_position_and_for_how_long():
    log = log_of(TWO)
    lag = log.lag(state_of(TWO, p0=4, p1=4))
    assert lag.events == 6
    assert lag.seconds in {90, 91}
    assert log._brokers.asked == [{0: 4}], "the oldest of the partition that has any"
    with pytest.raises(HistoryGone):
        log_of(replace(TWO, topic="t2")).lag(state_of(TWO))
    assert log_of(TWO, start=Start.TABLE).lag(None).events is None, "the table is loaded first"


@pytest.mark.parametrize(
    ("waiting", "most", "taken"),
    [
        ({0: 5, 1: 5}, None, {0: 5, 1: 5}),
        ({0: 5, 1: 5}, 10, {0: 5, 1: 5}),
        ({0: 0, 1: 50}, 10, {0: 0, 1: 10}),
        ({0: 1, 1: 50, 2: 50}, 11, {0: 1, 1: 5, 2: 5}),
        ({0: 9, 1: 9, 2: 9}, 1, {0: 0, 1: 0, 2: 1}),
    ],
)
def test_shares(waiting, most, taken):
    found = kafka.spread(waiting, most)
    assert found == taken
    assert sum(found.values()) == min(sum(waiting.values()), most or 10**9), "something is always taken"


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (replace(TWO, cluster="c2"), "a different cluster"),
        (replace(TWO, topic="t2"), "deleted and recreated"),
        (
            replace(TWO, begins={0: 12, 1: 0}, ends={0: 20, 1: 4}),
            r"partition 0 of topic orders has lost 2 unread events",
        ),
        (
            replace(TWO, ends={0: 9, 1: 4}),
            r"partition 0 of topic orders ends at offset 9, before the offset that was already read",
        ),
        (replace(TWO, begins={0: 0}, ends={0: 10}), "no longer has partition 1"),
        (replace(TWO, begins={0: 0, 1: 0, 2: 3}, ends={0: 10, 1: 4, 2: 5}), "partition 2 of topic orders has lost 3"),
    ],
)
def test_a_topic_that_is_not_the_one_that_was_read_stops(now, reason):
    with pytest.raises(HistoryGone, match=reason) as gone:
        log_of(now).after(state_of(TWO), most=None)
    back = "ends at offset" in reason  # more events would hide this, so the stream is told to stay where it is
    assert gone.value.context.get("restored", False) is back


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_is_refused(policy):
    with pytest.raises(ConfigError, match=f"topic orders is compacted \\(cleanup.policy={policy}\\)") as refused:
        log_of(replace(TWO, cleanup=policy)).after(state_of(TWO), most=None)
    assert "--entity-name orders --add-config cleanup.policy=delete" in refused.value.hint


def test_a_topic_whose_configuration_may_not_be_read_is_read_with_a_note():
    log = log_of(replace(TWO, cleanup=None))
    assert log.after(None, most=None).events == 14
    assert "(DescribeConfigs)" in log.notes()[0]


def test_a_beginning_that_is_lost_is_taken_only_when_that_is_said():
    cut = replace(TWO, begins={0: 0, 1: 2})
    with pytest.raises(HistoryGone, match=r"lost its beginning \(partition 1 begins at offset 2\)"):
        log_of(cut).after(None, most=None)
    span = log_of(cut, start=Start.EARLIEST).after(None, most=None)
    assert [part.after for part in span.slices] == ["-1", "1"]


def test_the_table_is_loaded_first_and_its_events_from_before_that_on():
    span = log_of(replace(TWO, begins={0: 3, 1: 4}), start=Start.TABLE).after(None, most=5)
    assert (span.slices, span.bulk) == ((Everything(),), True)
    assert span.state["offsets"] == {"0": 10, "1": 4}


def test_rows_of_the_table_have_its_columns_whatever_its_events_have():
    own = Schema(columns=(Column(name="id", type=BIGINT), Column(name="beside", type=BIGINT)))

    class Table:
        def schema(self):
            return own

    log = log_of(TWO, start=Start.TABLE)
    log._table = Table()
    log.after(None, most=None)
    assert log.schema() == own


def test_a_topic_that_is_not_there():
    with pytest.raises(SourceError, match="there is no topic orders at connection 'events'"):
        log_of(None).after(None, most=None)


def test_a_table_that_can_be_asked_says_its_types():
    class Table:
        def schema(self):
            return Schema(columns=(Column(name="id", type=BIGINT, nullable=False),))

    log = log_of(TWO, envelope=Debezium())
    log._table = Table()
    assert log.schema() == Table().schema()
    with pytest.raises(ConfigError, match="the columns are unknown"):
        log_of(TWO, envelope=Debezium()).schema()


def test_a_server_that_was_restored_is_found_by_the_table_beside_the_topic():
    class Table:
        def clock(self):
            return 7

    log = log_of(TWO)
    assert log.clock() is None
    log._table = Table()
    assert log.clock() == 7


def test_a_login_of_one_client_is_a_login_of_the_other():
    options = {"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"}
    options |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "app", "sasl.password": 'a"b\\c'}
    connection = replace(EVENTS, options=options)
    found = kafka.for_spark(connection)
    assert found["kafka.sasl.jaas.config"] == (
        'org.apache.kafka.common.security.scram.ScramLoginModule required username="app" password="a\\"b\\\\c";'
    )
    assert (found["kafka.ssl.truststore.location"], found["kafka.ssl.truststore.type"]) == ("/ca.pem", "PEM")
    assert 'a"b' not in repr(connection)


def project(folder, source, connections):
    streams = {
        "orders": {"source": source, "target": "lake.shop.orders", "key": ["id"], "strategy": "cdc", "write": "merge"}
    }
    return config.from_dict({"connections": connections, "streams": streams}, folder)


def assembled(found):
    (stream,) = assemble.streams(found, assemble.formats(found), assemble.Choice())
    return stream


KAFKA = {"events": {"kafka": "127.0.0.1:9092"}}
TOPIC = {"connection": "events", "topic": "orders", "envelope": "debezium"}


@pytest.mark.parametrize(
    ("source", "connections", "reason"),
    [
        ({**TOPIC, "connection": "shop"}, {"shop": "sqlite:///shop.db"}, "is not a Kafka connection"),
        ({"topic": "orders", "envelope": "debezium"}, KAFKA, "a topic needs `connection:`"),
        ({"path": "e.json", "envelope": "rows", "transactions": "t"}, {}, "`transactions:` is only for a topic"),
        ({**TOPIC, "envelope": "rows"}, KAFKA, "a topic holds messages"),
        ({**TOPIC, "path": "events/*.json"}, KAFKA, "needs exactly one of"),
        ({**TOPIC, "settle": "5m"}, KAFKA, "`settle:` is only for files"),
        ({**TOPIC, "start": "table"}, KAFKA, "needs `database:` and `table:`"),
        (TOPIC, {"events": {"kafka": "h:1", "options": {"group.id": "x"}}}, "'group.id' is not known"),
        (TOPIC, {"events": {"kafka": "h:1", "options": {"sasl.username": "x", "sasl.mechanism": "GSSAPI"}}}, "GSSAPI"),
        (TOPIC, {"events": {"kafka": "h:1", "url": "sqlite:///x.db"}}, "needs a `url:`"),
        ({**TOPIC, "envelope": {"kind": "debezium", "columns": {"a": "timestamp as days"}}}, KAFKA, "MicroTimestamp"),
    ],
)
def test_what_a_project_may_not_say(tmp_path, source, connections, reason):
    with pytest.raises(ConfigError, match=reason):
        assembled(project(tmp_path, source, connections))


def test_a_project_names_a_topic_and_its_brokers(tmp_path):
    found = project(tmp_path, TOPIC, {"events": {"kafka": "h:1", "options": {"sasl.password": "hidden-1"}}})
    stream = assembled(found)
    assert stream.source_name == "events: orders"
    assert "hidden-1" not in repr(stream.source)
    assert found.redact("hidden-1") == "***"
    assert any(jar.startswith("org.apache.spark:spark-sql-kafka") for jar in stream.source.jars())
    with pytest.raises(ConfigError, match="holds messages"):
        TopicLogOptions(connection=EVENTS, topic="orders", envelope=Rows())
