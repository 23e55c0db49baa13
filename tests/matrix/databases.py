"""Tables of real databases, written by their own drivers."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from matrix.histories import ADDED, HELD, HIDDEN, TYPES
from matrix.model import KEY, Event

COLUMNS = {**TYPES, "code": "text not null"}
"""As most databases call them; each says for itself how a key is numbered."""


@dataclass(kw_only=True)
class Database(ABC):
    """One table `t`, changed in one transaction a phase.

    Args:
        hides: it has a column more, which changes after every phase and is not to be read.
    """

    url: str
    keys: set[int] = field(default_factory=set)
    query: bool = False
    hides: bool = True
    phases: int = 0
    columns: tuple[str, ...] = tuple(TYPES)
    types: ClassVar[dict[str, str]] = {}
    mark: ClassVar[str] = "%s"
    quote: ClassVar[str] = '"'
    table: ClassVar[str] = "t"
    before: ClassVar[tuple[str, ...]] = ()
    partitions: ClassVar[tuple[str, ...]] = ()
    suffix: ClassVar[str] = ""

    def connections(self) -> dict[str, Any]:
        return {"shop": {"url": self.url}}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        named = {"query": f"select * from {self.table}"} if self.query else {"table": self.table}
        return {"connection": "shop", **named, **self._read}

    @property
    def _read(self) -> dict[str, Any]:
        return {"exclude": [HIDDEN]} if self.hides else {}

    def make(self) -> None:
        types = {name: self.types[name] for name in self.columns} | ({HIDDEN: "int"} if self.hides else {})
        columns = ", ".join(f"{self._name(name)} {kind}" for name, kind in types.items())
        with self._cursor() as cursor:
            for statement in (*self.before, f"create table t ({columns}){self.suffix}", *self.partitions):
                cursor.execute(statement)

    def change(self, events: Sequence[Event]) -> None:
        here = f" where {self._name(KEY)} = {self.mark}"
        named = ", ".join(map(self._name, self.columns))
        insert = f"insert into t ({named}) values ({', '.join([self.mark] * len(self.columns))})"
        update = "update t set " + ", ".join(f"{self._name(name)} = {self.mark}" for name in self.columns) + here
        with self._cursor() as cursor:
            for event in events:
                if event.row is None:
                    cursor.execute(f"delete from t{here}", (event.key,))
                    self.keys.discard(event.key)
                    continue
                values = tuple(self.value(event.row[name]) for name in self.columns)
                if event.key in self.keys:
                    cursor.execute(update, (*values, event.key))
                else:
                    cursor.execute(insert, values)
                self.keys.add(event.key)
        if self.hides:
            self.phases += 1
            with self._cursor() as cursor:
                cursor.execute(f"update t set {self._name(HIDDEN)} = {self.phases}")

    def widen(self) -> None:
        self.columns = tuple(HELD)
        with self._cursor() as cursor:
            cursor.execute(f"alter table t add column {ADDED} {HELD[ADDED]}")

    def value(self, value: Any) -> Any:
        return value

    def _name(self, name: str) -> str:
        return f"{self.quote}{name}{self.quote}"

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        connection = self.connect()
        try:
            cursor = connection.cursor()
            yield cursor
            connection.commit()
        finally:
            connection.close()

    @abstractmethod
    def connect(self) -> Any:
        """A connection of the database's own driver."""


@dataclass(kw_only=True)
class InOneFile(Database):
    """A database whose backup is a copy of its file."""

    scheme: ClassVar[str]

    @property
    def path(self) -> Path:
        return Path(self.url.removeprefix(f"{self.scheme}:///"))

    @property
    def _copy(self) -> Path:
        return self.path.with_suffix(".backup")

    def save(self) -> None:
        shutil.copyfile(self.path, self._copy)
        self._keys = set(self.keys)

    def restore(self) -> None:
        shutil.copyfile(self._copy, self.path)
        self.keys = self._keys


@dataclass(kw_only=True)
class Sqlite(InOneFile):
    scheme = "sqlite"
    types = {**COLUMNS, "id": "integer primary key autoincrement"}
    mark = "?"

    def connect(self) -> Any:
        return sqlite3.connect(self.path)

    def value(self, value: Any) -> Any:
        if isinstance(value, Decimal):
            return str(value)
        if hasattr(value, "hour"):
            return value.isoformat(" ", "microseconds")
        return value.isoformat() if hasattr(value, "year") else value


@dataclass(kw_only=True)
class DuckDb(InOneFile):
    scheme = "duckdb"
    types = {**COLUMNS, "id": "bigint primary key default nextval('ids')"}
    mark = "?"
    before = ("create sequence ids",)

    def connect(self) -> Any:
        import duckdb

        return duckdb.connect(str(self.path))


@dataclass(kw_only=True)
class Postgresql(Database):
    types = {
        **COLUMNS,
        # Above every key that the histories state, as a sequence is that has generated them.
        "id": "bigint generated by default as identity (start with 1000000) primary key",
        "seen_at": "timestamptz",
    }
    table = "public.t"
    settings: ClassVar[str] = "-c TimeZone=UTC"

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.url, options=self.settings)


@dataclass(kw_only=True)
class Slot(Postgresql):
    """The same, followed by a replication slot for each stream, which shows what is on the disk."""

    settings = "-c TimeZone=UTC -c synchronous_commit=on"

    def source(self, name: str) -> dict[str, Any]:
        slot = f"tidegate_{zlib.crc32(f'{self.url} {name}'.encode()):08x}"
        return {"connection": "shop", "slot": slot, "table": self.table, **self._read}


@dataclass(kw_only=True)
class PostgresqlRanges(Postgresql):
    """The same, partitioned by ranges of the key, the lowest of them without a lower bound."""

    types = {**Postgresql.types, "id": "bigint primary key"}
    suffix = " partition by range (id)"
    partitions = (
        "create table t_low partition of t for values from (minvalue) to (10)",
        "create table t_middle partition of t for values from (10) to (40)",
        "create table t_rest partition of t default",
    )


@dataclass(kw_only=True)
class Mariadb(Database):
    types = {
        **COLUMNS,
        "id": "bigint auto_increment primary key",
        "code": "varchar(10) not null",
        "seen_at": "datetime(6)",
        "created_at": "timestamp(6) null",
        "updated_at": "timestamp(6) null",
    }
    quote = "`"

    def connect(self) -> Any:
        import pymysql
        from sqlalchemy.engine import make_url

        url = make_url(self.url)
        found = {"host": url.host, "port": url.port, "user": url.username, "password": url.password or ""}
        utc = "SET time_zone = '+00:00'"
        return pymysql.connect(**found, database=url.database, charset="utf8mb4", init_command=utc)


PLACES: dict[str, type[Database]] = {"sqlite": Sqlite, "duckdb": DuckDb, "postgresql": Postgresql, "mariadb": Mariadb}
FILES = ("sqlite", "duckdb")
"""Those that are a file; the others are servers."""


def database(kind: str, folder: Path, url: str, *, query: bool) -> Database:
    """A new one: in the folder, or at the server's URL."""
    return PLACES[kind](url=f"{kind}:///{folder / 'shop.db'}" if kind in FILES else url, query=query, hides=not query)
