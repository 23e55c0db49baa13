"""PostgreSQL's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL scheme `postgresql`; the connection is in `session.py`. No expression depends on DateStyle, TimeZone
or another session setting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qsl

from tidegate.core.connector import CapturedDatabase
from tidegate.core.flavours import ALL_BOUNDS, Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable
from tidegate.core.schema import TIMESTAMP, Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.postgresql.plain_urls import plain
from tidegate.dialects.shared.expressions import no_literal, type_mismatch, uncovered
from tidegate.dialects.shared.tls import WARNED

if TYPE_CHECKING:
    from tidegate.dialects.postgresql.session import PostgresqlSession

EPOCH_MICROS = 946_684_800_000_000  # from 1970, where Spark counts from, to 2000, where PostgreSQL does
UNITS = {4: "year", 7: "month", 10: "day", 13: "hour"}
"""By the number of characters that tell it in a canonical text."""
UUID_TEXT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
INDEXED_TEXTS = frozenset({"text", "varchar"})
BESIDE = {"numeric": "< 0", "int8": ">> 32"}
"""What PostgreSQL's hash of a type leaves out: the sign of a numeric, and half of a bigint, whose halves it joins by
xor. Source: PostgreSQL, hash_numeric and hashint8extended."""
SENT = frozenset({Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""Hashed by the eight bytes that are sent of them, for PostgreSQL joins their halves, too. Source: timestamp_hash."""
PADDED = frozenset({"character", "bpchar", "char"})


LOSSLESS = {
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    "hstore.handling.mode": "json",
    # As a number, a month is thirty days and a bit.
    "interval.handling.mode": "string",
    "time.precision.mode": "adaptive_time_microseconds",
    # Columns of unknown types would be missing, and the table's NULL.
    "include.unknown.datatypes": "true",
}


