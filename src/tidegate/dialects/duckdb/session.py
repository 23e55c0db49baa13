"""A read-only connection to a DuckDB file, whose lock keeps writers out while it is open.

The file must not be opened and closed by other means meanwhile: the operating system would release the lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
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
from tidegate.dialects.duckdb import catalog
from tidegate.dialects.shared.database_file import jdbc_path, opened_file
from tidegate.dialects.shared.errors import bad_query, bad_value
from tidegate.dialects.shared.key_ranges import even
from tidegate.dialects.shared.time_bounds import in_utc, inclusive, must_be_time
from tidegate.dialects.shared.written_zones import must_be_written_in
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
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
        """The rows of one statement."""
        with self._border(), self._lock:
            return self._connection.execute(sql).fetchall()

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        """The columns that are read, with their exact types."""
        return catalog.columns(self, relation, selection)

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """The second before the present one: nobody writes now, and who writes later begins later.

        Whole seconds, for a column may keep no more of the time.
        """
        del clock  # the file has one writer, and the clock of its machine is ours
        must_be_time(column.name, column.type)
        if time_zone is None and column.type.kind is not Kind.TIMESTAMPTZ:
            filled = catalog.default(self, relation, column.name)
            must_be_written_in(str(self._zone), filled, column, datetime.now(UTC))
        now = datetime.now(UTC).replace(microsecond=0)
        upto = inclusive(now, lag, column.type, time_zone or str(self._zone))
        return SafeBound(upto=upto, in_utc=in_utc(now, lag, column.type, time_zone))

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """The greatest id: nobody writes now."""
        del wait
        if column.type.kind is not Kind.INTEGER:
            raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
        catalog.must_be_counted(self, relation, column.name)
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
        """From the primary key and the unique constraints over columns that are not NULL."""
        return catalog.unique_sets(self, relation)

    def row_bytes(self, relation: Relation) -> int:
        """The file's size by the rows of the table, which bounds what a row takes compressed."""
        rows = max(1, self.estimate(relation, "1 = 1"))
        return max(1, min(MOST_ROW_BYTES, self.path.stat().st_size // rows))

    def estimate(self, relation: Relation, condition: str) -> int:
        """The exact number: counting is quick."""
        ((rows,),) = self.rows(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def cuts(self, relation: Relation, parts: int) -> tuple[str, ...]:
        """Ranges of rowid of the same width; the file does not change, so a row keeps its number."""
        if parts < 2 or not catalog.has_rowid(self, relation):
            return ()
        place = self.dialect.place
        ((low, high),) = self.rows(f"SELECT min({place}), max({place}) FROM {relation.sql}")
        return even(place, low, high, parts)

    def verify_unchanged(self) -> None:
        """Raises SourceMoved where a file system without locks let somebody write."""
        if self._sign() != self._seen:
            raise SourceMoved(f"connection {self.name!r}: {self.path.name} was written to while it was being read")

    def jdbc(self) -> Jdbc:
        """Connects Spark to the file, read-only as this connection is."""
        properties = {
            "driver": "org.duckdb.DuckDBDriver",
            "duckdb.read_only": "true",
            # Else the driver keeps the whole result in memory.
            "jdbc_stream_results": "true",
            "sessionInitStatement": "SET TimeZone = 'UTC'",
        }
        return Jdbc(url=f"jdbc:duckdb:{jdbc_path(self.name, self.path)}", properties=properties)

    def list_tables(self) -> list[tuple[str, str]]:
        """The tables of the file."""
        return catalog.list_tables(self)

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
        """At once."""
        self._connection.interrupt()

    def close(self) -> None:
        """Ends the connection, and lets writers in."""
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
