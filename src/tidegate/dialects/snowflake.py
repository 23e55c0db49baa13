"""Snowflake's SQL for the fingerprint of a table: text only, to be run on the user's own connection.

Never applies a time zone to a timestamp without one.
"""

from __future__ import annotations

from typing import ClassVar

from tidegate.core.ports.dialect import doubled
from tidegate.core.schema import Column, Kind, Type
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.generated import FingerprintSql

MOMENT = "YYYY-MM-DD HH24:MI:SS.FF6"


class Snowflake(FingerprintSql):
    """Snowflake; TIMESTAMP_NTZ is a timestamp, TIMESTAMP_TZ and TIMESTAMP_LTZ are a timestamptz."""

    kind: ClassVar[str] = "snowflake"
    sqlglot: ClassVar[str] = "snowflake"
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TEXT})

    def string(self, text: str) -> str:
        """A text literal, in which a backslash is an escape."""
        return doubled(text.replace("\\", "\\\\"), "'")

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text."""
        match kind.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return text
            case Kind.DATE | Kind.TIME:
                return f"{self.string(text)}::{kind.kind}"
            case Kind.TIMESTAMP:
                return f"{self.string(text)}::timestamp_ntz"
            case Kind.TIMESTAMPTZ:
                return f"{self.string(f'{text} +00:00')}::timestamp_tz"
            case Kind.TEXT | Kind.UUID:
                return self.string(text)
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: C901, PLR0911 - one answer a type
        """The canonical text of an expression of the column's type; NULL stays NULL."""
        match column.type.kind:
            case Kind.INTEGER:
                return f"to_varchar({sql})"
            case Kind.DECIMAL:
                return f"to_varchar(CAST({sql} AS number(38,{column.type.scale})))"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN true THEN '1' WHEN false THEN '0' END"
            case Kind.DATE:
                return f"to_char({sql}, 'YYYY-MM-DD')"
            case Kind.TIMESTAMP:
                return f"to_char({sql}, '{MOMENT}')"
            case Kind.TIMESTAMPTZ:
                return f"to_char(convert_timezone('UTC', {sql}), '{MOMENT}')"
            case Kind.TIME:
                return f"to_char({sql}, 'HH24:MI:SS.FF6')"
            case Kind.TEXT | Kind.JSON:
                return sql
            case Kind.UUID:
                return f"lower({sql})"
            case Kind.BINARY:
                return f"lower(hex_encode({sql}))"
            case _:
                raise uncovered(column)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their bytes, whatever the column's collation is."""
        return f"collate({sql}, '')" if column.type.kind in (Kind.TEXT, Kind.UUID) else sql

    def as_text(self, sql: str) -> str:
        """A number as text."""
        return f"to_varchar({sql})"

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text."""
        return f"left({sql}, {length})"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division."""
        return f"mod({sql}, {divisor})"

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex; every text is UTF-8."""
        return f"md5({row})"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""
        return f"to_number(substr({digest}, {1 + 8 * index}, 8), 'XXXXXXXX')"
