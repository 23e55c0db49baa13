"""SQL Server's SQL for the fingerprint of a table: text only, to be run on the user's own connection.

Hashes UTF-8, never UTF-16, and never casts a time to fewer digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tidegate.core.ports.dialect import doubled
from tidegate.core.schema import Column, Kind, Type
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.generated import FingerprintSql

UTF8 = "Latin1_General_100_BIN2_UTF8"
PADDED = ("char", "nchar")


class SqlServer(FingerprintSql):
    """SQL Server 2019 and later; earlier ones have no UTF-8 collation."""

    kind: ClassVar[str] = "sqlserver"
    sqlglot: ClassVar[str] = "tsql"
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TEXT})

    def quote(self, name: str) -> str:
        """One identifier, in brackets, which no setting reads as a text."""
        return f"[{name.replace(']', ']]')}]"

    def string(self, text: str) -> str:
        """A text literal of any characters, compared by its bytes."""
        return f"CAST(N{doubled(text, chr(39))} COLLATE {UTF8} AS varchar(max))"

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text."""
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
                return self.string(text)
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: C901, PLR0911 - one answer a type
        """The canonical text of an expression of the column's type; NULL stays NULL."""
        match column.type.kind:
            case Kind.INTEGER:
                return f"CAST({sql} AS varchar(20))"
            case Kind.DECIMAL:
                return f"CAST(CAST({sql} AS decimal(38,{column.type.scale})) AS varchar(41))"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN 1 THEN '1' WHEN 0 THEN '0' END"
            case Kind.DATE:
                return f"convert(varchar(10), {sql}, 23)"
            case Kind.TIMESTAMP:
                return self._moment(self._local(sql, column))
            case Kind.TIMESTAMPTZ:
                return self._moment(f"switchoffset({sql}, '+00:00')")
            case Kind.TIME:
                return f"left(convert(varchar(16), CAST({sql} AS time(7)), 121), 15)"
            case Kind.TEXT | Kind.JSON:
                text = f"CAST({sql} COLLATE {UTF8} AS varchar(max))"
                return f"rtrim({text})" if (column.native or "").split("(", maxsplit=1)[0].lower() in PADDED else text
            case Kind.UUID:
                return f"lower(CAST({sql} AS varchar(36)))"
            case Kind.BINARY:
                return f"lower(convert(varchar(max), CAST({sql} AS varbinary(max)), 2))"
            case _:
                raise uncovered(column)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their bytes."""
        return self.text(sql, column) if column.type.kind in (Kind.TEXT, Kind.UUID) else sql

    def as_text(self, sql: str) -> str:
        """A number as text."""
        return f"CAST({sql} AS varchar(41))"

    def concat(self, texts: Sequence[str]) -> str:
        """Texts one after the other; the first is unbounded, for two short ones are cut after 8,000 bytes."""
        first, *rest = texts
        return " + ".join([f"CAST({first} AS varchar(max))", *rest])

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text."""
        return f"left({sql}, {length})"

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex."""
        return f"lower(convert(varchar(32), hashbytes('MD5', {row}), 2))"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""
        part = f"substring({digest}, {1 + 8 * index}, 8)"
        return f"CAST(0x00000000 + convert(varbinary(4), {part}, 2) AS bigint)"

    def _moment(self, sql: str) -> str:
        """All seven digits there are, then the last cut off: a cast to six would round."""
        return f"left(convert(varchar(33), CAST({sql} AS datetime2(7)), 121), 26)"

    def _local(self, sql: str, column: Column) -> str:
        """A `datetime` as it is shown: it counts thirds of a hundredth, which a finer type would spell out."""
        return f"CAST({sql} AS datetime2(3))" if (column.native or "").lower() == "datetime" else sql
