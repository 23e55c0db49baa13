"""DuckDB's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL scheme `duckdb`; the connection is in `session.py`. No expression rounds, depends on the session's
time zone, or compares with a collation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.flavours import ALL_BOUNDS, Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable, doubled
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.shared.database_file import file_of, opened_file
from tidegate.dialects.shared.expressions import no_literal, type_mismatch, uncovered

if TYPE_CHECKING:
    from tidegate.dialects.duckdb.session import DuckdbSession

MOST_DIGITS = "9" * 38
BY_BYTES = 'COLLATE "binary"'


class Duckdb(Connectable):
    """DuckDB 1.4 and later."""

    kind: ClassVar[str] = "duckdb"
    # Reads the files of every version from 0.10 on, and those of the Python package of the same number.
    jars: ClassVar[tuple[str, ...]] = ("org.duckdb:duckdb_jdbc:2.0.0.0",)
    sqlglot: ClassVar[str] = "duckdb"
    place: ClassVar[str] = "rowid"
    bounds: ClassVar[frozenset[Bound]] = ALL_BOUNDS
    known: ClassVar[re.Pattern[str]] = re.compile(
        r"(TINYINT|SMALLINT|INTEGER|BIGINT|DECIMAL|FLOAT|DOUBLE|BOOLEAN|VARCHAR|BLOB|DATE|TIMESTAMP(_S|_MS|_NS)?$)"
    )
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.UUID}
    )

    def string(self, text: str) -> str:
        """A text literal; a backslash is no escape, and a NUL character has no other way to be written."""
        parts = [doubled(part, "'") for part in text.split("\0")]
        return parts[0] if len(parts) == 1 else f"({' || chr(0) || '.join(parts)})"

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text.

        Example:
            >>> from tidegate.core.schema import TIMESTAMPTZ
            >>> Duckdb().literal(TIMESTAMPTZ, "2025-01-01 00:00:00.000000")
            "TIMESTAMPTZ '2025-01-01 00:00:00.000000+00'"
        """
        match kind.kind:
            case Kind.INTEGER:
                return f"CAST({self.string(text)} AS BIGINT)"
            case Kind.DECIMAL:
                return f"CAST({self.string(text)} AS DECIMAL({kind.precision},{kind.scale}))"
            case Kind.DATE | Kind.TIME | Kind.TIMESTAMP:
                return f"{kind.kind.upper()} {self.string(text)}"
            case Kind.TIMESTAMPTZ:
                return f"TIMESTAMPTZ {self.string(f'{text}+00')}"
            case Kind.TEXT | Kind.UUID:
                return self.string(text)
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: PLR0911 - one answer a type
        kind = column.type
        match kind.kind:
            case Kind.INTEGER:
                return f"CAST({sql} AS VARCHAR)"
            case Kind.DECIMAL:
                good = f"CAST(CAST({sql} AS DECIMAL(38,{kind.scale})) AS VARCHAR)"
                return self._checked(sql, self._fits(sql, column), good, column)
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN true THEN '1' WHEN false THEN '0' END"
            case Kind.DATE:
                return self._checked(sql, self._in_years(sql, column), f"strftime({sql}, '%Y-%m-%d')", column)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                good = f"strftime({self._utc(sql, column)}, '%Y-%m-%d %H:%M:%S.%f')"
                return self._checked(sql, self._in_years(sql, column), good, column)
            case Kind.TIME:
                clock = f"CAST({sql} AS VARCHAR)"
                return f"rpad({clock} || CASE WHEN length({clock}) = 8 THEN '.' ELSE '' END, 15, '0')"
            case Kind.BINARY:
                return f"lower(hex({sql}))"
            case Kind.TEXT | Kind.UUID | Kind.JSON:
                return self._plain(sql)
            case _:
                raise uncovered(column)

    def read(self, column: Column) -> ColumnRead:
        """The exact expression that Spark reads.

        Timestamps travel as microseconds and dates as days, so no time zone or calendar of a JVM touches them.
        """
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER:
                whole = "BIGINT" if kind.bits == 64 else "INTEGER"
                return ColumnRead(sql=f"CAST({sql} AS {whole})", wire_format=WireFormat.NATIVE)
            case Kind.FLOAT | Kind.BOOLEAN | Kind.BINARY:
                return ColumnRead(sql=sql, wire_format=WireFormat.NATIVE)
            case Kind.DATE:
                good = f"CAST({sql} - DATE '1970-01-01' AS INTEGER)"
                return ColumnRead(
                    sql=self._checked(sql, self._in_years(sql, column), good, column, "INTEGER"),
                    wire_format=WireFormat.DAYS,
                )
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                good = self._micros(sql, column)
                return ColumnRead(
                    sql=self._checked(sql, self._in_years(sql, column), good, column, "BIGINT"),
                    wire_format=WireFormat.MICROS,
                )
            case Kind.ARRAY:
                return ColumnRead(sql=f"CAST(to_json({sql}) AS VARCHAR)", wire_format=WireFormat.JSON)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts compare by their bytes, uuids as their texts, as every engine does."""
        return self._plain(sql) if column.type.kind in (Kind.TEXT, Kind.UUID) else sql

    def tells_apart(self, column: Column) -> bool:
        """All but times in nanoseconds, of which microseconds are kept."""
        return column.type.kind is not Kind.TIMESTAMP or column.native != "TIMESTAMP_NS"

    def as_text(self, sql: str) -> str:
        return f"CAST({sql} AS VARCHAR)"

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text, which compares by its bytes."""
        return f"left({sql}, {length})"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division; in a type that the divisor can be added to."""
        return f"(CAST({sql} AS HUGEINT) % {divisor})"

    def own_text(self, sql: str, column: Column) -> str | None:
        """The fewest digits from which a floating-point number comes back."""
        return f"CAST(CAST({sql} AS DOUBLE) + 0e0 AS VARCHAR)" if column.type.kind is Kind.FLOAT else None

    def digest(self, row: str) -> str:
        return f"md5({row})"

    def quarter(self, digest: str, index: int) -> str:
        return f"CAST('0x' || substr({digest}, {1 + 8 * index}, 8) AS BIGINT)"

    def file(self, url: str) -> Path | None:
        """What three or four slashes lead to."""
        return file_of(url)

    def refuse_url(self, connection: Connection) -> None:
        opened_file(connection, self.kind)

    def open(self, connection: Connection) -> DuckdbSession:
        from tidegate.dialects.duckdb.session import DuckdbSession  # noqa: PLC0415 - the driver is optional

        return DuckdbSession(self, connection)

    def server(self, ask: Ask) -> Server:  # noqa: ARG002 - a file has no server
        """The library that is loaded here."""
        from tidegate.dialects.duckdb.session import VERSION  # noqa: PLC0415 - the driver is optional

        return Server.of("DuckDB", VERSION)

    def _plain(self, sql: str) -> str:
        return f"CAST({sql} AS VARCHAR) {BY_BYTES}"

    def _fits(self, sql: str, column: Column) -> str:
        """Whether a whole number of 128 bits has no more than 38 digits, an exact one no more than was stated."""
        if column.native == "UHUGEINT":
            return f"{sql} <= CAST('{MOST_DIGITS}' AS UHUGEINT)"
        if column.native == "HUGEINT":
            return f"{sql} BETWEEN CAST('-{MOST_DIGITS}' AS HUGEINT) AND CAST('{MOST_DIGITS}' AS HUGEINT)"
        return f"{sql} IS NOT NULL"

    def _utc(self, sql: str, column: Column) -> str:
        """A timestamp without zone in microseconds."""
        return f"make_timestamp({self._micros(sql, column)})"

    def _micros(self, sql: str, column: Column) -> str:
        # The cast to a coarser timestamp would round.
        return f"epoch_ns({sql}) // 1000" if column.native == "TIMESTAMP_NS" else f"epoch_us({sql})"

    def _in_years(self, sql: str, column: Column) -> str:
        """Years 1 to 9999, no infinity, and no digits beyond the microsecond."""
        if column.type.kind is Kind.DATE:
            return f"{sql} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
        if column.type.kind is Kind.TIMESTAMPTZ:
            low, high = "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"
            return f"{sql} BETWEEN TIMESTAMPTZ '{low}' AND TIMESTAMPTZ '{high}'"
        if column.native == "TIMESTAMP_NS":
            # From 1677 to 2262; the remainder of what lies before 1970 is negative.
            return f"CASE WHEN isfinite({sql}) THEN epoch_ns({sql}) % 1000 = 0 ELSE false END"
        finite = f"isfinite({sql}) AND " if column.native in ("TIMESTAMP_S", "TIMESTAMP_MS") else ""
        return f"{finite}{sql} BETWEEN TIMESTAMP '0001-01-01 00:00:00' AND TIMESTAMP '9999-12-31 23:59:59.999999'"

    def _checked(self, sql: str, condition: str, good: str, column: Column, result: str = "VARCHAR") -> str:
        """`good` where the condition holds, NULL for NULL, else an error that names the column, not the value."""
        message = self.string(type_mismatch(column))
        failed = f"CAST(error({message}) AS {result})"
        return f"CASE WHEN {condition} THEN {good} WHEN {sql} IS NOT NULL THEN {failed} END"
