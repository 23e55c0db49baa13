"""What the kit writes to SQLite: every type with its extremes, into a file of its own."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, ClassVar
from urllib.parse import quote

from tidegate.core.ids import Connection
from tidegate.dialects.shared.database_file import opened_file
from tidegate.errors import ConfigError, SourceError, SourceUnavailable
from tidegate_scenarios.certification import Certification, FileScratch, Sample
from tidegate_scenarios.samples import blobs, column, days, integers, moments, texts, times, uuids

MAIN = "main"
BUSY = 5.0  # seconds

SAMPLES = (
    integers("c_integer", "INTEGER", -(2**63), 2**63 - 1),
    integers("c_bigint", "BIGINT", -(2**63), 2**63 - 1),
    column(
        "c_decimal_as_text",
        "TEXT",
        (f"'-{'9' * 28}.{'9' * 10}'", Decimal(f"-{'9' * 28}.{'9' * 10}")),
        ("'0.0000000001'", Decimal("1E-10")),
        ("'-0.0000000001'", Decimal("-1E-10")),
        read_as="decimal(38,10)",
    ),
    column(
        "c_decimal",
        "DECIMAL(15,2)",
        ("-9999999999999.99", Decimal("-9999999999999.99")),
        ("0.01", Decimal("0.01")),
        ("-0.01", Decimal("-0.01")),
    ),
    column(
        "c_real",
        "REAL",
        ("-1.7976931348623157e308", -1.7976931348623157e308),
        ("5e-324", 5e-324),
        ("9e999", float("inf")),
        ("0.1", 0.1),
    ),
    column("c_boolean", "BOOLEAN", ("0", False), ("1", True)),
    column("c_date", "DATE", *days()),
    column("c_timestamp", "TIMESTAMP", *moments()),
    column("c_time", "TIME", *times(), ("'12:30:00'", "12:30:00.000000")),
    column("c_text", "TEXT", *texts()),
    column("c_varchar", "VARCHAR(20)", *texts()),
    column("c_uuid", "UUID", *uuids()),
    column("c_json", "JSON", ("""'{"b": 1,  "a":[1.0]}'""", '{"b": 1,  "a":[1.0]}'), ("'null'", "null")),
    column("c_blob", "BLOB", *blobs()),
)


class SqliteScratch(FileScratch):
    """A file that stays open, so that a transaction can."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, MAIN, opened_file(connection, "sqlite"))
        self._opened: sqlite3.Connection | None = None

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        try:
            return self._file.execute(sql).fetchall()
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorname", type(error).__name__)
            raise SourceError(f"connection {self.connection.name!r}: SQLite rejected the statement: {code}") from error

    @property
    def _file(self) -> sqlite3.Connection:
        if self._opened is None:
            uri = f"file:{quote(str(self.path))}?mode=rw"
            try:
                self._opened = sqlite3.connect(
                    uri, uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False
                )
            except sqlite3.Error as error:
                raise SourceUnavailable(f"connection {self.connection.name!r}: {self.path} cannot be opened") from error
        return self._opened

    def contents(self) -> tuple[str, ...] | None:
        """Tables, views and triggers."""
        if not self.path.exists():
            return None
        found = self.execute("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY 1")
        return tuple(name for (name,) in found)

    def create(self) -> None:
        """An empty file."""
        try:
            self.path.touch(exist_ok=False)
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be created: {error.strerror}", hint="Choose a folder that is writable."
            ) from error

    def begin(self) -> None:
        """Takes the lock of the writer."""
        self.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        """Ends the connection."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class SqliteCertification(Certification):
    """SQLite 3.38 and later."""

    kind: ClassVar[str] = "sqlite"
    driver: ClassVar[str] = "sqlite3"
    instant: ClassVar[str] = "TIMESTAMP"
    now: ClassVar[str] = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
    zone: ClassVar[str] = "UTC"
    identity: ClassVar[str] = "INTEGER"
    schema: ClassVar[str] = MAIN
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def driver_version(self) -> str:
        """It comes with Python."""
        return f"of Python {platform.python_version()}"

    def open(self, connection: Connection, schema: str | None) -> SqliteScratch:
        """A file of its own."""
        if schema not in (None, MAIN):
            raise ConfigError(f"a file of SQLite has no schema {schema!r}", hint="Name another file, without --schema.")
        return SqliteScratch(connection)

    def create_table(self, table: str, columns: Mapping[str, str]) -> str:
        """A key that counts, so that no number is given twice."""
        key, *others = (f"{name} {declaration}" for name, declaration in columns.items())
        counts = " AUTOINCREMENT" if key.endswith(f" {self.identity}") else ""
        return f"CREATE TABLE {table} ({', '.join([f'{key} PRIMARY KEY{counts} NOT NULL', *others])})"
