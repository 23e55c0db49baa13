"""What `tidegate certify` writes to SQL Server: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Certification, Sample, Scratch, Server, TableLog
from tidegate.dialects.shared.samples import blobs, days, decimals, integers, moments, plain, texts, uuids
from tidegate.dialects.sqlserver.address import address_of
from tidegate.errors import EnvironmentMissing

try:
    import pymssql
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the SQL Server driver is not installed", hint=extras.hint("sqlserver")) from error
from tidegate.dialects.sqlserver.certified_logs import ChangeDataCapture, ChangeTracking
from tidegate.dialects.sqlserver.errors import quoted, refused, translated_errors
from tidegate.dialects.sqlserver.session import Connect, configured

SETTINGS = "SET LANGUAGE us_english; SET XACT_ABORT ON; SET LOCK_TIMEOUT 30000; SET ANSI_PADDING ON"
CONTENTS = """
SELECT o.name FROM sys.objects AS o WHERE o.schema_id = schema_id({schema}) AND o.parent_object_id = 0
UNION SELECT t.name FROM sys.types AS t WHERE t.schema_id = schema_id({schema}) ORDER BY 1
"""


def literal(text: str) -> str:
    """A text of any characters."""
    return f"N{plain(text)}"


def _times(name: str, declaration: str, *written: str) -> Sample:
    """A seventh digit of a second is cut off."""
    values = tuple((plain(text), datetime.fromisoformat(text[:26])) for text in written)
    return Sample(name=name, declaration=declaration, values=values)


SAMPLES = (
    Sample(name="c_bit", declaration="bit", values=(("0", False), ("1", True))),
    integers("c_tinyint", "tinyint", 0, 255),
    integers("c_smallint", "smallint", -(2**15), 2**15 - 1),
    integers("c_int", "int", -(2**31), 2**31 - 1),
    integers("c_bigint", "bigint", -(2**63), 2**63 - 1),
    decimals("c_decimal_38_0", 38, 0),
    decimals("c_decimal_38_10", 38, 10),
    decimals("c_decimal_5_5", 5, 5),
    Sample(
        name="c_money",
        declaration="money",
        values=tuple((text, Decimal(text)) for text in ("-922337203685477.5808", "922337203685477.5807", "0.0001")),
    ),
    Sample(
        name="c_smallmoney",
        declaration="smallmoney",
        values=tuple((text, Decimal(text)) for text in ("-214748.3648", "214748.3647")),
    ),
    Sample(name="c_real", declaration="real", values=(("16777215E0", 16777215.0), ("-0.5E0", -0.5))),
    Sample(
        name="c_float",
        declaration="float",
        values=(("-1.7976931348623157E308", -1.7976931348623157e308), ("0.1E0", 0.1)),
    ),
    Sample(name="c_date", declaration="date", values=days()),
    Sample(name="c_datetime2", declaration="datetime2(6)", values=moments()),
    _times("c_datetime2_7", "datetime2(7)", "2025-01-01T00:00:00.1234567", "2025-12-31T23:59:59.9999999"),
    _times("c_datetime", "datetime", "1753-01-01T00:00:00.003", "9999-12-31T23:59:59.997"),
    _times("c_smalldatetime", "smalldatetime", "1900-01-01T00:00:00", "2079-06-06T23:59:00"),
    Sample(name="c_datetimeoffset", declaration="datetimeoffset(6)", values=moments("'{} +00:00'", instants=True)),
    Sample(
        name="c_time",
        declaration="time(6)",
        values=(("'00:00'", "00:00:00.000000"), ("'23:59:59.999999'", "23:59:59.999999")),
    ),
    Sample(name="c_nvarchar", declaration="nvarchar(max)", values=texts(literal)),
    Sample(name="c_nvarchar_20", declaration="nvarchar(20)", values=texts(literal)),
    Sample(
        name="c_varchar",
        declaration="varchar(20) COLLATE Latin1_General_CI_AS",
        values=(("N'\u00fc'", "\u00fc"), ("'a '", "a "), ("'A'", "A"), ("''", "")),
    ),
    Sample(name="c_char", declaration="char(5)", values=(("'ab '", "ab"), ("' b'", " b"), ("''", ""))),
    Sample(name="c_nchar", declaration="nchar(5)", values=(("N'\u00e9 '", "\u00e9"), ("N' b'", " b"))),
    Sample(name="c_uniqueidentifier", declaration="uniqueidentifier", values=uuids()),
    Sample(name="c_varbinary", declaration="varbinary(max)", values=blobs("0x{}")),
    Sample(name="c_binary", declaration="binary(3)", values=(("0x00ff", b"\x00\xff\x00"), ("0xffffff", b"\xff" * 3))),
    Sample(name="c_xml", declaration="xml", values=(("'<a>|</a>'", "<a>|</a>"), ("'<b/>'", "<b/>"))),
)


class SqlServerScratch(Scratch):
    """A schema of the URL's database.

    Args:
        connect: the driver's function.
    """

    def __init__(self, connection: Connection, schema: str, connect: Connect = pymssql.connect) -> None:
        self.connection, self.schema, self._driver = connection, schema, connect
        address = address_of(connection)
        self._user = quoted(address.user)
        try:
            self._session = configured(connect, address)
        except pymssql.Error as error:
            verified = address.authorities is not None
            raise refused(connection.name, address.where, error, verified=verified) from error
        self.execute(SETTINGS)

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        with translated_errors(self.connection.name, self._user), self._session.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def contents(self) -> tuple[str, ...] | None:
        """Objects and types."""
        ((number,),) = self.execute(f"SELECT schema_id({literal(self.schema)})")
        if number is None:
            return None
        return tuple(str(row[0]) for row in self.execute(CONTENTS.format(schema=literal(self.schema))))

    def create(self) -> None:
        """A schema of the user's."""
        self.execute(f"CREATE SCHEMA {quoted(self.schema)}")

    def remove(self) -> None:
        """The server drops no schema that holds anything."""
        self.execute(f"DROP SCHEMA {quoted(self.schema)}")

    def connect_again(self) -> SqlServerScratch:
        """Another connection."""
        return SqlServerScratch(self.connection, self.schema, self._driver)

    def begin(self) -> None:
        """Opens a transaction."""
        self.execute("BEGIN TRANSACTION")

    def commit(self) -> None:
        """Commits it."""
        self.execute("COMMIT TRANSACTION")

    def close(self) -> None:
        """Ends the connection, and a transaction that is open."""
        self._session.close()


