"""Teradata's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL scheme `teradata`; the connection is in `session.py`. Never hashes a string in Teradata's own
character set, and never takes texts for equal that differ in case or in blanks at their end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.flavours import Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.generated import PrintsFingerprint, mask
from tidegate.dialects.shared.tls import warning
from tidegate.dialects.teradata.address import address_of

if TYPE_CHECKING:
    from tidegate.dialects.teradata.session import TeradataSession

NUMERIC = "'NLS_NUMERIC_CHARACTERS=''.,'''"
MOMENT = "YYYY-MM-DD HH24:MI:SS.FF6"
LAST = "'\t'"
"""Stands behind a text that is compared: of a literal case counts, and no blank before it can be overlooked."""
DECLARED = re.compile(r"(?:var)?char(?:acter)?\((\d+)\)", re.IGNORECASE)


class Teradata(Connectable, PrintsFingerprint):
    """Teradata 16.20 and later with the function `hash_md5` installed, which Teradata offers as a download."""

    kind: ClassVar[str] = "teradata"
    jars: ClassVar[tuple[str, ...]] = ("com.teradata.jdbc:terajdbc:20.00.00.49",)
    sqlglot: ClassVar[str] = "teradata"
    bounds: ClassVar[frozenset[Bound]] = frozenset({Bound.APPLICATION_TIME})
    known: ClassVar[re.Pattern[str]] = re.compile(
        r"(BIGINT|BYTEINT|CHAR|DATE|DECIMAL|INTEGER|NUMBER|SMALLINT|TIMESTAMP\(\d\)$|VARCHAR)", re.IGNORECASE
    )
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})

    def literal(self, kind: Type, text: str) -> str:
        match kind.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return text
            case Kind.DATE | Kind.TIME | Kind.TIMESTAMP:
                return f"{kind.kind.upper()} '{text}'"
            case Kind.TIMESTAMPTZ:
                return f"TIMESTAMP '{text}+00:00'"
            case Kind.TEXT | Kind.UUID:
                return f"{self.string(text)} || {LAST}"
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: C901, PLR0911 - one answer a type
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

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their characters, whatever the column says of case."""
        kind = column.type.kind
        return f"{self.text(sql, column)} || {LAST}" if kind in (Kind.TEXT, Kind.UUID) else sql

    def seek(self, sql: str, column: Column, texts: Sequence[str]) -> str | None:
        """By the column itself, which takes more texts for equal, and by which rows may be distributed."""
        if column.type.kind is not Kind.TEXT or DECLARED.match(column.native or "") is None:
            return None
        return f"{sql} IN ({', '.join(map(self.string, texts))})"

    def read(self, column: Column) -> ColumnRead:
        """The exact expression that Spark reads; times travel as canonical text, which no calendar changes."""
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER:
                word = "bigint" if kind.bits == 64 else "integer"
                return ColumnRead(sql=f"CAST({sql} AS {word})", wire_format=WireFormat.NATIVE)
            case Kind.FLOAT | Kind.DECIMAL | Kind.BINARY:
                return ColumnRead(sql=sql, wire_format=WireFormat.NATIVE)
            case Kind.TEXT | Kind.JSON:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.NATIVE)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def as_text(self, sql: str) -> str:
        return f"to_char({sql}, 'TM9')"

    def escaped(self, text: str, column: Column) -> str:
        """Cast to twice the declared length: else each text would count as one of 8,000 characters in a row's text."""
        found = DECLARED.match(column.native or "")
        made = super().escaped(text, column)
        return f"CAST({made} AS varchar({2 * int(found[1])}))" if found else made

    def replaced(self, sql: str, old: str, new: str) -> str:
        """By Teradata's own word for it."""
        return f"oreplace({sql}, '{old}', '{new}')"

    def remainder(self, sql: str, divisor: int) -> str:
        return f"({sql} MOD {divisor})"

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex, by a function that has to be installed."""
        return f"lower(hash_md5(TransUnicodeToUTF8({row})))"

    def quarter(self, digest: str, index: int) -> str:
        return f"to_number(upper(substr({digest}, {1 + 8 * index}, 8)), 'XXXXXXXX')"

    def limited(self, columns: str, rest: str, rows: int, *, distinct: bool = False) -> str:
        """By TOP, which stands beside no DISTINCT."""
        if not distinct:
            return f"SELECT TOP {rows} {columns} {rest}"
        value = self.quote("tidegate value")
        each = self.named(f"SELECT DISTINCT {columns} AS {value} {rest}", "each_value")
        return f"SELECT TOP {rows} {value} FROM {each}"

    def every(self, columns: Sequence[str]) -> str:
        """By their names, for it knows no star beside another column."""
        return ", ".join(columns)

    def tiles(self, count: int, order: str) -> str:
        """By the number of the row, for it has no such function."""
        before = f"CAST(row_number() OVER (ORDER BY {order}) - 1 AS bigint)"
        return f"{before} * {count} / CAST(count(*) OVER () AS bigint)"

    def by_characters(self, text: str) -> tuple[str, Callable[[str], str]]:
        return f"{text} || {LAST}", lambda value: f"substr({value}, 1, character_length({value}) - 1)"

    def refuse_url(self, connection: Connection) -> None:
        address_of(connection)

    def in_the_clear(self, connection: Connection) -> str | None:
        found = address_of(connection)
        return warning(connection.name, found.mode or "", [found.host])

    def open(self, connection: Connection) -> TeradataSession:
        from tidegate.dialects.teradata.session import TeradataSession  # noqa: PLC0415 - the driver is an extra

        return TeradataSession(self, connection)

    def server(self, ask: Ask) -> Server | None:
        """The first two numbers are those of a release."""
        found = ask("SELECT i.InfoData FROM DBC.DBCInfoV AS i WHERE i.InfoKey = 'VERSION'")
        return Server.of("Teradata", found[0][0], numbers=2) if found else None
