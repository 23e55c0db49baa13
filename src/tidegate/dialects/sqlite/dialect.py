"""SQLite's SQL: quoting, literals, and exact expressions per type for reading and hashing.

Chosen by the URL scheme `sqlite`; the connection is in `session.py`. SQLite stores any value in any column, so every
expression fails on a value that the column's declared type does not allow, and never converts it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.flavours import ALL_BOUNDS, Bound
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Connectable
from tidegate.core.refusals import marked
from tidegate.core.schema import Column, Kind, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.shared.database_file import file_of, opened_file
from tidegate.dialects.shared.expressions import no_literal, uncovered
from tidegate.dialects.sqlite.types import AS_TEXT

if TYPE_CHECKING:
    from tidegate.dialects.sqlite.session import SqliteSession

DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
ONE_FORM = frozenset({Kind.BINARY, Kind.BOOLEAN, Kind.DATE, Kind.INTEGER, Kind.TEXT})
UTC = (" +0000 UTC", " +00:00", "+00:00", "Z")
FLOAT_DIGITS = 15  # what a decimal of so many digits keeps on its way through a double


class Sqlite(Connectable):
    """SQLite 3.38 and later."""

    kind: ClassVar[str] = "sqlite"
    schemes: ClassVar[tuple[str, ...]] = ("sqlite3",)
    jars: ClassVar[tuple[str, ...]] = ("org.xerial:sqlite-jdbc:3.50.3.0",)
    sqlglot: ClassVar[str] = "sqlite"
    retains: ClassVar[bool] = True
    fence: ClassVar[str] = "LIMIT -1 OFFSET 0"
    place: ClassVar[str] = "rowid"
    # Not decimals: those kept as text or as floating point have no exact order here.
    bounds: ClassVar[frozenset[Bound]] = ALL_BOUNDS
    ordered: ClassVar[frozenset[Kind]] = frozenset({Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP, Kind.TEXT, Kind.UUID})

    def literal(self, kind: Type, text: str) -> str:
        match kind.kind:
            case Kind.INTEGER:
                return str(int(text))
            case Kind.DATE | Kind.TIME | Kind.TIMESTAMP | Kind.TEXT | Kind.UUID:
                return self.string(text)
            case _:
                raise no_literal(kind)

    def text(self, sql: str, column: Column) -> str:  # noqa: PLR0911 - one answer a type
        kind = column.type
        match kind.kind:
            case Kind.INTEGER:
                return self._case(sql, column, (self._is_integer(sql, kind), f"CAST({sql} AS TEXT)"))
            case Kind.BOOLEAN:
                return self._case(
                    sql, column, (f"{self._is(sql, 'integer')} AND {sql} IN (0, 1)", f"CAST({sql} AS TEXT)")
                )
            case Kind.DECIMAL:
                return self._decimal(sql, column)
            case Kind.DATE:
                return self._case(sql, column, (f"{self._is(sql, 'text')} AND {self._is_day(sql)}", sql))
            case Kind.TIMESTAMP:
                return self._timestamp(sql, column)
            case Kind.TIME:
                return self._time(sql, column)
            case Kind.TEXT | Kind.JSON:
                return self._case(sql, column, *self._texts(sql, column))
            case Kind.UUID:
                return self._case(sql, column, (f"{self._is(sql, 'text')} AND length({sql}) = 36", f"lower({sql})"))
            case Kind.BINARY:
                return self._case(sql, column, (self._is(sql, "blob"), f"lower(hex({sql}))"))
            case _:
                raise uncovered(column)

    def read(self, column: Column) -> ColumnRead:
        """The exact expression that Spark reads; the driver guesses types, so all but three travel as text."""
        sql, kind = self.quote(column.name), column.type
        match kind.kind:
            case Kind.FLOAT:
                # Beyond 2^53 a double no longer keeps every whole number.
                good = f"({self._is(sql, 'real')} OR {self._is(sql, 'integer')} AND abs({sql}) <= {2**53})"
                return ColumnRead(
                    sql=self._case(sql, column, (good, f"CAST({sql} AS REAL)")), wire_format=WireFormat.NATIVE
                )
            case Kind.INTEGER:
                good = self._is_integer(sql, kind)
                return ColumnRead(sql=self._case(sql, column, (good, sql)), wire_format=WireFormat.NATIVE)
            case Kind.BINARY:
                return ColumnRead(
                    sql=self._case(sql, column, (self._is(sql, "blob"), sql)), wire_format=WireFormat.NATIVE
                )
            case Kind.TEXT | Kind.JSON:
                # The driver puts a mark in place of bytes that are no UTF-8, and says nothing.
                texts = ((condition, f"CAST({text} AS BLOB)") for condition, text in self._texts(sql, column))
                return ColumnRead(sql=self._case(sql, column, *texts), wire_format=WireFormat.BYTES)
            case _:
                return ColumnRead(sql=self.text(sql, column), wire_format=WireFormat.TEXT)

    def comparable(self, sql: str, column: Column) -> str:
        """What is stored may have fractions or not, a T or a blank, or be no timestamp at all: the checked text."""
        if column.type.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.UUID):
            return self.text(sql, column)
        if column.type.kind is Kind.INTEGER:
            return self._case(sql, column, (self._is_integer(sql, column.type), sql))
        if (column.native or "").endswith(AS_TEXT):
            return f"({self.text(sql, column)}) COLLATE BINARY"
        return f"{sql} COLLATE BINARY" if column.type.kind is Kind.TEXT else sql

    def tells_apart(self, column: Column) -> bool:
        """Only what has one form: a time, a uuid or a decimal may be spelled in several, and `1` be a text."""
        return column.type.kind in ONE_FORM and not column.as_text

    def as_text(self, sql: str) -> str:
        return f"CAST({sql} AS TEXT)"

    def own_text(self, sql: str, column: Column) -> str | None:
        """A floating-point number by a function that the session adds: SQLite prints fifteen digits."""
        return f"tidegate_float({sql})" if column.type.kind is Kind.FLOAT else None

    def digest(self, row: str) -> str:
        """The md5 of a row's text, by a function that the session adds."""
        return f"tidegate_md5({row})"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest, by a function that the session adds."""
        return f"tidegate_quarter({digest}, {index})"

    def file(self, url: str) -> Path | None:
        """What three or four slashes lead to."""
        return file_of(url)

    def refuse_url(self, connection: Connection) -> None:
        opened_file(connection, self.kind)

    def open(self, connection: Connection) -> SqliteSession:
        from tidegate.dialects.sqlite.session import SqliteSession  # noqa: PLC0415 - only where a session is asked for

        return SqliteSession(self, connection)

    def server(self, ask: Ask) -> Server:  # noqa: ARG002 - a file has no server
        """The library that is loaded here."""
        return Server.of("SQLite", sqlite3.sqlite_version)

    def _case(self, sql: str, column: Column, *goods: tuple[str, str]) -> str:
        """The first good form that holds, NULL for NULL, else an error that names the column, not the value."""
        label = column.label
        message = self.string(marked(f"column {column.name!r} holds a value that is not a valid {label}"))
        whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in goods)
        # SQLite has no raise outside of triggers; a bad JSON path ends the statement and is quoted in the error.
        return (
            f"CASE WHEN {sql} IS NULL THEN NULL {whens} ELSE json_extract('[]', {message} || substr({sql}, 1, 0)) END"
        )

    def _texts(self, sql: str, column: Column) -> Iterator[tuple[str, str]]:
        """A text as it is; where the project asks for it also the digits of a number from which it comes back."""
        yield self._is(sql, "text"), sql
        if (column.native or "").endswith(AS_TEXT):
            yield self._is(sql, "integer"), f"CAST({sql} AS TEXT)"
            for printed in (f"printf('%!.{digits}g', {sql})" for digits in (FLOAT_DIGITS, FLOAT_DIGITS + 2)):
                yield f"{self._is(sql, 'real')} AND CAST({printed} AS REAL) = {sql}", printed

    def _is(self, sql: str, storage: str) -> str:
        return f"typeof({sql}) = '{storage}'"

    def _is_integer(self, sql: str, kind: Type) -> str:
        """Also in range: the driver cuts a number that has too many bits for an int."""
        integer = self._is(sql, "integer")
        return integer if kind.bits == 64 else f"{integer} AND {sql} BETWEEN {-(2**31)} AND {2**31 - 1}"

    def _is_day(self, sql: str) -> str:
        """A day that exists, written in full: moved by no day it comes out as it went in."""
        return f"date({sql}, '+0 days') IS {sql} AND {sql} >= '0001'"

    def likely_above(self, sql: str, column: Column, text: str) -> str:
        """What every row above a canonical text fulfils, and every row that holds no timestamp; cheap to ask."""
        if column.type.kind not in (Kind.DATE, Kind.TIMESTAMP):
            return "1 = 1"
        return f"({sql} >= '{text[:10]}' OR typeof({sql}) <> 'text' OR {sql} NOT GLOB '{DAY}*')"

    def _timestamp(self, sql: str, column: Column) -> str:
        text, rest = self._is(sql, "text"), f"substr({sql}, 12)"
        day = self._is_day(f"substr({sql}, 1, 10)")
        # The usual form first, by one call: a column of timestamps is as long as its table.
        usual = (f"{text} AND datetime({sql}, '+0 days') IS {sql} AND {sql} >= '0001'", f"{sql} || '.000000'")
        whole = (f"{text} AND {self._is_day(sql)}", f"{sql} || ' 00:00:00.000000'")
        parts = (
            f"{text} AND length({sql}) BETWEEN 19 AND 26 AND {day} AND substr({sql}, 11, 1) IN (' ', 'T') "
            f"AND {rest} < '24'"
        )
        value = f"substr({sql}, 1, 10) || ' ' || {self._clock(rest)}"
        return self._case(
            sql, column, usual, whole, (f"{parts} AND {self._is_clock(rest)}", value), self._of_utc(sql, day)
        )

    def _of_utc(self, sql: str, day: str) -> tuple[str, str]:
        """A timestamp that says it is of UTC, as libraries of many languages write it."""
        clock, tail = f"substr({sql}, 12, 8)", f"substr({sql}, 20)"
        for zone in UTC:
            tail = f"replace({tail}, '{zone}', '|')"
        digits = f"substr({tail}, 2, length({tail}) - 2)"
        good = (
            f"{self._is(sql, 'text')} AND {day} AND substr({sql}, 11, 1) IN (' ', 'T') AND {clock} < '24' "
            f"AND time({clock}) IS {clock} AND instr({sql}, '|') = 0 AND instr({tail}, '|') = length({tail}) "
            f"AND ({tail} = '|' OR {tail} GLOB '.[0-9]*' AND length({tail}) <= 8 AND {digits} NOT GLOB '*[^0-9]*')"
        )
        fraction = f"substr(replace({tail}, '|', '') || substr('.000000', length({tail})), 1, 7)"
        return good, f"substr({sql}, 1, 10) || ' ' || {clock} || {fraction}"

    def _time(self, sql: str, column: Column) -> str:
        good = f"{self._is(sql, 'text')} AND length({sql}) BETWEEN 8 AND 15 AND {self._is_clock(sql)}"
        return self._case(sql, column, (good, self._clock(sql)))

    def _clock(self, sql: str) -> str:
        return f"substr({sql} || substr('.000000', length({sql}) - 7), 1, 15)"

    def _is_clock(self, sql: str) -> str:
        """HH:MM:SS, then nothing or a point and one to six digits."""
        head, tail = f"substr({sql}, 1, 8)", f"substr({sql}, 9)"
        fraction = f"{tail} GLOB '.[0-9]*' AND substr({tail}, 2) NOT GLOB '*[^0-9]*'"
        return f"time({head}) IS {head} AND ({tail} = '' OR {fraction})"

    def _decimal(self, sql: str, column: Column) -> str:
        kind = column.type
        whole, scale = kind.precision - kind.scale, kind.scale
        zeros = f" || '.{'0' * scale}'" if scale else ""
        integer = (
            f"{self._is(sql, 'integer')} AND length(ltrim(CAST({sql} AS TEXT), '-')) <= {max(whole, 1)}"
            + (f" AND {sql} = 0" if whole == 0 else ""),
            f"CAST({sql} AS TEXT){zeros}",
        )
        digits = min(FLOAT_DIGITS, kind.precision)
        printed = f"printf('%.{scale}f', {sql})"
        real = (
            f"{self._is(sql, 'real')} AND abs({sql}) < 1e{digits - scale} AND CAST({printed} AS REAL) = {sql}",
            f"CASE WHEN {sql} = 0 THEN {self.string('0' + ('.' + '0' * scale if scale else ''))} ELSE {printed} END",
        )
        return self._case(sql, column, integer, real, self._decimal_text(sql, whole, scale))

    def _decimal_text(self, sql: str, whole: int, scale: int) -> tuple[str, str]:
        """A decimal kept as text: exact at any length, brought to the column's scale."""
        body = f"CASE WHEN {sql} LIKE '-%' THEN substr({sql}, 2) ELSE {sql} END"
        point = f"instr(({body}) || '.', '.')"
        left, right = f"substr({body}, 1, {point} - 1)", f"substr({body}, {point} + 1)"
        head, tail = f"ltrim({left}, '0')", f"rtrim({right}, '0')"
        good = (
            f"{self._is(sql, 'text')} AND {left} <> '' AND {left} NOT GLOB '*[^0-9]*' AND {right} NOT GLOB '*[^0-9]*' "
            f"AND length({head}) <= {whole} AND length({tail}) <= {scale}"
        )
        sign = f"CASE WHEN {sql} LIKE '-%' AND {head} || {tail} <> '' THEN '-' ELSE '' END"
        number = f"({sign}) || CASE WHEN {head} = '' THEN '0' ELSE {head} END"
        if scale:
            number += f" || '.' || substr({tail} || '{'0' * scale}', 1, {scale})"
        return good, number
