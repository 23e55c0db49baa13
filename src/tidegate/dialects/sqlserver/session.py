"""A connection to SQL Server: statements before the snapshot, then one snapshot, which other connections cannot share.

Never writes. Statements for safe bounds never run inside the snapshot.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.shared.answers import Answers
from tidegate.dialects.sqlserver import catalog
from tidegate.dialects.sqlserver.address import Address, address_of
from tidegate.errors import EnvironmentMissing, SourceError, SourceRefused

try:
    import pymssql
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the SQL Server driver is not installed", hint=extras.hint("sqlserver")) from error
from tidegate.dialects.sqlserver import safe_bounds as edges
from tidegate.dialects.sqlserver.errors import quoted, refused, translated_errors

# Of both connections, ours and Spark's: a query means the same on every server, and nothing is cut off.
SETTINGS = (
    "SET LANGUAGE us_english; SET DATEFORMAT ymd; SET ANSI_NULLS ON; SET ANSI_PADDING ON; SET ANSI_WARNINGS ON; "
    "SET ARITHABORT ON; SET CONCAT_NULL_YIELDS_NULL ON; SET QUOTED_IDENTIFIER ON; SET NUMERIC_ROUNDABORT OFF; "
    "SET IMPLICIT_TRANSACTIONS OFF; SET ROWCOUNT 0; SET TEXTSIZE 2147483647; SET LOCK_TIMEOUT 30000; "
    "SET TRANSACTION ISOLATION LEVEL SNAPSHOT"
)
ABOUT = """
SELECT d.snapshot_isolation_state, CAST(databasepropertyex(db_name(), 'Updateability') AS varchar(20)), user_name()
FROM sys.databases AS d WHERE d.database_id = db_id()
"""
ALLOWED = 1
CONFIGURED = "FREETDSCONF"
"""The variable by which the driver finds its settings; only while a connection is made."""
CONNECTING = threading.Lock()

Connect = Callable[..., Any]


class SqlServerSession(PreSnapshotSession):
    """One probe's connection.

    `login` and `user` are its names at the server and in the database, as statements hold them.

    Args:
        connect: the driver's function.
    """

    def __init__(self, dialect: Dialect, connection: Connection, connect: Connect = pymssql.connect) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.address = address_of(connection)
        self.login = self.user = quoted(self.address.user)
        self._lock = threading.Lock()
        self._held: Relation | None = None
        self._answers = Answers()
        self._connection = self._connect(connect)
        try:
            self.ask(SETTINGS)
            ((allowed, updateability, user),) = self.ask(ABOUT)
            self.user, self.writable = quoted(str(user)), updateability == "READ_WRITE"
            self._must_have_snapshots(allowed == ALLOWED)
        except BaseException:
            self._connection.close()
            raise

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement; remembered from the snapshot on, see `verify_unchanged`."""
        found = self.ask(sql)
        if self._held is not None:
            self._answers.keep(sql, found)
        return found

    def ask(self, sql: str) -> list[Row]:
        """The rows of a statement that is not asked again; none of one that returns none."""
        with translated_errors(self.name, self.user), self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def stream(self, sql: str, rows: int) -> Iterator[Row]:
        """The rows of a statement that is not asked again, so many at a time; nothing else can be asked meanwhile."""
        with translated_errors(self.name, self.user), self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql)
            while found := cursor.fetchmany(rows):
                yield from map(tuple, found)

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        return catalog.columns(self, relation, selection)

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        del relation  # every session of the server may be about to write it
        return edges.safe_time_bound(self, column, clock=clock, lag=lag, time_zone=time_zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        return edges.safe_sequence_bound(self, relation, column, wait=wait)

    def hold(self, relation: Relation) -> None:
        """Takes the snapshot of our own answers. Spark's connections cannot share it: see `verify_unchanged`."""
        if self._held is None:
            self._take_snapshot(relation)
            self._held = relation

    def identity(self, relation: Relation) -> str:
        """The database's own number and the table's."""
        return catalog.identity(self, relation)

    def schema_of(self, relation: Relation) -> str | None:
        """The user's own schema, or `dbo`."""
        return catalog.schema_of(self, relation)

    def clock(self) -> int | None:
        """The counter of row versions: only a database that was set back has a smaller one."""
        return catalog.clock(self)

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        """From the unique indexes over columns that are not NULL."""
        return catalog.unique_sets(self, relation)

    def row_bytes(self, relation: Relation) -> int:
        return catalog.row_bytes(self, relation)

    def estimate(self, relation: Relation, condition: str) -> int:
        """The server's own count of a table's rows; of some of them the exact number, for a plan needs a grant."""
        known = catalog.size(self, relation) if condition == "1 = 1" else None
        if known is not None:
            return known[0]
        ((rows,),) = self.ask(f"SELECT count_big(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def verify_unchanged(self) -> None:
        """Asks again, in a snapshot of now, whatever was asked.

        A change of rows whose fingerprint was asked for is noticed, else one of their number or of their cursor.

        Raises:
            SourceMoved: another answer than before.
        """
        if self._held is None:
            return
        self.ask("COMMIT TRANSACTION")
        self._take_snapshot(self._held)
        self._answers.confirm(self.ask, self.name, self._held)

    def jdbc(self) -> Jdbc:
        return self.address.jdbc(SETTINGS)

    def list_tables(self) -> list[tuple[str, str]]:
        return catalog.list_tables(self)

    def views(self) -> Sequence[tuple[str, str]]:
        return catalog.views(self)

    def primary_keys(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        return catalog.primary_keys(self)

    def facts(self, schema: str, table: str) -> TableFacts:
        return catalog.facts(self, schema, table)

    def close(self) -> None:
        self._connection.close()

    def _take_snapshot(self, relation: Relation) -> None:
        self.ask("BEGIN TRANSACTION")
        # The snapshot is of the first statement that reads a row, not of BEGIN.
        self.ask(f"SELECT TOP (1) 1 FROM {relation.sql}")

    def _must_have_snapshots(self, allowed: bool) -> None:
        # A secondary reads every statement in a snapshot, whatever is allowed.
        if allowed or not self.writable:
            return
        database = quoted(self.address.database)
        raise SourceError(
            f"connection {self.name!r}: the database allows no snapshots, and answers from different moments would be "
            "mixed",
            hint=f"Let an administrator run `ALTER DATABASE {database} SET ALLOW_SNAPSHOT_ISOLATION ON`, which waits "
            "for open transactions; then run again.",
        )

    def _connect(self, connect: Connect) -> Any:
        address = self.address
        try:
            return configured(connect, address)
        except pymssql.Error as error:
            raise refused(self.name, address.where, error, verified=address.authorities is not None) from error


def configured(connect: Connect, address: Address) -> Any:
    """Connects with the settings that the driver takes from a file alone.

    Raises:
        SourceRefused: there is no file of authorities.
    """
    if address.authorities is not None and not os.path.isfile(address.authorities):  # noqa: PTH113 - a path of the URL
        raise SourceRefused(f"the file of authorities {address.authorities} does not exist")
    with CONNECTING, tempfile.NamedTemporaryFile("w", prefix="tidegate-", suffix=".conf") as file:
        file.write(address.settings())
        file.flush()
        before = os.environ.get(CONFIGURED)
        os.environ[CONFIGURED] = file.name
        try:
            return connect(**address.arguments())
        finally:
            del os.environ[CONFIGURED]
            if before is not None:
                os.environ[CONFIGURED] = before
