"""No row is lost at the edge of a window, however its cursor is set and whatever kind of transaction writes it.

Sources x ways to set a cursor x kinds of transactions. Writers of one kind run on tables that differ only in how the
cursor is set, while windows are read from them, each from the last bound to the next, with the statements of a probe
and nothing else of the engine. In the end every committed row has to be in exactly one window.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from tidegate.core.bounds import SequenceBound, TimeBound
from tidegate.core.ids import Connection
from tidegate.errors import EdgeUnknown, SourceUnavailable
from tidegate.sources.database import Database

SEQUENCE = "sequence"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """How long is written, by how many writers a table."""

    seconds: float
    writers: int


class Server(Protocol):
    """A database of its own for one kind of transaction."""

    def url_of(self, table: str) -> str:
        """Where a table is."""

    def rows(self, table: str) -> list[int]:
        """The ids that are committed."""


@dataclass(kw_only=True)
class Loader:
    """Window after window of one table."""

    url: str
    table: str
    at: str
    bound: str | None = None
    seen: Counter[int] = field(default_factory=Counter)
    windows: int = 0

    def load(self) -> None:
        """Reads from the last bound to the next; nothing where no bound is known."""
        with suppress(EdgeUnknown, SourceUnavailable):  # the latter of a DuckDB file that is being written
            self._load()

    def _load(self) -> None:
        wait = timedelta(milliseconds=200)
        bound = SequenceBound(column="id", wait=wait) if self.at == "id" else TimeBound(column=self.at)
        with Database(connection=Connection(name="shop", url=self.url), table=self.table).probe(bound=bound) as probe:
            edge = probe.edge()
            if edge.upto is None or edge.upto == self.bound:
                return
            low = [f"{self.at} > {self._value(self.bound)}"] if self.bound is not None else []
            where = " AND ".join([*low, f"{self.at} <= {self._value(edge.upto)}"])
            self.seen.update(row[0] for row in probe.session.rows(f"SELECT id FROM {self.table} WHERE {where}"))
            self.bound = edge.upto
            self.windows += 1

    def _value(self, text: str) -> str:
        if self.at == "id":
            return text
        return f"'{text}'" if self.url.startswith(("mariadb", "sqlite")) else f"'{text}+00'::timestamptz"


@dataclass(kw_only=True)
class Result:
    """What became of the rows of one combination."""

    source: str
    cursor: str
    kind: str
    rows: int
    lost: int
    twice: int
    windows: int


RESULTS: list[Result] = []


def run(server: Server, kind: str, writers: Sequence[Callable[[], None]], tables: Mapping[str, str]) -> None:
    """Windows of every table while all the writers write, and after them, until every row had its time."""
    loaders = {
        cursor: Loader(url=server.url_of(table), table=table, at="id" if cursor == SEQUENCE else "seen")
        for cursor, table in tables.items()
    }
    with ThreadPoolExecutor(len(writers) + 1) as pool:
        writing = [pool.submit(write) for write in writers]
        while not all(one.done() for one in writing):
            for loader in loaders.values():
                loader.load()
        for one in writing:
            one.result()
    time.sleep(2.2)  # the last bound is a second before the clock, in whole seconds at some sources
    for loader in loaders.values():
        loader.load()
    found = []
    for cursor, loader in loaders.items():
        source = loader.url.partition(":")[0]
        rows = set(server.rows(loader.table))
        twice = sum(1 for times in loader.seen.values() if times > 1)
        lost = len(rows - loader.seen.keys())
        found.append(
            Result(
                source=source, cursor=cursor, kind=kind, rows=len(rows), lost=lost, twice=twice, windows=loader.windows
            )
        )
    RESULTS.extend(found)
    assert all(each.rows for each in found), found
    assert not [each for each in found if each.lost or each.twice]


@dataclass(kw_only=True)
class Writing:
    """One writer of one table.

    Args:
        pause: a moment of at most so many seconds.
    """

    table: str
    until: float
    random: random.Random
    number: int = 0

    @property
    def going(self) -> bool:
        return time.monotonic() < self.until

    def pause(self, most: float) -> None:
        time.sleep(self.random.random() * most)

    @property
    def insert(self) -> str:
        self.number += 1
        return f"INSERT INTO {self.table} (n) VALUES ({self.number})"


def until(fulfilled: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not fulfilled():
        assert time.monotonic() < deadline
        time.sleep(0.1)
