"""A connection to Teradata, which detects changes while it reads, because Teradata has no snapshot across statements.

Never writes, never reads rows that are not committed, and never reports a safe bound of the database's own clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.shared.answers import FEWER, Answers
from tidegate.dialects.shared.time_bounds import must_be_vouched_for, vouched, writers_zone
from tidegate.dialects.teradata import catalog
from tidegate.dialects.teradata.address import address_of
from tidegate.errors import EdgeUnknown, EnvironmentMissing

try:
    import teradatasql
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Teradata driver is not installed", hint=extras.hint("teradata")) from error
from tidegate.dialects.teradata.errors import refused, translated_errors

# Of both connections, ours and Spark's: else characters that Teradata does not know become another one.
SETTINGS = "SET SESSION CHARACTER SET UNICODE PASS THROUGH ON"
NOW = "SELECT to_char(CAST(CURRENT_TIMESTAMP(6) AT TIME ZONE 'GMT' AS timestamp(6)), 'YYYY-MM-DD HH24:MI:SS.FF6')"
ROW_BYTES = 100  # a guess: statistics are what an administrator collects

Connect = Callable[..., Any]


class TeradataSession(PreSnapshotSession):
    """One probe's connection: a user, a database, and what it was answered so far.

    Args:
        connect: the driver's function.
    """

    def __init__(self, dialect: Dialect, connection: Connection, connect: Connect = teradatasql.connect) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.address = address_of(connection)
        self._lock = threading.Lock()
        self._held: Relation | None = None
        self._answers = Answers()
        try:
            self._connection = connect(**self.address.arguments())
        except teradatasql.Error as error:
            raise refused(self.name, self.address.where, error) from error
        try:
            self.ask(SETTINGS)
        except BaseException:
            self._connection.close()
            raise

    @property
    def database(self) -> str:
        """Where a table lies that is named alone."""
        return self.address.database

    @property
    def where(self) -> str:
        """Host and port."""
        return self.address.where

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement; remembered from `hold` on, see `verify_unchanged`."""
        found = self.ask(sql)
        if self._held is not None:
            self._answers.keep(sql, found)
        return found

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement that is not asked again; whole numbers are ints."""
        with translated_errors(self.name, self.address.user), self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(map(_whole, row)) for row in cursor.fetchall()] if cursor.description else []

    def describe(self, sql: str) -> list[tuple[str, bool]]:
        """Name of each column of a statement, and whether it may be NULL."""
        with translated_errors(self.name, self.address.user), self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [(str(column[0]), column[6] is not False) for column in cursor.description or ()]

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        """The columns that are read, with their exact types."""
        return catalog.columns(self, relation, selection)

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """Teradata's clock less the lag, where the user vouches for it with `clock: application`.

        Raises:
            EdgeUnknown: else, for nothing that a user may see tells since when open transactions have been writing.
            ConfigError: the column has no zone, and nobody says in which one it is written.
            SourceError: rows would be read that are not committed.
        """
        must_be_vouched_for(
            column,
            clock,
            f"connection {self.name!r}: Teradata does not show since when others have been writing to "
            f"{relation.label}, so",
            longest="transaction",
        )
        zone = writers_zone(column, time_zone, "Teradata")
        catalog.refuse_dirty(self, relation)
        ((now,),) = self.ask(NOW)
        return vouched(now, lag, column.type, zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """None.

        Raises:
            EdgeUnknown: always, for each part of the system hands out numbers of a pool of its own.
        """
        del wait
        raise EdgeUnknown(
            f"connection {self.name!r}: each part of Teradata numbers {column.name!r} in {relation.label} from a pool "
            "of its own, so a smaller number may still arrive",
            hint="Load with `strategy: {kind: full}` or `{kind: checksum}`.",
        )

    def hold(self, relation: Relation) -> None:
        """Notes, from now on, what Teradata answers.

        Raises:
            SourceError: rows would be read that are not committed.
        """
        if self._held is None:
            catalog.refuse_dirty(self, relation)
            self._held = relation

    def identity(self, relation: Relation) -> str:
        """Server, database and table, and when the table was created."""
        return catalog.identity(self, relation)

    def schema_of(self, relation: Relation) -> str | None:
        """The database of the connection, where it has the table."""
        return catalog.schema_of(self, relation)

    def clock(self) -> int | None:
        """None: nothing that a user may see only grows."""
        return None

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        """From the unique indexes over columns that are not NULL."""
        return catalog.unique_sets(self, relation)

    def row_bytes(self, relation: Relation) -> int:
        """A guess."""
        del relation
        return ROW_BYTES

    def estimate(self, relation: Relation, condition: str) -> int:
        """The exact number, which of a whole table costs next to nothing."""
        ((rows,),) = self.ask(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def verify_unchanged(self) -> None:
        """Asks again whatever was asked.

        Raises:
            SourceMoved: another answer.
        """
        if self._held is not None:
            self._answers.confirm(self.ask, self.name, self._held, FEWER)

    def jdbc(self) -> Jdbc:
        """Connects Spark to the same server, as the same user."""
        return self.address.jdbc(SETTINGS)

    def list_tables(self) -> list[tuple[str, str]]:
        """Tables that the user may see."""
        return catalog.list_tables(self)

    def views(self) -> Sequence[tuple[str, str]]:
        """Those that the user may see."""
        return catalog.views(self)

    def facts(self, schema: str, table: str) -> TableFacts:
        """Keys, types, indexes and size of one table."""
        return catalog.facts(self, schema, table)

    def close(self) -> None:
        """Ends the connection."""
        with translated_errors(self.name, self.address.user):
            self._connection.close()


def _whole(value: object) -> object:
    """Counts come as decimals."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
