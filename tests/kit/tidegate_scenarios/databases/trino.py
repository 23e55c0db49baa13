"""What the kit writes to a catalog of Trino: every type that its connector has, with extremes.

A connector without UPDATE and DELETE cannot be certified: streams are compared after changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.dialects.trino.address import address_of
from tidegate.errors import ConfigError, EnvironmentMissing
from tidegate_scenarios.certification import Certification, Sample, ServerScratch
from tidegate_scenarios.samples import TEXTS, UUIDS, column, days, decimals, moments, plain, texts, times

try:
    from trino.auth import BasicAuthentication
    from trino.dbapi import Connection as Driver
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Trino driver is not installed", hint=extras.hint("trino")) from error
from tidegate.dialects.trino.errors import translated_errors


def _numbers(name: str, declaration: str, bits: int) -> Sample:
    ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return column(name, declaration, *tuple((f"{declaration} '{end}'", end) for end in ends))


SAMPLES = (
    column("c_boolean", "boolean", ("false", False), ("true", True)),
    _numbers("c_tinyint", "tinyint", 8),
    _numbers("c_smallint", "smallint", 16),
    _numbers("c_integer", "integer", 32),
    _numbers("c_bigint", "bigint", 64),
    decimals("c_decimal_38_0", 38, 0, form="CAST('{}' AS decimal(38,0))"),
    decimals("c_decimal_38_10", 38, 10, form="CAST('{}' AS decimal(38,10))"),
    decimals("c_decimal_4_3", 4, 3, form="CAST('{}' AS decimal(4,3))"),
    column("c_real", "real", ("real '-3.4028235e38'", -3.4028234663852886e38), ("real '1e-45'", 1.401298464324817e-45)),
    column(
        "c_double",
        "double",
        ("-1.7976931348623157e308", -1.7976931348623157e308),
        ("4.9e-324", 5e-324),
        ("nan()", math.nan),
        ("infinity()", math.inf),
    ),
    column("c_date", "date", *days("date '{}'")),
    column("c_time", "time(6)", *times("time '{}'")),
    column("c_timestamp", "timestamp(6)", *moments("timestamp '{}'")),
    column("c_timestamptz", "timestamp(6) with time zone", *moments("timestamp '{} UTC'", instants=True)),
    column("c_varchar", "varchar", *texts()),
    column("c_varchar_20", "varchar(20)", *texts()),
    column("c_char", "char(5)", ("'ab'", "ab"), ("' b'", " b"), ("''", "")),
    column("c_uuid", "uuid", *tuple((f"uuid '{text}'", text) for text in UUIDS)),
    column("c_ipaddress", "ipaddress", ("ipaddress '10.0.0.1'", "10.0.0.1"), ("ipaddress '::1'", "::1")),
    column("c_json", "json", ("""json '{"b":1,  "a":"|"}'""", '{"a":"|","b":1}'), ("json 'null'", "null")),
    column(
        "c_varbinary",
        "varbinary",
        ("x''", b""),
        (f"x'{bytes(range(256)).hex()}'", bytes(range(256))),
        ("x'00'", b"\x00"),
    ),
    column(
        "c_integers",
        "array(integer)",
        ("array[]", []),
        ("array[-2147483648, NULL, 2147483647]", [-(2**31), None, 2**31 - 1]),
    ),
    column(
        "c_texts",
        "array(varchar)",
        (f"array['', NULL, {plain(TEXTS[3])}]", ["", None, TEXTS[3]]),
        ("array['NULL']", ["NULL"]),
    ),
)


class TrinoScratch(ServerScratch):
    """A schema of the URL's catalog."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._address = address = address_of(connection)
        session = Driver(
            host=address.host,
            port=address.port,
            user=address.user,
            source="tidegate certify",
            catalog=address.catalog,
            schema=schema,
            http_scheme="https" if address.ssl else "http",
            auth=BasicAuthentication(address.user, address.password) if address.password is not None else None,
            verify=address.verify,
            timezone="UTC",
        )
        super().__init__(connection, schema, session, lambda: TrinoScratch(connection, schema))

    def translated(self) -> AbstractContextManager[None]:
        """With where the server is."""
        return translated_errors(self.connection.name, self._address.where)

    def contents(self) -> tuple[str, ...] | None:
        """Tables and views."""
        name = plain(self.schema)
        if not self.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {name}"):
            return None
        asked = f"SELECT table_name FROM information_schema.tables WHERE table_schema = {name} ORDER BY 1"
        return tuple(row[0] for row in self.execute(asked))

    def connect_again(self) -> None:
        """No transaction is held open, so one connection is enough."""
        return


class TrinoCertification(Certification):
    """Trino, over any catalog in which rows can be updated and deleted."""

    kind: ClassVar[str] = "trino"
    driver: ClassVar[str] = "trino"
    text: ClassVar[str] = "varchar"
    instant: ClassVar[str] = "timestamp(6) with time zone"
    now: ClassVar[str] = "CAST(current_timestamp AS timestamp(6) with time zone)"
    transactions: ClassVar[bool] = False
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def open(self, connection: Connection, schema: str | None) -> TrinoScratch:
        """A schema; Trino keeps names in lower case."""
        if schema is not None and schema != schema.lower():
            raise ConfigError(f"Trino keeps the names of schemas in lower case, and {schema!r} is not")
        return TrinoScratch(connection, schema or self.schema)

    def create_table(self, table: str, columns: Mapping[str, str]) -> str:
        """Trino enforces no keys."""
        return f"CREATE TABLE {table} ({', '.join(f'{name} {declaration}' for name, declaration in columns.items())})"
