"""Oracle's SQL for the fingerprint of a table: text only, to be run on the user's own connection.

Independent of the session's NLS settings.
"""

from __future__ import annotations

from typing import ClassVar

from tidegate.core.schema import Column, Kind, Type
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.generated import FingerprintSql, mask
from tidegate.errors import ConfigError

NUMERIC = "'NLS_NUMERIC_CHARACTERS=''.,'''"
PADDED = ("char", "nchar")
GROUPS = r"'(.{8})(.{4})(.{4})(.{4})(.{12})', '\1-\2-\3-\4-\5'"
BY_BYTES = "'NLS_SORT=BINARY'"


class Oracle(FingerprintSql):
    """Oracle 12.2 and later; an empty text is NULL there, and counts as NULL."""

    kind: ClassVar[str] = "oracle"
    sqlglot: ClassVar[str] = "oracle"
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})

    def quote(self, name: str) -> str:
        """One identifier, exactly as it is kept: mostly in upper case.

        Raises:
            ConfigError: a character that Oracle has no way to write in a name.
        """
        if {'"', "\0"} & set(name):
            raise ConfigError("an Oracle name cannot contain a double quote or a NUL character")
        return f'"{name}"'

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text."""
        match kind.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return text
            case Kind.DATE:
                return f"DATE '{text}'"
            case Kind.TIMESTAMP:
                return f"TIMESTAMP '{text}'"
            case Kind.TIMESTAMPTZ:
                return f"TIMESTAMP '{text} +00:00'"
            case Kind.TEXT | Kind.UUID:
                return f"nlssort({self.string(text)}, {BY_BYTES})"
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: PLR0911 - one answer a type
        """The canonical text of an expression of the column's type; NULL stays NULL, and an empty text is NULL."""
        native = (column.native or "").split("(", maxsplit=1)[0].lower()
        match column.type.kind:
            case Kind.INTEGER:
                return f"to_char({sql}, 'TM9')"
            case Kind.DECIMAL:
                # The cast first: a number that the format rounds to nothing would keep its sign, as -0.00.
                number = f"CAST({sql} AS number(38,{column.type.scale}))"
                return f"to_char({number}, '{mask(column.type.scale)}', {NUMERIC})"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN 1 THEN '1' WHEN 0 THEN '0' END"
            case Kind.DATE:
                return self._signed(sql, "YYYY-MM-DD")
            case Kind.TIMESTAMP:
                return self._moment(f"CAST({sql} AS timestamp(9))")
            case Kind.TIMESTAMPTZ:
                return self._moment(f"CAST({sql} AT TIME ZONE 'UTC' AS timestamp(9))")
            case Kind.TEXT | Kind.JSON:
                return f"rtrim({sql}, ' ')" if native in PADDED else sql
            case Kind.UUID:
                return f"lower(regexp_replace(rawtohex({sql}), {GROUPS}))" if native == "raw" else f"lower({sql})"
            case Kind.BINARY:
                return f"lower(rawtohex({sql}))"
            case _:
                raise uncovered(column)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their bytes, whatever NLS_COMP says."""
        return f"nlssort({sql}, {BY_BYTES})" if column.type.kind in (Kind.TEXT, Kind.UUID) else sql

    def as_text(self, sql: str) -> str:
        """A number as text."""
        return f"to_char({sql}, 'TM9')"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division."""
        return f"mod({sql}, {divisor})"

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex, whatever the database's character set is."""
        return f"lower(rawtohex(standard_hash(convert({row}, 'AL32UTF8'), 'MD5')))"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""
        return f"to_number(upper(substr({digest}, {1 + 8 * index}, 8)), 'XXXXXXXX')"

    def named(self, subquery: str, name: str) -> str:
        """Without the word AS, which Oracle does not know there."""
        return f"({subquery}) {name}"

    def _moment(self, sql: str) -> str:
        """All nine digits there are, then three cut off; years before 1 keep their sign."""
        return f"substr({self._signed(sql, 'YYYY-MM-DD HH24:MI:SS.FF9')}, 1, 26)"

    def _signed(self, sql: str, shape: str) -> str:
        """A year before 1 is written with its sign, so that it equals no year of a lake."""
        after = f"{sql} >= DATE '0001-01-01'"
        return f"CASE WHEN {after} THEN to_char({sql}, '{shape}') ELSE to_char({sql}, 'S{shape}') END"
