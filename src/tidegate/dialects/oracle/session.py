"""Connections to Oracle: statements before the snapshot, then one system change number that every connection reads at.

Never writes. Statements for safe bounds never run inside the snapshot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.schema import Column, Schema
from tidegate.dialects.oracle.address import address_of
from tidegate.dialects.oracle.types import NATIONAL, Native, column_of
from tidegate.dialects.shared.columns import RelationColumns, by_table, described
from tidegate.errors import EnvironmentMissing, InternalError, SchemaRefused

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


UNKNOWN_ROW_BYTES = 100
UNICODE = frozenset({"AL32UTF8", "UTF8"})
CHARSET = "SELECT value FROM nls_database_parameters WHERE parameter = 'NLS_CHARACTERSET'"
# Whole keys: of constraints that hold for every row.
KEYS = """
SELECT c.constraint_type, c.constraint_name, k.column_name, t.nullable FROM all_constraints c
JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name
JOIN all_tab_columns t ON t.owner = k.owner AND t.table_name = k.table_name AND t.column_name = k.column_name
WHERE c.constraint_type IN ('P', 'U') AND c.status = 'ENABLED' AND c.validated = 'VALIDATED' AND {where}
ORDER BY c.constraint_type, c.constraint_name, k.position
"""
INDEXES = """
SELECT i.index_name, k.column_name FROM all_indexes i
JOIN all_ind_columns k ON k.index_owner = i.owner AND k.index_name = i.index_name
WHERE i.table_owner = {owner} AND i.table_name = {table} AND i.index_type = 'NORMAL' AND i.status <> 'UNUSABLE'
ORDER BY i.index_name, k.column_position
"""
TABLES = """
SELECT t.owner, t.table_name FROM all_tables t JOIN all_users u ON u.username = t.owner
WHERE u.oracle_maintained = 'N' AND t.temporary = 'N' AND t.nested = 'NO' AND t.secondary = 'N' AND t.dropped = 'NO'
  AND (t.iot_type IS NULL OR t.iot_type = 'IOT') ORDER BY 1, 2
