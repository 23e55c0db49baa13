"""MariaDB's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL schemes `mariadb` and `mysql`; the connection is in `session.py`. Never compares or groups strings by
a collation, nor accepts a function's silent NULL or a truncated number as a value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.connector import CapturedDatabase
from tidegate.core.flavours import ALL_BOUNDS, Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable, doubled
from tidegate.core.refusals import marked
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.mariadb.address import Address, address_of
from tidegate.dialects.mariadb.types import CHARSET, STATED
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.tls import warning

if TYPE_CHECKING:
    from tidegate.dialects.mariadb.session import MariadbSession

BYTES = frozenset({"binary", "varbinary", "blob"})
EPOCH_DAY = 719_528  # 1970-01-01 as TO_DAYS counts
DATETIME = "%Y-%m-%d %H:%i:%s.%f"
# Of these every character has its place in Unicode; of others some become a question mark.
UNICODE = frozenset(
    {"", "ascii", "binary", "latin1", "ucs2", "utf16", "utf16le", "utf32", "utf8", "utf8mb3", "utf8mb4"}
)


CONNECTORS = {
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
}
"""By the scheme of the URL."""
MODES = {
    "disable": "disable",
    "require": "required",
    "verify-ca": "verify_ca",
    "verify-full": "verify_identity",
}
"""Debezium's words, but for MariaDB's connector, which has the driver's."""
LOSSLESS = {
    "bigint.unsigned.handling.mode": "precise",
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    # Else the year 17 becomes 2017.
    "enable.time.adjuster": "false",
    "time.precision.mode": "adaptive_time_microseconds",
}


