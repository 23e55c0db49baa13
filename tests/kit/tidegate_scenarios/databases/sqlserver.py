"""What the kit writes to SQL Server: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.dialects.sqlserver.address import address_of
from tidegate.errors import EnvironmentMissing
from tidegate_scenarios.certification import Certification, Sample, ServerScratch, TableLog
from tidegate_scenarios.samples import blobs, column, days, decimals, integers, moments, plain, texts, times, uuids

try:
    import pymssql
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the SQL Server driver is not installed", hint=extras.hint("sqlserver")) from error
from tidegate.dialects.sqlserver.errors import quoted, refused, translated_errors
from tidegate.dialects.sqlserver.session import Connect, configured
from tidegate_scenarios.sqlserver_logs import ChangeDataCapture, ChangeTracking

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
    return column(name, declaration, *values)


SAMPLES = (
    column("c_bit", "bit", ("0", False), ("1", True)),
    integers("c_tinyint", "tinyint", 0, 255),
    integers("c_smallint", "smallint", -(2**15), 2**15 - 1),
    integers("c_int", "int", -(2**31), 2**31 - 1),
    integers("c_bigint", "bigint", -(2**63), 2**63 - 1),
    decimals("c_decimal_38_0", 38, 0),
    decimals("c_decimal_38_10", 38, 10),
    decimals("c_decimal_5_5", 5, 5),
    column(
        "c_money",
        "money",
        *tuple((text, Decimal(text)) for text in ("-922337203685477.5808", "922337203685477.5807", "0.0001")),
    ),
    column("c_smallmoney", "smallmoney", *tuple((text, Decimal(text)) for text in ("-214748.3648", "214748.3647"))),
    column("c_real", "real", ("16777215E0", 16777215.0), ("-0.5E0", -0.5)),
    column("c_float", "float", ("-1.7976931348623157E308", -1.7976931348623157e308), ("0.1E0", 0.1)),
    column("c_date", "date", *days()),
    column("c_datetime2", "datetime2(6)", *moments()),
    _times("c_datetime2_7", "datetime2(7)", "2025-01-01T00:00:00.1234567", "2025-12-31T23:59:59.9999999"),
    _times("c_datetime", "datetime", "1753-01-01T00:00:00.003", "9999-12-31T23:59:59.997"),
    _times("c_smalldatetime", "smalldatetime", "1900-01-01T00:00:00", "2079-06-06T23:59:00"),
    column("c_datetimeoffset", "datetimeoffset(6)", *moments("'{} +00:00'", instants=True)),
    column("c_time", "time(6)", *times()),
    column("c_nvarchar", "nvarchar(max)", *texts(literal)),
    column("c_nvarchar_20", "nvarchar(20)", *texts(literal)),
    column(
        "c_varchar",
        "varchar(20) COLLATE Latin1_General_CI_AS",
        ("N'\u00fc'", "\u00fc"),
        ("'a '", "a "),
        ("'A'", "A"),
        ("''", ""),
    ),
    column("c_char", "char(5)", ("'ab '", "ab"), ("' b'", " b"), ("''", "")),
    column("c_nchar", "nchar(5)", ("N'\u00e9 '", "\u00e9"), ("N' b'", " b")),
    column("c_uniqueidentifier", "uniqueidentifier", *uuids()),
    column("c_varbinary", "varbinary(max)", *blobs("0x{}")),
    column("c_binary", "binary(3)", ("0x00ff", b"\x00\xff\x00"), ("0xffffff", b"\xff" * 3)),
    column("c_xml", "xml", ("'<a>|</a>'", "<a>|</a>"), ("'<b/>'", "<b/>")),
)


class SqlServerScratch(ServerScratch):
    """A schema of the URL's database, which the server does not drop while it holds anything.

    Args:
        connect: the driver's function.
    """

    def __init__(self, connection: Connection, schema: str, connect: Connect = pymssql.connect) -> None:
        address = address_of(connection)
        self._user = quoted(address.user)
        try:
            session = configured(connect, address)
        except pymssql.Error as error:
            verified = address.authorities is not None
            raise refused(connection.name, address.where, error, verified=verified) from error
        super().__init__(connection, schema, session, lambda: SqlServerScratch(connection, schema, connect))
        self.execute(SETTINGS)

    @property
    def quoted(self) -> str:
        """The name, in brackets."""
        return quoted(self.schema)

    def translated(self) -> AbstractContextManager[None]:
        """With what the user lacks."""
        return translated_errors(self.connection.name, self._user)

    def contents(self) -> tuple[str, ...] | None:
        """Objects and types."""
        ((number,),) = self.execute(f"SELECT schema_id({literal(self.schema)})")
        if number is None:
            return None
        return tuple(str(row[0]) for row in self.execute(CONTENTS.format(schema=literal(self.schema))))

    def begin(self) -> None:
        """Opens a transaction."""
        self.execute("BEGIN TRANSACTION")

    def commit(self) -> None:
        """Commits it."""
        self.execute("COMMIT TRANSACTION")


class SqlServerCertification(Certification):
    """SQL Server 2019 and later, and Azure SQL.

    Args:
        connect: the driver's function.
    """

    kind: ClassVar[str] = "sqlserver"
    driver: ClassVar[str] = "pymssql"
    text: ClassVar[str] = "nvarchar(200) COLLATE Latin1_General_100_CI_AS"
    instant: ClassVar[str] = "datetimeoffset(6)"
    now: ClassVar[str] = "sysdatetimeoffset()"
    identity: ClassVar[str] = "bigint IDENTITY(1,1)"
    logs: ClassVar[tuple[TableLog, ...]] = (ChangeDataCapture(), ChangeTracking())
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self, connect: Connect = pymssql.connect) -> None:
        self._connect = connect

    def open(self, connection: Connection, schema: str | None) -> SqlServerScratch:
        """A schema of the URL's database."""
        return SqlServerScratch(connection, schema or self.schema, self._connect)

    def string(self, text: str) -> str:
        """Of any characters."""
        return literal(text)
