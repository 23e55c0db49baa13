"""Trino's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL scheme `trino`; the connection is in `session.py`. No expression rounds or depends on the session's
time zone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.addresses import is_loopback
from tidegate.core.flavours import Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.shared.expressions import no_literal, type_mismatch, uncovered
from tidegate.dialects.shared.tls import unverified_server
from tidegate.dialects.trino.address import address_of

if TYPE_CHECKING:
    from tidegate.dialects.trino.session import TrinoSession

MICROS = 6  # digits of a second that a canonical text has
PICOS = 12  # digits that Trino has at most
PIECE = 80  # texts of a concat, which takes 127 at most
PRECISION = re.compile(r"\((\d+)\)")


class Trino(Connectable):
    """Trino 476 and what stands behind its catalogs."""

    kind: ClassVar[str] = "trino"
    executes: ClassVar[str] = "trino"
    jars: ClassVar[tuple[str, ...]] = ("io.trino:trino-jdbc:476",)
    sqlglot: ClassVar[str] = "trino"
    reads_lakes: ClassVar[bool] = True
    bounds: ClassVar[frozenset[Bound]] = frozenset({Bound.APPLICATION_TIME})
    known: ClassVar[re.Pattern[str]] = re.compile(
        r"(tinyint|smallint|integer|bigint|decimal|real|double|boolean|varchar|date|timestamp(\(\d+\))?$)"
    )
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.UUID}
    )

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text.

        Example:
            >>> from tidegate.core.schema import TIMESTAMPTZ
            >>> Trino().literal(TIMESTAMPTZ, "2025-01-01 00:00:00.000000")
            "TIMESTAMP '2025-01-01 00:00:00.000000 UTC'"
        """
        match kind.kind:
            case Kind.INTEGER:
                return f"BIGINT '{int(text)}'"
            case Kind.DECIMAL | Kind.DATE | Kind.TIME | Kind.TIMESTAMP:
                return f"{kind.kind.upper()} {self.string(text)}"
            case Kind.TIMESTAMPTZ:
                return f"TIMESTAMP {self.string(f'{text} UTC')}"
            case Kind.TEXT | Kind.UUID:
                return self.string(text)
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: PLR0911 - one answer a type
        kind = column.type
        match kind.kind:
            case Kind.INTEGER | Kind.UUID:
                return f"CAST({sql} AS varchar)"
            case Kind.DECIMAL:
                return f"CAST(CAST({sql} AS decimal(38,{kind.scale})) AS varchar)"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN true THEN '1' WHEN false THEN '0' END"
            case Kind.DATE:
                return self._checked(sql, f"CAST({sql} AS varchar)", column)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                utc = f"{sql} AT TIME ZONE 'UTC'" if kind.kind is Kind.TIMESTAMPTZ else sql
                return self._checked(sql, self._digits(utc, column, "timestamp", 26), column)
            case Kind.TIME:
                return self._digits(sql, column, "time", 15)
            case Kind.TEXT:
                text = f"CAST({sql} AS varchar)"
                return f"trim(TRAILING ' ' FROM {text})" if (column.native or "").startswith("char") else text
            case Kind.BINARY:
                return f"lower(to_hex({sql}))"
            case Kind.JSON:
                return f"json_format({sql})"
            case _:
                raise uncovered(column)

    def read(self, column: Column) -> ColumnRead:
        """The exact expression that Spark reads.

        Timestamps travel as canonical text, for the driver gives Java's, which a zone or a calendar changes; texts as
        bytes, for Trino does not look whether what a connector gives it is UTF-8.
        """
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER:
                return ColumnRead(
                    sql=f"CAST({sql} AS {'bigint' if kind.bits == 64 else 'integer'})", wire_format=WireFormat.NATIVE
                )
            case Kind.FLOAT | Kind.BOOLEAN | Kind.BINARY | Kind.DECIMAL:
                return ColumnRead(sql=sql, wire_format=WireFormat.NATIVE)
            case Kind.DATE:
                days = f"CAST(date_diff('day', DATE '1970-01-01', {sql}) AS integer)"
                return ColumnRead(sql=self._checked(sql, days, column, "integer"), wire_format=WireFormat.DAYS)
            case Kind.TEXT:
                return ColumnRead(sql=f"to_utf8({self.text(sql, column)})", wire_format=WireFormat.BYTES)
            case Kind.ARRAY:
                return ColumnRead(sql=f"json_format(CAST({sql} AS json))", wire_format=WireFormat.JSON)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def comparable(self, sql: str, column: Column) -> str:
        """Timestamps as far as their canonical text goes, so that a row lies within the bound made from itself."""
        kind = column.type.kind
        if kind is Kind.INTEGER:
            return f"CAST({sql} AS bigint)"
        if kind in (Kind.TEXT, Kind.UUID):
            return self.text(sql, column)
        if kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) or _precision(column) <= MICROS:
            return sql
        cut = f"CAST({self.text(sql, column)} AS timestamp({MICROS}))"
        return f"with_timezone({cut}, 'UTC')" if kind is Kind.TIMESTAMPTZ else cut

    def likely_above(self, sql: str, column: Column, text: str) -> str:
        """Where a timestamp is cut to be compared: it is above the text before it is cut, and a connector can tell."""
        cut = column.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and _precision(column) > MICROS
        return f"{sql} > {self.literal(column.type, text)}" if cut else "1 = 1"

    def as_text(self, sql: str) -> str:
        return f"CAST({sql} AS varchar)"

    def concat(self, texts: Sequence[str]) -> str:
        """Texts one after the other, however many.

        Trino makes one method of Java of an expression, which must not grow beyond 64 KB; a lambda is one of its own.
        """
        if len(texts) <= PIECE:
            return f"concat({', '.join(texts)})" if len(texts) > 1 else texts[0]
        pieces = [self.concat(texts[place : place + PIECE]) for place in range(0, len(texts), PIECE)]
        return self.concat([f"transform(ARRAY[0], piece -> {piece})[1]" for piece in pieces])

    def digest(self, row: str) -> str:
        return f"lower(to_hex(md5(to_utf8({row}))))"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest; a decimal, whose sum overflows at no number of rows."""
        return f"CAST(from_base(substr({digest}, {1 + 8 * index}, 8), 16) AS decimal(10,0))"

    def refuse_url(self, connection: Connection) -> None:
        address_of(connection)

    def in_the_clear(self, connection: Connection) -> str | None:
        """Without TLS, which a password always has."""
        found = address_of(connection)
        if is_loopback(found.host) or (found.ssl and found.verify is not False):
            return None
        if found.ssl:
            return unverified_server(connection.name, "verify=false", "verify=true, or the file of its authority,")
        return f"connection {connection.name!r}: others on the network may read and change what is sent; use ?ssl=true"

    def open(self, connection: Connection) -> TrinoSession:
        from tidegate.dialects.trino.session import TrinoSession  # noqa: PLC0415 - the driver is an extra

        return TrinoSession(self, connection)

    def server(self, ask: Ask) -> Server:
        """A version is one number."""
        return Server.of("Trino", ask("SELECT version()")[0][0])

    def _digits(self, sql: str, column: Column, word: str, length: int) -> str:
        """Six digits of a second, the others cut off: a cast to fewer digits would round."""
        if _precision(column) <= MICROS:
            return f"CAST(CAST({sql} AS {word}({MICROS})) AS varchar)"
        return f"substr(CAST(CAST({sql} AS {word}({PICOS})) AS varchar), 1, {length})"

    def _checked(self, sql: str, good: str, column: Column, result: str = "varchar") -> str:
        """`good` in the years 1 to 9999, NULL for NULL, else an error that names the column, not the value."""
        message = self.string(type_mismatch(column))
        if column.type.kind is Kind.DATE:
            low, high = "DATE '0001-01-01'", "DATE '10000-01-01'"
        else:
            utc = " UTC" if column.type.kind is Kind.TIMESTAMPTZ else ""
            low, high = (f"TIMESTAMP '{year}-01-01 00:00:00{utc}'" for year in ("0001", "10000"))
        inside = f"{sql} >= {low} AND {sql} < {high}"
        return f"CASE WHEN {inside} THEN {good} WHEN {sql} IS NOT NULL THEN CAST(fail({message}) AS {result}) END"


def _precision(column: Column) -> int:
    """Digits of a second; as many as there can be where the type does not tell."""
    found = PRECISION.search(column.native or "")
    return int(found[1]) if found else PICOS
