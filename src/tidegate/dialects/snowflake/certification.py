"""What `tidegate certify` writes to Snowflake: every type with its extremes, over a connection of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Certification, Sample, Scratch, Server
from tidegate.core.ports.dialect import Dialect, doubled
from tidegate.dialects.shared.samples import blobs, days, decimals, moments, texts
from tidegate.dialects.snowflake.session import SnowflakeSession
from tidegate.errors import SourceError

# Streams, tasks and pipes need a table or a statement of the schema, and are no longer of use without it.
LISTS = {
    "tables": ("table_schema", "table_name"),
    "sequences": ("sequence_schema", "sequence_name"),
    "functions": ("function_schema", "function_name"),
    "procedures": ("procedure_schema", "procedure_name"),
    "stages": ("stage_schema", "stage_name"),
    "file_formats": ("file_format_schema", "file_format_name"),
}


def _string(text: str) -> str:
    """A text literal, in which a backslash is an escape."""
    return doubled(text.replace("\\", "\\\\"), "'")


SAMPLES = (
    Sample(name="c_boolean", declaration="boolean", values=(("false", False), ("true", True))),
    Sample(
        name="c_int",
        declaration="number(10,0)",
        values=(("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)),
        read_as="int",
    ),
    Sample(
        name="c_bigint",
        declaration="number(38,0)",
        values=(("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)),
        read_as="bigint",
    ),
    decimals("c_number_38_0", 38, 0, kind="number"),
    decimals("c_number_38_10", 38, 10, kind="number"),
    decimals("c_number_4_3", 4, 3, kind="number"),
    Sample(
        name="c_float",
        declaration="float",
        values=(
            ("-1.7976931348623157e308::float", -1.7976931348623157e308),
            ("2.2250738585072014e-308::float", 2.2250738585072014e-308),
            ("0.30000000000000004::float", 0.30000000000000004),
            ("'NaN'::float", math.nan),
            ("'inf'::float", math.inf),
        ),
    ),
    Sample(name="c_date", declaration="date", values=days("'{}'::date")),
    Sample(
        name="c_time",
        declaration="time(9)",
        values=(("'00:00:00'::time", "00:00:00.000000"), ("'23:59:59.999999'::time", "23:59:59.999999")),
    ),
    Sample(name="c_timestamp_ntz", declaration="timestamp_ntz(9)", values=moments("'{}'::timestamp_ntz")),
    Sample(
        name="c_timestamp_ltz",
        declaration="timestamp_ltz(9)",
        values=moments("'{} +00:00'::timestamp_ltz", instants=True),
    ),
    Sample(
        name="c_timestamp_tz",
        declaration="timestamp_tz(9)",
        values=moments("'{} +00:00'::timestamp_tz", instants=True),
    ),
    Sample(name="c_varchar", declaration="varchar", values=texts(_string)),
    Sample(name="c_varchar_20", declaration="varchar(20)", values=texts(_string)),
    Sample(name="c_binary", declaration="binary", values=blobs("to_binary('{}', 'HEX')")),
    Sample(
        name="c_variant",
        declaration="variant",
        values=(('parse_json(\'{"a": null, "b": 1}\')', '{"a":null,"b":1}'), ("parse_json('[]')", "[]")),
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
        for place, (schema, column) in LISTS.items():
            found |= {
                str(row[0]) for row in self.execute(f"SELECT {column} FROM {lists}.{place} WHERE {schema} = {name}")
            }
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

    driver: ClassVar[str] = "snowflake-connector-python"
    integer: ClassVar[str] = "number(18,0)"
    instant: ClassVar[str] = "timestamp_ltz(9)"
    now: ClassVar[str] = "CURRENT_TIMESTAMP"
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def server(self, connection: Connection) -> Server:
        """Its release; each week has another one, of which the first number is kept for years."""
        there = SnowflakeScratch(self._dialect, connection, self.schema)
        try:
            ((version,),) = there.execute("SELECT current_version()")
        finally:
            there.close()
        return Server(product="Snowflake", version=str(version), major=str(version).partition(".")[0])

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
