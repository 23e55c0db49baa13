"""A shop on a real PostgreSQL whose commits are on disk before they are answered, and what reads its slot."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from tidegate.core.ids import Connection
from tidegate.core.log import LogSpan
from tidegate.sources.change_log.events import Event
from tidegate.sources.change_log.slot import log, slot
from tidegate.sources.database import Database

SLOT = "tidegate_orders"


SEGMENT = 16 * 1024 * 1024


def write_ahead(session: psycopg.Connection, size: int) -> None:
    """Moves the write-ahead log on by so many bytes: each switch leaves the rest of a segment empty."""
    for _ in range(size // SEGMENT + 1):
        session.execute("select pg_logical_emit_message(false, 'test', 'x')")
        session.execute("select pg_switch_wal()")


@dataclass(kw_only=True)
class SlotShop:
    """One table, its slot, and a session that changes it."""

    url: str
    folder: Path
    session: psycopg.Connection
    table: str = "public.orders"
    publication: str = SLOT
    key: tuple[str, ...] = ("id",)

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.session.execute(statement)

    def rows(self, query: str) -> list[tuple]:
        return self.session.execute(query).fetchall()

    @property
    def options(self) -> slot.SlotOptions:
        return slot.SlotOptions(
            connection=self.connection,
            slot=SLOT,
            table=self.table,
            publication=self.publication,
            key=self.key,
            folder=self.folder,
        )

    @property
    def connection(self) -> Connection:
        return Connection(name="shop", url=self.url)

    @contextmanager
    def log(self) -> Iterator[log.SlotLog]:
        with (
            Database(connection=self.connection, table=self.table).probe() as table,
            log.opened(self.options, table) as found,
        ):
            yield found

    def claim(self, *key: str) -> None:
        self.key = key or self.key
        self.options.claim()

    def after(self, state, most=None) -> LogSpan:
        with self.log() as log:
            return log.after(state, most=most)

    def begun(self):
        """A position after the first load, with nothing behind it that the server itself wrote meanwhile."""
        self.claim()
        state = self.after(None).state
        self.sql("insert into orders (id) values (-1)", "delete from orders where id = -1")
        while not (span := self.after(state)).slices:  # not flushed yet
            time.sleep(0.05)
        self.acknowledge(span.state)
        return span.state

    def read(self, state, most=None) -> tuple[LogSpan, list[Event]]:
        """What lies after a position."""
        with self.log() as log:
            span = log.after(state, most=most)
            return span, [event for part in span.slices for event in log.decoded(part, log.schema())]

    def acknowledge(self, state) -> None:
        self.options.acknowledge(state)

    def confirmed(self) -> str:
        return self.rows(f"select confirmed_flush_lsn::text from pg_replication_slots where slot_name = '{SLOT}'")[0][0]


@pytest.fixture
def shop(pg_url: str, tmp_path: Path) -> Iterator[SlotShop]:
    """Slots go with their database."""
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("set synchronous_commit = on")
        yield SlotShop(url=pg_url, folder=tmp_path, session=session)
