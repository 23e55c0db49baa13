"""Teradata's SQL for the fingerprint of a table: text only, to be run on the user's own connection.

Never hashes a string in Teradata's own character set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from tidegate.core.grouping import Grouping
from tidegate.core.ids import Connection
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.slices import Slice
from tidegate.dialects.shared import generated

NUMERIC = "'NLS_NUMERIC_CHARACTERS=''.,'''"
MOMENT = "YYYY-MM-DD HH24:MI:SS.FF6"
FIELD, OWN_FIELD = "coalesce(replace(replace(", "coalesce(oreplace(oreplace("


@dataclass(frozen=True, slots=True)
class Teradata:
    """Teradata 16.20 and later with the function `hash_md5` installed, which Teradata offers as a download."""

    kind: ClassVar[str] = "teradata"
    jars: ClassVar[tuple[str, ...]] = ()
    sqlglot: ClassVar[str] = "teradata"
    fence: ClassVar[str] = ""
    place: ClassVar[str] = generated.NOWHERE
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})

    def fingerprint(
        self,
        table: Sequence[str],
        columns: Sequence[Column],
        *,
        by: Grouping | None = None,
        parts: Sequence[Slice] = (),
    ) -> str:
        """The statement whose row is the fingerprint of a table; with `by` one row a partition."""
        return generated.fingerprint(generated.statements(self, table, columns), by, parts)

    def quote(self, name: str) -> str:
        """One identifier, whatever it holds."""
        return generated.doubled(name, '"')

    def string(self, text: str) -> str:
        """A text literal."""
        return generated.doubled(text, "'")

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
                raise generated.no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: C901, PLR0911 - one answer a type
        """The canonical text of an expression of the column's type; NULL stays NULL."""
        match column.type.kind:
            case Kind.INTEGER:
                return f"trim(CAST(CAST({sql} AS bigint) AS varchar(20)))"
            case Kind.DECIMAL:
                # A cast to a text would leave out the 0 before the point.
                number = f"CAST({sql} AS decimal(38,{column.type.scale}))"
                return f"to_char({number}, '{generated.mask(column.type.scale)}', {NUMERIC})"
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
                return f"trim(TRAILING ' ' FROM {sql})" if column.native.lower().startswith("char") else sql
            case Kind.UUID:
                return f"lower({sql})"
            case Kind.BINARY:
                return f"lower(from_bytes({sql}, 'base16'))"
            case _:
                raise generated.uncovered(column)

    def read(self, column: Column) -> NoReturn:
        """Nothing is read."""
        raise generated.unread(column, "Teradata")

    def comparable(self, sql: str, column: Column) -> str:  # noqa: ARG002 - texts are not among the ordered
        """The expression itself."""
        return sql

    def likely_above(self, sql: str, column: Column, text: str) -> str:  # noqa: ARG002 - whatever is compared
        """Nothing: comparing is cheap here."""
        return "1 = 1"

    def as_text(self, sql: str) -> str:
        """A number as text."""
        return f"to_char({sql}, 'TM9')"

    def concat(self, texts: Sequence[str]) -> str:
        """Texts one after the other; more than VARCHAR holds is an error, never a shorter text."""
        # Its own word for replace, at the beginning of a field: a name may hold the same words.
        own = (OWN_FIELD + text.removeprefix(FIELD) if text.startswith(FIELD) else text for text in texts)
        return " || ".join(own)

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text."""
        return f"substr({sql}, 1, {length})"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division."""
        return f"({sql} MOD {divisor})"

    def quick(self, columns: Sequence[Column]) -> None:
        """None: HASHROW has 32 bits."""

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex, by a function that has to be installed."""
        return f"lower(hash_md5(TransUnicodeToUTF8({row})))"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""
        return f"to_number(upper(substr({digest}, {1 + 8 * index}, 8)), 'XXXXXXXX')"

    def open(self, connection: Connection) -> NoReturn:
        """Refuses.

        Raises:
            ConfigError: always.
        """
        raise generated.not_a_source(connection, "Teradata")
