"""A PostgreSQL server that goes on from a copy of before is refused, however far it has been written since."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from integration.source.loading import Careful, Shop, shop_of
from support.postgres import PostgresServer
from tidegate.core.ids import Connection
from tidegate.core.position import Position
from tidegate.errors import HistoryGone
from tidegate.sources.database import Database
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


SETTINGS = {"fsync": "on", "synchronous_commit": "on", "autovacuum": "off", "checkpoint_timeout": "1h"}
WATERMARK, SEQUENCE = Watermark(column="updated_at"), Sequence(column="id")


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    server = PostgresServer.new(**SETTINGS)
    yield server
    server.drop()


def write(url: str, rows: int, *, updates: int = 0) -> None:
    shop = Shop(url=url)
    writer = shop.session()
    for number in range(rows):
        writer.execute("INSERT INTO orders (name) VALUES (%s)", [f"row {number} of {time.time_ns()}"])
    for number in range(updates):
        writer.execute("UPDATE orders SET updated_at = now() WHERE id = %s", [number + 1])
    shop.close()
    time.sleep(1.1)


def set_back(loader: Careful) -> None:
    """The load stops; without a word of the clock, which has gone past where it was."""
    with pytest.raises(HistoryGone, match="restored") as gone:
        loader.load()
    assert gone.value.context["restored"]
    assert "went back in time" not in gone.value.message


@pytest.mark.parametrize(
    ("strategy", "stopped", "checkpoint"),
    [(WATERMARK, "immediate", True), (SEQUENCE, "fast", False)],
    ids=["volume snapshot", "cold copy"],
)
def test_copy_put_back_and_written_further_is_noticed(server, strategy, stopped, checkpoint) -> None:
    url = server.create_database()
    with shop_of(url):
        loader = Careful(url=url, strategy=strategy)
        write(url, 20)
        loader.load()
        server.stop(stopped)
        copy = server.folder / "copy"
        server.copy_to(copy)
        server.start(**SETTINGS)
        write(url, 20, updates=5)
        loader.load()
        assert len(loader.rows) == 40
        server.stop(stopped)
        server.put_back(copy)
        server.start(**SETTINGS)
        write(url, 60, updates=10)
        if checkpoint:
            with server.connect() as admin:
                admin.execute("CHECKPOINT")
        set_back(loader)
        write(url, 60)
        set_back(loader)


def test_restart_and_ordinary_work_is_no_other_history(server) -> None:
    """Updates and deletes of the newest rows, an emptied table, vacuum and rewriting leave a history what it is."""
    url = server.create_database()
    with shop_of(url) as shop:
        loader = Careful(url=url, strategy=WATERMARK)
        write(url, 20)
        loader.load()
        for number, statement in enumerate(
            (
                "UPDATE orders SET updated_at = now()",
                "DELETE FROM orders WHERE id > 10",
                "VACUUM FULL orders",
                "VACUUM FREEZE orders",
                "ALTER TABLE orders ALTER updated_at TYPE timestamptz(3)",
                "TRUNCATE orders",
            )
        ):
            for session in shop.sessions:
                session.close()
            with server.connect(url.rsplit("/", 1)[1]) as admin:
                admin.execute(statement)
            server.stop(("fast", "immediate")[number % 2])
            server.start(**SETTINGS)
            write(url, 3 + number)
            loader.load()
        assert {key: row[1] for key, row in shop.rows().items()}.items() <= {
            key: row[1] for key, row in loader.rows.items()
        }.items()


def test_server_that_goes_on_is_asked_no_more_than_when_it_started(server) -> None:
    url = server.create_database()
    with shop_of(url):
        write(url, 3)
        source = Database(connection=Connection(name="shop", url=url), table="orders")
        with source.probe() as probe:
            known = probe.witness(("updated_at",), None)
            position = Position(
                sequence=1, load_id="a", kind="watermark", clock=probe.clock(), state={"cursor": ["updated_at"]}
            )
            assert probe.restore_reason(replace(position, witness=known)) is None
            assert probe.restore_reason(replace(position, witness={**known, "xid": known["xid"] + 1000})) is None
            assert not probe.follows()
