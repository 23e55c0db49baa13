"""What the kit writes to PostgreSQL: every type with its extremes, over a connection of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any, ClassVar, cast

import psycopg
from psycopg import sql

from tidegate.core.ids import Connection
from tidegate.dialects.postgresql.address import encrypted, options_of, reaching
from tidegate.dialects.postgresql.errors import refused, translated_errors
from tidegate_scenarios.certification import Certification, Sample, ServerScratch, TableLog
from tidegate_scenarios.postgresql_slot import ReplicationSlot
from tidegate_scenarios.samples import NINES, blobs, column, days, decimals, integers, moments, texts, times, uuids

APPLICATION = "tidegate certify"
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


SAMPLES = (
    column("c_boolean", "boolean", ("false", False), ("true", True)),
    integers("c_smallint", "smallint", -(2**15), 2**15 - 1),
    integers("c_integer", "integer", -(2**31), 2**31 - 1),
    column(
        "c_bigint",
        "bigint",
        ("-1", -1),
        ("4294967295", 2**32 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775807", 2**63 - 1),
    ),
    integers("c_oid", "oid", 0, 2**32 - 1),
    decimals("c_numeric_38_0", 38, 0, kind="numeric"),
    decimals("c_numeric_38_10", 38, 10, kind="numeric"),
    decimals("c_numeric_5_5", 5, 5, kind="numeric"),
    column(
        "c_numeric",
        "numeric",
        (f"-{NINES * 2}.5", f"-{NINES * 2}.5"),
        ("1e-60", f"0.{'0' * 59}1"),
        ("'NaN'", "NaN"),
        ("1.50", "1.50"),
    ),
    column(
        "c_real",
        "real",
        ("'-3.4028235e38'", -3.4028234663852886e38),
        ("'1e-45'", 1.401298464324817e-45),
        ("'NaN'", math.nan),
        ("'-Infinity'", -math.inf),
        ("0.1", 0.10000000149011612),
    ),
    column(
        "c_double",
        "double precision",
        ("'-1.7976931348623157e308'", -1.7976931348623157e308),
        ("'5e-324'", 5e-324),
        ("'NaN'", math.nan),
        ("'Infinity'", math.inf),
        ("0.1", 0.1),
    ),
    column("c_date", "date", *days()),
    column("c_time", "time", *times(), ("'24:00'", "24:00:00.000000")),
    column("c_timestamp", "timestamp", *moments()),
    column("c_timestamptz", "timestamptz", *moments("'{}+00'", instants=True)),
    column("c_text", "text", *texts()),
    column("c_varchar", "varchar(20)", *texts()),
    column("c_char", "char(5)", ("'ab '", "ab"), ("' b'", " b"), ("''", "")),
    column("c_name", "name", ("''", ""), ("'Ab c'", "Ab c")),
    column("c_enum", "tidegate_mood", ("'so so'", "so so"), ("'ok'", "ok")),
    column("c_domain", "tidegate_price", ("-99.99", Decimal("-99.99")), ("0.01", Decimal("0.01"))),
    column(
        "c_uuid", "uuid", *uuids(), ("'FFFFFFFF-ffff-ffff-ffff-ffffffffffF0'", "ffffffff-ffff-ffff-ffff-fffffffffff0")
    ),
    column(
        "c_json",
        "json",
        ("""'{"b": 1,  "a":[1.0, null], "b":2}'""", '{"b": 1,  "a":[1.0, null], "b":2}'),
        ("'null'", "null"),
    ),
    column("c_jsonb", "jsonb", ("""'{"bb":1,"a":1e2}'""", '{"a": 100, "bb": 1}'), ("""'"\\u00e9"'""", '"é"')),
    column("c_bytea", "bytea", *blobs("'\\x{}'")),
    column("c_inet", "inet", ("'10.0.0.1'", "10.0.0.1"), ("'::1/64'", "::1/64"), ("'::1'", "::1")),
    column("c_cidr", "cidr", ("'10.0.0.0/8'", "10.0.0.0/8"), ("'::/0'", "::/0")),
    column(
        "c_macaddr",
        "macaddr",
        ("'00:00:00:00:00:00'", "00:00:00:00:00:00"),
        ("'FF-FF-FF-FF-FF-FF'", "ff:ff:ff:ff:ff:ff"),
    ),
    column("c_integers", "integer[]", ("'{}'", []), ("'{-2147483648,NULL,2147483647}'", [-(2**31), None, 2**31 - 1])),
    column("c_texts", "text[]", ("ARRAY['', NULL, 'a,b', '\"']", ["", None, "a,b", '"']), ("ARRAY['NULL']", ["NULL"])),
    column("c_booleans", "boolean[]", ("'{t,f,NULL}'", [True, False, None]), ("'{f}'", [False])),
    column(
        "c_interval_as_text",
        "interval",
        ("'1 mon -2 days'", "1 mon -2 days"),
        ("'-178000000 years'", "-178000000 years"),
        read_as="text",
    ),
)


class PostgresqlScratch(ServerScratch):
    """A schema of one database; unqualified names are found in it."""

    def __init__(self, connection: Connection, schema: str) -> None:
        options = encrypted(options_of(connection))
        self._user = options.get("user", "…")
        asked = {**reaching(options), "application_name": APPLICATION}
        try:
            session = psycopg.connect("", autocommit=True, prepare_threshold=None, **cast("Any", asked))
        except psycopg.Error as error:
            raise refused(
                connection.name, f"{options.get('host', 'localhost')}:{options.get('port', 5432)}", error
            ) from error
        super().__init__(connection, schema, session, lambda: PostgresqlScratch(connection, schema))
        self.execute(f"SET search_path = {self.quoted}")

    def translated(self) -> AbstractContextManager[None]:
        """With what the user lacks."""
        return translated_errors(self.connection.name, self._user)

    def contents(self) -> tuple[str, ...] | None:
        """Relations, types and functions."""
        name = sql.Literal(self.schema).as_string()
        found = self.execute(f"SELECT oid::bigint FROM pg_namespace WHERE nspname = {name}")
        if not found:
            return None
        return tuple(row[0] for row in self.execute(CONTENTS.format(schema=found[0][0])))

    def disconnect(self) -> int:
        """Those that hold a lock on anything in the schema."""
        name = sql.Literal(self.schema).as_string()
        schema = f"(SELECT oid FROM pg_namespace WHERE nspname = {name})"
        return int(self.execute(DISCONNECT.format(schema=schema))[0][0])


class PostgresqlCertification(Certification):
    """PostgreSQL 12 and later."""

    kind: ClassVar[str] = "postgresql"
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

    def open(self, connection: Connection, schema: str | None) -> PostgresqlScratch:
        """A schema of the URL's database."""
        return PostgresqlScratch(connection, schema or self.schema)
