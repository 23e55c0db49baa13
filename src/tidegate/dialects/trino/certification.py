"""What `tidegate certify` writes to a catalog of Trino: every type that its connector has, with extremes.

A connector without UPDATE and DELETE cannot be certified: streams are compared after changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Certification, Sample, Scratch, Server
from tidegate.dialects.shared.samples import TEXTS, UUIDS, days, decimals, moments, plain, texts
from tidegate.dialects.trino.address import address_of
from tidegate.errors import ConfigError, EnvironmentMissing

try:
    from trino.auth import BasicAuthentication
    from trino.dbapi import Connection as Driver
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Trino driver is not installed", hint=extras.hint("trino")) from error
from tidegate.dialects.trino.errors import translated_errors


def _numbers(name: str, declaration: str, bits: int) -> Sample:
    ends = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Sample(name=name, declaration=declaration, values=tuple((f"{declaration} '{end}'", end) for end in ends))


SAMPLES = (
    Sample(name="c_boolean", declaration="boolean", values=(("false", False), ("true", True))),
    _numbers("c_tinyint", "tinyint", 8),
    _numbers("c_smallint", "smallint", 16),
    _numbers("c_integer", "integer", 32),
    _numbers("c_bigint", "bigint", 64),
    decimals("c_decimal_38_0", 38, 0, form="CAST('{}' AS decimal(38,0))"),
    decimals("c_decimal_38_10", 38, 10, form="CAST('{}' AS decimal(38,10))"),
    decimals("c_decimal_4_3", 4, 3, form="CAST('{}' AS decimal(4,3))"),
    Sample(
        name="c_real",
        declaration="real",
        values=(("real '-3.4028235e38'", -3.4028234663852886e38), ("real '1e-45'", 1.401298464324817e-45)),
    ),
    Sample(
        name="c_double",
        declaration="double",
        values=(
            ("-1.7976931348623157e308", -1.7976931348623157e308),
            ("4.9e-324", 5e-324),
            ("nan()", math.nan),
            ("infinity()", math.inf),
        ),
    ),
    Sample(name="c_date", declaration="date", values=days("date '{}'")),
    Sample(
        name="c_time",
        declaration="time(6)",
        values=(("time '00:00:00'", "00:00:00.000000"), ("time '23:59:59.999999'", "23:59:59.999999")),
    ),
    Sample(name="c_timestamp", declaration="timestamp(6)", values=moments("timestamp '{}'")),
    Sample(
        name="c_timestamptz",
        declaration="timestamp(6) with time zone",
        values=moments("timestamp '{} UTC'", instants=True),
    ),
    Sample(name="c_varchar", declaration="varchar", values=texts()),
    Sample(name="c_varchar_20", declaration="varchar(20)", values=texts()),
    Sample(name="c_char", declaration="char(5)", values=(("'ab'", "ab"), ("' b'", " b"), ("''", ""))),
    Sample(name="c_uuid", declaration="uuid", values=tuple((f"uuid '{text}'", text) for text in UUIDS)),
    Sample(
        name="c_ipaddress",
        declaration="ipaddress",
        values=(("ipaddress '10.0.0.1'", "10.0.0.1"), ("ipaddress '::1'", "::1")),
    ),
    Sample(
        name="c_json",
        declaration="json",
        values=(("""json '{"b":1,  "a":"|"}'""", '{"a":"|","b":1}'), ("json 'null'", "null")),
    ),
    Sample(
        name="c_varbinary",
        declaration="varbinary",
        values=(("x''", b""), (f"x'{bytes(range(256)).hex()}'", bytes(range(256))), ("x'00'", b"\x00")),
    ),
    Sample(
        name="c_integers",
        declaration="array(integer)",
        values=(("array[]", []), ("array[-2147483648, NULL, 2147483647]", [-(2**31), None, 2**31 - 1])),
    ),
    Sample(
        name="c_texts",
        declaration="array(varchar)",
        values=((f"array['', NULL, {plain(TEXTS[3])}]", ["", None, TEXTS[3]]), ("array['NULL']", ["NULL"])),
    ),
)


class TrinoScratch(Scratch):
    """A schema of the URL's catalog."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection, self.schema = connection, schema
        self._address = address = address_of(connection)
        self._session: Any = Driver(
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

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        with translated_errors(self.connection.name, self._address.where):
            cursor = self._session.cursor()
            try:
                cursor.execute(sql)
                found: list[list[Any]] = cursor.fetchall()
                return found
            finally:
                cursor.close()

    def contents(self) -> tuple[str, ...] | None:
        """Tables and views."""
        name = plain(self.schema)
        if not self.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {name}"):
            return None
        asked = f"SELECT table_name FROM information_schema.tables WHERE table_schema = {name} ORDER BY 1"
        return tuple(row[0] for row in self.execute(asked))

    def create(self) -> None:
        """Where the connector can."""
        self.execute(f"CREATE SCHEMA {self._quoted}")

    def remove(self) -> None:
        """Without CASCADE."""
        self.execute(f"DROP SCHEMA {self._quoted}")

    @property
    def _quoted(self) -> str:
        return '"' + self.schema.replace('"', '""') + '"'

    def connect_again(self) -> None:
        """No transaction is held open, so one connection is enough."""
        return

    def close(self) -> None:
        """Ends the connection."""
        self._session.close()


class TrinoCertification(Certification):
    """Trino, over any catalog in which rows can be updated and deleted."""

    driver: ClassVar[str] = "trino"
    text: ClassVar[str] = "varchar"
    instant: ClassVar[str] = "timestamp(6) with time zone"
    now: ClassVar[str] = "CAST(current_timestamp AS timestamp(6) with time zone)"
    transactions: ClassVar[bool] = False
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def server(self, connection: Connection) -> Server:
        """One number."""
        there = TrinoScratch(connection, self.schema)
        try:
            ((version,),) = there.execute("SELECT version()")
        finally:
            there.close()
        return Server(product="Trino", version=str(version), major=str(version).partition("-")[0])

    def open(self, connection: Connection, schema: str | None) -> TrinoScratch:
        """A schema; Trino keeps names in lower case."""
        if schema is not None and schema != schema.lower():
            raise ConfigError(f"Trino keeps the names of schemas in lower case, and {schema!r} is not")
        return TrinoScratch(connection, schema or self.schema)

    def create_table(self, table: str, columns: Mapping[str, str]) -> str:
        """Trino enforces no keys."""
        return f"CREATE TABLE {table} ({', '.join(f'{name} {declaration}' for name, declaration in columns.items())})"
