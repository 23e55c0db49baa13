"""Teradata's SQL for the fingerprint of a table: text only, to be run on the user's own connection.

Never hashes a string in Teradata's own character set.
"""

from __future__ import annotations

from typing import ClassVar

from tidegate.core.schema import Column, Kind, Type
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.generated import FingerprintSql, mask

NUMERIC = "'NLS_NUMERIC_CHARACTERS=''.,'''"
MOMENT = "YYYY-MM-DD HH24:MI:SS.FF6"


class Teradata(FingerprintSql):
    """Teradata 16.20 and later with the function `hash_md5` installed, which Teradata offers as a download."""

    kind: ClassVar[str] = "teradata"
    sqlglot: ClassVar[str] = "teradata"
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text."""
        match kind.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return text
            case Kind.DATE | Kind.TIME | Kind.TIMESTAMP:
                return f"{kind.kind.upper()} '{text}'"
            case Kind.TIMESTAMPTZ:
                return f"TIMESTAMP '{text}+00:00'"
            case Kind.TEXT | Kind.UUID:
                return self.string(text)
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: C901, PLR0911 - one answer a type
        """The canonical text of an expression of the column's type; NULL stays NULL."""
        match column.type.kind:
            case Kind.INTEGER:
                return f"trim(CAST(CAST({sql} AS bigint) AS varchar(20)))"
            case Kind.DECIMAL:
                # A cast to a text would leave out the 0 before the point.
                number = f"CAST({sql} AS decimal(38,{column.type.scale}))"
                return f"to_char({number}, '{mask(column.type.scale)}', {NUMERIC})"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN 1 THEN '1' WHEN 0 THEN '0' END"
            case Kind.DATE:
                return f"to_char({sql}, 'YYYY-MM-DD')"
            case Kind.TIMESTAMP:
                return f"to_char(CAST({sql} AS timestamp(6)), '{MOMENT}')"
            case Kind.TIMESTAMPTZ:
                return f"to_char(CAST({sql} AT TIME ZONE 'GMT' AS timestamp(6)), '{MOMENT}')"
            case Kind.TIME:
                return f"CAST(CAST({sql} AS time(6)) AS varchar(15))"
            case Kind.TEXT | Kind.JSON:
                return f"trim(TRAILING ' ' FROM {sql})" if (column.native or "").lower().startswith("char") else sql
            case Kind.UUID:
                return f"lower({sql})"
            case Kind.BINARY:
                return f"lower(from_bytes({sql}, 'base16'))"
            case _:
                raise uncovered(column)

    def comparable(self, sql: str, column: Column) -> str:  # noqa: ARG002 - texts are not among the ordered
        """The expression itself."""
        return sql

    def as_text(self, sql: str) -> str:
        """A number as text."""
        return f"to_char({sql}, 'TM9')"

    def replaced(self, sql: str, old: str, new: str) -> str:
        """By Teradata's own word for it."""
        return f"oreplace({sql}, '{old}', '{new}')"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division."""
        return f"({sql} MOD {divisor})"

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex, by a function that has to be installed."""
        return f"lower(hash_md5(TransUnicodeToUTF8({row})))"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""
        return f"to_number(upper(substr({digest}, {1 + 8 * index}, 8)), 'XXXXXXXX')"
