"""A connection to Teradata, which detects changes while it reads, because Teradata has no snapshot across statements.

Never writes, never reads rows that are not committed, and never reports a safe bound of the database's own clock.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
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
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.shared.time_bounds import must_be_vouched_for, vouched, writers_zone
from tidegate.dialects.teradata.address import address_of
from tidegate.dialects.teradata.types import column_of
from tidegate.errors import EdgeUnknown, EnvironmentMissing, SourceError

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


SYSTEM = (
    "'All', 'Crashdumps', 'DBC', 'Default', 'EXTUSER', 'External_AP', 'LockLogShredder', 'PUBLIC', 'SQLJ', 'SYSBAR', "
    "'SYSLIB', 'SYSSPATIAL', 'SYSUDTLIB', 'SysAdmin', 'SystemFe', 'Sys_Calendar', 'TDMaps', 'TDPUSER', 'TDQCD', "
    "'TDStats', 'TD_ANALYTICS_DB', 'TD_SERVER_DB', 'TD_SYSFNLIB', 'TD_SYSGPL', 'TD_SYSXML', 'console', 'dbcmngr', "
    "'tdwm', 'val'"
)
INDEXES = """
SELECT i.IndexNumber, i.IndexType, i.UniqueFlag, i.ColumnName, c.Nullable FROM DBC.IndicesVX AS i
JOIN DBC.ColumnsVX AS c
  ON c.DatabaseName = i.DatabaseName AND c.TableName = i.TableName AND c.ColumnName = i.ColumnName
