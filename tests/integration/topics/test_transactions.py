"""Whole transactions of topics: by hand, through a real broker, and while a database is written to."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from integration.topics.conftest import drop_slot, event, until

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(900)]


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
    assert (plan.outcome, "its end has not been reported yet; 1 messages are waiting for it" in plan.notes[0]) == (
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


@dataclass
class Bank:
    """Accounts whose balances always come to nothing, and a hand that moves money between them."""

    url: str
    seed: int
    accounts: int = 60
    transactions: int = 400
    moved: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(default_factory=threading.Thread)

    def make(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)")
            admin.execute("CREATE TABLE journal (id serial PRIMARY KEY, note text)")
            admin.execute(f"INSERT INTO accounts SELECT g, 0 FROM generate_series(1, {self.accounts}) g")

    @contextmanager
    def open(self) -> Iterator[None]:
        self._thread = threading.Thread(target=self._move)
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join(60)

    def finished(self) -> None:
        """Returns once all has been moved."""
        while self._thread.is_alive():
            self._thread.join(60)

    def _move(self) -> None:
        chance = random.Random(self.seed)
        with psycopg.connect(self.url) as connection:
            for _ in range(self.transactions):
                if self._ended.wait(0.05):
                    return
                hands = sorted(chance.sample(range(1, self.accounts + 1), chance.choice((2, 2, 3, 20))))
                for each in hands[1:]:
                    connection.execute("UPDATE accounts SET balance = balance + 1 WHERE id = %s", (each,))
                    connection.execute("INSERT INTO journal (note) VALUES ('moved')")
                taken = (len(hands) - 1, hands[0])
                connection.execute("UPDATE accounts SET balance = balance - %s WHERE id = %s", taken)
                if chance.random() < 0.1:
                    connection.rollback()
                else:
                    connection.commit()
                    self.moved += 1


@pytest.mark.postgres
def test_every_version_of_the_table_is_a_state_between_transactions(topics, connect, postgres):
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - told when it fails
    bank = Bank(url=postgres.create_database(), seed=seed)
    bank.make()
    prefix, topic = "bank", "bank.public.accounts"
    topics.kafka.create_topic(topic, partitions=3)
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        "database.hostname": "127.0.0.1",
        "database.user": "postgres",
        "database.password": "none",
        "database.port": str(postgres.port),
        "database.dbname": bank.url.rpartition("/")[2],
        "table.include.list": "public.accounts,public.journal",
        "topic.prefix": prefix,
        "slot.name": prefix,
        "provide.transaction.metadata": "true",
        "poll.interval.ms": "50",
    }
    connect.start(prefix, config)
    try:
        until(lambda: sum(topics.kafka.ends(topic, (0, 1, 2)).values()) >= bank.accounts, "the snapshot does not come")
        with bank.open():
            until(lambda: f"{prefix}.transaction" in topics.kafka.topics(), "no transaction is told")
            stream = topics.stream(topic, source={"transactions": f"{prefix}.transaction"}, max_events=300)
            topics.loaded(stream)
            connect.stop(prefix)
            connect.start(prefix, config)
            topics.loaded(stream)
            bank.finished()
        with psycopg.connect(bank.url) as shop:
            wanted = shop.execute("SELECT id, balance FROM accounts ORDER BY id").fetchall()

        def equal():
            error = topics.run(stream).error
            assert error is None, error
            return topics.rows(stream) == wanted

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
        drop_slot(postgres, prefix)
