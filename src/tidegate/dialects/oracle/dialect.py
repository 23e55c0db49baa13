"""Oracle's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL scheme `oracle`; the connection is in `session.py`. Independent of the session's NLS settings. An
empty text is NULL to Oracle, and so it is in the lake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.connector import CapturedDatabase
from tidegate.core.flavours import ALL_BOUNDS, Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable, doubled
from tidegate.core.refusals import marked
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.oracle.address import Address, address_of
from tidegate.dialects.oracle.types import NATIONAL, STATED, UNBOUNDED
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.shared.generated import PrintsFingerprint, mask
from tidegate.dialects.shared.tls import warning
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.dialects.oracle.session import OracleSession

NUMERIC = "'NLS_NUMERIC_CHARACTERS=''.,'''"
PADDED = ("CHAR", "NCHAR")
GROUPS = r"'(.{8})(.{4})(.{4})(.{4})(.{12})', '\1-\2-\3-\4-\5'"
BY_BYTES = "'NLS_SORT=BINARY'"
MOMENT = "'YYYY-MM-DD HH24:MI:SS.FF6'"
FINE = re.compile(r"TIMESTAMP\([789]\)")
"""Times with more digits than a canonical text has."""


LOSSLESS = {
    "binary.handling.mode": "bytes",
    "decimal.handling.mode": "precise",
    # As a number, a month is thirty days and a bit.
    "interval.handling.mode": "string",
    # Else changes of a CLOB or BLOB are not captured, and the table keeps the first ones.
    "lob.enabled": "true",
    # As nanoseconds, which fill 64 bits, the year 9999 would become another one.
    "time.precision.mode": "microseconds",
}


class Oracle(Connectable, PrintsFingerprint):
    """Oracle 12.2 and later; an empty text is NULL there, and counts as NULL."""

    kind: ClassVar[str] = "oracle"
    jars: ClassVar[tuple[str, ...]] = ("com.oracle.database.jdbc:ojdbc11:23.5.0.24.07",)
    sqlglot: ClassVar[str] = "oracle"
    bounds: ClassVar[frozenset[Bound]] = ALL_BOUNDS
    # What the driver calls the others, such as a time with a zone, Spark does not know.
    known: ClassVar[re.Pattern[str]] = re.compile(r"(CHAR|DATE|NUMBER|TIMESTAMP\(\d\)$|VARCHAR2)")
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
    )

    def quote(self, name: str) -> str:
        """One identifier, exactly as it is kept: mostly in upper case.

        Raises:
            ConfigError: a character that Oracle has no way to write in a name.
        """
        if {'"', "\0"} & set(name):
            raise ConfigError("an Oracle name cannot contain a double quote or a NUL character")
        return f'"{name}"'

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text.

        Example:
            >>> from tidegate.core.schema import DATE
            >>> Oracle().literal(DATE, "2025-01-31")
            "DATE '2025-01-31'"
        """
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
        """The canonical text of an expression of the column's type; NULL stays NULL, and an empty text is NULL.

        A value that does not fit a type that the project states is an error.
        """
        native = _word(column)
        match column.type.kind:
            case Kind.INTEGER:
                return self._checked(sql, f"to_char({sql}, 'TM9')", column)
            case Kind.DECIMAL:
                # The cast first: a number that the format rounds to nothing would keep its sign, as -0.00.
                number = f"CAST({sql} AS number(38,{column.type.scale}))"
                return self._checked(sql, f"to_char({number}, '{mask(column.type.scale)}', {NUMERIC})", column)
            case Kind.BOOLEAN:
                return self._checked(sql, f"CASE {sql} WHEN 1 THEN '1' WHEN 0 THEN '0' END", column)
            case Kind.DATE:
                return self._checked(sql, self._signed(sql, "YYYY-MM-DD"), column)
            case Kind.TIMESTAMP:
                return self._moment(f"CAST({sql} AS timestamp(9))")
            case Kind.TIMESTAMPTZ:
                return self._moment(f"CAST({sql} AT TIME ZONE 'UTC' AS timestamp(9))")
            case Kind.TEXT | Kind.JSON:
                return self._plain(sql, column)
            case Kind.UUID:
                return f"lower(regexp_replace(rawtohex({sql}), {GROUPS}))" if native == "RAW" else f"lower({sql})"
            case Kind.BINARY:
                return f"lower(rawtohex({sql}))"
            case _:
                raise uncovered(column)

    def comparable(self, sql: str, column: Column) -> str:
        """Texts by their bytes, whatever NLS_COMP says; times as far as their canonical text goes."""
        kind = column.type.kind
        if kind in (Kind.TEXT, Kind.UUID):
            return f"nlssort({self.text(sql, column) if kind is Kind.TEXT else sql}, {BY_BYTES})"
        if kind not in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) or not FINE.match(column.native or ""):
            return sql
        cut = f"to_timestamp({self.text(sql, column)}, {MOMENT})"
        return f"from_tz({cut}, '+00:00')" if kind is Kind.TIMESTAMPTZ else cut

    def tells_apart(self, column: Column) -> bool:
        """All but times with more than six digits of a second, which are cut off."""
        return not FINE.match(column.native or "")

    def likely_above(self, sql: str, column: Column, text: str) -> str:
        """Where a comparison would convert the column, of which an index then tells nothing."""
        if column.type.kind is Kind.TIMESTAMP and _word(column) == "DATE":
            return f"{sql} >= to_date('{text[:19]}', 'YYYY-MM-DD HH24:MI:SS')"
        fine = column.type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ) and FINE.match(column.native or "")
        return f"{sql} > {self.literal(column.type, text)}" if fine else "1 = 1"

    def seek(self, sql: str, column: Column, texts: Sequence[str]) -> str | None:
        """By the column itself, which compares texts by their bytes, too."""
        if column.type.kind is not Kind.TEXT or _word(column) != "VARCHAR2" or "" in texts:
            return None
        return f"{sql} IN ({', '.join(map(self.string, texts))})"

    def read(self, column: Column) -> ColumnRead:
        """The exact expression that Spark reads.

        Times travel as canonical text: Oracle's calendar is Julius Caesar's before 1582, and the driver's Java's.
        """
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.INTEGER | Kind.DECIMAL:
                return ColumnRead(sql=self._checked(sql, sql, column, number=True), wire_format=WireFormat.NATIVE)
            case Kind.FLOAT | Kind.BINARY:
                return ColumnRead(sql=sql, wire_format=WireFormat.NATIVE)
            case Kind.TEXT | Kind.JSON:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.NATIVE)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def as_text(self, sql: str) -> str:
        return f"to_char({sql}, 'TM9')"

    def remainder(self, sql: str, divisor: int) -> str:
        return f"mod({sql}, {divisor})"

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex, whatever the database's character set is."""
        return f"lower(rawtohex(standard_hash(convert({row}, 'AL32UTF8'), 'MD5')))"

    def quarter(self, digest: str, index: int) -> str:
        return f"to_number(upper(substr({digest}, {1 + 8 * index}, 8)), 'XXXXXXXX')"

    def named(self, subquery: str, name: str) -> str:
        """Without the word AS, which Oracle does not know there."""
        return f"({subquery}) {name}"

    def limited(self, columns: str, rest: str, rows: int, *, distinct: bool = False) -> str:
        return f"SELECT {'DISTINCT ' if distinct else ''}{columns} {rest} FETCH FIRST {rows} ROWS ONLY"

    def every(self, columns: Sequence[str]) -> str:
        """By their names, for it knows no star beside another column."""
        return ", ".join(columns)

    def refuse_url(self, connection: Connection) -> None:
        address_of(connection)

    def in_the_clear(self, connection: Connection) -> str | None:
        found = address_of(connection)
        return warning(connection.name, found.mode, [found.host])

    def captured(self, connection: Connection) -> CapturedDatabase:

        return _captured(address_of(connection))

    def open(self, connection: Connection) -> OracleSession:
        from tidegate.dialects.oracle.session import OracleSession  # noqa: PLC0415 - the driver is an extra

        return OracleSession(self, connection)

    def server(self, ask: Ask) -> Server | None:
        """The number before the first dot is that of a release."""
        found = ask("SELECT p.version FROM product_component_version p WHERE p.product LIKE 'Oracle Database%'")
        return Server.of("Oracle", found[0][0]) if found else None

    def _plain(self, sql: str, column: Column) -> str:
        """A text without the blanks that Oracle adds, in the database's character set; of a number all its digits."""
        word = _word(column)
        if word == UNBOUNDED:
            return f"to_char({sql}, 'TM9', {NUMERIC})"
        text = f"to_char({sql})" if word in NATIONAL else sql
        return f"rtrim({text}, ' ')" if word in PADDED else text

    def _moment(self, sql: str) -> str:
        """All nine digits there are, then three cut off; years before 1 keep their sign."""
        return f"substr({self._signed(sql, 'YYYY-MM-DD HH24:MI:SS.FF9')}, 1, 26)"

    def _signed(self, sql: str, shape: str) -> str:
        """A year before 1 is written with its sign, so that it equals no year of a lake."""
        after = f"{sql} >= DATE '0001-01-01'"
        return f"CASE WHEN {after} THEN to_char({sql}, '{shape}') ELSE to_char({sql}, 'S{shape}') END"

    def _checked(self, sql: str, good: str, column: Column, *, number: bool = False) -> str:
        """`good` where a value fits the type that the project states, NULL for NULL, else an error."""
        if not (column.native or "").endswith(STATED):
            return good
        kind = column.type
        match kind.kind:
            case Kind.INTEGER:
                fits = (
                    f"{sql} = trunc({sql}) AND {sql} BETWEEN {-(2 ** (kind.bits - 1))} AND {2 ** (kind.bits - 1) - 1}"
                )
            case Kind.DECIMAL:
                fits = f"{sql} = round({sql}, {kind.scale}) AND abs({sql}) < 1E{kind.precision - kind.scale}"
            case Kind.BOOLEAN:
                fits = f"{sql} IN (0, 1)"
            case _:
                fits = f"{sql} = trunc({sql}, 'DD')"
        words = doubled(marked(f"column {column.name!r} holds a value that does not fit {kind}"), "'")
        # A text of the row, of no length, keeps the optimizer from computing it ahead of any row.
        failed = f"to_number({words} || substr(to_char({sql}), 1, 0))"
        failed = failed if number else f"to_char({failed})"
        return f"CASE WHEN {fits} THEN {good} WHEN {sql} IS NOT NULL THEN {failed} END"


def _word(column: Column) -> str:
    """Oracle's word for a column's type, without a length; empty where none is known."""
    return (column.native or "").removesuffix(STATED).split("(", maxsplit=1)[0].upper()


def _captured(address: Address) -> CapturedDatabase:
    """Without the password, in modes that lose nothing; of a pluggable database, where the URL names its container."""
    container = address.options.get("cdb")
    names = {"database.dbname": container or address.service}
    if container is not None:
        names["database.pdb.name"] = address.service
    settings = {
        "database.hostname": address.host,
        "database.port": str(address.port),
        "database.user": address.user,
        **names,
        **LOSSLESS,
    }
    return CapturedDatabase(
        connector="io.debezium.connector.oracle.OracleConnector",
        settings=settings,
        order=(
            "source.commit_scn",
            "source.lcr_position",
            "source.scn",
            "source.rs_id",
            "source.ssn",
            "source.schema",
            "source.db",
        ),
        namespace=address.user.upper(),
        keeps_history=True,
    )