class Postgresql(Connectable):
    """PostgreSQL 12 and later."""

    kind: ClassVar[str] = "postgresql"
    schemes: ClassVar[tuple[str, ...]] = ("postgres",)
    executes: ClassVar[str] = "psycopg"
    jars: ClassVar[tuple[str, ...]] = ("org.postgresql:postgresql:42.7.13",)
    sqlglot: ClassVar[str] = "postgres"
    retains: ClassVar[bool] = True
    # Keeps the planner from pulling the subquery up: it would compute md5 four times a row.
    fence: ClassVar[str] = "OFFSET 0"
    place: ClassVar[str] = "ctid"
    bounds: ClassVar[frozenset[Bound]] = ALL_BOUNDS
    ranges: ClassVar[bool] = True
    known: ClassVar[re.Pattern[str]] = re.compile("")
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.UUID}
    )

    def string(self, text: str) -> str:
        quoted = super().string(text)
        return f" E{quoted}".replace("\\", "\\\\") if "\\" in text else quoted

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text.

        Example:
            >>> from tidegate.core.schema import TEXT
            >>> Postgresql().literal(TEXT, "it's")
            "'it''s'"
        """
        value = self.string(text)
        match kind.kind:
            case Kind.INTEGER:
                return f"{value}::bigint"
            case Kind.DECIMAL:
                return f"{value}::numeric"
            case Kind.DATE | Kind.TIME | Kind.TIMESTAMP:
                return f"{value}::{kind.kind}"
            case Kind.TIMESTAMPTZ:
                return f"'{text}+00'::timestamptz"
            case Kind.TEXT | Kind.UUID:
                return value
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: PLR0911 - one answer a type
        kind = column.type
        match kind.kind:
            case Kind.INTEGER:
                return f"({sql})::bigint::text"
            case Kind.DECIMAL:
                good = f"({sql})::numeric(38,{kind.scale})::text"
                return self._checked(sql, self._fits(sql, column), good, column)
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN true THEN '1' WHEN false THEN '0' END"
            case Kind.DATE:
                return self._checked(sql, self._in_years(sql, kind), f"to_char({sql}, 'YYYY-MM-DD')", column)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                utc = f"{sql} AT TIME ZONE 'UTC'" if kind.kind is Kind.TIMESTAMPTZ else sql
                good = f"to_char({utc}, 'YYYY-MM-DD HH24:MI:SS.US')"
                return self._checked(sql, self._in_years(sql, kind), good, column)
            case Kind.TIME:
                return f"to_char({sql}, 'HH24:MI:SS.US')"
            case Kind.BINARY:
                return f"encode({sql}, 'hex')"
            case Kind.TEXT:
                # No function of texts works on a collation in which other bytes may be equal.
                return f'{self._plain(sql, column.native or "")} COLLATE "C"'
            case Kind.UUID | Kind.JSON:
                return f"({sql})::text"
            case _:
                raise uncovered(column)

    def read(self, column: Column) -> ColumnRead:  # noqa: PLR0911 - one answer a type
        """The exact expression that Spark reads.

        Timestamps travel as microseconds and dates as days, so no time zone or calendar of a JVM touches them.
        """
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER:
                return ColumnRead(
                    sql=f"{sql}::{'bigint' if kind.bits == 64 else 'integer'}", wire_format=WireFormat.NATIVE
                )
            case Kind.FLOAT | Kind.BOOLEAN | Kind.BINARY:
                return ColumnRead(sql=sql, wire_format=WireFormat.NATIVE)
            case Kind.DECIMAL:
                good = self._checked(sql, self._fits(sql, column), sql, column, "numeric")
                return ColumnRead(sql=good, wire_format=WireFormat.NATIVE)
            case Kind.DATE:
                good = f"{sql} - '1970-01-01'::date"
                good = self._checked(sql, self._in_years(sql, kind), good, column, "integer")
                return ColumnRead(sql=good, wire_format=WireFormat.DAYS)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                sent = f"{kind.kind}_send({sql})"
                good = f"('x' || encode({sent}, 'hex'))::bit(64)::bigint + {EPOCH_MICROS}"
                good = self._checked(sql, self._in_years(sql, kind), good, column, "bigint")
                return ColumnRead(sql=self._quick_micros(sql, kind, good), wire_format=WireFormat.MICROS)
            case Kind.ARRAY:
                flat = f"(array_ndims({sql}) = 1 AND array_lower({sql}, 1) = 1 OR cardinality({sql}) = 0)"
                good = self._checked(sql, flat, f"array_to_json({sql})::text", column)
                return ColumnRead(sql=good, wire_format=WireFormat.JSON)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts compare by their bytes, uuids as their texts, as every engine does."""
        if column.type.kind is Kind.TEXT:
            return f'{self._plain(sql, column.native or "")} COLLATE "C"'
        return f'({sql})::text COLLATE "C"' if column.type.kind is Kind.UUID else sql

    def tells_apart(self, column: Column) -> bool:  # noqa: ARG002 - whatever it is
        """PostgreSQL keeps no digits and no spellings beyond those of its texts."""
        return True

    def seek(self, sql: str, column: Column, texts: Sequence[str]) -> str | None:
        """The values themselves: what an index over texts or uuids holds."""
        if column.type.kind is Kind.UUID:
            # A row of the table may have any text for a key, the source's has a uuid.
            listed = ", ".join(f"{self.string(text)}::uuid" for text in texts if UUID_TEXT.fullmatch(text))
        elif column.type.kind is Kind.TEXT and column.native in INDEXED_TEXTS:
            listed = ", ".join(map(self.string, texts))
        else:
            return None
        return f"{sql} IN ({listed})" if listed else "1 = 0"

    def as_text(self, sql: str) -> str:
        return f"({sql})::text"

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text, which compares by its bytes."""
        return f'left({sql} COLLATE "C", {length})'

    def quick(self, columns: Sequence[Column]) -> str | None:
        """PostgreSQL's hash of a record; texts by their bytes, for a collation may call two of them equal.

        Hashed once more: that of a record is 31 times that of its columns before, plus that of the last one, so that
        its sum over rows would stay the same where two rows trade the values of a column.
        """
        fields = []
        for column in columns:
            sql, kind = self.quote(column.name), column.type.kind
            plain = kind not in (Kind.TEXT, Kind.JSON, Kind.ARRAY)
            fields.append(f"{kind}_send({sql})" if kind in SENT else sql if plain else f'({sql})::text COLLATE "C"')
            if plain and (base := (column.native or "").partition("(")[0]) in BESIDE:
                fields.append(f"{sql} {BESIDE[base]}")
        return f"hashint8extended(hash_record_extended(ROW({', '.join(fields)}), 0), 0)" if fields else None

    def own_text(self, sql: str, column: Column) -> str | None:
        """The bits of a floating-point number; its text has as many digits as a setting says."""
        return f"encode(float8send({sql}::float8 + 0), 'hex')" if column.type.kind is Kind.FLOAT else None

    def digest(self, row: str) -> str:
        """The md5 of a row's text, whatever the database's encoding is."""
        return f"md5(convert_to({row}, 'UTF8'))"

    def quarter(self, digest: str, index: int) -> str:
        return f"('x' || substr({digest}, {1 + 8 * index}, 8))::bit(32)::bigint"

    def packed(self, digest: str) -> str:
        """The digest as bits, which are read from its text once and not for each quarter."""
        return f"('x' || {digest})::bit(128)"

    def quarter_of(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a packed digest as a number."""
        return f"substring({digest}, {1 + 32 * index}, 32)::bigint"

    def truncated(self, sql: str, kind: Type, characters: int) -> tuple[str, Type]:
        """The beginning of the year, month, day or hour in UTC; a tenth of the price of its text."""
        if kind.kind is Kind.DATE and characters == len("YYYY-MM-DD"):
            return sql, kind
        local = f"({sql})::timestamp" if kind.kind is Kind.DATE else f"({sql})"
        utc = f"{local} AT TIME ZONE 'UTC'" if kind.kind is Kind.TIMESTAMPTZ else local
        return f"date_trunc('{UNITS[characters]}', {utc})", TIMESTAMP

    def open(self, connection: Connection) -> PostgresqlSession:
        from tidegate.dialects.postgresql.session import PostgresqlSession  # noqa: PLC0415 - the driver takes 0.2 s

        return PostgresqlSession(self, connection)

    def server(self, ask: Ask) -> Server:
        """The number before the dot is the release series."""
        return Server.of("PostgreSQL", ask("SHOW server_version")[0][0])

    def refuse_url(self, connection: Connection) -> None:
        """By libpq itself, but for URLs that are plainly right."""
        if not plain(connection.url):
            from tidegate.dialects.postgresql import address  # noqa: PLC0415 - as above

            address.options_of(connection)

    def in_the_clear(self, connection: Connection) -> str | None:
        """Where the URL or libpq's variable says so."""
        stated = dict(parse_qsl(connection.url.partition("?")[2])).get("sslmode", os.environ.get("PGSSLMODE", ""))
        if stated not in WARNED:
            return None
        from tidegate.dialects.postgresql import address  # noqa: PLC0415 - the driver takes 0.2 s

        return address.in_the_clear(connection)

    def captured(self, connection: Connection) -> CapturedDatabase:
        from tidegate.dialects.postgresql.address import options_of  # noqa: PLC0415 - as above

        return _captured(options_of(connection))

    def _plain(self, sql: str, native: str) -> str:
        base = native.split("(", 1)[0].strip()
        if base in PADDED:
            return f"rtrim(({sql})::text, ' ')"
        if base == "inet":
            # The cast adds the length of a whole address, which nobody wrote; also sound where it is a text already.
            return f"regexp_replace(({sql})::text, '^([^:]*)/32$|/128$', E'\\\\1')"
        return f"({sql})::text"

    def _declared(self, column: Column) -> bool:
        """Whether the database itself holds the column to its precision and scale."""
        return "(" in (column.native or "")

    def _fits(self, sql: str, column: Column) -> str:
        if self._declared(column):
            return f"{sql} <> 'NaN'"
        kind = column.type
        whole = kind.precision - kind.scale
        return f"{sql} = round({sql}, {kind.scale}) AND abs({sql}) < 1e{whole}::numeric"

    def _quick_micros(self, sql: str, kind: Type, exact: str) -> str:
        """Microseconds by way of a double where that is exact: 71 years around 1970, of which it takes 65.

        A double holds 53 bits; division and multiplication by a million each round once, which together stays below
        half a microsecond up to 2**51 microseconds. It takes half the time of the exact form.
        """
        zone = " 00:00:00+00" if kind.kind is Kind.TIMESTAMPTZ else ""
        low, high = (f"'{year}-01-01{zone}'::{kind.kind}" for year in ("1906", "2035"))
        quick = f"round(date_part('epoch', {sql}) * 1e6)::bigint"
        return f"CASE WHEN {sql} >= {low} AND {sql} < {high} THEN {quick} ELSE {exact} END"

    def _in_years(self, sql: str, kind: Type) -> str:
        zone = "+00" if kind.kind is Kind.TIMESTAMPTZ else ""
        low, high = f"'0001-01-01{zone}'::{kind.kind}", f"'10000-01-01{zone}'::{kind.kind}"
        if kind.kind is Kind.TIMESTAMPTZ:
            low, high = (f"'{year}-01-01 00:00:00+00'::timestamptz" for year in ("0001", "10000"))
        return f"{sql} >= {low} AND {sql} < {high}"

    def _checked(self, sql: str, condition: str, good: str, column: Column, result: str = "text") -> str:
        """`good` where the condition holds, NULL for NULL, else an error that names the column, not the value."""
        message = self.string(type_mismatch(column))
        # The empty piece of the value keeps the planner from computing the failure ahead of any row.
        failed = f"({message} || left(({sql})::text, 0))::numeric::{result}"
        return f"CASE WHEN {condition} THEN {good} WHEN {sql} IS NOT NULL THEN {failed} END"


def _captured(options: Mapping[str, str]) -> CapturedDatabase:
    """The connection without its password, and the modes that lose nothing."""
    settings = {
        "database.hostname": options.get("host", "localhost"),
        "database.port": options.get("port", "5432"),
        "database.user": options.get("user", ""),
        "database.dbname": options.get("dbname", ""),
        **({"database.sslmode": options["sslmode"]} if "sslmode" in options else {}),
        "plugin.name": "pgoutput",
        "publication.autocreate.mode": "filtered",
        # Else the events of a partitioned table name its partitions.
        "publish.via.partition.root": "true",
        **LOSSLESS,
    }
    return CapturedDatabase(
        connector="io.debezium.connector.postgresql.PostgresConnector",
        settings=settings,
        order=("source.sequence", "source.schema", "source.db"),
        namespace="public",
        reads_slot=True,
    )
