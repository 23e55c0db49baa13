"""What the kit writes to DuckDB: every type with its extremes, into a file of its own.

The file is closed after each statement: while it is open for writing, no load can read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.dialects.shared.database_file import opened_file
from tidegate.errors import ConfigError, EnvironmentMissing, SourceError, SourceUnavailable
from tidegate_scenarios.certification import Certification, FileScratch, Sample
from tidegate_scenarios.samples import NINES, column, days, decimals, integers, moments, plain, texts, times, uuids

try:
    import duckdb
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the DuckDB driver is not installed", hint=extras.hint("duckdb")) from error

SAMPLES = (
    column("c_boolean", "BOOLEAN", ("false", False), ("true", True)),
    integers("c_tinyint", "TINYINT", -128, 127),
    integers("c_smallint", "SMALLINT", -(2**15), 2**15 - 1),
    integers("c_integer", "INTEGER", -(2**31), 2**31 - 1),
    integers("c_bigint", "BIGINT", -(2**63), 2**63 - 1),
    integers("c_utinyint", "UTINYINT", 0, 255),
    integers("c_usmallint", "USMALLINT", 0, 2**16 - 1),
    integers("c_uinteger", "UINTEGER", 0, 2**32 - 1),
    integers("c_ubigint", "UBIGINT", 0, 2**64 - 1),
    integers("c_hugeint", "HUGEINT", -int(NINES), int(NINES)),
    integers("c_uhugeint", "UHUGEINT", 0, int(NINES)),
    decimals("c_decimal_38_0", 38, 0, form="'{}'"),
    decimals("c_decimal_38_10", 38, 10, form="'{}'"),
    decimals("c_decimal_4_3", 4, 3),
    column(
        "c_float",
        "FLOAT",
        ("'-3.4028235e38'", -3.4028234663852886e38),
        ("'NaN'", math.nan),
        ("'1e-45'", 1.401298464324817e-45),
    ),
    column(
        "c_double",
        "DOUBLE",
        ("'-1.7976931348623157e308'", -1.7976931348623157e308),
        ("'5e-324'", 5e-324),
        ("'NaN'", math.nan),
        ("'Infinity'", math.inf),
    ),
    column("c_date", "DATE", *days()),
    column("c_time", "TIME", *times()),
    column("c_timestamp", "TIMESTAMP", *moments()),
    column("c_timestamptz", "TIMESTAMPTZ", *moments("'{}+00'", instants=True)),
    column("c_varchar", "VARCHAR", *texts()),
    column("c_enum", "ENUM('ok', 'so so')", ("'ok'", "ok"), ("'so so'", "so so")),
    column("c_uuid", "UUID", *uuids()),
    column(
        "c_blob",
        "BLOB",
        ("''::BLOB", b""),
        (f"from_hex('{bytes(range(256)).hex()}')", bytes(range(256))),
        ("from_hex('00')", b"\x00"),
    ),
    column("c_integers", "INTEGER[]", ("[]", []), ("[-2147483648, NULL, 2147483647]", [-(2**31), None, 2**31 - 1])),
    column(
        "c_texts", "VARCHAR[]", (f"['', NULL, {plain('a,b')}, '\"']", ["", None, "a,b", '"']), ("['NULL']", ["NULL"])
    ),
    column(
        "c_struct_as_text",
        "STRUCT(a INTEGER)",
        ("{'a': 1}", "{'a': 1}"),
        ("{'a': NULL}", "{'a': NULL}"),
        read_as="text",
    ),
)
SEQUENCE, MAIN = "tidegate_numbers", "main"
KINDS = ("table", "view", "type", "function")


class DuckdbScratch(FileScratch):
    """A file."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, MAIN, opened_file(connection, "duckdb"))

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement; the file is closed behind it."""
        if not self.path.exists():
            raise SourceUnavailable(f"connection {self.connection.name!r}: {self.path} does not exist")
        return self._execute(sql)

    def _execute(self, sql: str) -> Sequence[Sequence[Any]]:
        about = f"connection {self.connection.name!r}"
        try:
            with duckdb.connect(str(self.path)) as file:
                return file.execute(sql).fetchall()
        except duckdb.IOException as error:
            raise SourceUnavailable(f"{about}: {self.path} cannot be opened") from error
        except duckdb.Error as error:
            raise SourceError(f"{about}: DuckDB rejected the statement with {type(error).__name__}") from error

    def contents(self) -> tuple[str, ...] | None:
        """Tables, views, sequences, types and macros of every schema."""
        if not self.path.exists():
            return None
        here = "database_name = current_database()"
        names = " UNION ".join(
            f"SELECT {kind}_name FROM duckdb_{kind}s() WHERE NOT internal AND {here}" for kind in KINDS
        )
        names += f" UNION SELECT sequence_name FROM duckdb_sequences() WHERE {here}"
        return tuple(name for (name,) in self.execute(f"{names} ORDER BY 1"))

    def create(self) -> None:
        """An empty file."""
        if not self.path.parent.is_dir():
            raise ConfigError(f"{self.path.parent} does not exist", hint="Name a file in a folder that is writable.")
        self._execute("SELECT 1")


class DuckdbCertification(Certification):
    """DuckDB 1.4 and later."""

    kind: ClassVar[str] = "duckdb"
    driver: ClassVar[str] = "duckdb"
    instant: ClassVar[str] = "TIMESTAMPTZ"
    now: ClassVar[str] = "now()"
    identity: ClassVar[str] = f"BIGINT DEFAULT nextval('{SEQUENCE}')"
    transactions: ClassVar[bool] = False
    schema: ClassVar[str] = MAIN
    own: ClassVar[Mapping[str, tuple[str, str]]] = {
        SEQUENCE: (f"CREATE SEQUENCE {SEQUENCE}", f"DROP SEQUENCE {SEQUENCE}")
    }
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def open(self, connection: Connection, schema: str | None) -> DuckdbScratch:
        """A file of its own."""
        if schema not in {None, MAIN}:
            raise ConfigError("a file of DuckDB is certified whole", hint="Name another file, without --schema.")
        return DuckdbScratch(connection)
