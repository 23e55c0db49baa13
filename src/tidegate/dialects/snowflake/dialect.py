"""Snowflake's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL scheme `snowflake`; the connection is in `session.py`. Never applies a time zone to a timestamp
without one, and never rounds: digits of a second beyond the sixth are cut off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.flavours import Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable, doubled
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.shared.expressions import no_literal, type_mismatch, uncovered
from tidegate.dialects.shared.generated import PrintsFingerprint
from tidegate.dialects.snowflake.address import address_of
from tidegate.dialects.snowflake.types import DOCUMENTS, digits

if TYPE_CHECKING:
    from tidegate.dialects.snowflake.session import SnowflakeSession

MICROS = 6  # digits of a second that a canonical text has
MOMENT = "YYYY-MM-DD HH24:MI:SS.FF9"
CLOCK = "HH24:MI:SS.FF9"


class Snowflake(Connectable, PrintsFingerprint):
    """Snowflake; TIMESTAMP_NTZ is a timestamp, TIMESTAMP_TZ and TIMESTAMP_LTZ are a timestamptz."""

    kind: ClassVar[str] = "snowflake"
    executes: ClassVar[str] = "snowflake"
    jars: ClassVar[tuple[str, ...]] = ("net.snowflake:snowflake-jdbc:3.28.0",)
    sqlglot: ClassVar[str] = "snowflake"
    bounds: ClassVar[frozenset[Bound]] = frozenset({Bound.APPLICATION_TIME})
    known: ClassVar[re.Pattern[str]] = re.compile(r"(NUMBER|FLOAT|BOOLEAN|VARCHAR|DATE|TIMESTAMP_NTZ)")
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.UUID}
    )

    def string(self, text: str) -> str:
        """A text literal, in which a backslash is an escape."""
        return doubled(text.replace("\\", "\\\\"), "'")

    def literal(self, kind: Type, text: str) -> str:
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
        match column.type.kind:
            case Kind.INTEGER:
                return self._whole(sql, f"to_varchar({sql})", column)
            case Kind.DECIMAL:
                return f"to_varchar(CAST({sql} AS number(38,{column.type.scale})))"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN true THEN '1' WHEN false THEN '0' END"
            case Kind.DATE:
                return self._dated(sql, f"to_char({sql}, 'YYYY-MM-DD')", column)
            case Kind.TIMESTAMP:
                return self._dated(sql, self._cut(sql, MOMENT, 26), column)
            case Kind.TIMESTAMPTZ:
                utc = f"convert_timezone('UTC', {sql})"
                return self._dated(utc, self._cut(utc, MOMENT, 26), column)
            case Kind.TIME:
                return self._cut(sql, CLOCK, 15)
            case Kind.TEXT | Kind.JSON:
                return _written(sql, column)
            case Kind.UUID:
                return f"lower({sql})"
            case Kind.BINARY:
                return f"lower(hex_encode({sql}))"
            case _:
                raise uncovered(column)

    def read(self, column: Column) -> ColumnRead:
        """The exact expression that Spark reads.

        Times travel as canonical text, for the driver gives Java's, which a zone or a calendar changes.
        """
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER:
                return ColumnRead(sql=self._whole(sql, sql, column, textual=False), wire_format=WireFormat.NATIVE)
            case Kind.FLOAT | Kind.BOOLEAN | Kind.BINARY | Kind.DECIMAL:
                return ColumnRead(sql=sql, wire_format=WireFormat.NATIVE)
            case Kind.DATE:
                days = f"datediff('day', '1970-01-01'::date, {sql})"
                return ColumnRead(sql=self._dated(sql, days, column, textual=False), wire_format=WireFormat.DAYS)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their bytes, whatever the column's collation is; times as far as their canonical text goes."""
        kind = column.type.kind
        if kind in (Kind.TEXT, Kind.UUID):
            return f"collate({self.text(sql, column)}, '')"
        if kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and digits(column) > MICROS:
            return f"date_trunc('microsecond', {sql})"
        return sql

    def likely_above(self, sql: str, column: Column, text: str) -> str:
        """Where a time is cut to be compared: it is above the text before it is cut, and whole partitions are not."""
        cut = column.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and digits(column) > MICROS
        return f"{sql} > {self.literal(column.type, text)}" if cut else "1 = 1"

    def as_text(self, sql: str) -> str:
        return f"to_varchar({sql})"

    def left(self, sql: str, length: int) -> str:
        return f"left({sql}, {length})"

    def remainder(self, sql: str, divisor: int) -> str:
        return f"mod({sql}, {divisor})"

    def digest(self, row: str) -> str:
        return f"md5({row})"

    def quarter(self, digest: str, index: int) -> str:
        return f"to_number(substr({digest}, {1 + 8 * index}, 8), 'XXXXXXXX')"

    def refuse_url(self, connection: Connection) -> None:
        address_of(connection)

    def open(self, connection: Connection) -> SnowflakeSession:
        from tidegate.dialects.snowflake.session import SnowflakeSession  # noqa: PLC0415 - the driver is an extra

        return SnowflakeSession(self, connection)

    def server(self, ask: Ask) -> Server:
        """Each week has another release; its first number is kept for years."""
        return Server.of("Snowflake", ask("SELECT current_version()")[0][0])

    @staticmethod
    def _cut(sql: str, pattern: str, length: int) -> str:
        """Six digits of a second, the others cut off."""
        return f"left(to_char({sql}, '{pattern}'), {length})"

    def _dated(self, sql: str, good: str, column: Column, *, textual: bool = True) -> str:
        """`good` in the years 1 to 9999, NULL for NULL, else an error that names the column, not the value."""
        return self._checked(sql, f"year({sql}) BETWEEN 1 AND 9999", good, column, textual=textual)

    def _whole(self, sql: str, good: str, column: Column, *, textual: bool = True) -> str:
        """`good` for a number that fits the integer that the project states, else an error as above."""
        if not (column.native or "").startswith("NUMBER"):
            return good
        most = 2 ** (column.type.bits - 1)
        return self._checked(sql, f"{sql} BETWEEN {-most} AND {most - 1}", good, column, textual=textual)

    def _checked(self, sql: str, condition: str, good: str, column: Column, *, textual: bool) -> str:
        # The empty piece of the value keeps the compiler from computing the failure ahead of any row.
        failed = f"to_number({self.string(type_mismatch(column))} || left(to_varchar({sql}), 0))"
        failed = f"to_varchar({failed})" if textual else failed
        return f"CASE WHEN {condition} THEN {good} WHEN {sql} IS NOT NULL THEN {failed} END"


def _written(sql: str, column: Column) -> str:
    """A text as it is; a column of another type that is read as text, as Snowflake writes it with nothing left out."""
    native = (column.native or "").partition("(")[0]
    if native in DOCUMENTS:
        return f"to_json({sql})"
    if native in ("TIMESTAMP_LTZ", "TIMESTAMP_TZ"):
        return f"to_char({sql}, '{MOMENT} TZH:TZM')"
    if native in ("TIMESTAMP_NTZ", "TIME"):
        return f"to_char({sql}, '{MOMENT if native == 'TIMESTAMP_NTZ' else CLOCK}')"
    if native == "DATE":
        return f"to_char({sql}, 'YYYY-MM-DD')"
    return f"to_varchar({sql})" if native in ("NUMBER", "BOOLEAN") else sql
