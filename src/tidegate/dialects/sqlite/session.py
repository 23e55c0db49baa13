"""A read-only connection to a SQLite file, which detects writes by others while it is open.

Never writes; to detect a writer, it briefly takes the write lock.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Jdbc, PreSnapshotSession, Relation, Row, TableFacts
from tidegate.core.refusals import marked_text
from tidegate.core.schema import Column, Kind, Schema
from tidegate.dialects.shared.database_file import jdbc_path, opened_file
from tidegate.dialects.shared.errors import bad_query
from tidegate.dialects.shared.key_ranges import even
from tidegate.dialects.shared.time_bounds import inclusive, must_be_time
from tidegate.dialects.shared.written_zones import must_be_written_in
from tidegate.dialects.sqlite import catalog
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
)

BUSY = timedelta(seconds=5)
CHANGE_COUNTER = slice(24, 28)  # of the file's header; see "The SQLite database file format", 1.3.7
MAGIC = b"SQLite format 3\0"
CLOCK = "SELECT strftime('%Y-%m-%d %H:%M:%S', 'now')"  # CURRENT_TIMESTAMP has whole seconds
MISSING = ("no such table", "no such column")
# A text that Python cannot decode, in a row that it asked for or on its way into `tidegate_md5`.
UNREADABLE = ("Could not decode to UTF-8", "user-defined function raised exception")


class SqliteSession(PreSnapshotSession):
    """One probe's connection to one file."""

    def __init__(self, dialect: Dialect, connection: Connection) -> None:
        self.dialect = dialect
        self.name = connection.name
        self.path = opened_file(connection, "sqlite")
        self._lock = threading.Lock()
        self._connection = self._open("ro")
        self._refuse_encoding()
        self._connection.create_function("tidegate_md5", 1, _md5, deterministic=True)
        self._connection.create_function("tidegate_quarter", 2, _quarter, deterministic=True)
        self._connection.create_function("tidegate_float", 1, _float, deterministic=True)
        self._seen = self._version()
        self._file = self.path.stat().st_ino

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
        """The second before the present one, at a moment when nobody writes; later writes carry a later second."""
        must_be_time(column.name, column.type)
        if time_zone is None:
            must_be_written_in("UTC", catalog.default(self, relation, column.name), column, datetime.now(UTC))
        if clock is Clock.APPLICATION:
            ((now,),) = self.rows(CLOCK)
        else:
            found = self._alone(CLOCK)
            if found is None:
                return SafeBound(upto=None, held_by=(f"another connection that is writing to {self.path.name}",))
            now = found[0]
        instant = datetime.fromisoformat(str(now)).replace(tzinfo=UTC)
        return SafeBound(upto=inclusive(instant, lag, column.type, time_zone or "UTC"))

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """The greatest id at a moment when nobody writes."""
        if column.type.kind is not Kind.INTEGER:
            raise ConfigError(f"column {column.name!r} is {column.type}, and a sequence needs an integer")
        if not relation.parts:
            raise EdgeUnknown(f"{relation.label} is a query: name the table, or use another strategy")
        if not catalog.grows(self, relation, column.name):
            raise EdgeUnknown(
                f"column {column.name!r} of {relation.label} is not INTEGER PRIMARY KEY AUTOINCREMENT: SQLite reuses "
                f"the number of a deleted last row, and a row with a reused number would be missed",
                hint="Declare it AUTOINCREMENT, or use `strategy: {kind: full}` or `{kind: watermark}`.",
            )
        highest = f"SELECT max({self.dialect.quote(column.name)}) FROM {relation.sql}"
        found = self._alone(f"SELECT ({highest}), ({catalog.generated(self, relation)})", wait)
        if found is None:
            return SafeBound(upto=None, held_by=(f"another connection that is writing to {self.path.name}",))
        # A file that lost the number that it keeps goes on after its greatest row.
        generated = max(each or 0 for each in found)
        return SafeBound(upto=None if found[0] is None else str(found[0]), generated=generated)

    def hold(self, relation: Relation) -> None:
        """Nothing to take: SQLite shares no snapshot between connections; see `verify_unchanged`."""

    def identity(self, relation: Relation) -> str:
        """The file's own number in its file system, and the table."""
        table = f":{'.'.join(relation.parts)}" if relation.parts else ""
        return f"sqlite:{self.path.stat().st_ino}{table}"

    def clock(self) -> int | None:
        """The file's change counter; it stays the same between checkpoints of a write-ahead log."""
        with self.path.open("rb") as file:
            header = file.read(CHANGE_COUNTER.stop)
        return int.from_bytes(header[CHANGE_COUNTER]) if header.startswith(MAGIC) else None

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        """From the primary key and the unique indexes over columns that are not NULL."""
        return catalog.unique_sets(self, relation)

    def row_bytes(self, relation: Relation) -> int:
        """The file's size by the rows of the table: an upper bound."""
        ((pages, size),) = self.rows("SELECT * FROM pragma_page_count(), pragma_page_size()")
        ((rows,),) = self.rows(f"SELECT count(*) FROM {relation.sql}")
        return int(max(1, min(4096, pages * size // max(1, rows))))

    def estimate(self, relation: Relation, condition: str) -> int:
        """The exact number: SQLite has no statistics worth trusting."""
        ((rows,),) = self.rows(f"SELECT count(*) FROM {relation.sql} WHERE {condition}")
        return int(rows)

    def cuts(self, relation: Relation, parts: int) -> tuple[str, ...]:
        """Ranges of rowid of the same width."""
        if parts < 2 or not catalog.has_rowid(self, relation):
            return ()
        place = self.dialect.place
        ((low,),) = self.rows(f"SELECT min({place}) FROM {relation.sql}")
        ((high,),) = self.rows(f"SELECT max({place}) FROM {relation.sql}")
        return even(place, low, high, parts)

    def verify_unchanged(self) -> None:
        """Raises SourceMoved when another connection has committed since this one was opened, or the file was replaced.

        A file that was replaced goes on for this connection, and Spark reads the other one.
        """
        if not self.path.exists() or self.path.stat().st_ino != self._file:
            raise SourceMoved(f"connection {self.name!r}: {self.path.name} was replaced while it was being read")
        if self._version() != self._seen:
            raise SourceMoved(f"connection {self.name!r}: {self.path.name} was written to while it was being read")

    def jdbc(self) -> Jdbc:
        """Connects Spark to the file, read-only."""
        milliseconds = str(int(BUSY.total_seconds() * 1000))
        properties = {"driver": "org.sqlite.JDBC", "open_mode": "1", "busy_timeout": milliseconds}
        return Jdbc(url=f"jdbc:sqlite:{jdbc_path(self.name, self.path)}", properties=properties)

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
        """Ends the connection."""
        self._connection.close()

    def _alone(self, sql: str, wait: timedelta = timedelta(seconds=1)) -> Row | None:
        """The first row of a statement asked while nobody writes; None when somebody does not stop writing."""
        with self._border(), closing(self._open("rw", wait)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                ((version,),) = other.execute("PRAGMA user_version").fetchall()
                # To a file that it may not write SQLite grants BEGIN IMMEDIATE without any lock: only a write, taken
                # back at once, shows it.
                other.execute(f"PRAGMA user_version = {version}")
                row: Row = other.execute(sql).fetchone()
            except sqlite3.OperationalError as error:
                if "locked" in str(error) or "busy" in str(error):
                    return None
                if "readonly" not in str(error):
                    raise
                raise EdgeUnknown(
                    f"connection {self.name!r}: only a user who may write to {self.path.name} can see whether others "
                    f"are writing",
                    hint="Give this user write permission to the file and its folder, or set `clock: application`.",
                ) from error
            finally:
                if other.in_transaction:
                    other.execute("ROLLBACK")
            return row

    def _open(self, mode: str, timeout: timedelta = BUSY) -> sqlite3.Connection:
        try:
            uri = f"file:{quote(str(self.path))}?mode={mode}"
            connection = sqlite3.connect(
                uri, uri=True, timeout=timeout.total_seconds(), isolation_level=None, check_same_thread=False
            )
            try:
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
            except sqlite3.Error:
                connection.close()
                raise
        except sqlite3.Error as error:
            about = f"connection {self.name!r}: {self.path}"
            if not self.path.exists():
                raise SourceRefused(f"{about} does not exist") from error
            if "not a database" in str(error):
                raise SourceRefused(f"{about} is not a SQLite database") from error
            raise SourceUnavailable(f"{about} cannot be opened: {error}", hint=SourceRefused.default_hint) from error
        return connection

    def _refuse_encoding(self) -> None:
        """Texts are read as the bytes that the file keeps, and compared by them."""
        ((encoding,),) = self.rows("PRAGMA encoding")
        if encoding != "UTF-8":
            self._connection.close()
            raise SourceRefused(
                f"connection {self.name!r}: {self.path.name} keeps its texts as {encoding}, and only UTF-8 is read",
                hint=f"Copy it into a file of UTF-8: `sqlite3 {self.path.name} .dump | sqlite3 copy.db`.",
            )

    def _version(self) -> int:
        return int(self.rows("PRAGMA data_version")[0][0])

    @contextmanager
    def _border(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._translate(str(error)) from error

    def _translate(self, text: str) -> TidegateError:
        if message := marked_text(text):
            return SchemaRefused(
                f"connection {self.name!r}: {message}",
                hint="Correct the row at the source, or declare the column's type under `source: {columns: …}`.",
            )
        if text.startswith(UNREADABLE):
            # The driver's text shows the value.
            return SchemaRefused(
                f"connection {self.name!r}: {self.path.name} contains text that is not UTF-8",
                hint="Correct the row at the source, or leave its column out with `source: {exclude: [COLUMN]}`.",
            )
        if text.startswith(MISSING):
            return ColumnMissing(f"connection {self.name!r}: {text}")
        if "locked" in text or "busy" in text:
            return SourceUnavailable(f"connection {self.name!r}: {self.path.name} is locked by a writer")
        if "syntax error" in text:
            return bad_query(self.name, text)
        return SourceError(f"connection {self.name!r}: SQLite rejected the statement: {text}")


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _float(value: object) -> str | None:
    """The digits from which a number comes back; of anything else its own text: the load that reads it is refused."""
    return None if value is None else repr(float(value) + 0.0 if isinstance(value, int | float) else value)


def _quarter(digest: str, index: int) -> int:
    return int(digest[8 * index : 8 * index + 8], 16)
