"""A read-only connection to a DuckDB file, whose lock keeps writers out while it is open.

The file must not be opened and closed by other means meanwhile: the operating system would release the lock.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from tidegate import extras
from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.cutting import first_line
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.refusals import marked_text
from tidegate.core.schema import Column, Kind, Schema
from tidegate.dialects.duckdb.types import column_of
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.shared.database_file import jdbc_path, opened_file
from tidegate.dialects.shared.errors import bad_query, bad_value
from tidegate.dialects.shared.key_ranges import even
from tidegate.dialects.shared.time_bounds import inclusive, must_be_time
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    EnvironmentMissing,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
)

try:
    import duckdb
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the DuckDB driver is not installed", hint=extras.hint("duckdb")) from error

VERSION: str = duckdb.__version__
LONGEST_REASON = 1000
MOST_ROW_BYTES = 4096
# Two headers behind the one of the file tell in turn how many checkpoints there were, after their checksum. Source:
# DuckDB, `src/include/duckdb/storage/storage_info.hpp`.
MAGIC, MAGIC_AT, HEADERS, COUNT_AT = b"DUCK", 8, (4096, 8192), 8
_opened: dict[tuple[int, int], int] = {}
_opening = threading.Lock()


HERE = "database_name = current_database()"
NEXTVAL = re.compile(r"nextval\('((?:[^']|'')+)'\)", re.IGNORECASE)


class DuckdbSession(PreSnapshotSession):
    """One probe's connection to one file; while it is open, nobody can write to the file."""

    has_snapshot: ClassVar[bool] = True

    def __init__(self, dialect: Dialect, connection: Connection) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.path = opened_file(connection, "duckdb")
        self._lock = threading.Lock()
        self._connection = self._open()
        self._seen = self._sign()
        ((self._zone,),) = self.rows("SELECT current_setting('TimeZone')")
        self.rows("SET TimeZone = 'UTC'")

    def rows(self, sql: str) -> list[Row]:
        with self._border(), self._lock:
            return self._connection.execute(sql).fetchall()

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        found = self._mapped(relation, selection).schema()
        if not relation.parts:
            return found
        named = self._named(relation)
        comments = self.rows(f"SELECT column_name, comment FROM duckdb_columns() WHERE {named} AND comment IS NOT NULL")
        comment = self.rows(f"SELECT comment FROM duckdb_tables() WHERE {named} AND comment IS NOT NULL")
        return found.commented(comment[0][0] if comment else "", dict(comments))

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """The second before the present one: nobody writes now, and who writes later begins later.

        Whole seconds, for a column may keep no more of the time.
        """
        del relation, clock  # the file has one writer, and the clock of its machine is ours
        must_be_time(column.name, column.type)
        now = datetime.now(UTC).replace(microsecond=0)
        return SafeBound(upto=inclusive(now, lag, column.type, time_zone or str(self._zone)))

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """The greatest id: nobody writes now."""
        del wait
        if column.type.kind is not Kind.INTEGER:
            raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
        self._must_be_counted(relation, column.name)
        ((highest,),) = self.rows(f"SELECT max({self.dialect.quote(column.name)}) FROM {relation.sql}")
        return SafeBound(upto=None if highest is None else str(highest))

    def hold(self, relation: Relation) -> None:
        """Nothing to take: the file is held since it was opened."""

    def identity(self, relation: Relation) -> str:
        """The file's own number in its file system, and the table."""
        table = f":{'.'.join(relation.parts)}" if relation.parts else ""
        return f"duckdb:{self.path.stat().st_ino}{table}"

    def clock(self) -> int | None:
        """How many checkpoints the file has had; a write that is only in its log counts with the next one."""
        found = self.path.stat()
        with _opening:
            # Never closed: with the first descriptor of a file that a process closes it loses all of its locks.
            place = (found.st_dev, found.st_ino)
            if place not in _opened:
                _opened[place] = os.open(self.path, os.O_RDONLY)
            head = os.pread(_opened[place], HEADERS[-1] + COUNT_AT + 8, 0)
        if head[MAGIC_AT : MAGIC_AT + len(MAGIC)] != MAGIC:
            return None
        return max(int.from_bytes(head[at + COUNT_AT : at + COUNT_AT + 8], "little") for at in HEADERS)

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        """The columns of the primary key and of each unique constraint or index over columns that are not NULL."""
        if not relation.parts:
            return ()
        required = self._not_null(relation)
        found = [frozenset(names) for _, names in self._keys(relation)]
        return tuple(names for names in found if names and names <= required)

    def row_bytes(self, relation: Relation) -> int:
        """The file's size by the rows of the table, which bounds what a row takes compressed."""
        rows = max(1, self.estimate(relation, "1 = 1"))
        return max(1, min(MOST_ROW_BYTES, self.path.stat().st_size // rows))

    def estimate(self, relation: Relation, condition: str) -> int:
        ((rows,),) = self.rows(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def cuts(self, relation: Relation, parts: int) -> tuple[str, ...]:
        """Ranges of rowid of the same width; the file does not change, so a row keeps its number."""
        if parts < 2 or not self._has_rowid(relation):
            return ()
        place = self.dialect.place
        ((low, high),) = self.rows(f"SELECT min({place}), max({place}) FROM {relation.sql}")
        return even(place, low, high, parts)

    def verify_unchanged(self) -> None:
        """Raises SourceMoved where a file system without locks let somebody write."""
        if self._sign() != self._seen:
            raise SourceMoved(f"connection {self.name!r}: {self.path.name} was written to while it was being read")

    def jdbc(self) -> Jdbc:
        properties = {
            "driver": "org.duckdb.DuckDBDriver",
            "duckdb.read_only": "true",
            # Else the driver keeps the whole result in memory.
            "jdbc_stream_results": "true",
            "sessionInitStatement": "SET TimeZone = 'UTC'",
        }
        return Jdbc(url=f"jdbc:duckdb:{jdbc_path(self.name, self.path)}", properties=properties)

    def list_tables(self) -> list[tuple[str, str]]:
        rows = self.rows(
            f"SELECT schema_name, table_name FROM duckdb_tables() WHERE {HERE} AND NOT internal AND NOT temporary "
            "ORDER BY 1, 2"
        )
        return [(schema, table) for schema, table in rows]

    def views(self) -> list[tuple[str, str]]:
        rows = self.rows(
            f"SELECT schema_name, view_name FROM duckdb_views() WHERE {HERE} AND NOT internal AND NOT temporary "
            "ORDER BY 1, 2"
        )
        return [(schema, name) for schema, name in rows]

    def primary_keys(self) -> dict[tuple[str, str], tuple[str, ...]]:
        rows = self.rows(
            "SELECT schema_name, table_name, constraint_column_names FROM duckdb_constraints() "
            f"WHERE {HERE} AND constraint_type = 'PRIMARY KEY'"
        )
        return {(schema, table): tuple(names) for schema, table, names in rows}

    def facts(self, schema: str, table: str) -> TableFacts:
        relation = self.dialect.relation(schema, table)
        found = self._mapped(relation, ColumnSelection())
        keys = self._keys(relation)
        return TableFacts(
            schema=schema,
            table=table,
            columns=Schema(columns=found.columns),
            unsupported=found.unsupported,
            primary_key=next((names for primary, names in keys if primary), ()),
            indexes=tuple(names for primary, names in keys if not primary),
            rows=self.estimate(relation, "1 = 1"),
        )

    def close(self) -> None:
        self._connection.close()

    def _sign(self) -> tuple[tuple[int, int, int], ...]:
        """What a write to the file or to its log changes."""
        files = (self.path, self.path.with_name(f"{self.path.name}.wal"))
        found = (file.stat() for file in files if file.exists())
        return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in found)

    def _open(self) -> duckdb.DuckDBPyConnection:
        about = f"connection {self.name!r}: {self.path}"
        if not self.path.is_file():
            raise SourceRefused(f"{about} does not exist")
        try:
            return duckdb.connect(str(self.path), read_only=True)
        except duckdb.ConnectionException as error:
            raise SourceUnavailable(
                f"{about} is open for writing in this process",
                hint="Close that connection, or load in a separate process.",
            ) from error
        except duckdb.IOException as error:
            text = str(error)
            if "lock" in text:
                raise SourceUnavailable(
                    f"{about} is open for writing in another process",
                    hint="Run again once the writer has closed the file; DuckDB allows no readers while a process has "
                    "the file open for writing.",
                ) from error
            if "not a valid DuckDB" in text:
                raise SourceRefused(f"{about} is not a DuckDB database") from error
            raise SourceUnavailable(f"{about} cannot be opened", hint=SourceRefused.default_hint) from error
        except duckdb.Error as error:
            raise SourceUnavailable(
                f"{about} cannot be opened: {type(error).__name__}", hint=SourceRefused.default_hint
            ) from error

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except duckdb.Error as error:
            raise self._translate(error) from error

    def _translate(self, error: duckdb.Error) -> TidegateError:
        text = str(error)
        if message := marked_text(text):
            return bad_value(self.name, message)
        if isinstance(error, duckdb.CatalogException):
            return ColumnMissing(f"connection {self.name!r}: {first_line(text, LONGEST_REASON)}")
        if isinstance(error, (duckdb.BinderException, duckdb.ParserException)):
            return bad_query(self.name, first_line(text, LONGEST_REASON))
        # The text of any other could show a value.
        return SourceError(f"connection {self.name!r}: DuckDB rejected the statement with {type(error).__name__}")

    def _mapped(self, relation: Relation, selection: ColumnSelection) -> RelationColumns:
        rows = self.rows(f"DESCRIBE SELECT * FROM {relation.sql}")
        required = self._not_null(relation)
        natives = [(name, (native, name not in required)) for name, native, *_ in rows]
        return described(relation.label, natives, selection, column_of)

    def _named(self, relation: Relation) -> str:
        """The condition by which the catalog finds the table; names differ by more than case."""
        string = self.dialect.string
        schema = string(relation.parts[0]) if len(relation.parts) > 1 else "current_schema()"
        table = string(relation.parts[-1])
        return f"{HERE} AND lower(schema_name) = lower({schema}) AND lower(table_name) = lower({table})"

    def _not_null(self, relation: Relation) -> frozenset[str]:
        if not relation.parts:
            return frozenset()
        rows = self.rows(f"SELECT column_name FROM duckdb_columns() WHERE {self._named(relation)} AND NOT is_nullable")
        return frozenset(name for (name,) in rows)

    def _is_table(self, relation: Relation) -> bool:
        """Whether it is a table rather than a view or a query."""
        if not relation.parts:
            return False
        return bool(self.rows(f"SELECT 1 FROM duckdb_tables() WHERE {self._named(relation)}"))

    def _has_rowid(self, relation: Relation) -> bool:
        """Whether rows have a number that no column hides."""
        if not self._is_table(relation):
            return False
        hidden = f"{self._named(relation)} AND lower(column_name) = 'rowid'"
        return not self.rows(f"SELECT 1 FROM duckdb_columns() WHERE {hidden}")

    def _keys(self, relation: Relation) -> list[tuple[bool, tuple[str, ...]]]:
        rows = self.rows(
            "SELECT constraint_type = 'PRIMARY KEY', constraint_column_names FROM duckdb_constraints() "
            f"WHERE {self._named(relation)} AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_index"
        )
        return [(bool(primary), tuple(names)) for primary, names in rows]

    def _must_be_counted(self, relation: Relation, column: str) -> None:
        """Raises EdgeUnknown unless a growing sequence of the file fills the column."""
        hint = "Give the column `DEFAULT nextval('…')`, or use `strategy: {kind: watermark}` or `{kind: full}`."
        if not self._is_table(relation):
            raise EdgeUnknown(f"{relation.label} is not a table: name the table, or use another strategy", hint=hint)
        named = f"{self._named(relation)} AND column_name = {self.dialect.string(column)}"
        rows = self.rows(f"SELECT coalesce(column_default, '') FROM duckdb_columns() WHERE {named}")
        found = NEXTVAL.search(rows[0][0]) if rows else None
        if found is None:
            raise EdgeUnknown(
                f"no sequence in the file fills column {column!r}, so its numbers may arrive in any order", hint=hint
            )
        name = found[1].replace("''", "'").replace('"', "").rsplit(".", 1)[-1]
        steps = self.rows(
            "SELECT increment_by, cycle FROM duckdb_sequences() "
            f"WHERE {HERE} AND lower(sequence_name) = lower({self.dialect.string(name)})"
        )
        if not steps or any(step < 0 or cycles for step, cycles in steps):
            raise EdgeUnknown(
                f"sequence {name} behind column {column!r} does not only increase", hint="Use another strategy."
            )
