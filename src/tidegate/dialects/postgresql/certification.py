"""What `tidegate certify` writes to PostgreSQL: every type with its extremes, over a connection of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, ClassVar, cast

import psycopg
from psycopg import sql

from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Certification, Sample, Scratch, Server, TableLog
from tidegate.dialects.postgresql.address import encrypted, options_of, reaching
from tidegate.dialects.postgresql.certified_logs import ReplicationSlot
from tidegate.dialects.postgresql.errors import refused, translated_errors

APPLICATION = "tidegate certify"
NINES = "9" * 38
TEXTS = (
    ("''", ""),
    ("U&'\\+10FFFF\\+01F600'", "\U0010ffff\U0001f600"),
    ("E' \\r\\n\\t'", " \r\n\t"),
    ("E'it''s | ~N \\\\ \\u0001'", "it's | ~N \\ \x01"),
    ("U&'\\00e9 e\\0301'", "é e\u0301"),
)
UUIDS = (
    ("'00000000-0000-0000-0000-000000000000'", "00000000-0000-0000-0000-000000000000"),
    ("'FFFFFFFF-ffff-ffff-ffff-fffffffffffF'", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
)
# The sequence of an identity column is part of its table.
CONTENTS = """
SELECT relname FROM pg_class AS c WHERE relnamespace = {schema} AND relkind NOT IN ('i', 'I', 't', 'c')
  AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype = 'i'
    AND refclassid = 'pg_class'::regclass AND relkind = 'S')
UNION SELECT typname FROM pg_type WHERE typnamespace = {schema} AND typrelid = 0 AND typelem = 0
UNION SELECT typname FROM pg_type WHERE typnamespace = {schema} AND typtype = 'c'
  AND typrelid IN (SELECT oid FROM pg_class WHERE relkind = 'c')
UNION SELECT proname FROM pg_proc WHERE pronamespace = {schema}
ORDER BY 1
"""
DISCONNECT = """
SELECT count(pg_terminate_backend(pid)) FROM (
  SELECT DISTINCT pid FROM pg_locks WHERE pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation IN (SELECT oid FROM pg_class WHERE relnamespace = {schema})
) AS others
"""


def _instants(zone: bool) -> tuple[tuple[str, Any], ...]:
    """The ends of the years 1 to 9999, days that Java's calendar once had not, and an hour that Berlin had not."""
    tz, at = ("+00", UTC) if zone else ("", None)
    return (
        (f"'0001-01-01 00:00:00{tz}'", datetime(1, 1, 1, tzinfo=at)),
        (f"'9999-12-31 23:59:59.999999{tz}'", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=at)),
        (f"'1582-10-10 12:34:56.789012{tz}'", datetime(1582, 10, 10, 12, 34, 56, 789012, tzinfo=at)),
        (f"'1969-12-31 23:59:59.999999{tz}'", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=at)),
        (f"'2025-03-30 02:30:00.000001{tz}'", datetime(2025, 3, 30, 2, 30, 0, 1, tzinfo=at)),
    )


