"""A connection to Trino, which detects changes while it reads, because Trino has no snapshot across statements.

Never writes, and never reports a safe bound: Trino does not know about other writers.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.shared.answers import FEWER, Answers, moved
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.shared.time_bounds import must_be_vouched_for, vouched, writers_zone
from tidegate.dialects.trino.address import APPLICATION, address_of
from tidegate.dialects.trino.types import column_of
from tidegate.errors import ColumnMissing, ConfigError, EdgeUnknown, EnvironmentMissing, SourceError, SourceUnavailable

try:
    from trino.auth import BasicAuthentication
    from trino.dbapi import Connection as Driver
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Trino driver is not installed", hint=extras.hint("trino")) from error
from tidegate.dialects.trino.errors import translated_errors

NOW = "SELECT CAST(CAST(current_timestamp AT TIME ZONE 'UTC' AS timestamp(6)) AS varchar)"
ROW_BYTES = 100  # a guess: most catalogs keep no statistics
ATTEMPT = timedelta(seconds=30)


BRANCH = "main"


class TrinoSession(PreSnapshotSession):
    """One probe's connection: a user, a catalog, and what it was answered so far."""

    def __init__(self, dialect: Dialect, connection: Connection) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.address = address_of(connection)
        self._held: Relation | None = None
        self._snapshot: list[Row] | None = None
        self._answers = Answers()
        self._connection = self._connect()
        try:
            self.ask("SELECT 1")
        except BaseException:
            self._connection.close()
            raise

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement; remembered where nothing else tells of a change, see `verify_unchanged`."""
        found = self.ask(sql)
        if self._held is not None and self._snapshot is None:
            self._answers.keep(sql, found)
        return found

    def ask(self, sql: str) -> list[Row]:
        with translated_errors(self.name, self.address.where):
            cursor = self._connection.cursor()
            try:
                cursor.execute(sql)
                return [tuple(row) for row in cursor.fetchall()]
            finally:
                cursor.close()

    def execute(self, sql: str, *, seconds: float) -> None:
        """Executes one statement, which Trino ends after so many seconds."""
        self.ask(f"SET SESSION query_max_run_time = '{max(seconds, 1.0):.0f}s'")
        self.ask(sql)

    def describe(self, sql: str) -> list[tuple[str, str]]:
        with translated_errors(self.name, self.address.where):
            cursor = self._connection.cursor()
            try:
                cursor.execute(sql)
                cursor.fetchall()
                return [(str(column[0]), str(column[1])) for column in cursor.description or ()]
            finally:
                cursor.close()

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        return self._mapped(relation, selection).schema()

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """Trino's clock less the lag, where the user vouches for it with `clock: application`.

        Raises:
            EdgeUnknown: else, for Trino tells of no writer but itself.
            ConfigError: the column has no zone, and nobody says in which one it is written.
        """
        must_be_vouched_for(
            column, clock, f"connection {self.name!r}: Trino does not show who is still writing to {relation.label}, so"
        )
        zone = writers_zone(column, time_zone, "Trino")
        ((now,),) = self.ask(NOW)
        return vouched(now, lag, column.type, zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """None. Raises EdgeUnknown: always, for a smaller id may still be on its way."""
        del wait
        raise EdgeUnknown(
            f"connection {self.name!r}: Trino does not show which numbers of {column.name!r} in {relation.label} are "
            f"still being written",
            hint="Load with `strategy: {kind: full}` or `{kind: checksum}`, or connect to the database itself.",
        )

    def hold(self, relation: Relation) -> None:
        """Notes the snapshot of an Iceberg table; of any other, from now on, what Trino answers."""
        if self._held is None:
            self._snapshot = self._snapshot_of(relation)
            self._held = relation

    def table_version(self, relation: Relation) -> str | None:
        """The snapshot of an Iceberg table; None for any other, and for one without rows."""
        found = self._snapshot_of(relation)
        return str(found[0][0]) if found else None

    def identity(self, relation: Relation) -> str:
        """Server, catalog and table, as the URL names them; Trino has no number of its own for any of them."""
        found = self._place(relation)
        table = f"/{'.'.join(found)}" if found else ""
        return f"trino:{self.address.where}/{self.address.catalog}{table}"

    def clock(self) -> int | None:
        """None: nothing in Trino only grows."""
        return None

    def row_bytes(self, relation: Relation) -> int:
        del relation
        return ROW_BYTES

    def estimate(self, relation: Relation, condition: str) -> int:
        ((rows,),) = self.ask(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def verify_unchanged(self) -> None:
        """Looks at the snapshot again; where there is none, asks again whatever was asked."""
        if self._held is None:
            return
        if self._snapshot is not None:
            if self._snapshot_of(self._held) != self._snapshot:
                raise moved(self.name, self._held, FEWER)
            return
        self._answers.confirm(self.ask, self.name, self._held, FEWER)

    def jdbc(self) -> Jdbc:
        return self.address.jdbc()

    def list_tables(self) -> list[tuple[str, str]]:
        rows = self.ask(
            f"SELECT table_schema, table_name FROM {self._schema_of_columns()}.tables "
            "WHERE table_schema <> 'information_schema' AND table_type = 'BASE TABLE' ORDER BY 1, 2"
        )
        return [(schema, table) for schema, table in rows]

    def facts(self, schema: str, table: str) -> TableFacts:
        """Types and size of one table; Trino tells of no keys and no indexes."""
        relation = self.dialect.relation(schema, table)
        found = self._mapped(relation, ColumnSelection())
        return TableFacts(
            schema=schema,
            table=table,
            columns=Schema(columns=found.columns),
            unsupported=found.unsupported,
            primary_key=(),
            indexes=(),
            rows=self.estimate(relation, "1 = 1"),
            as_text=found.as_text,
        )

    def close(self) -> None:
        with translated_errors(self.name, self.address.where):
            self._connection.close()

    def _connect(self) -> Any:
        address = self.address
        with translated_errors(self.name, address.where):
            return Driver(
                host=address.host,
                port=address.port,
                user=address.user,
                source=APPLICATION,
                catalog=address.catalog,
                schema=address.schema,
                http_scheme="https" if address.ssl else "http",
                auth=BasicAuthentication(address.user, address.password) if address.password is not None else None,
                verify=address.verify,
                request_timeout=ATTEMPT.total_seconds(),
                # Numbers and texts are all that is asked for; dates of odd years would not fit Python's.
                legacy_primitive_types=True,
                timezone="UTC",
            )

    def _mapped(self, relation: Relation, selection: ColumnSelection) -> RelationColumns:
        rows = self.describe(f"SELECT * FROM {relation.sql} LIMIT 0")
        required = self._not_null(relation)
        natives = [(name, (native, name not in required)) for name, native in rows]
        return described(relation.label, natives, selection, column_of, as_text=())

    def _not_null(self, relation: Relation) -> frozenset[str]:
        found = self._place(relation)
        if found is None:
            return frozenset()
        string = self.dialect.string
        rows = self.ask(
            f"SELECT column_name FROM {self._schema_of_columns()}.columns WHERE table_schema = {string(found[0])} "
            f"AND table_name = {string(found[1])} AND is_nullable = 'NO'"
        )
        return frozenset(str(name) for (name,) in rows)

    def _place(self, relation: Relation) -> tuple[str, str] | None:
        """Schema and table as Trino keeps them; None for a query, or where no schema is named."""
        schema = relation.parts[0] if len(relation.parts) > 1 else self.address.schema
        if not relation.parts or schema is None:
            return None
        # Trino knows names in lower case only, quoted or not.
        return schema.lower(), relation.parts[-1].lower()

    def _snapshot_of(self, relation: Relation) -> list[Row] | None:
        """The snapshot that an Iceberg table has now, none for an empty one; None where tables keep none."""
        found = self._place(relation)
        if found is None:
            return None
        quote = self.dialect.quote
        branches = f"{quote(found[0])}.{quote(f'{found[1]}$refs')}"
        try:
            return self.ask(f"SELECT snapshot_id FROM {branches} WHERE name = '{BRANCH}'")
        except SourceUnavailable:
            raise
        except (ColumnMissing, ConfigError, SourceError):
            return None

    def _schema_of_columns(self) -> str:
        return f"{self.dialect.quote(self.address.catalog)}.information_schema"