class SqlServerCertification(Certification):
    """SQL Server 2019 and later, and Azure SQL.

    Args:
        connect: the driver's function.
    """

    driver: ClassVar[str] = "pymssql"
    text: ClassVar[str] = "nvarchar(200) COLLATE Latin1_General_100_CI_AS"
    instant: ClassVar[str] = "datetimeoffset(6)"
    now: ClassVar[str] = "sysdatetimeoffset()"
    identity: ClassVar[str] = "bigint IDENTITY(1,1)"
    logs: ClassVar[tuple[TableLog, ...]] = (ChangeDataCapture(), ChangeTracking())
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self, connect: Connect = pymssql.connect) -> None:
        self._connect = connect

    def server(self, connection: Connection) -> Server:
        """The number before the first dot is that of a release."""
        there = self.open(connection, None)
        try:
            ((version,),) = there.execute("SELECT CAST(serverproperty('ProductVersion') AS varchar(50))")
        finally:
            there.close()
        return Server(product="SQL Server", version=str(version), major=str(version).partition(".")[0])

    def open(self, connection: Connection, schema: str | None) -> SqlServerScratch:
        """A schema of the URL's database."""
        return SqlServerScratch(connection, schema or self.schema, self._connect)

    def string(self, text: str) -> str:
        """Of any characters."""
        return literal(text)