"""
VIEWS = """
SELECT v.owner, v.view_name FROM all_views v JOIN all_users u ON u.username = v.owner
WHERE u.oracle_maintained = 'N' ORDER BY 1, 2
"""
PRIMARY_KEYS = """
SELECT c.owner, c.table_name, k.column_name FROM all_constraints c
JOIN all_cons_columns k ON k.owner = c.owner AND k.constraint_name = c.constraint_name
JOIN all_users u ON u.username = c.owner AND u.oracle_maintained = 'N'
WHERE c.constraint_type = 'P' AND c.status = 'ENABLED' AND c.validated = 'VALIDATED' ORDER BY 1, 2, k.position
"""
DATABASE = "sys_context('USERENV', 'DB_NAME') || '/' || sys_context('USERENV', 'CON_NAME')"


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
        """The columns that are read, exactly.

        Raises:
            ColumnMissing: there is no such table.
            SchemaRefused: types that cannot be kept, or names that Spark cannot tell apart.
            ConfigError: a column is named that is not there.
        """
        found = self._mapped(relation, selection).schema()
        self._refuse_national(relation, found)
        return found

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
        """The names of the database and its container, and the table's number, which another table has not."""
        ((database,),) = self.ask(f"SELECT {DATABASE} FROM dual")
        rows: list[Row] = []
        if relation.parts:
            owner, table = self.place(relation)
            rows = self.ask(
                f"SELECT to_char(object_id) FROM all_objects WHERE owner = {owner} AND object_name = {table} "
                "AND object_type IN ('TABLE', 'VIEW', 'MATERIALIZED VIEW') ORDER BY object_type"
            )
        return ":".join(["oracle", str(database), *(str(number) for (number,) in rows[-1:])])

    def schema_of(self, relation: Relation) -> str | None:
        """The user's own schema, where it has the table."""
        owner, table = self.place(relation)
        rows = self.ask(f"SELECT owner FROM all_tables WHERE owner = {owner} AND table_name = {table}")
        return str(rows[0][0]) if rows else None

    def clock(self) -> int | None:
        """The number of the last change: only a database that was set back has a smaller one."""
        return self._change_number()

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        found = self._keys(relation)
        return tuple(frozenset(names) for _, without_null, names in found if without_null)

    def row_bytes(self, relation: Relation) -> int:
        """The table's average; a guess for what has none."""
        found = self._size(relation)
        return (found[1] if found else 0) or UNKNOWN_ROW_BYTES

    def estimate(self, relation: Relation, condition: str) -> int:
        """The number of the statistics; of some of the rows the exact one, for a plan needs a table of its own."""
        known = self._size(relation) if condition == "1 = 1" else None
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
        return [(owner, table) for owner, table in self.ask(TABLES)]

    def views(self) -> Sequence[tuple[str, str]]:
        """Views that the user may see, outside the system's schemas."""
        return [(owner, view) for owner, view in self.ask(VIEWS)]

    def primary_keys(self) -> dict[tuple[str, str], tuple[str, ...]]:
        return by_table(self.ask(PRIMARY_KEYS))

    def facts(self, schema: str, table: str) -> TableFacts:
        relation = self.dialect.relation(schema, table)
        found = self._mapped(relation, ColumnSelection())
        owner, name = self.place(relation)
        indexes: dict[str, tuple[str, ...]] = {}
        for index, column in self.ask(INDEXES.format(owner=owner, table=name)):
            indexes[index] = (*indexes.get(index, ()), str(column))
        primary = next((names for is_primary, _, names in self._keys(relation) if is_primary), ())
        known = self._size(relation)
        return TableFacts(
            schema=schema,
            table=table,
            columns=Schema(columns=found.columns),
            unsupported=found.unsupported,
            primary_key=primary,
            indexes=tuple(names for names in indexes.values() if names != primary),
            rows=known[0] if known else 0,
            as_text=found.as_text,
        )

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

    def _mapped(self, relation: Relation, selection: ColumnSelection) -> RelationColumns:
        natives = self.describe(f"SELECT * FROM {relation.sql} WHERE 1 = 0")
        return described(relation.label, natives, selection, column_of, as_text=())

    def _refuse_national(self, relation: Relation, schema: Schema) -> None:
        """Raises SchemaRefused where characters of NVARCHAR2 would become question marks in the text of a row."""
        national = [column.name for column in schema if column.native in NATIONAL]
        if not national:
            return
        ((charset,),) = self.ask(CHARSET)
        if charset not in UNICODE:
            raise SchemaRefused(
                f"{relation.label}: the database's character set {charset} does not have every character that "
                f"{', '.join(map(repr, national))} may hold",
                hint="Leave them out with `source: {exclude: […]}`.",
                column=national[0],
            )

    def place(self, relation: Relation) -> tuple[str, str]:
        string = self.dialect.string
        owner = string(relation.parts[0]) if len(relation.parts) > 1 else "sys_context('USERENV', 'CURRENT_SCHEMA')"
        return owner, string(relation.parts[-1])

    def _keys(self, relation: Relation) -> list[tuple[bool, bool, tuple[str, ...]]]:
        """Of every key: whether it is the primary one, whether none of its columns is NULL, and these."""
        if not relation.parts:
            return []
        owner, table = self.place(relation)
        keys: dict[tuple[str, str], list[Row]] = {}
        for row in self.ask(KEYS.format(where=f"c.owner = {owner} AND c.table_name = {table}")):
            keys.setdefault((str(row[0]), str(row[1])), []).append(row)
        return [
            (kind == "P", all(row[3] == "N" for row in rows), tuple(str(row[2]) for row in rows))
            for (kind, _), rows in keys.items()
        ]

    def _size(self, relation: Relation) -> tuple[int, int] | None:
        """Rows and bytes of one row, as the statistics have them; None where there are none."""
        if not relation.parts:
            return None
        owner, table = self.place(relation)
        rows = self.ask(f"SELECT num_rows, avg_row_len FROM all_tables WHERE owner = {owner} AND table_name = {table}")
        return (int(rows[0][0]), int(rows[0][1] or 0)) if rows and rows[0][0] is not None else None
