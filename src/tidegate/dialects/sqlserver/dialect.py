"""SQL Server's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL schemes `sqlserver` and `mssql`; the connection is in `session.py`. Hashes UTF-8, never UTF-16, never
casts a time to fewer digits, and never takes texts for equal that differ in blanks at their end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.connector import CapturedDatabase
from tidegate.core.flavours import ALL_BOUNDS, Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable, doubled
from tidegate.core.refusals import marked
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.generated import PrintsFingerprint
from tidegate.dialects.shared.tls import warning
from tidegate.dialects.sqlserver.address import Address, address_of
from tidegate.dialects.sqlserver.types import ROW_VERSION, word_of

if TYPE_CHECKING:
    from tidegate.dialects.sqlserver.session import SqlServerSession

UTF8 = "Latin1_General_100_BIN2_UTF8"
BY_UNITS = "Latin1_General_100_BIN2"
PADDED = ("char", "nchar")
UTF16 = ("nchar", "nvarchar", "ntext")
SEVENTH = re.compile(r"^(?:time|datetime(?:2|offset))(?:\(7\))?$")
EXACT = re.compile(r"smalldatetime|datetime(2|offset)\([0-6]\)")
"""Times of which a canonical text has every digit."""
LAST = "char(1)"
"""Stands behind a text that is compared, for SQL Server takes no notice of blanks at the end."""
EPOCH = "CAST('1970-01-01' AS datetime2(7))"
LEAST_DATETIME = "1753-01-02"  # and a day, for what is below it
COARSE = timedelta(milliseconds=4)  # a `datetime` is kept in thirds of a hundredth of a second


LOSSLESS = {
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    # As nanoseconds, which fill 64 bits, the year 9999 of a `datetime2` would become another one.
    "time.precision.mode": "microseconds",
    # Else rows that change while the first ones are read may come twice, or in another order than they changed.
    "snapshot.isolation.mode": "snapshot",
}


class SqlServer(Connectable, PrintsFingerprint):
    """SQL Server 2019 and later, and Azure SQL; earlier ones have no UTF-8 collation."""

    kind: ClassVar[str] = "sqlserver"
    schemes: ClassVar[tuple[str, ...]] = ("mssql",)
    jars: ClassVar[tuple[str, ...]] = ("com.microsoft.sqlserver:mssql-jdbc:12.8.1.jre11",)
    sqlglot: ClassVar[str] = "tsql"
    bounds: ClassVar[frozenset[Bound]] = ALL_BOUNDS
    # What the driver calls the others, such as `datetimeoffset`, Spark does not know.
    known: ClassVar[re.Pattern[str]] = re.compile(
        r"(bigint|bit|date$|datetime2|datetime$|decimal|int|numeric|n?varchar|rowversion|smalldatetime|smallint|timestamp|tinyint)"
    )
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
    )

    def quote(self, name: str) -> str:
        """One identifier, in brackets, which no setting reads as a text. Raises ConfigError: a NUL character."""
        super().quote(name)
        return f"[{name.replace(']', ']]')}]"

    def string(self, text: str) -> str:
        """A text literal of any characters, compared by its bytes."""
        return f"CAST(N{doubled(text, chr(39))} COLLATE {UTF8} AS varchar(max))"

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text.

        Example:
            >>> from tidegate.core.schema import TIMESTAMP
            >>> SqlServer().literal(TIMESTAMP, "2025-01-31 00:00:00.000000")
            "CAST('2025-01-31T00:00:00.000000' AS datetime2(7))"
        """
        match kind.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return text
            case Kind.DATE:
                return f"CAST('{text}' AS date)"
            case Kind.TIME:
                return f"CAST('{text}' AS time(7))"
            case Kind.TIMESTAMP:
                # With a T no language setting reads day and month the other way round.
                return f"CAST('{text.replace(' ', 'T')}' AS datetime2(7))"
            case Kind.TIMESTAMPTZ:
                return f"CAST('{text.replace(' ', 'T')}+00:00' AS datetimeoffset(7))"
            case Kind.TEXT | Kind.UUID:
                return f"{self.string(text)} + {LAST}"
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: PLR0911 - one answer a type
        match column.type.kind:
            case Kind.INTEGER:
                return f"CAST({self._number(sql, column)} AS varchar(20))"
            case Kind.DECIMAL:
                return f"CAST(CAST({sql} AS decimal(38,{column.type.scale})) AS varchar(41))"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN 1 THEN '1' WHEN 0 THEN '0' END"
            case Kind.DATE:
                return f"convert(varchar(10), {sql}, 23)"
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                return f"left(convert(varchar(33), {self._moment(sql, column)}, 121), 26)"
            case Kind.TIME:
                return f"left(convert(varchar(16), CAST({sql} AS time(7)), 121), 15)"
            case Kind.TEXT | Kind.JSON:
                text = self._utf8(sql, column)
                return f"rtrim({text})" if word_of(column) in PADDED else text
            case Kind.UUID:
                return f"lower(CAST({sql} AS varchar(36))) COLLATE {UTF8}"
            case Kind.BINARY:
                return f"lower(convert(varchar(max), CAST({sql} AS varbinary(max)), 2))"
            case _:
                raise uncovered(column)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their bytes; times as far as their canonical text goes, so that a row lies within its own bound."""
        match column.type.kind:
            case Kind.TEXT | Kind.UUID:
                return f"{self.text(sql, column)} + {LAST}"
            case Kind.INTEGER:
                return self._number(sql, column)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ if not EXACT.fullmatch(column.native or ""):
                local = self._local(sql, column)
                if word_of(column) == "datetime":
                    return local
                return f"dateadd(nanosecond, -(datepart(nanosecond, {local}) % 1000), {local})"
            case _:
                return sql

    def tells_apart(self, column: Column) -> bool:
        """All but times with a seventh digit, which is cut off."""
        return not SEVENTH.search(column.native or "")

    def likely_above(self, sql: str, column: Column, text: str) -> str:
        """Where `comparable` is an expression: what an index over the column itself can tell."""
        word = word_of(column)
        if word == ROW_VERSION:
            return f"{sql} > CAST(CAST({text} AS bigint) AS binary(8))"
        if column.type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) or EXACT.fullmatch(column.native or ""):
            return "1 = 1"
        if word != "datetime":
            return f"{sql} > {self.literal(column.type, text)}"
        if text < LEAST_DATETIME:
            return "1 = 1"
        least = datetime.fromisoformat(text) - COARSE
        return f"{sql} > CAST('{least.isoformat('T', 'milliseconds')}' AS datetime)"

    def seek(self, sql: str, column: Column, texts: Sequence[str]) -> str | None:
        """By the column's own collation, which takes more texts for equal, and for which there may be an index."""
        if column.type.kind is not Kind.TEXT or word_of(column) not in ("char", "nchar", "varchar", "nvarchar"):
            return None
        return f"{sql} IN ({', '.join(f'N{doubled(text, chr(39))}' for text in texts)})"

    def read(self, column: Column) -> ColumnRead:  # noqa: PLR0911 - one answer a type
        """The exact expression that Spark reads.

        Timestamps travel as microseconds, dates as days and texts as bytes, so that no driver interprets them.
        """
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER:
                word = "bigint" if kind.bits == 64 else "int"
                return ColumnRead(sql=f"CAST({self._number(sql, column)} AS {word})", wire_format=WireFormat.NATIVE)
            case Kind.FLOAT | Kind.BOOLEAN | Kind.DECIMAL:
                return ColumnRead(sql=sql, wire_format=WireFormat.NATIVE)
            case Kind.BINARY:
                return ColumnRead(sql=f"CAST({sql} AS varbinary(max))", wire_format=WireFormat.NATIVE)
            case Kind.DATE:
                return ColumnRead(sql=f"datediff(day, CAST('1970-01-01' AS date), {sql})", wire_format=WireFormat.DAYS)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                micros = f"datediff_big(microsecond, {EPOCH}, {self._moment(sql, column)})"
                return ColumnRead(sql=micros, wire_format=WireFormat.MICROS)
            case Kind.TEXT | Kind.JSON:
                return ColumnRead(sql=f"CAST({self.text(sql, column)} AS varbinary(max))", wire_format=WireFormat.BYTES)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def as_text(self, sql: str) -> str:
        return f"CAST({sql} AS varchar(41))"

    def concat(self, texts: Sequence[str]) -> str:
        """Texts one after the other; the first is unbounded, for two short ones are cut after 8,000 bytes."""
        first, *rest = texts
        return " + ".join([f"CAST({first} AS varchar(max))", *rest])

    def left(self, sql: str, length: int) -> str:
        return f"left({sql}, {length})"

    def descending(self, sql: str) -> str:
        """NULL is the least value to SQL Server, and there are no words to say so."""
        return f"{sql} DESC"

    def limited(self, columns: str, rest: str, rows: int, *, distinct: bool = False) -> str:
        return f"SELECT {'DISTINCT ' if distinct else ''}TOP ({rows}) {columns} {rest}"

    def is_among(self, values: Sequence[str], rest: str) -> str:
        """By EXISTS, for it compares no rows; the names within hide no column of the row."""
        names = [self.quote(f"tidegate key {place}") for place in range(len(values))]
        listed = ", ".join(f"{value} AS {name}" for value, name in zip(values, names, strict=True))
        equal = " AND ".join(f"{name} = {value}" for value, name in zip(values, names, strict=True))
        return f"EXISTS (SELECT 1 FROM {self.named(f'SELECT {listed} {rest}', 'touched')} WHERE {equal})"

    def by_characters(self, text: str) -> tuple[str, Callable[[str], str]]:
        """With a character at its end, after which no blank can be overlooked."""
        return f"{text} + {LAST}", lambda value: f"left({value}, len({value}) - 1)"

    def digest(self, row: str) -> str:
        return f"lower(convert(varchar(32), hashbytes('MD5', {row}), 2))"

    def quarter(self, digest: str, index: int) -> str:
        part = f"substring({digest}, {1 + 8 * index}, 8)"
        return f"CAST(0x00000000 + convert(varbinary(4), {part}, 2) AS bigint)"

    def refuse_url(self, connection: Connection) -> None:
        address_of(connection)

    def in_the_clear(self, connection: Connection) -> str | None:
        found = address_of(connection)
        return warning(connection.name, found.mode, [found.host])

    def captured(self, connection: Connection) -> CapturedDatabase:

        return _captured(address_of(connection))

    def open(self, connection: Connection) -> SqlServerSession:
        from tidegate.dialects.sqlserver.session import SqlServerSession  # noqa: PLC0415 - the driver is an extra

        return SqlServerSession(self, connection)

    def server(self, ask: Ask) -> Server:
        """The number before the first dot is that of a release."""
        return Server.of("SQL Server", ask("SELECT CAST(serverproperty('ProductVersion') AS varchar(50))")[0][0])

    def _number(self, sql: str, column: Column) -> str:
        """A row's version is eight bytes, whose first bit is never set."""
        return f"CAST({sql} AS bigint)" if word_of(column) in (ROW_VERSION, "rowversion") else sql

    def _moment(self, sql: str, column: Column) -> str:
        """In UTC where it has a zone, with all seven digits there are: a cast to six would round."""
        utc = f"switchoffset({sql}, '+00:00')" if column.type.kind is Kind.TIMESTAMPTZ else self._local(sql, column)
        return f"CAST({utc} AS datetime2(7))"

    def _local(self, sql: str, column: Column) -> str:
        """A `datetime` as it is shown: it counts thirds of a hundredth, which a finer type would spell out."""
        return f"CAST({sql} AS datetime2(3))" if word_of(column) == "datetime" else sql

    def _utf8(self, sql: str, column: Column) -> str:
        """A text of any collation in UTF-8; half a surrogate pair, which has no bytes there, is an error."""
        # Through UTF-16, in which no text of a code page is cut.
        wide = f"CAST({sql} AS nvarchar(max))"
        good = f"CAST({wide} COLLATE {UTF8} AS varchar(max))"
        if word_of(column) not in UTF16:
            return good
        same = f"CAST({good} AS nvarchar(max)) COLLATE {BY_UNITS} = {wide} COLLATE {BY_UNITS}"
        words = doubled(marked(f"a value of column {column.name!r} is not valid UTF-16"), "'")
        # No number, of which the server's error repeats the words. It depends on the row, so that none else fails.
        number = f"CAST(left(N{words}, 4000 + len({wide}) - len({wide})) AS int)"
        failed = f"CAST({number} AS varchar(max))"
        return f"CASE WHEN {same} THEN {good} WHEN {sql} IS NOT NULL THEN {failed} END"


def _captured(address: Address) -> CapturedDatabase:
    """The connection without its password, and the modes that lose nothing."""
    settings = {
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        "database.names": address.database,
        "driver.encrypt": "false" if address.mode == "disable" else "true",
        "driver.trustServerCertificate": str(address.mode == "require").lower(),
        **LOSSLESS,
    }
    return CapturedDatabase(
        connector="io.debezium.connector.sqlserver.SqlServerConnector",
        settings=settings,
        order=("source.commit_lsn", "source.change_lsn", "source.event_serial_no", "source.schema", "source.db"),
        namespace="dbo",
        within=(address.database,),
        keeps_history=True,
    )
