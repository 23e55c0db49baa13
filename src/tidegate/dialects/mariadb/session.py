"""A connection to MariaDB with fixed settings, which detects writes to a table while it is read.

Never writes, and never reports a table as unchanged where the server cannot tell.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.mariadb import catalog
from tidegate.dialects.mariadb.address import address_of
from tidegate.dialects.mariadb.types import Native
from tidegate.dialects.shared.answers import Answers
from tidegate.errors import EnvironmentMissing, TidegateError

try:
    import pymysql
    from pymysql.charset import charset_by_id
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the MariaDB driver is not installed", hint=extras.hint("mariadb")) from error
from tidegate.dialects.mariadb import safe_bounds as edges
from tidegate.dialects.mariadb.errors import account, refused, translated_errors

BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
# Of both connections, ours and Spark's: a query means the same on every server, and nothing is cut off.
SETTINGS = (
    "SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', "
    "sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_auto_is_null = 0, lock_wait_timeout = 30, "
    "net_read_timeout = 3600, net_write_timeout = 3600, wait_timeout = 86400"
)
OF_MARIADB = "SET max_statement_time = 0, idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0"
OF_MYSQL = "SET max_execution_time = 0, information_schema_stats_expiry = 0"
NAMES = "SET NAMES utf8mb4 COLLATE utf8mb4_bin"


class MariadbSession(PreSnapshotSession):
    """One probe's connection."""

    def __init__(self, dialect: Dialect, connection: Connection) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.address = address_of(connection)
        self._lock = threading.Lock()
        self.account = "…"  # until the server has said it
        self._held: Relation | None = None
        self._held_at = datetime.min  # noqa: DTZ901 - a time of the server, in UTC and without zone
        self._answers = Answers()
        self._connection = self._connect()
        try:
            ((version, self._thread, user),) = self.outside_rows("SELECT VERSION(), CONNECTION_ID(), CURRENT_USER()")
            self.account = account(str(user))
            self.is_mariadb = "mariadb" in str(version).lower()
            for setting in (NAMES, SETTINGS, OF_MARIADB if self.is_mariadb else OF_MYSQL):
                self.outside_rows(setting)
            self.outside_rows("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        except BaseException:
            self._connection.close()
            raise

    @property
    def thread(self) -> int:
        return int(self._thread)

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement; remembered from the snapshot on, see `verify_unchanged`."""
        found = self.outside_rows(sql)
        if self._held is not None:
            self._answers.keep(sql, found)
        return found

    def outside_rows(self, sql: str) -> list[Row]:
        """The rows of a statement that tells nothing of the table's rows; bytes are texts in UTF-8."""
        with translated_errors(self.name, self.account), self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(map(_decoded, row)) for row in cursor.fetchall()]

    def describe(self, sql: str) -> list[Native]:
        with translated_errors(self.name, self.account), self._lock, self._connection.cursor() as cursor:
            cursor.execute("SET character_set_results = NULL")
            try:
                cursor.execute(sql)
                # Its public description leaves out sign, character set and whether NULL is allowed.
                fields = cast("Any", cursor)._result.fields  # noqa: SLF001
                return [
                    Native(
                        name=field.name,
                        code=field.type_code,
                        flags=field.flags,
                        length=field.length,
                        scale=field.scale,
                        charset=cast("Any", charset_by_id(field.charsetnr)).name,
                    )
                    for field in fields
                ]
            finally:
                cursor.execute("SET character_set_results = utf8mb4")

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        return catalog.columns(self, relation, selection)

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        return edges.safe_time_bound(self, relation, column, clock=clock, lag=lag, time_zone=time_zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        return edges.safe_sequence_bound(self, relation, column, wait=wait)

    def hold(self, relation: Relation) -> None:
        """Takes the snapshot of our own answers, and a lock that keeps ALTER and TRUNCATE out.

        Spark's connections cannot share it: see `verify_unchanged`.
        """
        if self._held is not None:
            return
        self._take_snapshot(relation)
        self._held = relation

    def held_at(self) -> datetime:
        return self._held_at.replace(tzinfo=UTC)

    def identity(self, relation: Relation) -> str:
        """The server's id, database and table."""
        return catalog.identity(self, relation)

    def clock(self) -> int | None:
        """The position in InnoDB's log: only a server that was set back has a smaller one."""
        return catalog.clock(self)

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        """From the unique indexes over columns that are not NULL."""
        return catalog.unique_sets(self, relation)

    def row_bytes(self, relation: Relation) -> int:
        return catalog.row_bytes(self, relation)

    def estimate(self, relation: Relation, condition: str) -> int:
        whole = catalog.table_rows(self, relation) if condition == "1 = 1" else None
        if whole is not None:
            return whole
        plan = self.outside_rows(f"EXPLAIN SELECT 1 FROM {relation.sql} WHERE {condition}")
        return max((int(row[8]) for row in plan if len(row) > 8 and row[8] is not None), default=0)

    def verify_unchanged(self) -> None:
        """Looks for a commit since the snapshot was taken; where there may be one, asks again whatever was asked.

        InnoDB knows the second of the last commit to a table, and forgets it at a restart or when it closes the table;
        of views, queries and other engines there is none. Then only a change that shows in the answers is noticed:
        any change of rows whose fingerprint was asked for, else one of their number or of their cursor.

        Raises:
            SourceMoved: another answer than before.
        """
        if self._held is None or self._unchanged_since_snapshot(self._held):
            return
        self.outside_rows("COMMIT")
        self._take_snapshot(self._held)
        self._answers.confirm(self.outside_rows, self.name, self._held)

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

    def cancel(self) -> None:
        """From a connection of its own: this one waits for its answer."""
        with suppress(TidegateError, pymysql.Error), closing(self._connect()) as other, other.cursor() as cursor:
            cursor.execute(f"KILL QUERY {self.thread}")

    def close(self) -> None:
        if self._connection.open:
            self._connection.close()

    def _take_snapshot(self, relation: Relation) -> None:
        # The time first: what is committed after the snapshot has this second or a later one.
        ((self._held_at,),) = self.outside_rows("SELECT UTC_TIMESTAMP()")
        self.outside_rows(BEGIN)
        self.outside_rows(f"SELECT 1 FROM {relation.sql} LIMIT 0")

    def _unchanged_since_snapshot(self, relation: Relation) -> bool:
        """Whether the last commit that InnoDB knows of lies in a second before the snapshot's."""
        if not relation.parts:
            return False
        rows = self.outside_rows(
            "SELECT update_time FROM information_schema.tables "
            f"WHERE {catalog.named(self, relation)} AND engine = 'InnoDB'"
        )
        last = rows[0][0] if rows else None
        return isinstance(last, datetime) and last < self._held_at

    def _connect(self) -> pymysql.Connection[pymysql.cursors.Cursor]:
        try:
            return pymysql.connect(
                **self.address.arguments(), charset="utf8mb4", autocommit=True, program_name="tidegate"
            )
        except (pymysql.Error, OSError) as error:
            raise refused(self.name, self.address.where, error) from error


def _decoded(value: object) -> object:
    return value.decode() if isinstance(value, bytes) else value