class Mariadb(Connectable):
    """MariaDB 10.6 and later; MySQL 8 by the same words."""

    kind: ClassVar[str] = "mariadb"
    schemes: ClassVar[tuple[str, ...]] = ("mysql",)
    jars: ClassVar[tuple[str, ...]] = ("org.mariadb.jdbc:mariadb-java-client:3.5.6",)
    sqlglot: ClassVar[str] = "mysql"
    # Keeps the optimizer from merging the subquery: it would compute md5 four times a row, which takes twice as long.
    fence: ClassVar[str] = "LIMIT 18446744073709551615"
    bounds: ClassVar[frozenset[Bound]] = ALL_BOUNDS
    # Its protocol calls a uuid and an address a `char`; the driver does not.
    known: ClassVar[re.Pattern[str]] = re.compile("(?!char)")
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT}
    )

    def quote(self, name: str) -> str:
        """One identifier, whatever it holds.

        Raises:
            ConfigError: a NUL character, which MariaDB has no way to write.

        Example:
            >>> Mariadb().quote("a`b")
            '`a``b`'
        """
        super().quote(name)
        return doubled(name, "`")

    def string(self, text: str) -> str:
        """A text literal; in hex where sql_mode decides what its characters mean.

        Example:
            >>> Mariadb().string("it's"), Mariadb().string(chr(92))
            ("'it''s'", "CONVERT(X'5c' USING utf8mb4)")
        """
        if "\\" in text or "\0" in text:
            return f"CONVERT(X'{text.encode().hex()}' USING utf8mb4)"
        return super().string(text)

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text.

        Example:
            >>> from tidegate.core.schema import DATE
            >>> Mariadb().literal(DATE, "2025-01-31")
            "DATE '2025-01-31'"
        """
        match kind.kind:
            case Kind.INTEGER:
                return str(int(text))
            case Kind.DECIMAL:
                return f"CAST({self.string(text)} AS DECIMAL({kind.precision},{kind.scale}))"
            case Kind.DATE:
                return f"DATE {self.string(text)}"
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                return f"TIMESTAMP {self.string(text)}"
            case Kind.TIME:
                return f"CAST({self.string(text)} AS TIME(6))"
            case Kind.TEXT | Kind.UUID:
                return f"CAST({self.string(text)} AS BINARY)"
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: PLR0911 - one answer a type
        """The canonical text of an expression of the column's type; NULL stays NULL, a bad value is an error.

        A text comes as its bytes in UTF-8: so no collation calls two of them equal.
        """
        kind = column.type
        match kind.kind:
            case Kind.INTEGER:
                # The inner cast takes away the zeros of ZEROFILL.
                return f"CAST(CAST({sql} AS SIGNED) AS CHAR)"
            case Kind.DECIMAL:
                good = f"CAST(CAST({sql} AS DECIMAL(38,{kind.scale})) AS CHAR)"
                return good if self._declared(column) else self._checked(sql, self._fits(sql, kind), good, column)
            case Kind.BOOLEAN:
                return self._checked(sql, f"({sql}) + 0 IN (0, 1)", f"CAST(({sql}) + 0 AS CHAR)", column)
            case Kind.DATE:
                return self._checked(sql, self._is_day(sql), f"DATE_FORMAT({sql}, '%Y-%m-%d')", column)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                return self._checked(sql, self._is_day(sql), f"DATE_FORMAT({sql}, '{DATETIME}')", column)
            case Kind.TIME:
                return f"TIME_FORMAT({sql}, '%H:%i:%s.%f')"
            case Kind.BINARY:
                return f"LOWER(HEX({sql}))"
            case Kind.TEXT | Kind.JSON:
                return self._plain(sql, column)
            case _:
                raise uncovered(column)

    def read(self, column: Column) -> ColumnRead:  # noqa: PLR0911 - one answer a type
        """The exact expression that Spark reads.

        Timestamps travel as microseconds, dates as days and texts as bytes, so that no driver interprets them.
        """
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER:
                return ColumnRead(sql=f"CAST({sql} AS SIGNED)", wire_format=WireFormat.NATIVE)
            case Kind.FLOAT:
                # The server writes a FLOAT with six digits, a DOUBLE with all of them.
                return ColumnRead(sql=f"CAST({sql} AS DOUBLE)", wire_format=WireFormat.NATIVE)
            case Kind.BINARY:
                return ColumnRead(sql=f"CAST({sql} AS BINARY)", wire_format=WireFormat.NATIVE)
            case Kind.DATE:
                good = f"TO_DAYS({sql}) - {EPOCH_DAY}"
                good = self._checked(sql, self._is_day(sql), good, column, number=True)
                return ColumnRead(sql=good, wire_format=WireFormat.DAYS)
            case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
                good = f"TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', {sql})"
                good = self._checked(sql, self._is_day(sql), good, column, number=True)
                return ColumnRead(sql=good, wire_format=WireFormat.MICROS)
            case Kind.TEXT | Kind.JSON:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.BYTES)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts compare by their bytes, blanks at their end included, as every engine does."""
        return self._plain(sql, column) if column.type.kind is Kind.TEXT else sql

    def tells_apart(self, column: Column) -> bool:
        """All but texts in a character set that has several places for one character."""
        charset = (column.native or "").removesuffix(STATED).partition(CHARSET)[2]
        return charset in UNICODE

    def as_text(self, sql: str) -> str:
        return f"CAST({sql} AS CHAR)"

    def concat(self, texts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(texts)})"

    def left(self, sql: str, length: int) -> str:
        """The first characters, not bytes, of a text, which compares by its bytes."""
        return f"CAST(LEFT(CONVERT({sql} USING utf8mb4), {length}) AS BINARY)"

    def descending(self, sql: str) -> str:
        """NULL is the least value to MariaDB, and there are no words to say so."""
        return f"{sql} DESC"

    def own_text(self, sql: str, column: Column) -> str | None:
        """The fewest digits from which a floating-point number comes back."""
        return f"CAST(CAST({sql} AS DOUBLE) + 0e0 AS CHAR)" if column.type.kind is Kind.FLOAT else None

    def digest(self, row: str) -> str:
        """The md5 of a row's text; a row beyond max_allowed_packet, of which MariaDB makes NULL, is an error."""
        return f"COALESCE(MD5({row}), {self._failure('a row is longer than max_allowed_packet', 'RAND()')})"

    def quarter(self, digest: str, index: int) -> str:
        return f"CAST(CONV(SUBSTR({digest}, {1 + 8 * index}, 8), 16, 10) AS SIGNED)"

    def refuse_url(self, connection: Connection) -> None:
        address_of(connection)

    def in_the_clear(self, connection: Connection) -> str | None:
        found = address_of(connection)
        return warning(connection.name, found.mode or "", [found.host])

    def open(self, connection: Connection) -> MariadbSession:
        from tidegate.dialects.mariadb.session import MariadbSession  # noqa: PLC0415 - the driver is optional

        return MariadbSession(self, connection)

    def server(self, ask: Ask) -> Server:
        """A release series of either has two numbers."""
        version = str(ask("SELECT VERSION()")[0][0])
        return Server.of("MariaDB" if "mariadb" in version.lower() else "MySQL", version, numbers=2)

    def captured(self, connection: Connection) -> CapturedDatabase:
        """By Debezium's connector for MariaDB, or for MySQL where the URL begins with `mysql://`."""
        from tidegate.dialects.mariadb.address import address_of  # noqa: PLC0415 - as above

        return _captured(connection.scheme, address_of(connection))

    def _plain(self, sql: str, column: Column) -> str:
        """The bytes in UTF-8 of a text in any character set, or of such bytes themselves."""
        native, _, charset = (column.native or "").partition(CHARSET)
        if (column.native or "").endswith(STATED):
            return self._as_text(sql, column)
        if native.startswith("decimal"):
            return f"CAST(CAST(CAST({sql} AS {native.split()[0].upper()}) AS CHAR) AS BINARY)"
        good = f"CAST(CONVERT({sql} USING utf8mb4) AS BINARY)"
        if charset in UNICODE:
            return good
        # Also sound where the text is converted already, as a greatest value is.
        same = f"{_marks(good)} = {_marks(f'CAST({sql} AS BINARY)')}"
        return self._checked(sql, same, good, column)

    def _as_text(self, sql: str, column: Column) -> str:
        """The bytes in UTF-8 of what the server writes for any value; bytes that are no UTF-8 are an error."""
        native = (column.native or "").removesuffix(STATED)
        if CHARSET in native:
            return self._plain(sql, replace(column, native=native))
        written = sql
        if native == "float":
            written = f"CAST({sql} AS DOUBLE)"
        elif native == "geometry":
            written = f"ST_AsText({sql})"
        elif native.startswith("bit"):
            written = f"CAST({sql} AS UNSIGNED)"
        good = f"CAST(CAST({written} AS CHAR CHARACTER SET utf8mb4) AS BINARY)"
        # Of bytes that are no UTF-8 the server would write other ones.
        same = f"{good} = CAST({sql} AS BINARY)" if native in BYTES else f"{good} IS NOT NULL"
        return self._checked(sql, same, good, column)

    def _declared(self, column: Column) -> bool:
        """Whether the database itself holds the column to its precision and scale."""
        return not (column.native or "").endswith(STATED)

    def _fits(self, sql: str, kind: Type) -> str:
        whole = kind.precision - kind.scale
        return f"{sql} = ROUND({sql}, {kind.scale}) AND ABS({sql}) < CAST('1{'0' * whole}' AS DECIMAL(65,0))"

    def _is_day(self, sql: str) -> str:
        """A day that exists, from year 1 on: neither zeros nor a 31st of February, which sql_mode may let in."""
        return f"{sql} >= '0001-01-01' AND FROM_DAYS(TO_DAYS({sql})) = DATE({sql})"

    def _checked(self, sql: str, condition: str, good: str, column: Column, *, number: bool = False) -> str:
        """`good` where the condition holds, NULL for NULL, else an error that names the column, not the value."""
        failed = self._failure(
            f"column {column.name!r} holds a value that does not fit {column.type}", f"({sql} IS NULL)"
        )
        if number:
            failed = f"CAST({failed} AS SIGNED)"
        return f"CASE WHEN {condition} THEN {good} WHEN {sql} IS NOT NULL THEN {failed} END"

    def _failure(self, message: str, varying: str) -> str:
        """What no SELECT survives: an exponent out of range, of which the server repeats the words.

        `varying` keeps the optimizer from computing it ahead of any row.
        """
        words = self.string(marked(message.replace("\\", "/").replace("\0", "")))
        return f"LEFT(EXP(LENGTH({words}) * 1000 + {varying}), 0)"


def _marks(sql: str) -> str:
    """How many question marks some bytes hold."""
    return f"(LENGTH({sql}) - LENGTH(REPLACE({sql}, '?', '')))"


def _captured(scheme: str, address: Address) -> CapturedDatabase:
    """The connection without its password, and the modes that lose nothing."""
    words = {"disable": "disable", "require": "trust"} if scheme == "mariadb" else {}
    mode = address.options.get("sslmode")
    ssl = (
        {"database.ssl.mode": {**MODES, **words}[mode] if scheme == "mysql" or mode in words else mode} if mode else {}
    )
    settings = {
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        **ssl,
        "database.include.list": address.database,
        **LOSSLESS,
    }
    return CapturedDatabase(
        connector=CONNECTORS[scheme],
        settings=settings,
        order=("source.file", "source.pos", "source.row", "source.db"),
        namespace=address.database,
        keeps_history=True,
        is_replica=True,
    )
