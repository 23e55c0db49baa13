"""What the kit writes to Teradata: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import doubled
from tidegate.dialects.teradata.address import address_of
from tidegate.errors import EnvironmentMissing
from tidegate_scenarios.certification import Certification, Sample, ServerScratch
from tidegate_scenarios.samples import blobs, column, days, decimals, integers, moments, plain, texts, times

try:
    import teradatasql
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Teradata driver is not installed", hint=extras.hint("teradata")) from error
from tidegate.dialects.teradata.errors import refused, translated_errors
from tidegate.dialects.teradata.session import SETTINGS, Connect

UNICODE = "CHARACTER SET UNICODE"
PERM = 200_000_000  # bytes of the database that `create` makes

SAMPLES = (
    integers("c_byteint", "byteint", -128, 127),
    integers("c_smallint", "smallint", -(2**15), 2**15 - 1),
    integers("c_integer", "integer", -(2**31), 2**31 - 1),
    integers("c_bigint", "bigint", -(2**63), 2**63 - 1),
    decimals("c_decimal_38_0", 38, 0),
    decimals("c_decimal_38_10", 38, 10),
    decimals("c_decimal_5_5", 5, 5),
    decimals("c_number", 10, 2, kind="number"),
    column("c_float", "float", ("-1.7976931348623157E308", -1.7976931348623157e308), ("1E-1", 0.1)),
    column("c_date", "date", *days("DATE '{}'")),
    column("c_time", "time(6)", *times("TIME '{}'")),
    column("c_timestamp", "timestamp(6)", *moments("TIMESTAMP '{}'")),
    column("c_timestamptz", "timestamp(6) with time zone", *moments("TIMESTAMP '{}+00:00'", instants=True)),
    column("c_varchar", f"varchar(20) {UNICODE}", *texts()),
    column(
        "c_varchar_of_no_case", f"varchar(20) {UNICODE} NOT CASESPECIFIC", ("'a'", "a"), ("'A'", "A"), ("'a '", "a ")
    ),
    column("c_char", f"char(5) {UNICODE}", ("'ab '", "ab"), ("' b'", " b"), ("''", "")),
    column("c_byte", "byte(3)", ("'00ffff'XB", b"\x00\xff\xff"), ("'ffffff'XB", b"\xff" * 3)),
    column("c_varbyte", "varbyte(300)", *blobs("'{}'XB")),
)


class TeradataScratch(ServerScratch):
    """A database below the URL's, which the server does not drop while it holds anything.

    Args:
        connect: the driver's function.
    """

    def __init__(self, connection: Connection, schema: str, connect: Connect = teradatasql.connect) -> None:
        self._address = address = address_of(connection)
        try:
            session = connect(**address.arguments())
        except teradatasql.Error as error:
            raise refused(connection.name, address.where, error) from error
        super().__init__(connection, schema, session, lambda: TeradataScratch(connection, schema, connect))
        self.execute(SETTINGS)

    def translated(self) -> AbstractContextManager[None]:
        """With what the user lacks."""
        return translated_errors(self.connection.name, self._address.user)

    def contents(self) -> tuple[str, ...] | None:
        """Objects of every kind."""
        name = plain(self.schema)
        if not self.execute(f"SELECT 1 FROM DBC.DatabasesV AS d WHERE d.DatabaseName = {name}"):
            return None
        found = self.execute(f"SELECT t.TableName FROM DBC.TablesV AS t WHERE t.DatabaseName = {name} ORDER BY 1")
        return tuple(str(row[0]).rstrip() for row in found)

    def create(self) -> None:
        """A database that takes its space from the URL's."""
        owner = doubled(self._address.database, '"')
        self.execute(f"CREATE DATABASE {self.quoted} FROM {owner} AS PERM = {PERM}")

    def remove(self) -> None:
        """It must be empty."""
        self.execute(f"DROP DATABASE {self.quoted}")


class TeradataCertification(Certification):
    """Teradata 16.20 and later, and Vantage; what is read waits for whoever writes, so no transaction stays open.

    Args:
        connect: the driver's function.
    """

    kind: ClassVar[str] = "teradata"
    driver: ClassVar[str] = "teradatasql"
    text: ClassVar[str] = f"varchar(200) {UNICODE}"
    instant: ClassVar[str] = "timestamp(6) with time zone"
    now: ClassVar[str] = "CURRENT_TIMESTAMP(6)"
    transactions: ClassVar[bool] = False
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self, connect: Connect = teradatasql.connect) -> None:
        self._connect = connect

    def open(self, connection: Connection, schema: str | None) -> TeradataScratch:
        """A database below the URL's."""
        return TeradataScratch(connection, schema or self.schema, self._connect)

    def create_table(self, table: str, columns: Mapping[str, str]) -> str:
        """One that takes equal rows, as the others do."""
        return super().create_table(table, columns).replace("CREATE TABLE", "CREATE MULTISET TABLE", 1)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Several statements of one request, for VALUES takes one row."""
        head = f"INSERT INTO {table} ({', '.join(columns)}) VALUES "
        return "; ".join(f"{head}({', '.join(row)})" for row in rows)
