"""Whole transactions of topics: by hand, through a real broker, and while a database is written to."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from integration.topics.conftest import drop_slot, event, until

if TYPE_CHECKING:
    from support.kafka import KafkaServer
    from support.mariadb import MariadbServer
    from support.postgres import PostgresServer

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(900)]
ACCOUNTS = 60


def of(transaction: str, order: int, number: int, name: str, lsn: int) -> tuple[Any, Any]:
    """An event of a transaction, as the connector of PostgreSQL writes it."""
    key, value = event("u", {"id": number, "name": name, "amount": None}, lsn)
    place = {"id": f"{transaction}:{lsn}", "total_order": order, "data_collection_order": order}
    value["payload"]["transaction"] = place
    return key, value


def end(transaction: str, events: int) -> tuple[Any, Any]:
    counts = [{"data_collection": "public.orders", "event_count": events}]
    told = {"status": "END", "id": f"{transaction}:999", "event_count": events, "data_collections": counts}
    return {"id": told["id"]}, told


def names(topics, stream) -> dict[int, str]:
    return {row[0]: row[1] for row in topics.rows(stream)}


def test_a_load_has_all_events_of_a_transaction_or_none(topics):
    topic, told = topics.kafka.create_topic(partitions=2), topics.kafka.create_topic()
    stream = topics.stream(topic, source={"transactions": told}, max_events=4)
    topics.kafka.send(topic, of("7", 1, 1, "a", 10), of("8", 1, 1, "b", 20))
    topics.kafka.send(topic, of("7", 2, 2, "a", 11), partition=1)
    topics.kafka.send(told, end("7", 2))
    held = topics.loaded(stream)
    assert names(topics, stream) == {1: "a", 2: "a"}
    assert held.position["state"]["offsets"] == {"0": 1, "1": 1}
    assert "transaction 8 holds back the end of the log since" in held.notes[0]
    with topics.workspace.project(topics.spark) as project:
        (plan,) = project.plan(stream).streams
    assert (plan.outcome, "its end has not been reported yet; 1 message is waiting for it" in plan.notes[0]) == (
        "unchanged",
        True,
    )
    topics.kafka.send(topic, *(of("8", 2 + n, 2 + n, "b", 21 + n) for n in range(6)), partition=1)
    topics.kafka.send(told, end("8", 7))
    whole = topics.loaded(stream)
    assert names(topics, stream) == dict.fromkeys(range(1, 8), "b")
    assert "one transaction of 7 messages exceeds max_events (4) and is loaded as a whole" in whole.notes
    # The connector starts anew amid what the table has.
    topics.kafka.send(topic, of("8", 6, 6, "b", 25), of("8", 7, 7, "b", 26), partition=1)
    topics.kafka.send(told, end("8", 7))
    again = topics.loaded(stream)
    assert (again.rows_superseded, again.notes) == (2, ())
    assert topics.run(stream).outcome == "unchanged"


TYPED = {
    "name varchar(200)": "'né€'",
    "amount decimal(10,2)": "-1.25",
    "changed datetime(6)": "'2025-01-31 12:00:00.123456'",
    "note mediumtext": "repeat('x', 9000)",
    "day date": "'2025-02-28'",
    "at time(6)": "'10:00:00.000001'",
    "doc json": "'{\"a\": 1.50}'",
    "raw varbinary(20)": "x'dead00'",
    "big bigint unsigned": "18446744073709551615",
    "ok tinyint": "1",
    "ratio double": "1 / 3",
}


@dataclass(kw_only=True)
class Bank:
    """Accounts whose balances always come to nothing, and a hand that moves money between them.

    Args:
        connect: opens a connection in autocommit.
        config: of the connector that follows the accounts.
        typed: by declaration, what further columns of an account hold.
    """

    connect: Callable[[], Any]
    url: str
    namespace: str
    config: Mapping[str, str]
    typed: Mapping[str, str] = field(default_factory=dict)
    seed: int = field(default_factory=lambda: random.randrange(10**6))
    moved: int = 0

    @contextmanager
    def session(self) -> Iterator[Callable[..., None]]:
        with self.connect() as connection, connection.cursor() as cursor:
            yield cursor.execute

    def make(self) -> None:
        declared = "".join(f", {each}" for each in self.typed)
        names = "".join(f", {each.split()[0]}" for each in self.typed)
        values = "".join(f", {each}" for each in self.typed.values())
        with self.session() as execute:
            execute(f"CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL{declared})")
            execute("CREATE TABLE journal (id serial PRIMARY KEY, note text)")
            for number in range(1, ACCOUNTS + 1):
                execute(f"INSERT INTO accounts (id, balance{names}) VALUES ({number}, 0{values})")

    @contextmanager
    def open(self) -> Iterator[threading.Thread]:
        ended = threading.Event()
        thread = threading.Thread(target=self._move, args=(ended,))
        thread.start()
        try:
            yield thread
        finally:
            ended.set()
            thread.join(60)

    def _move(self, ended: threading.Event) -> None:
        chance = random.Random(self.seed)
        with self.session() as execute:
            for _ in range(400):
                if ended.wait(0.05):
                    return
                hands = sorted(chance.sample(range(1, ACCOUNTS + 1), chance.choice((2, 2, 3, 20))))
                execute("BEGIN")
                for each in hands[1:]:
                    execute(f"UPDATE accounts SET balance = balance + 1 WHERE id = {each}")
                    execute("INSERT INTO journal (note) VALUES ('moved')")
                execute(f"UPDATE accounts SET balance = balance - {len(hands) - 1} WHERE id = {hands[0]}")
                given_up = chance.random() < 0.1
                execute("ROLLBACK" if given_up else "COMMIT")
                self.moved += not given_up


@pytest.fixture
def of_postgresql(postgres: PostgresServer) -> Iterator[Bank]:
    name = postgres.create_database().rpartition("/")[2]
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "database.user": "postgres",
        "database.password": "none",
        "database.port": str(postgres.port),
        "database.dbname": name,
        "table.include.list": "public.accounts,public.journal",
        "slot.name": "bank",
    }
    yield Bank(connect=lambda: postgres.connect(name), url=postgres.url(name), namespace="public", config=config)
    drop_slot(postgres, "bank")


@pytest.fixture
def of_mariadb(mariadb: MariadbServer, maria_database: str, kafka: KafkaServer) -> Bank:
    config = {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "database.port": str(mariadb.port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": "77",
        "database.ssl.mode": "disable",
        "database.include.list": maria_database,
        "table.include.list": f"{maria_database}.accounts,{maria_database}.journal",
        "schema.history.internal.kafka.topic": "bank.history",
        "schema.history.internal.kafka.bootstrap.servers": kafka.bootstrap,
        "bigint.unsigned.handling.mode": "precise",
    }
    url = mariadb.url(maria_database)
    connect = partial(mariadb.connect, maria_database)
    return Bank(connect=connect, url=url, namespace=maria_database, config=config, typed=TYPED)


@pytest.mark.parametrize(
    "source", [pytest.param("of_postgresql", marks=pytest.mark.postgres), pytest.param("of_mariadb")]
)
def test_every_version_of_the_table_is_a_state_between_transactions(topics, connect, request, source):
    bank, prefix = request.getfixturevalue(source), source.replace("_", "-")
    topic, ends = f"{prefix}.{bank.namespace}.accounts", f"{prefix}.transaction"
    print(f"seed {bank.seed}")  # noqa: T201 - told when it fails
    bank.make()
    topics.kafka.create_topic(topic, partitions=3)
    config = {
        "database.hostname": "127.0.0.1",
        "topic.prefix": prefix,
        "provide.transaction.metadata": "true",
        "poll.interval.ms": "50",
        **bank.config,
    }
    connect.start(prefix, config)
    try:
        until(lambda: sum(topics.kafka.ends(topic, (0, 1, 2)).values()) >= ACCOUNTS, "the snapshot does not come")
        with bank.open() as moving:
            until(lambda: ends in topics.kafka.topics(), "no transaction is told")
            stream = topics.stream(
                topic,
                source={"transactions": ends, "database": "shop", "table": "accounts"},
                connections={"shop": bank.url},
                max_events=300,
            )
            topics.loaded(stream)
            connect.stop(prefix)
            connect.start(prefix, config)
            topics.loaded(stream)
            until(lambda: not moving.is_alive(), "money is moved for ever")

        def equal():
            error = topics.run(stream).error
            assert error is None, error
            with topics.workspace.project(topics.spark) as project:
                (found,) = project.verify(stream, level="rows").streams
            return found.equal and found.source_rows == found.target_rows == ACCOUNTS

        until(equal, "the tables do not become equal", seconds=300)
        assert bank.moved > 50
        table = topics.workspace.table(f"shop.{stream}")
        sums = [
            sum(table.scan(snapshot_id=each.snapshot_id).to_arrow()["balance"].to_pylist())
            for each in table.metadata.snapshots
        ]
        assert len(sums) > 3
        assert set(sums) == {0}, "money that was on its way"
    finally:
        connect.stop(prefix)
