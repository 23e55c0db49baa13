"""A read-only connection to a SQLite file, which detects writes by others while it is open.

Never writes; to detect a writer, it briefly takes the write lock.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from collections.abc import Iterator
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
from tidegate.dialects.shared.columns import RelationColumns, described
from tidegate.dialects.shared.database_file import jdbc_path, opened_file
from tidegate.dialects.shared.errors import bad_query
from tidegate.dialects.shared.key_ranges import even
from tidegate.dialects.shared.time_bounds import inclusive, must_be_time
from tidegate.dialects.sqlite.types import column_of
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


VIEW = "tidegate described"
NOW = re.compile(r"CURRENT_TIMESTAMP|(?:datetime|strftime)\s*\((?![^()]*localtime)[^()]*'now'[^()]*\)?", re.IGNORECASE)
"""In UTC, as the bound is."""
SETS = re.compile(
    rf'\s*UPDATE\s+(?:"[^"]+"|\w+)\s+SET\s+(?:"([^"]+)"|(\w+))\s*=\s*(?:{NOW.pattern})\s+'
    r"WHERE\s+\w+\s*=\s*(?:NEW|OLD)\.\w+\s*;\s*END\s*;?\s*",
    re.IGNORECASE,
)
ROWIDS = frozenset({"rowid", "_rowid_", "oid"})


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
        with self._border(), self._lock:
            return self._connection.execute(sql).fetchall()

    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        return self._mapped(relation, selection).schema()

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """The second before the present one, at a moment when nobody writes; later writes carry a later second."""
        del relation  # the whole file has one writer
        must_be_time(column.name, column.type)
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
        if not self._grows(relation, column.name):
            raise EdgeUnknown(
                f"column {column.name!r} of {relation.label} is not INTEGER PRIMARY KEY AUTOINCREMENT: SQLite reuses "
                f"the number of a deleted last row, and a row with a reused number would be missed",
                hint="Declare it AUTOINCREMENT, or use `strategy: {kind: full}` or `{kind: watermark}`.",
            )
        highest = f"SELECT max({self.dialect.quote(column.name)}) FROM {relation.sql}"
        found = self._alone(f"SELECT ({highest}), ({self._generated(relation)})", wait)
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
        """The columns of the primary key and of each unique index that covers every row and no NULL."""
        if not relation.parts:
            return ()
        nullable = {name for name, _, nullable in self._describe(relation) if nullable}
        found = []
        alias = self._rowid_alias(relation)
        if alias is not None:
            found.append(frozenset({alias}))
        for _, name, unique, _, partial in self.rows(
            f"SELECT * FROM pragma_index_list({self._arguments(relation.parts)})"
        ):
            if unique and not partial:
                names = self._indexed(relation, name)
                if None not in names and not nullable & set(names):
                    found.append(frozenset(str(name) for name in names))
        return tuple(found)

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
        if parts < 2 or not self._has_rowid(relation):
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
        milliseconds = str(int(BUSY.total_seconds() * 1000))
        properties = {"driver": "org.sqlite.JDBC", "open_mode": "1", "busy_timeout": milliseconds}
        return Jdbc(url=f"jdbc:sqlite:{jdbc_path(self.name, self.path)}", properties=properties)

    def list_tables(self) -> list[tuple[str, str]]:
        rows = self.rows(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1"
        )
        return [("main", name) for (name,) in rows]

    def views(self) -> list[tuple[str, str]]:
        return [
            ("main", name) for (name,) in self.rows("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY 1")
        ]

    def primary_keys(self) -> dict[tuple[str, str], tuple[str, ...]]:
        rows = self.rows(
            "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c "
            "WHERE t.type = 'table' AND c.pk > 0 ORDER BY t.name, c.pk"
        )
        found: dict[tuple[str, str], tuple[str, ...]] = {}
        for table, column in rows:
            found["main", table] = (*found.get(("main", table), ()), column)
        return found

    def facts(self, schema: str, table: str) -> TableFacts:
        relation = self.dialect.relation(schema, table)
        found = self._mapped(relation, ColumnSelection())
        keys = sorted((row[5], row[1]) for row in self._info(relation.parts) if row[5])
        listed = self.rows(f"SELECT * FROM pragma_index_list({self._arguments(relation.parts)})")
        indexes = [self._indexed(relation, row[1]) for row in listed if row[3] != "pk"]
        return TableFacts(
            schema=schema,
            table=table,
            columns=Schema(columns=found.columns),
            unsupported=found.unsupported,
            primary_key=tuple(name for _, name in keys),
            indexes=tuple(tuple(name for name in names if name is not None) for names in indexes),
            rows=self.estimate(relation, "1 = 1"),
            clocked=self._clocked(relation),
        )

    def close(self) -> None:
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

    def _mapped(self, relation: Relation, selection: ColumnSelection) -> RelationColumns:
        natives = [(name, (declared, nullable)) for name, declared, nullable in self._describe(relation)]
        return described(relation.label, natives, selection, column_of)

    def _describe(self, relation: Relation) -> list[tuple[str, str, bool]]:
        """Name, declaration and whether NULL is allowed."""
        if not relation.parts:
            view = self.dialect.quote(VIEW)
            self.rows(f"CREATE TEMP VIEW {view} AS SELECT * FROM {relation.sql}")
            try:
                return [(row[1], row[2], True) for row in self._info((VIEW,))]
            finally:
                self.rows(f"DROP VIEW temp.{view}")
        found = self._info(relation.parts)
        if not found:
            raise ColumnMissing(f"connection {self.name!r}: there is no table {relation.label}", table=relation.label)
        alias = self._rowid_alias(relation)
        return [(row[1], row[2], not row[3] and row[1] != alias) for row in found]

    def _info(self, parts: tuple[str, ...]) -> list[Row]:
        """cid, name, type, notnull, default, place in the primary key."""
        return self.rows(f"SELECT * FROM pragma_table_xinfo({self._arguments(parts)}) WHERE hidden <> 1")

    def _arguments(self, parts: tuple[str, ...]) -> str:
        string = self.dialect.string
        return f"{string(parts[-1])}, {string(parts[0])}" if len(parts) > 1 else string(parts[-1])

    def _created(self, relation: Relation) -> str:
        schema = self.dialect.quote(relation.parts[0] if len(relation.parts) > 1 else "main")
        name = self.dialect.string(relation.parts[-1])
        rows = self.rows(
            f"SELECT sql FROM {schema}.sqlite_schema WHERE type = 'table' AND name = {name} COLLATE NOCASE"
        )
        return str(rows[0][0]) if rows else ""

    def _rowid_alias(self, relation: Relation) -> str | None:
        """The column that is the rowid: an INTEGER PRIMARY KEY without an index of its own, which one DESC has."""
        keys = [row for row in self._info(relation.parts) if row[5]]
        if len(keys) != 1 or keys[0][2].upper() != "INTEGER" or not self._has_rowid(relation):
            return None
        indexes = self.rows(f"SELECT origin FROM pragma_index_list({self._arguments(relation.parts)})")
        return None if ("pk",) in indexes else str(keys[0][1])

    def _grows(self, relation: Relation, column: str) -> bool:
        """Whether a number of the column is never given twice."""
        # The word cannot stand in a column's name by itself without quotes, nor in any other clause.
        words = re.sub(r"\"[^\"]*\"|'[^']*'|`[^`]*`|\[[^\]]*\]", " ", self._created(relation))
        return (
            self._rowid_alias(relation) == column and re.search(r"\bAUTOINCREMENT\b", words, re.IGNORECASE) is not None
        )

    def _generated(self, relation: Relation) -> str:
        """The statement for the last number that an AUTOINCREMENT table has given; no row if it gave none."""
        schema = self.dialect.quote(relation.parts[0] if len(relation.parts) > 1 else "main")
        name = self.dialect.string(relation.parts[-1])
        return f"SELECT seq FROM {schema}.sqlite_sequence WHERE name = {name} COLLATE NOCASE"

    def _has_rowid(self, relation: Relation) -> bool:
        """Whether rows have a number that orders them."""
        if not relation.parts or not self._created(relation):
            return False
        if any(row[1].lower() in ROWIDS for row in self._info(relation.parts)):
            return False
        try:
            self.rows(f"SELECT rowid FROM {relation.sql} LIMIT 0")
        except (ColumnMissing, SourceError):
            return False
        return True

    def _indexed(self, relation: Relation, index: str) -> tuple[str | None, ...]:
        parts = (*relation.parts[:-1], index)
        return tuple(row[2] for row in self.rows(f"SELECT * FROM pragma_index_info({self._arguments(parts)})"))

    def _clocked(self, relation: Relation) -> dict[str, str]:
        """Columns that triggers set to the time at every insert and every update.

        A default, which an insert may overrule, a trigger with a condition or of some columns alone, one that does
        anything else, and a second one of the same event prove nothing.
        """
        table = self.dialect.string(relation.parts[-1])
        rows = self.rows(
            f"SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = {table} COLLATE NOCASE"
        )
        proven: dict[str, dict[str, str]] = {"INSERT": {}, "UPDATE": {}}
        for trigger, sql in rows:
            head, body = re.split(r"\bBEGIN\b", re.sub(r"--[^\n]*", " ", sql), maxsplit=1, flags=re.IGNORECASE)
            event = re.search(r"\bAFTER\s+(INSERT|UPDATE)\s+ON\b", head, re.IGNORECASE)
            only = SETS.fullmatch(body)
            if event is None or only is None or re.search(r"\bWHEN\b", head, re.IGNORECASE):
                return {}
            proven[event[1].upper()][only[1] or only[2]] = trigger
        if len(rows) > len(proven):
            return {}
        return {name: f"trigger {trigger}" for name, trigger in proven["UPDATE"].items() if name in proven["INSERT"]}


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _float(value: object) -> str | None:
    """The digits from which a number comes back; of anything else its own text: the load that reads it is refused."""
    return None if value is None else repr(float(value) + 0.0 if isinstance(value, int | float) else value)


def _quarter(digest: str, index: int) -> int:
    return int(digest[8 * index : 8 * index + 8], 16)
