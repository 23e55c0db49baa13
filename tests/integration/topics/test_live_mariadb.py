"""The whole way of MariaDB: its binlog, Debezium, Kafka, Tidegate; in the end the tables are equal."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from integration.topics.conftest import until

pytest_plugins = ["support.mariadb"]

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(900)]

TABLE = """CREATE TABLE orders (id int PRIMARY KEY, name varchar(200), amount decimal(10,2), changed datetime(6),
  note mediumtext, day date, at time(6), doc json, raw varbinary(20), big bigint unsigned, ok tinyint, ratio double)"""
INSERT = """INSERT IGNORE INTO orders VALUES (%(id)s, concat('n', %(id)s, 'é€'), %(id)s * 1.25, now(6),
  repeat(md5(%(id)s), 200), '2025-01-01' + INTERVAL %(id)s DAY, '10:00:00.000001', json_object('a', %(id)s), x'dead00',
  18446744073709551615 - %(id)s, %(id)s %% 2, %(id)s / 3)"""
WRITES = (
    INSERT,
    "UPDATE orders SET name = concat(name, '+'), changed = now(6) WHERE id %% 50 = %(id)s %% 50",
    "UPDATE orders SET amount = NULL, ok = 1 - ok WHERE id = %(id)s",
    "DELETE FROM orders WHERE id BETWEEN %(id)s AND %(id)s + 3",
    "UPDATE orders SET id = -id WHERE id = %(id)s AND NOT EXISTS (SELECT * FROM orders o WHERE o.id = -%(id)s)",
    "UPDATE orders SET note = repeat(md5(rand()), 300), raw = NULL WHERE id = %(id)s",
)


@contextmanager
def writing(mariadb, database: str, seed: int) -> Iterator[list[int]]:
    """A hand that writes transactions of one to three statements until the block ends; one in ten is taken back."""
    ended, written = threading.Event(), [0]

    def write() -> None:
        chance = random.Random(seed)
        with mariadb.connect(database) as connection, connection.cursor() as cursor:
            while written[0] < 400 and not ended.wait(0.05):
                connection.begin()
                for _ in range(chance.choice((1, 2, 3))):
                    cursor.execute(chance.choice(WRITES), {"id": chance.randint(1, 300)})
                if chance.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    written[0] += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        ended.set()
        thread.join(60)


def test_mariadb_to_the_lake_through_debezium(topics, connect, mariadb, maria_database):
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - told when it fails
    mariadb.run(TABLE, database=maria_database)
    with mariadb.connect(maria_database) as connection, connection.cursor() as cursor:
        cursor.executemany(INSERT, [{"id": number} for number in range(1, 201)])
    prefix = "maria"
    topic = f"{prefix}.{maria_database}.orders"
    topics.kafka.create_topic(topic, partitions=2)
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(mariadb.port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": "77",
        "database.ssl.mode": "disable",
        "database.include.list": maria_database,
        "table.include.list": f"{maria_database}.orders",
        "topic.prefix": prefix,
        "schema.history.internal.kafka.topic": f"{prefix}.history",
        "schema.history.internal.kafka.bootstrap.servers": topics.kafka.bootstrap,
        "bigint.unsigned.handling.mode": "precise",
        "provide.transaction.metadata": "true",
        "poll.interval.ms": "50",
    }
    connect.start(prefix, config)
    try:
        with writing(mariadb, maria_database, seed) as written:
            until(lambda: f"{prefix}.transaction" in topics.kafka.topics(), "no transaction is told")
            stream = topics.stream(
                topic,
                source={"transactions": f"{prefix}.transaction", "database": "shop", "table": "orders"},
                connections={"shop": mariadb.url(maria_database)},
                max_events=2000,
            )
            topics.loaded(stream)
            connect.stop(prefix)
            connect.start(prefix, config)
            topics.loaded(stream)
        assert written[0] > 50

        def equal():
            error = topics.run(stream).error
            assert error is None, error
            with topics.workspace.project(topics.spark) as project:
                (found,) = project.verify(stream, level="rows").streams
            return found.equal and found.source_rows == found.target_rows > 0

        until(equal, "the tables do not become equal", seconds=300)
    finally:
        connect.stop(prefix)