WHERE {where} ORDER BY i.IndexNumber, i.ColumnPosition
"""
PRIMARY = "K"
DIRTY = re.compile(r"\bfor\s+access\b", re.IGNORECASE)


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
        with translated_errors(self.name, self.address.user), self._lock, self._connection.cursor() as cursor:
            cursor.execute(sql)
            return [(str(column[0]), column[6] is not False) for column in cursor.description or ()]

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        return self._mapped(relation, selection).schema()

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
        self._refuse_dirty(relation)
        ((now,),) = self.ask(NOW)
        return vouched(now, lag, column.type, zone)

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """None. Raises EdgeUnknown: always, for each part of the system hands out numbers of a pool of its own."""
        del wait
        raise EdgeUnknown(
            f"connection {self.name!r}: each part of Teradata numbers {column.name!r} in {relation.label} from a pool "
            "of its own, so a smaller number may still arrive",
            hint="Load with `strategy: {kind: full}` or `{kind: checksum}`.",
        )

    def hold(self, relation: Relation) -> None:
        """Notes, from now on, what Teradata answers. Raises SourceError: rows would be read that are not committed."""
        if self._held is None:
            self._refuse_dirty(relation)
            self._held = relation

    def identity(self, relation: Relation) -> str:
        """Server, database and table, and when the table was created."""
        if not relation.parts:
            return f"teradata:{self.address.where}/{self.address.database}"
        rows = self.ask(
            "SELECT to_char(t.CreateTimeStamp, 'YYYY-MM-DD HH24:MI:SS') FROM DBC.TablesVX AS t "
            f"WHERE {self._named(relation, 't')}"
        )
        table = ".".join(self._place(relation))
        return f"teradata:{self.address.where}/{table}{f'/{rows[0][0]}' if rows else ''}"

    def schema_of(self, relation: Relation) -> str | None:
        rows = self.ask(f"SELECT t.DatabaseName FROM DBC.TablesVX AS t WHERE {self._named(relation, 't')}")
        return str(rows[0][0]).rstrip() if rows else None

    def clock(self) -> int | None:
        """None: nothing that a user may see only grows."""
        return None

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        found = self._indexes(relation)
        return tuple(frozenset(names) for _, unique, names in found if unique)

    def row_bytes(self, relation: Relation) -> int:
        del relation
        return ROW_BYTES

    def estimate(self, relation: Relation, condition: str) -> int:
        """The exact number, which of a whole table costs next to nothing."""
        ((rows,),) = self.ask(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def verify_unchanged(self) -> None:
        """Asks again whatever was asked. Raises SourceMoved: another answer."""
        if self._held is not None:
            self._answers.confirm(self.ask, self.name, self._held, FEWER)

    def jdbc(self) -> Jdbc:
        return self.address.jdbc(SETTINGS)

    def list_tables(self) -> list[tuple[str, str]]:
        """Tables that the user may see, outside the system's databases."""
        return self._listed("'T', 'O'")

    def views(self) -> list[tuple[str, str]]:
        """Views that the user may see, outside the system's databases."""
        return self._listed("'V'")

    def facts(self, schema: str, table: str) -> TableFacts:
        relation = self.dialect.relation(schema, table)
        found = self._mapped(relation, ColumnSelection())
        indexes = self._indexes(relation)
        return TableFacts(
            schema=schema,
            table=table,
            columns=Schema(columns=found.columns),
            unsupported=found.unsupported,
            primary_key=next((names for primary, _, names in indexes if primary), ()),
            indexes=tuple(names for primary, _, names in indexes if not primary),
            rows=self.estimate(relation, "1 = 1"),
            as_text=found.as_text,
        )

    def close(self) -> None:
        with translated_errors(self.name, self.address.user):
            self._connection.close()

    def _mapped(self, relation: Relation, selection: ColumnSelection) -> RelationColumns:
        found = self.describe(f"SELECT * FROM {relation.sql} WHERE 1 = 0")
        quote = self.dialect.quote
        # A type is that of the column, whether or not there is a row.
        words = ", ".join(f"TYPE({quote(name)})" for name, _ in found)
        one = self.dialect.named(f"SELECT 1 AS {quote('tidegate one')}", "one_row")
        (types,) = self.ask(f"SELECT {words} FROM {one} LEFT JOIN {relation.sql} ON 1 = 0")
        natives = [(name, (str(word).strip(), null)) for (name, null), word in zip(found, types, strict=True)]
        return described(relation.label, natives, selection, column_of, as_text=())

    def _refuse_dirty(self, relation: Relation) -> None:
        """Refuses what would read rows that are not committed, and may never be.

        Views often lock their tables for access, which waits for nobody; the plan says so, however deep the view lies.

        Raises:
            SourceError: it would.
        """
        plan = " ".join(str(row[0]) for row in self.ask(f"EXPLAIN SELECT * FROM {relation.sql}"))
        if DIRTY.search(plan):
            raise SourceError(
                f"connection {self.name!r}: {relation.label} is read with LOCKING … FOR ACCESS, which shows rows that "
                "are not committed: a load would keep those that are rolled back",
                hint="Name the table itself, or a view over it without LOCKING … FOR ACCESS.",
            )

    def _place(self, relation: Relation) -> tuple[str, str]:
        """Database and name of a table."""
        return (relation.parts[0] if len(relation.parts) > 1 else self.address.database), relation.parts[-1]

    def _named(self, relation: Relation, alias: str) -> str:
        string = self.dialect.string
        database, table = self._place(relation)
        return f"{alias}.DatabaseName = {string(database)} AND {alias}.TableName = {string(table)}"

    def _indexes(self, relation: Relation) -> list[tuple[bool, bool, tuple[str, ...]]]:
        """Of every index: whether it is the primary key's, whether it is unique without NULL, its columns."""
        if not relation.parts:
            return []
        indexes: dict[int, list[Row]] = {}
        for row in self.ask(INDEXES.format(where=self._named(relation, "i"))):
            indexes.setdefault(int(row[0]), []).append(row)
        return [
            (
                str(rows[0][1]).strip() == PRIMARY,
                all(str(row[2]).strip() == "Y" and str(row[4]).strip() == "N" for row in rows),
                tuple(str(row[3]).rstrip() for row in rows),
            )
            for rows in indexes.values()
        ]

    def _listed(self, kinds: str) -> list[tuple[str, str]]:
        rows = self.ask(
            f"SELECT t.DatabaseName, t.TableName FROM DBC.TablesVX AS t WHERE t.TableKind IN ({kinds}) "
            f"AND t.DatabaseName NOT IN ({SYSTEM}) ORDER BY 1, 2"
        )
        return [(str(database).rstrip(), str(table).rstrip()) for database, table in rows]


def _whole(value: object) -> object:
    """Counts come as decimals."""
    return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else value
