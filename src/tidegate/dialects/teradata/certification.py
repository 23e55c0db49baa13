"""What `tidegate certify` writes to Teradata: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Certification, Sample, Scratch, Server
from tidegate.dialects.shared.samples import blobs, days, decimals, integers, moments, plain, texts
from tidegate.dialects.teradata.address import address_of
from tidegate.errors import EnvironmentMissing

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
    Sample(
        name="c_float",
        declaration="float",
        values=(("-1.7976931348623157E308", -1.7976931348623157e308), ("1E-1", 0.1)),
    ),
    Sample(name="c_date", declaration="date", values=days("DATE '{}'")),
    Sample(
        name="c_time",
        declaration="time(6)",
        values=(("TIME '00:00:00.000000'", "00:00:00.000000"), ("TIME '23:59:59.999999'", "23:59:59.999999")),
    ),
    Sample(name="c_timestamp", declaration="timestamp(6)", values=moments("TIMESTAMP '{}'")),
    Sample(
        name="c_timestamptz",
        declaration="timestamp(6) with time zone",
        values=moments("TIMESTAMP '{}+00:00'", instants=True),
    ),
    Sample(name="c_varchar", declaration=f"varchar(20) {UNICODE}", values=texts()),
    Sample(
        name="c_varchar_of_no_case",
        declaration=f"varchar(20) {UNICODE} NOT CASESPECIFIC",
        values=(("'a'", "a"), ("'A'", "A"), ("'a '", "a ")),
    ),
    Sample(name="c_char", declaration=f"char(5) {UNICODE}", values=(("'ab '", "ab"), ("' b'", " b"), ("''", ""))),
    Sample(name="c_byte", declaration="byte(3)", values=(("'00ffff'XB", b"\x00\xff\xff"), ("'ffffff'XB", b"\xff" * 3))),
    Sample(name="c_varbyte", declaration="varbyte(300)", values=blobs("'{}'XB")),
)


class TeradataScratch(Scratch):
    """A database below the URL's.

    Args:
        connect: the driver's function.
    """

    def __init__(self, connection: Connection, schema: str, connect: Connect = teradatasql.connect) -> None:
        self.connection, self.schema, self._driver = connection, schema, connect
        self._address = address = address_of(connection)
        try:
            self._session = connect(**address.arguments())
        except teradatasql.Error as error:
            raise refused(connection.name, address.where, error) from error
        self.execute(SETTINGS)

    @property
    def _quoted(self) -> str:
        return '"' + self.schema.replace('"', '""') + '"'

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        with translated_errors(self.connection.name, self._address.user), self._session.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def contents(self) -> tuple[str, ...] | None:
        """Objects of every kind."""
        name = plain(self.schema)
        if not self.execute(f"SELECT 1 FROM DBC.DatabasesV AS d WHERE d.DatabaseName = {name}"):
            return None
        found = self.execute(f"SELECT t.TableName FROM DBC.TablesV AS t WHERE t.DatabaseName = {name} ORDER BY 1")
        return tuple(str(row[0]).rstrip() for row in found)

    def create(self) -> None:
        """A database that takes its space from the URL's."""
        owner = '"' + self._address.database.replace('"', '""') + '"'
        self.execute(f"CREATE DATABASE {self._quoted} FROM {owner} AS PERM = {PERM}")

    def remove(self) -> None:
        """The server drops no database that holds anything."""
        self.execute(f"DROP DATABASE {self._quoted}")

    def connect_again(self) -> TeradataScratch:
        """Another connection."""
        return TeradataScratch(self.connection, self.schema, self._driver)

    def close(self) -> None:
        """Ends the connection."""
        self._session.close()


class TeradataCertification(Certification):
    """Teradata 16.20 and later, and Vantage; what is read waits for whoever writes, so no transaction stays open.

    Args:
        connect: the driver's function.
    """

    driver: ClassVar[str] = "teradatasql"
    text: ClassVar[str] = f"varchar(200) {UNICODE}"
    instant: ClassVar[str] = "timestamp(6) with time zone"
    now: ClassVar[str] = "CURRENT_TIMESTAMP(6)"
    transactions: ClassVar[bool] = False
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self, connect: Connect = teradatasql.connect) -> None:
        self._connect = connect

    def server(self, connection: Connection) -> Server:
        """The first two numbers are those of a release."""
        there = self.open(connection, None)
        try:
            ((version,),) = there.execute("SELECT i.InfoData FROM DBC.DBCInfoV AS i WHERE i.InfoKey = 'VERSION'")
        finally:
            there.close()
        text = str(version).strip()
        return Server(product="Teradata", version=text, major=".".join(text.split(".")[:2]))

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
