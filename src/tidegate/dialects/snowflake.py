"""Snowflake's SQL for the fingerprint of a table: text only, to be run on the user's own connection.

Never applies a time zone to a timestamp without one.
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

MOMENT = "YYYY-MM-DD HH24:MI:SS.FF6"


@dataclass(frozen=True, slots=True)
class Snowflake:
    """Snowflake; TIMESTAMP_NTZ is a timestamp, TIMESTAMP_TZ and TIMESTAMP_LTZ are a timestamptz."""

    kind: ClassVar[str] = "snowflake"
    jars: ClassVar[tuple[str, ...]] = ()
    sqlglot: ClassVar[str] = "snowflake"
    fence: ClassVar[str] = ""
    place: ClassVar[str] = generated.NOWHERE
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TEXT})

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
        """One identifier, exactly as it is kept: mostly in upper case."""
        return generated.doubled(name, '"')

    def string(self, text: str) -> str:
        """A text literal, in which a backslash is an escape."""
        return generated.doubled(text.replace("\\", "\\\\"), "'")

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
                raise generated.no_literal(kind)

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
                raise generated.uncovered(column)

    def read(self, column: Column) -> NoReturn:
        """Nothing is read."""
        raise generated.unread(column, "Snowflake")

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their bytes, whatever the column's collation is."""
        return f"collate({sql}, '')" if column.type.kind in (Kind.TEXT, Kind.UUID) else sql

    def likely_above(self, sql: str, column: Column, text: str) -> str:  # noqa: ARG002 - whatever is compared
        """Nothing: micro-partitions are pruned by the comparison itself."""
        return "1 = 1"

    def as_text(self, sql: str) -> str:
        """A number as text."""
        return f"to_varchar({sql})"

    def concat(self, texts: Sequence[str]) -> str:
        """Texts one after the other."""
        return " || ".join(texts)

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text."""
        return f"left({sql}, {length})"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division."""
        return f"mod({sql}, {divisor})"

    def quick(self, columns: Sequence[Column]) -> None:
        """None: HASH_AGG gives no number for a row."""

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex; every text is UTF-8."""
        return f"md5({row})"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""
        return f"to_number(substr({digest}, {1 + 8 * index}, 8), 'XXXXXXXX')"

    def open(self, connection: Connection) -> NoReturn:
        """Refuses.

        Raises:
            ConfigError: always.
        """
        raise generated.not_a_source(connection, "Snowflake")
