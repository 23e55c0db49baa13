"""A connection to Snowflake, whose statements and Spark's read one state of a table by Time Travel.

Never writes, and never reports a safe bound: a role sees only the transactions of its own user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.shared.answers import FEWER, Answers
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.shared.time_bounds import must_be_vouched_for, vouched, writers_zone
from tidegate.dialects.snowflake.address import APPLICATION, SESSION, address_of
from tidegate.dialects.snowflake.types import DOCUMENTS, Native, column_of
from tidegate.errors import ConfigError, EdgeUnknown, EnvironmentMissing, SourceRefused

try:
    from snowflake import connector
    from snowflake.connector.constants import FIELD_ID_TO_NAME
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Snowflake driver is not installed", hint=extras.hint("snowflake")) from error
from tidegate.dialects.snowflake.errors import refused, translated_errors

NOW = "SELECT to_varchar(sysdate(), 'YYYY-MM-DD HH24:MI:SS.FF6')"
CONTEXT = "SELECT current_database(), current_schema(), current_warehouse()"
LOGIN_SECONDS = 30
ANSWER_SECONDS = 600


ROW_BYTES = 100  # a guess for what has no size of its own
TABLE = "BASE TABLE"
COLUMN_OF_KEY = 4  # where SHOW PRIMARY KEYS has the column's name, and behind it its place in the key


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What INFORMATION_SCHEMA says of a table or a view.

    Args:
        created: when it was created; a replaced table has another time.
        days: for which Time Travel keeps its rows.
        travels: whether it is a table whose state of a statement can be read.
        size: compressed bytes; 0 where none are known.
    """

    created: str
    days: int
    travels: bool
    rows: int
    size: int