SAMPLES = (
    Sample(name="c_boolean", declaration="boolean", values=(("false", False), ("true", True))),
    Sample(name="c_smallint", declaration="smallint", values=(("-32768", -(2**15)), ("32767", 2**15 - 1))),
    Sample(name="c_integer", declaration="integer", values=(("-2147483648", -(2**31)), ("2147483647", 2**31 - 1))),
    Sample(
        name="c_bigint",
        declaration="bigint",
        values=(
            ("-1", -1),
            ("4294967295", 2**32 - 1),
            ("-9223372036854775808", -(2**63)),
            ("9223372036854775807", 2**63 - 1),
        ),
    ),
    Sample(name="c_oid", declaration="oid", values=(("0", 0), ("4294967295", 2**32 - 1))),
    Sample(
        name="c_numeric_38_0",
        declaration="numeric(38,0)",
        values=((f"-{NINES}", Decimal(f"-{NINES}")), (NINES, Decimal(NINES))),
    ),
    Sample(
        name="c_numeric_38_10",
        declaration="numeric(38,10)",
        values=((f"-{NINES}e-10", Decimal(f"-{NINES}E-10")), ("0.0000000001", Decimal("1E-10")), ("0", Decimal(0))),
    ),
    Sample(
        name="c_numeric_5_5",
        declaration="numeric(5,5)",
        values=(("-0.99999", Decimal("-0.99999")), ("0.00001", Decimal("0.00001"))),
    ),
    Sample(
        name="c_numeric",
        declaration="numeric",
        values=(
            (f"-{NINES * 2}.5", f"-{NINES * 2}.5"),
            ("1e-60", f"0.{'0' * 59}1"),
            ("'NaN'", "NaN"),
            ("1.50", "1.50"),
        ),
    ),
    Sample(
        name="c_real",
        declaration="real",
        values=(
            ("'-3.4028235e38'", -3.4028234663852886e38),
            ("'1e-45'", 1.401298464324817e-45),
            ("'NaN'", math.nan),
            ("'-Infinity'", -math.inf),
            ("0.1", 0.10000000149011612),
        ),
    ),
    Sample(
        name="c_double",
        declaration="double precision",
        values=(
            ("'-1.7976931348623157e308'", -1.7976931348623157e308),
            ("'5e-324'", 5e-324),
            ("'NaN'", math.nan),
            ("'Infinity'", math.inf),
            ("0.1", 0.1),
        ),
    ),
    Sample(
        name="c_date",
        declaration="date",
        values=(
            ("'0001-01-01'", date(1, 1, 1)),
            ("'9999-12-31'", date(9999, 12, 31)),
            ("'1582-10-10'", date(1582, 10, 10)),
            ("'1969-12-31'", date(1969, 12, 31)),
        ),
    ),
    Sample(
        name="c_time",
        declaration="time",
        values=(
            ("'00:00'", "00:00:00.000000"),
            ("'23:59:59.999999'", "23:59:59.999999"),
            ("'24:00'", "24:00:00.000000"),
        ),
    ),
    Sample(name="c_timestamp", declaration="timestamp", values=_instants(zone=False)),
    Sample(name="c_timestamptz", declaration="timestamptz", values=_instants(zone=True)),
    Sample(name="c_text", declaration="text", values=TEXTS),
    Sample(name="c_varchar", declaration="varchar(20)", values=TEXTS),
    Sample(name="c_char", declaration="char(5)", values=(("'ab '", "ab"), ("' b'", " b"), ("''", ""))),
    Sample(name="c_name", declaration="name", values=(("''", ""), ("'Ab c'", "Ab c"))),
    Sample(name="c_enum", declaration="tidegate_mood", values=(("'so so'", "so so"), ("'ok'", "ok"))),
    Sample(
        name="c_domain", declaration="tidegate_price", values=(("-99.99", Decimal("-99.99")), ("0.01", Decimal("0.01")))
    ),
    Sample(name="c_uuid", declaration="uuid", values=UUIDS),
    Sample(
        name="c_json",
        declaration="json",
        values=(("""'{"b": 1,  "a":[1.0, null], "b":2}'""", '{"b": 1,  "a":[1.0, null], "b":2}'), ("'null'", "null")),
    ),
    Sample(
        name="c_jsonb",
        declaration="jsonb",
        values=(("""'{"bb":1,"a":1e2}'""", '{"a": 100, "bb": 1}'), ("""'"\\u00e9"'""", '"é"')),
    ),
    Sample(
        name="c_bytea",
        declaration="bytea",
        values=(("''", b""), (f"'\\x{bytes(range(256)).hex()}'", bytes(range(256))), ("'\\x00'", b"\x00")),
    ),
    Sample(
        name="c_inet", declaration="inet", values=(("'10.0.0.1'", "10.0.0.1"), ("'::1/64'", "::1/64"), ("'::1'", "::1"))
    ),
    Sample(name="c_cidr", declaration="cidr", values=(("'10.0.0.0/8'", "10.0.0.0/8"), ("'::/0'", "::/0"))),
    Sample(
        name="c_macaddr",
        declaration="macaddr",
        values=(("'00:00:00:00:00:00'", "00:00:00:00:00:00"), ("'FF-FF-FF-FF-FF-FF'", "ff:ff:ff:ff:ff:ff")),
    ),
    Sample(
        name="c_integers",
        declaration="integer[]",
        values=(("'{}'", []), ("'{-2147483648,NULL,2147483647}'", [-(2**31), None, 2**31 - 1])),
    ),
    Sample(
        name="c_texts",
        declaration="text[]",
        values=(("ARRAY['', NULL, 'a,b', '\"']", ["", None, "a,b", '"']), ("ARRAY['NULL']", ["NULL"])),
    ),
    Sample(
        name="c_booleans", declaration="boolean[]", values=(("'{t,f,NULL}'", [True, False, None]), ("'{f}'", [False]))
    ),
    Sample(
        name="c_interval_as_text",
        declaration="interval",
        read_as="text",
        values=(("'1 mon -2 days'", "1 mon -2 days"), ("'-178000000 years'", "-178000000 years")),
    ),
)


