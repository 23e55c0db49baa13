"""Connections to Oracle: statements before the snapshot, then one system change number that every connection reads at.

Never writes. Statements for safe bounds never run inside the snapshot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.oracle import catalog
from tidegate.dialects.oracle.address import address_of
from tidegate.dialects.oracle.types import Native
from tidegate.errors import EnvironmentMissing, InternalError

try:
    import oracledb
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Oracle driver is not installed", hint=extras.hint("oracle")) from error
from tidegate.dialects.oracle import safe_bounds as edges
from tidegate.dialects.oracle.errors import refused, translated_errors

# Of all connections, ours and Spark's: a text is the same whatever the client or the database has set.
SETTINGS = (
    "ALTER SESSION SET NLS_LANGUAGE = 'AMERICAN' NLS_TERRITORY = 'AMERICA' NLS_CALENDAR = 'GREGORIAN'",
    "ALTER SESSION SET NLS_SORT = 'BINARY' NLS_COMP = 'BINARY' NLS_NUMERIC_CHARACTERS = '.,'",
    "ALTER SESSION SET TIME_ZONE = 'UTC'",
)
NOW = "SELECT to_char(dbms_flashback.get_system_change_number) FROM dual"

Connect = Callable[..., Any]


class OracleSession(PreSnapshotSession):
    """One probe's connections.

    Args:
        connect: the driver's function.
    """

    has_snapshot: ClassVar[bool] = True

    def __init__(self, dialect: Dialect, connection: Connection, connect: Connect = oracledb.connect) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.address = address_of(connection)
        self._driver = connect
        self._lock = threading.Lock()
        self._snapshot: Any = None
        self._number = 0
        self._main = self._connect()

    @property
    def user(self) -> str:
        return self.address.user.upper()

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement; in the snapshot once it is taken."""
        return self._ask(self._main if self._snapshot is None else self._snapshot, sql)

    def ask(self, sql: str) -> list[Row]:
        return self._ask(self._main, sql)

    def describe(self, sql: str) -> list[tuple[str, Native]]:
        with translated_errors(self.name, self.user), self._lock, self._main.cursor() as cursor:
            cursor.execute(sql)
            return [(info.name, Native.of(info)) for info in cursor.description or ()]

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        return catalog.columns(self, relation, selection)

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        return edges.safe_time_bound(self, relation, column, clock=clock, lag=lag, time_zone=time_zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        return edges.safe_sequence_bound(self, relation, column, wait=wait)

    def hold(self, relation: Relation) -> None:
        """Notes the number of the last change, at which a connection of its own and those of Spark read from now on."""
        del relation  # the whole database is read at that moment
        if self._snapshot is not None:
            return
        self._number = self._change_number()
        snapshot = self._connect()
        try:
            self._ask(snapshot, f"BEGIN {self._reads_at()} END;")
        except BaseException:
            snapshot.close()
            raise
        self._snapshot = snapshot

    def identity(self, relation: Relation) -> str:
        """Database, container and the table's number."""
        return catalog.identity(self, relation)

    def schema_of(self, relation: Relation) -> str | None:
        """The user's own schema, where it has the table."""
        return catalog.schema_of(self, relation)

    def clock(self) -> int | None:
        """The number of the last change: only a database that was set back has a smaller one."""
        return self._change_number()

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        return catalog.unique_sets(self, relation)

    def row_bytes(self, relation: Relation) -> int:
        """The average of the statistics."""
        return catalog.row_bytes(self, relation)

    def estimate(self, relation: Relation, condition: str) -> int:
        """The number of the statistics; of some of the rows the exact one, for a plan needs a table of its own."""
        known = catalog.size(self, relation) if condition == "1 = 1" else None
        if known is not None:
            return known[0]
        ((rows,),) = self.rows(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def verify_unchanged(self) -> None:
        """Nothing to ask: every statement reads at the same number."""

    def jdbc(self) -> Jdbc:
        if self._snapshot is None:
            raise InternalError("rows were requested before the snapshot was taken")
        quoted = (sql.replace("'", "''") for sql in SETTINGS)
        settings = " ".join(f"EXECUTE IMMEDIATE '{sql}';" for sql in quoted)
        return self.address.jdbc(f"BEGIN {settings} {self._reads_at()} END;")

    def list_tables(self) -> list[tuple[str, str]]:
        return catalog.list_tables(self)

    def views(self) -> Sequence[tuple[str, str]]:
        return catalog.views(self)

    def primary_keys(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        return catalog.primary_keys(self)

    def facts(self, schema: str, table: str) -> TableFacts:
        return catalog.facts(self, schema, table)

    def close(self) -> None:
        for connection in (self._snapshot, self._main):
            if connection is not None:
                with translated_errors(self.name, self.user):
                    connection.close()

    def _change_number(self) -> int:
        ((number,),) = self.ask(NOW)
        return int(number)

    def _reads_at(self) -> str:
        return f"SYS.DBMS_FLASHBACK.ENABLE_AT_SYSTEM_CHANGE_NUMBER({self._number});"

    def _ask(self, connection: Any, sql: str) -> list[Row]:
        with translated_errors(self.name, self.user), self._lock, connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def _connect(self) -> Any:
        try:
            connection = self._driver(**self.address.arguments())
        except (oracledb.Error, OSError) as error:
            raise refused(self.name, self.address.where, error) from error
        try:
            for setting in SETTINGS:
                self._ask(connection, setting)
        except BaseException:
            connection.close()
            raise
        return connection
