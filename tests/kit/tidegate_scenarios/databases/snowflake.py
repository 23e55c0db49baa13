"""What the kit writes to Snowflake: every type with its extremes, over a connection of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, doubled
from tidegate.dialects.snowflake.dialect import Snowflake
from tidegate.dialects.snowflake.session import SnowflakeSession
from tidegate.errors import SourceError
from tidegate_scenarios.certification import Certification, Sample, Scratch
from tidegate_scenarios.samples import blobs, column, days, decimals, moments, texts, times

# Streams, tasks and pipes need a table or a statement of the schema, and are no longer of use without it.
LISTS = ("table", "sequence", "function", "procedure", "stage", "file_format")


def _string(text: str) -> str:
    """A text literal, in which a backslash is an escape."""
    return doubled(text.replace("\\", "\\\\"), "'")


SAMPLES = (
    column("c_boolean", "boolean", ("false", False), ("true", True)),
    column("c_int", "number(10,0)", ("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), read_as="int"),
    column(
        "c_bigint",
        "number(38,0)",
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
        read_as="bigint",
    ),
    decimals("c_number_38_0", 38, 0, kind="number"),
    decimals("c_number_38_10", 38, 10, kind="number"),
    decimals("c_number_4_3", 4, 3, kind="number"),
    column(
        "c_float",
        "float",
        ("-1.7976931348623157e308::float", -1.7976931348623157e308),
        ("2.2250738585072014e-308::float", 2.2250738585072014e-308),
        ("0.30000000000000004::float", 0.30000000000000004),
        ("'NaN'::float", math.nan),
        ("'inf'::float", math.inf),
    ),
    column("c_date", "date", *days("'{}'::date")),
    column("c_time", "time(9)", *times("'{}'::time")),
    column("c_timestamp_ntz", "timestamp_ntz(9)", *moments("'{}'::timestamp_ntz")),
    column("c_timestamp_ltz", "timestamp_ltz(9)", *moments("'{} +00:00'::timestamp_ltz", instants=True)),
    column("c_timestamp_tz", "timestamp_tz(9)", *moments("'{} +00:00'::timestamp_tz", instants=True)),
    column("c_varchar", "varchar", *texts(_string)),
    column("c_varchar_20", "varchar(20)", *texts(_string)),
    column("c_binary", "binary", *blobs("to_binary('{}', 'HEX')")),
    column(
        "c_variant",
        "variant",
        ('parse_json(\'{"a": null, "b": 1}\')', '{"a":null,"b":1}'),
        ("parse_json('[]')", "[]"),
        read_as="json",
    ),
)


class SnowflakeScratch(Scratch):
    """A schema of the URL's database."""

    def __init__(self, dialect: Dialect, connection: Connection, schema: str) -> None:
        self.connection, self.schema, self._dialect = connection, schema, dialect
        self._session = SnowflakeSession(dialect, connection)
        self._database = dialect.quote(self._session.database)

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        return self._session.ask(sql)

    def contents(self) -> tuple[str, ...] | None:
        """Whatever INFORMATION_SCHEMA lists."""
        lists, name = f"{self._database}.information_schema", _string(self.schema)
        if not self.execute(f"SELECT 1 FROM {lists}.schemata WHERE schema_name = {name}"):
            return None
        found: set[str] = set()
        for each in LISTS:
            rows = self.execute(f"SELECT {each}_name FROM {lists}.{each}s WHERE {each}_schema = {name}")
            found |= {str(row[0]) for row in rows}
        return tuple(sorted(found))

    def create(self) -> None:
        """In the database of the URL."""
        self.execute(f"CREATE SCHEMA {self._quoted}")

    def remove(self) -> None:
        """Only if nothing lies in it, for Snowflake drops a schema with whatever it holds."""
        if left := self.contents():
            raise SourceError(f"schema {self.schema} is not empty: it has {left[0]}")
        self.execute(f"DROP SCHEMA {self._quoted}")

    @property
    def _quoted(self) -> str:
        return f"{self._database}.{self._dialect.quote(self.schema)}"

    def connect_again(self) -> SnowflakeScratch:
        """As the same user."""
        return SnowflakeScratch(self._dialect, self.connection, self.schema)

    def close(self) -> None:
        """Ends the connection."""
        self._session.close()


class SnowflakeCertification(Certification):
    """Snowflake, at the database of the URL."""

    kind: ClassVar[str] = "snowflake"
    driver: ClassVar[str] = "snowflake-connector-python"
    integer: ClassVar[str] = "number(18,0)"
    instant: ClassVar[str] = "timestamp_ltz(9)"
    now: ClassVar[str] = "CURRENT_TIMESTAMP"
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self) -> None:
        self._dialect = Snowflake()

    def open(self, connection: Connection, schema: str | None) -> SnowflakeScratch:
        """The schema of that name; names are those that Snowflake keeps."""
        return SnowflakeScratch(self._dialect, connection, schema or self.schema)

    def string(self, text: str) -> str:
        """A text literal, in which a backslash is an escape."""
        return _string(text)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """By SELECT, for VALUES takes no calls of functions."""
        values = " UNION ALL ".join(f"SELECT {', '.join(row)}" for row in rows)
        return f"INSERT INTO {table} ({', '.join(columns)}) {values}"
