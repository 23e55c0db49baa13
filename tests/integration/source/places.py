"""The databases that run here, as tests of sources use them: statements, tables of literals, and a source over one."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pytest

from tidegate import plugins
from tidegate.core.ids import Connection
from tidegate.sources.database import Database

if TYPE_CHECKING:
    from tidegate.core.ports.dialect import Connectable

MARKS = {
    "mariadb": pytest.mark.slow,
    "postgresql": pytest.mark.postgres,
    "snowflake": pytest.mark.slow,
    "trino": pytest.mark.servers,
}
NAMES = itertools.count()


@dataclass(frozen=True, kw_only=True)
class Place:
    """An empty database, or on a shared server a part of one.

    Args:
        run: executes statements in a session of somebody else.
    """

    kind: str
    url: str
    run: Callable[..., Any]

    @property
    def connection(self) -> Connection:
        return Connection(name="shop", url=self.url)

    @property
    def dialect(self) -> Connectable:
        found = plugins.dialect_of(self.kind)()
        assert found.kind == self.kind
        return found

    def table(self, columns: str, *rows: str) -> str:
        """A new table, with rows of literals; its name."""
        name = f"hard_{next(NAMES)}"
        inserts = [f"INSERT INTO {name} VALUES {', '.join(f'({row})' for row in rows)}"] if rows else []
        if self.kind == "snowflake":  # which takes no expressions in VALUES
            name = name.upper()
            inserts = [f"INSERT INTO {name} SELECT {row}" for row in rows]
        self.run(f"CREATE TABLE {name} ({columns})", *inserts)
        return name

    def source(self, table: str | None = None, **options: Any) -> Database:
        if table is not None:
            options["table"] = table
        return Database(connection=self.connection, **options)

    def of(self, columns: str, /, *rows: str, **options: Any) -> Database:
        """A source over a new table."""
        return self.source(self.table(columns, *rows), **options)


def at(*kinds: str) -> pytest.MarkDecorator:
    """Runs a test at each of these databases, by the fixture `place`."""
    marked = [pytest.param(kind, marks=[MARKS[kind]] if kind in MARKS else []) for kind in kinds]
    return pytest.mark.parametrize("place", marked, indirect=True)


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """What the fixture `place` gives."""
    match kind:
        case "sqlite" | "duckdb":
            file = folder / f"shop.{kind}"
            return Place(kind=kind, url=f"{kind}:///{file}", run={"sqlite": _sqlite, "duckdb": _duckdb}[kind](file))
        case "postgresql":
            url = request.getfixturevalue("pg_url")
            return Place(kind=kind, url=url, run=_postgresql(url))
        case "mariadb":
            server, name = request.getfixturevalue("mariadb"), request.getfixturevalue("maria_database")
            return Place(
                kind=kind, url=server.url(name), run=lambda *statements: server.run(*statements, database=name)
            )
        case _:
            server = request.getfixturevalue(f"{kind}_server")
            return Place(kind=kind, url=server.url() if kind == "trino" else server.url, run=server.run)


def _sqlite(file: Path) -> Callable[..., None]:
    def run(*statements: str) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return run


def _duckdb(file: Path) -> Callable[..., None]:
    def run(*statements: str) -> None:
        with duckdb.connect(str(file)) as connection:
            connection.execute("SET TimeZone = 'America/New_York'")
            for statement in statements:
                connection.execute(statement)

    return run


def _postgresql(url: str) -> Callable[..., None]:
    def run(*statements: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    return run
