"""Connections to PostgreSQL: statements before the snapshot, then one exported snapshot shared by all connections.

Never writes. Statements for safe bounds never run inside the snapshot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast
from urllib.parse import quote
from weakref import WeakSet

import psycopg
from psycopg.pq import TransactionStatus

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, RestoreCheck, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.postgresql import catalog
from tidegate.dialects.postgresql import safe_bounds as edges
from tidegate.dialects.postgresql import server_history as history
from tidegate.dialects.postgresql.address import encrypted, options_of, reaching
from tidegate.dialects.postgresql.errors import refused, translated_errors
from tidegate.dialects.postgresql.placeholders import escaped
from tidegate.dialects.shared.answers import Answers
from tidegate.dialects.shared.errors import limited
from tidegate.dialects.shared.server_url import in_brackets
from tidegate.errors import ConfigError, InternalError, SourceMoved, SourceUnavailable, TidegateError

APPLICATION = "tidegate"
BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# The server must not end the session that holds the snapshot while Spark reads. What a policy would cut is refused:
# a part of a table, taken for the whole, would look like deletes. Statements hold letters that the database's own
# encoding may lack, and Spark's driver reads UTF-8.
SETTINGS = (
    "SET client_encoding = 'UTF8'; SET extra_float_digits = 1; SET row_security = off; "
    "SET idle_in_transaction_session_timeout = 0; SET lock_timeout = '30s'"
)
# Each failed attempt needs another TRUNCATE that commits in the moment between the snapshot and the lock.
ATTEMPTS = 5
CANCELLED = 5.0
"""Seconds for the server to take note that a statement is to end."""
# A TRUNCATE waits for the lock of the session that holds the snapshot, and Spark would wait for the TRUNCATE for ever.
LOCK_TIMEOUT = "-c lock_timeout=30s"
# What output functions write must be the same text on every connection, whatever the client or the role has set; and
# no connection may see a part of a table.
READS = (
    "SET LOCAL row_security = off; "
    "SET LOCAL datestyle = 'ISO, YMD'; SET LOCAL timezone = 'UTC'; SET LOCAL intervalstyle = 'postgres'; "
    "SET LOCAL bytea_output = 'hex'; SET LOCAL extra_float_digits = 1; SET LOCAL lc_monetary = 'C'"
)
VARYING = re.compile(
    r"Foreign Scan|\b(?:now|clock_timestamp|statement_timestamp|transaction_timestamp|timeofday|random|gen_random_uuid"
    r"|uuid_generate_v\d|pg_backend_pid)\(|\b(?:CURRENT_(?:DATE|TIME|TIMESTAMP)|LOCALTIME(?:STAMP)?)\b"
)
"""What a plan has of rows and values that are not the same on every connection of one snapshot."""
# What libpq's words mean to the JDBC driver; the others have the same name or no meaning there.
TO_JDBC = {
    "application_name": "ApplicationName",
    "connect_timeout": "connectTimeout",
    "options": "options",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslmode": "sslmode",
    "sslpassword": "sslpassword",
    "sslrootcert": "sslrootcert",
}


class PostgresqlSession(PreSnapshotSession):
    """One probe's connections."""

    connections: ClassVar[int] = 4
    has_snapshot: ClassVar[bool] = True

    def __init__(self, dialect: Dialect, connection: Connection) -> None:
        self.dialect = dialect
        self.name = connection.name
        self._options = encrypted(options_of(connection))
        self._open: WeakSet[psycopg.Connection[Row]] = WeakSet()
        self._main = self._connect()
        self._snapshot: str | None = None
        self._varying: Relation | None = None
        self._answers = Answers()
        self._failed: TidegateError | None = None

    @property
    def version(self) -> int:
        """The server's version as PostgreSQL counts: 150018."""
        return self._main.info.server_version

    @property
    def user(self) -> str:
        """Its login."""
        return self._options.get("user", "…")

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement; remembered where another connection may get others, see `verify_unchanged`."""
        return self._kept(sql, self._ask(self._main, sql))

    def execute(self, sql: str, *, seconds: float) -> None:
        """Executes one statement in a transaction of its own, which the server ends after so many seconds."""
        self._ask(self._main, f"SET statement_timeout = {max(round(seconds * 1000), 1)}")
        with self._border(self._main):
            self._main.execute(sql, prepare=False)

    def stream(self, sql: str, at_a_time: int) -> Iterator[Row]:
        """The rows of one statement in a transaction of its own, fetched so many at a time."""
        main = self._main
        with self._border(main), main.transaction(), main.cursor(name=f"{APPLICATION}_stream", binary=True) as cursor:
            cursor.itersize = at_a_time
            cursor.execute(sql)
            yield from cursor

    def describe(self, sql: str) -> list[tuple[str, int, int]]:
        """Name, type and type modifier of the columns of a statement."""
        with self._border(self._main), self._main.cursor() as cursor:
            cursor.execute(sql)
            result = cursor.pgresult
            if result is None or cursor.description is None:
                raise InternalError("a SELECT returned no column description")
            types = [(result.ftype(index), result.fmod(index)) for index in range(result.nfields)]
            return [(column.name, *kind) for column, kind in zip(cursor.description, types, strict=True)]

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        """The columns that are read, with their exact types."""
        return catalog.columns(self, relation, selection)

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """See `_postgresql_edges`."""
        return edges.safe_time_bound(self, relation, column, clock=clock, lag=lag, time_zone=time_zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """See `_postgresql_edges`."""
        return edges.safe_sequence_bound(self, relation, column, wait=wait)

    def hold(self, relation: Relation) -> None:
        """Takes the snapshot, and locks what the relation reads against TRUNCATE and ALTER, which no snapshot survives.

        Raises:
            SourceUnavailable: a table is replaced so often that no snapshot was found that holds its rows.
        """
        if self._snapshot is not None:
            return
        for _ in range(ATTEMPTS):
            self.rows(BEGIN)
            self.rows(READS)
            ((snapshot,),) = self.rows("SELECT pg_export_snapshot()")
            # Planning locks whatever is read: the tables of a view or a query, partitions, materialized views.
            plan = self.rows(f"EXPLAIN (VERBOSE) SELECT * FROM {relation.sql}")
            replaced = catalog.replaced(self)
            if not replaced:
                self._snapshot = snapshot
                self._varying = relation if any(VARYING.search(line) for (line,) in plan) else None
                return
            self.rows("ROLLBACK")
        raise SourceUnavailable(
            f"connection {self.name!r}: {relation.label} cannot be read in one state, because TRUNCATE or ALTER "
            f"replaces the rows of {', '.join(replaced)} again and again",
            hint="Run again once that has ended.",
        )

    def identity(self, relation: Relation) -> str:
        """System identifier, timeline, database and the table's oid."""
        return catalog.identity(self, relation)

    def schema_of(self, relation: Relation) -> str | None:
        """The first schema of the search path that has the table."""
        return catalog.schema_of(self, relation)

    def held_at(self) -> datetime:
        """The start of the transaction that has the snapshot."""
        ((micros,),) = self.rows("SELECT (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint")
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)

    def clock(self) -> int | None:
        """The position in the write-ahead log as a number; on a standby, of what was replayed."""
        return catalog.clock(self)

    def witness(self) -> dict[str, Any]:
        """See `_postgresql_history`."""
        return history.witness(self)

    def check_restore(self, witness: Mapping[str, Any], clock: int | None) -> RestoreCheck:
        """See `_postgresql_history`."""
        return history.check_restore(self, witness, clock)

    def older_than(self, witness: Mapping[str, Any], relation: Relation, condition: str) -> str | None:
        """See `_postgresql_history`."""
        return history.older_than(self, witness, relation, condition)

    def follows(self) -> bool:
        """Whether it is a standby."""
        ((standby,),) = self.rows("SELECT pg_is_in_recovery()")
        return bool(standby)

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        """From the valid unique indexes over columns that are not NULL."""
        return tuple(index.columns for index in catalog.unique_indexes(self, relation))

    def ranges(self, relation: Relation) -> tuple[str, tuple[str, ...]] | None:
        """From declarative partitioning by range."""
        return catalog.ranges(self, relation)

    def row_bytes(self, relation: Relation) -> int:
        """From the table's size and the planner's row count."""
        return catalog.row_bytes(self, relation)

    def estimate(self, relation: Relation, condition: str) -> int:
        """What the planner expects."""
        ((plan,),) = self.rows(f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {relation.sql} WHERE {condition}")
        plan = json.loads(plan) if isinstance(plan, str) else plan
        return int(plan[0]["Plan"]["Plan Rows"])

    def cuts(self, relation: Relation, parts: int) -> tuple[str, ...]:
        """Ranges of ctid with the same number of pages each; only where a range of them is read alone."""
        if parts < 2 or self.version < 140000 or not relation.parts or not catalog.is_plain(self, relation):
            return ()
        pages = catalog.pages(self, relation)
        starts = sorted({pages * part // parts for part in range(parts)})
        bounds = [f"{self.dialect.place} >= '({start},0)'::tid" for start in starts]
        uppers = [f" AND {self.dialect.place} < '({stop},0)'::tid" for stop in starts[1:]]
        # The last range is open: the table may have grown since.
        return tuple(low + high for low, high in zip(bounds, [*uppers, ""], strict=True))

    def parallel(self, relation: Relation, statements: Sequence[str]) -> list[Row]:
        """The rows of all the statements, over a few connections that share the snapshot."""
        self.hold(relation)
        if len(statements) == 1:
            return self.rows(statements[0])
        with ThreadPoolExecutor(min(self.connections, len(statements))) as pool:
            found = zip(statements, pool.map(self._on_own_connection, statements), strict=True)
            return [row for sql, rows in found for row in self._kept(sql, rows)]

    def verify_unchanged(self) -> None:
        """Asks again on a connection of its own, if the relation has rows or values that no snapshot holds.

        Raises:
            SourceMoved: another answer than before.
        """
        if self._varying is None:
            return
        try:
            self._answers.confirm(self._on_own_connection, self.name, self._varying)
        except SourceMoved as error:
            raise SourceMoved(
                f"connection {self.name!r}: {self._varying.label} gives each connection other rows or values",
                hint="Of a column that is computed from the time or at random, as by now(): leave it out with "
                "`exclude:`. Of a foreign table: run again while fewer writes happen, or connect to the server that "
                "has it.",
            ) from error

    def jdbc(self) -> Jdbc:
        """Connects Spark to the same snapshot."""
        if self._snapshot is None:
            raise InternalError("rows were requested before the snapshot was taken")
        info = self._main.info
        if info.host.startswith("/"):
            raise ConfigError(
                f"connection {self.name!r} uses a Unix socket, which Spark's driver does not support",
                hint="Use a host and a port in the URL, such as 127.0.0.1:5432.",
            )
        properties = {
            "driver": "org.postgresql.Driver",
            "user": info.user,
            "ApplicationName": APPLICATION,
            "tcpKeepAlive": str(self._options.get("keepalives") != "0").lower(),
            # Every value in binary from the first fetch on: text takes a third longer.
            "prepareThreshold": "-1",
            "sessionInitStatement": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; "
            f"SET TRANSACTION SNAPSHOT '{self._snapshot}'; {READS}",
            **{TO_JDBC[word]: value for word, value in self._options.items() if word in TO_JDBC},
            **self._begins_with(),
        }
        if info.password:
            properties["password"] = info.password
        return Jdbc(
            url=f"jdbc:postgresql://{in_brackets(info.host)}:{info.port}/{quote(info.dbname, safe='')}",
            properties=properties,
            escaped=escaped,
        )

    def list_tables(self) -> list[tuple[str, str]]:
        """Tables, partitioned tables and foreign tables outside the system's schemas.

        Asked aside once the transaction has failed: what failed may be a name, and these are the names there are.
        """
        return catalog.list_tables(self.rows if self._failed is None else self._on_another_connection)

    def views(self) -> Sequence[tuple[str, str]]:
        """Those that the user may see."""
        return catalog.views(self)

    def primary_keys(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """Those that the catalog tells."""
        return catalog.primary_keys(self)

    def facts(self, schema: str, table: str) -> TableFacts:
        """Keys, types, indexes and size of one table."""
        return catalog.facts(self, schema, table)

    def cancel(self) -> None:
        """On each connection that is open."""
        for each in tuple(self._open):
            with suppress(psycopg.Error):  # one that was lost asks nothing
                each.cancel_safe(timeout=CANCELLED)

    def close(self) -> None:
        """Ends the connection, and with it the snapshot."""
        self._main.close()

    def _begins_with(self) -> dict[str, str]:
        """What every connection of Spark begins with, also one that only asks for columns; nothing behind a pooler.

        Poolers refuse `options`.
        """
        options = f"{LOCK_TIMEOUT} {self._options.get('options', '')}".strip()
        try:
            psycopg.connect("", **cast("Any", {**reaching(self._options), "options": options})).close()
        except psycopg.Error as error:
            if limit := limited(self.name, str(error)):
                raise limit from error
            return {}
        return {"options": options}

    def _kept(self, sql: str, rows: list[Row]) -> list[Row]:
        if self._varying is not None and self._varying.sql in sql and not sql.startswith("EXPLAIN"):
            self._answers.keep(sql, rows)
        return rows

    def _on_own_connection(self, sql: str) -> list[Row]:
        with self._connect() as other:
            self._ask(other, BEGIN)
            self._ask(other, f"SET TRANSACTION SNAPSHOT '{self._snapshot}'; {READS}")
            return self._ask(other, sql)

    def _on_another_connection(self, sql: str) -> list[Row]:
        with self._connect() as other:
            return self._ask(other, sql)

    def _connect(self) -> psycopg.Connection[Row]:
        options = {"application_name": APPLICATION, **reaching(self._options)}
        try:
            connection: psycopg.Connection[Row] = psycopg.connect(
                "", autocommit=True, prepare_threshold=None, **cast("Any", options)
            )
        except psycopg.Error as error:
            where = f"{options.get('host', 'localhost')}:{options.get('port', 5432)}"
            raise refused(self.name, where, error) from error
        self._open.add(connection)
        self._ask(connection, SETTINGS)
        return connection

    def _schemas_of(self, name: str) -> list[str]:
        """Where a relation of that name is that this login may not read; asked aside, as the transaction has failed."""
        with self._connect() as other:
            found = other.execute(
                "SELECT relnamespace::regnamespace::text FROM pg_class "
                "WHERE relname = %s AND NOT has_table_privilege(oid, 'SELECT')",
                (name,),
            )
            return [schema for (schema,) in found]

    def _ask(self, connection: psycopg.Connection[Row], sql: str) -> list[Row]:
        with self._border(connection), connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _border(self, connection: psycopg.Connection[Row]) -> Iterator[None]:
        """Our errors for the driver's; of a transaction that has failed, the error that it failed with.

        Several threads ask over one connection: whichever comes after the failure is refused without a reason.
        """
        try:
            with translated_errors(self.name, self.user, self._schemas_of):
                yield
        except TidegateError as error:
            if connection is not self._main or connection.info.transaction_status != TransactionStatus.INERROR:
                raise
            if self._failed is None:
                self._failed = error
            if self._failed is error:
                raise
            raise self._failed from error