class SnowflakeSession(PreSnapshotSession):
    """One probe's connection: a role, a warehouse, a database, and the state that it reads."""

    def __init__(self, dialect: Dialect, connection: Connection) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.address = address_of(connection)
        self._held: Relation | None = None
        self._statement: str | None = None
        self._answers = Answers()
        self._connection = self._connect()
        try:
            self.database, self.schema = self._context()
        except BaseException:
            self._connection.close()
            raise

    @property
    def has_snapshot(self) -> bool:  # type: ignore[override] # one table has a history, another has none
        """Whether the table's rows are read as they were at one statement."""
        return self._statement is not None

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement; remembered where no history holds them, see `verify_unchanged`."""
        found = self.ask(sql)
        if self._held is not None and self._statement is None:
            self._answers.keep(sql, found)
        return found

    def ask(self, sql: str) -> list[Row]:
        return self._asked(sql)[0]

    def execute(self, sql: str, *, seconds: float) -> None:
        """Executes one statement, which Snowflake ends after so many seconds."""
        self.ask(f"ALTER SESSION SET STATEMENT_TIMEOUT_IN_SECONDS = {max(seconds, 1.0):.0f}")
        self.ask(sql)

    def describe(self, sql: str) -> list[tuple[str, Native]]:
        with translated_errors(self.name, self.address.where), self._connection.cursor() as cursor:
            return [
                (
                    column.name,
                    Native(
                        name=FIELD_ID_TO_NAME.get(column.type_code, f"type {column.type_code}"),
                        precision=column.precision or 0,
                        scale=column.scale or 0,
                        nullable=bool(column.is_nullable),
                    ),
                )
                for column in cursor.describe(sql)
            ]

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        return self._mapped(relation, selection).schema()

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """Snowflake's clock less the lag, where the user vouches for it with `clock: application`.

        Raises:
            EdgeUnknown: else; SHOW TRANSACTIONS leaves out what a role may not see, without a word.
            ConfigError: the column has no zone, and nobody says in which one it is written.
        """
        must_be_vouched_for(
            column,
            clock,
            f"connection {self.name!r}: Snowflake shows a role only the transactions of its own user, so it is "
            f"unknown who is still writing to {relation.label}, and",
        )
        zone = writers_zone(column, time_zone, "Snowflake")
        ((now,),) = self.ask(NOW)
        return vouched(now, lag, column.type, zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """None. Raises EdgeUnknown: always, for Snowflake gives numbers of a sequence in no order."""
        del wait
        raise EdgeUnknown(
            f"connection {self.name!r}: Snowflake gives the numbers of a sequence in any order, so a smaller "
            f"{column.name!r} may still come to {relation.label}",
            hint="Load with `strategy: {kind: full}` or `{kind: checksum}`, or `watermark` with `clock: application`.",
        )

    def hold(self, relation: Relation) -> None:
        """Takes the state of the table by a statement of now; of what has no history, from now on, its answers.

        Raises:
            SourceRefused: Time Travel is switched off for the table.
        """
        if self._held is not None:
            return
        known = self._entry(relation)
        if known is not None and known.travels and known.days < 1:
            raise SourceRefused(
                f"connection {self.name!r}: {relation.label} keeps no history, so its rows cannot be read as they were "
                "at one moment",
                hint=f"`ALTER TABLE {relation.label} SET DATA_RETENTION_TIME_IN_DAYS = 1`; or read it as a `query:`, "
                "which stops if the rows change meanwhile.",
            )
        # It also says so if there is no such table, or the role may not read it.
        _, statement = self._asked(f"SELECT 1 FROM {relation.sql} LIMIT 0")
        self._statement = statement if known is not None and known.travels else None
        self._held = relation

    def in_snapshot(self, relation: Relation) -> Relation:
        """The table as it was at that statement."""
        if self._statement is None or not relation.parts:
            return relation
        return replace(relation, sql=f"{relation.sql} AT(STATEMENT => {self.dialect.string(self._statement)})")

    def identity(self, relation: Relation) -> str:
        """Account, database and table, and when the table was created: a replaced or restored one is another."""
        found, known = self._place(relation), self._entry(relation)
        table = f"/{'.'.join(found)}" if found else ""
        created = f"@{known.created}" if known is not None and known.travels else ""
        return f"snowflake:{self.address.account}/{self.database}{table}{created}"

    def clock(self) -> int | None:
        """None: nothing that a role may see only grows."""
        return None

    def schema_of(self, relation: Relation) -> str | None:
        """The schema of the URL, or of the user's defaults."""
        return self.schema if len(relation.parts) == 1 else None

    def row_bytes(self, relation: Relation) -> int:
        """The table's average, which is compressed, or a guess where that is less."""
        known = self._entry(relation)
        return max(ROW_BYTES, known.size // known.rows) if known is not None and known.rows else ROW_BYTES

    def estimate(self, relation: Relation, condition: str) -> int:
        ((rows,),) = self.ask(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def verify_unchanged(self) -> None:
        """Nothing for a table with a history; for all else, asks again whatever was asked."""
        if self._held is None or self._statement is not None:
            return
        self._answers.confirm(self.ask, self.name, self._held, FEWER)

    def jdbc(self) -> Jdbc:
        return self.address.jdbc()

    def list_tables(self) -> list[tuple[str, str]]:
        return self._list_tables()

    def views(self) -> Sequence[tuple[str, str]]:
        return self._list_tables(views=True)

    def facts(self, schema: str, table: str) -> TableFacts:
        """Types, size and the declared key of one table; Snowflake enforces none, so loads look for duplicates."""
        relation = self.dialect.relation(schema, table)
        found = self._mapped(relation, ColumnSelection())
        keys = self.ask(f"SHOW PRIMARY KEYS IN TABLE {relation.sql}")
        ordered = sorted((int(row[COLUMN_OF_KEY + 1]), str(row[COLUMN_OF_KEY])) for row in keys)
        return TableFacts(
            schema=schema,
            table=table,
            columns=Schema(columns=found.columns),
            unsupported=found.unsupported,
            primary_key=tuple(name for _, name in ordered),
            indexes=(),
            rows=self.estimate(relation, "1 = 1"),
            as_text=found.as_text,
        )

    def close(self) -> None:
        with translated_errors(self.name, self.address.where):
            self._connection.close()

    def _asked(self, sql: str) -> tuple[list[Row], str]:
        """The rows of a statement, and the number by which Snowflake knows it."""
        with translated_errors(self.name, self.address.where), self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()], str(cursor.sfqid)

    def _context(self) -> tuple[str, str | None]:
        """Database and schema, as Snowflake keeps their names; a login succeeds also where they do not exist."""
        ((database, schema, warehouse),) = self.ask(CONTEXT)
        given = {"database": self.address.database, "schema": self.address.schema, "warehouse": self.address.warehouse}
        there = {"database": database, "schema": schema, "warehouse": warehouse}
        for kind, name in given.items():
            if name is not None and there[kind] is None:
                raise SourceRefused(
                    f"connection {self.name!r}: there is no {kind} {name!r}, or the role may not use it",
                    hint=f"Correct the URL, or grant it: `GRANT USAGE ON {kind.upper()} {name} TO ROLE …`.",
                )
        return str(database), None if schema is None else str(schema)

    def _connect(self) -> Any:
        try:
            return connector.connect(
                **self.address.arguments(),
                application=APPLICATION,
                session_parameters=dict(SESSION),  # to which the driver adds its own
                client_session_keep_alive=True,  # Spark may read for longer than an idle session lives
                login_timeout=LOGIN_SECONDS,
                network_timeout=ANSWER_SECONDS,
            )
        except (connector.Error, OSError, TypeError, ValueError) as error:  # the last three of a key alone
            raise refused(self.name, self.address.where, error) from error

    def _mapped(self, relation: Relation, selection: ColumnSelection) -> RelationColumns:
        natives = self.describe(f"SELECT * FROM {relation.sql}")
        return described(relation.label, natives, selection, column_of, as_text=DOCUMENTS)

    def _place(self, relation: Relation) -> tuple[str, str] | None:
        """Schema and table; None for a query.

        Raises:
            ConfigError: neither the project nor the user's defaults name a schema.
        """
        if not relation.parts:
            return None
        schema = relation.parts[0] if len(relation.parts) > 1 else self.schema
        if schema is None:
            raise ConfigError(
                f"connection {self.name!r}: {relation.label} names no schema, and the URL has none",
                hint=f"Name it: `table: SCHEMA.{relation.label}`.",
            )
        return schema, relation.parts[-1]

    def _entry(self, relation: Relation) -> Entry | None:
        """What is known of a table or view; None for a query, and for one that the role may not see."""
        found = self._place(relation)
        if found is None:
            return None
        string = self.dialect.string
        rows = self.ask(
            "SELECT to_char(convert_timezone('UTC', created), 'YYYY-MM-DD HH24:MI:SS.FF9'), retention_time, "
            "table_type, is_hybrid, is_iceberg, row_count, bytes "
            f"FROM {self._tables()} WHERE table_schema = {string(found[0])} AND table_name = {string(found[1])}"
        )
        if not rows:
            return None
        created, days, kind, hybrid, iceberg, count, size = rows[0]
        return Entry(
            created=str(created),
            days=int(days or 0),
            travels=kind == TABLE and hybrid != "YES" and iceberg != "YES",
            rows=int(count or 0),
            size=int(size or 0),
        )

    def _list_tables(self, *, views: bool = False) -> list[tuple[str, str]]:
        rows = self.ask(
            f"SELECT table_schema, table_name FROM {self._tables()} WHERE table_schema <> 'INFORMATION_SCHEMA' "
            f"AND table_type {'LIKE' if views else 'NOT LIKE'} '%VIEW' ORDER BY 1, 2"
        )
        return [(schema, table) for schema, table in rows]

    def _tables(self) -> str:
        return f"{self.dialect.quote(self.database)}.information_schema.tables"
