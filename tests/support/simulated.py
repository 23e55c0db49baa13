"""A server that cannot be installed, at its driver's border: statements in, rows out, errors as the driver raises them.

What a test scripts is answered as scripted: views of a catalog, functions of a snapshot, errors. Every other statement
runs on DuckDB, translated node by node, so that its names, scopes, groups and windows are those of the statement that
the server would get. What it cannot prove: that the server's own functions return what their translation does.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import duckdb
import sqlglot
from sqlglot import exp

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.slices import Everything, Partition
from tidegate.sources.database.probe import DatabaseProbe

Answer = Sequence[Sequence[Any]] | BaseException | Callable[[str], Sequence[Sequence[Any]]]


@dataclass(kw_only=True)
class SimulatedServer:
    """One server.

    Args:
        translated: a statement in DuckDB's words.
        failed: the driver's exception for one of DuckDB's.
        statements: all that were asked, in order.
        connections: what each connection was made with.
    """

    translated: Callable[[str], str]
    failed: Callable[[duckdb.Error], BaseException]
    database: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)
    statements: list[str] = field(default_factory=list)
    connections: list[dict[str, Any]] = field(default_factory=list)
    scripted: list[tuple[re.Pattern[str], Answer]] = field(default_factory=list)
    described: list[tuple[re.Pattern[str], Sequence[Any]]] = field(default_factory=list)
    closed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def on(self, pattern: str, answer: Answer) -> None:
        """From now on the answer to statements in which the pattern is found; the last one that fits counts."""
        self.scripted.insert(0, (re.compile(pattern, re.DOTALL | re.IGNORECASE), answer))

    def describe(self, pattern: str, columns: Sequence[Any]) -> None:
        """What the driver says of the columns of such statements, which return no rows."""
        self.described.insert(0, (re.compile(pattern, re.DOTALL), columns))

    def connect(self, *_args: Any, **arguments: Any) -> SimulatedConnection:
        """The driver's function."""
        self.connections.append(arguments)
        return SimulatedConnection(self)

    def answer(self, sql: str, database: duckdb.DuckDBPyConnection | None = None) -> list[tuple[Any, ...]] | None:
        """The rows of a statement; None of one that returns none.

        Args:
            database: of a connection with transactions of its own.
        """
        self.statements.append(sql)
        for pattern, answer in self.scripted:
            if pattern.search(sql):
                if isinstance(answer, BaseException):
                    raise answer
                rows = answer(sql) if callable(answer) else answer
                return [tuple(row) for row in rows]
        if not re.match(r"\s*(SELECT|WITH|LOCKING)\b", sql, re.IGNORECASE):
            return None
        try:
            with self.lock:  # a connection of DuckDB has one result at a time
                return (database or self.database).execute(self.translated(sql)).fetchall()
        except duckdb.Error as error:
            raise self.failed(error) from error


class SimulatedConnection:
    """What the driver's function returns.

    `names` are those of the columns of the last answer, where they are known.
    """

    def __init__(self, server: SimulatedServer) -> None:
        self.server = server
        self.names: list[str] = []

    def cursor(self) -> SimulatedCursor:
        return SimulatedCursor(self)

    def answer(self, sql: str) -> list[tuple[Any, ...]] | None:
        return self.server.answer(sql)

    def close(self) -> None:
        self.server.closed += 1


class SimulatedCursor:
    """A cursor of DB-API, which is also a context manager."""

    def __init__(self, connection: SimulatedConnection) -> None:
        self.connection = connection
        self.description: list[tuple[Any, ...]] | None = None
        self._rows: list[tuple[Any, ...]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(self, sql: str) -> None:
        server = self.connection.server
        described = next((columns for pattern, columns in server.described if pattern.search(sql)), None)
        if described is not None:
            server.statements.append(sql)
            self._rows, self.description = [], list(described)
            return
        rows = self.connection.answer(sql)
        self._rows = rows or []
        self.description = None if rows is None else [("column", None)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    def close(self) -> None:
        """Nothing is held."""


def in_duckdb(sql: str, dialect: str, made: Callable[[exp.Expression], exp.Expression]) -> str:
    """A statement of that dialect in DuckDB's words.

    Args:
        made: what a node becomes, once the nodes below it have been made; itself where the words are the same.
    """
    root = exp.Tuple(expressions=[sqlglot.parse_one(sql, read=dialect)])
    for node in reversed(list(root.expressions[0].walk())):
        after = made(node)
        if after is not node:
            node.replace(after)
    return root.expressions[0].sql("duckdb")


def partitions_are_slices(probe: DatabaseProbe, grouping: Grouping) -> dict[Partition, Fingerprint]:
    """The partitions of a table, each of which has the fingerprint of the rows that are read for it."""
    found = probe.partitions(grouping)
    assert sum(found.values(), Fingerprint()) == probe.fingerprint(Everything())
    for part, one in found.items():
        assert probe.fingerprint(part) == one
    return found