class PostgresqlScratch(Scratch):
    """A schema of one database; unqualified names are found in it."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection, self.schema = connection, schema
        options = encrypted(options_of(connection))
        self._user = options.get("user", "…")
        asked = {**reaching(options), "application_name": APPLICATION}
        try:
            self._session = psycopg.connect("", autocommit=True, prepare_threshold=None, **cast("Any", asked))
        except psycopg.Error as error:
            raise refused(
                connection.name, f"{options.get('host', 'localhost')}:{options.get('port', 5432)}", error
            ) from error
        self.execute(f"SET search_path = {self._quoted}")

    @property
    def _quoted(self) -> str:
        return sql.Identifier(self.schema).as_string()

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        with translated_errors(self.connection.name, self._user), self._session.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def contents(self) -> tuple[str, ...] | None:
        """Relations, types and functions."""
        name = sql.Literal(self.schema).as_string()
        found = self.execute(f"SELECT oid::bigint FROM pg_namespace WHERE nspname = {name}")
        if not found:
            return None
        return tuple(row[0] for row in self.execute(CONTENTS.format(schema=found[0][0])))

    def create(self) -> None:
        """A schema of the user's."""
        self.execute(f"CREATE SCHEMA {self._quoted}")

    def remove(self) -> None:
        """Without CASCADE."""
        self.execute(f"DROP SCHEMA {self._quoted}")

    def connect_again(self) -> PostgresqlScratch:
        """Another connection."""
        return PostgresqlScratch(self.connection, self.schema)

    def disconnect(self) -> int:
        """Those that hold a lock on anything in the schema."""
        name = sql.Literal(self.schema).as_string()
        schema = f"(SELECT oid FROM pg_namespace WHERE nspname = {name})"
        return int(self.execute(DISCONNECT.format(schema=schema))[0][0])

    def close(self) -> None:
        """Ends the connection, and a transaction that is open."""
        self._session.close()


class PostgresqlCertification(Certification):
    """PostgreSQL 12 and later."""

    driver: ClassVar[str] = "psycopg"
    instant: ClassVar[str] = "timestamptz"
    identity: ClassVar[str] = "bigint GENERATED BY DEFAULT AS IDENTITY"
    now: ClassVar[str] = "now()"
    logs: ClassVar[tuple[TableLog, ...]] = (ReplicationSlot(),)
    own: ClassVar[Mapping[str, tuple[str, str]]] = {
        "tidegate_mood": ("CREATE TYPE tidegate_mood AS ENUM ('ok', 'so so')", "DROP TYPE tidegate_mood"),
        "tidegate_price": ("CREATE DOMAIN tidegate_price AS numeric(4,2)", "DROP DOMAIN tidegate_price"),
    }
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def server(self, connection: Connection) -> Server:
        """Its whole version, and the number before the dot."""
        there = PostgresqlScratch(connection, self.schema)
        try:
            ((version,),) = there.execute("SHOW server_version")
        finally:
            there.close()
        return Server(product="PostgreSQL", version=version, major=version.partition(".")[0])

    def open(self, connection: Connection, schema: str | None) -> PostgresqlScratch:
        """A schema of the URL's database."""
        return PostgresqlScratch(connection, schema or self.schema)
