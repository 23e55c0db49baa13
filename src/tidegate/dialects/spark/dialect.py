"""Spark's SQL: canonical text of columns, decoding of values sent from a database, and fingerprints.

Generates SQL text only and never imports pyspark. No result depends on the session's time zone, ANSI mode or parser
settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tidegate.core.casts import Cast
from tidegate.core.ports.dialect import Dialect
from tidegate.core.refusals import marked
from tidegate.core.schema import Column, Kind, Schema, Type
from tidegate.core.slices import Files, Keys, Partition, Slice, joined, successor
from tidegate.core.type_limits import least, may_wrap
from tidegate.core.wire_format import ColumnRead, WireFormat
from tidegate.dialects.shared.buckets import field, row_of
from tidegate.dialects.spark import murmur
from tidegate.errors import InternalError

EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
LONG_STRINGS = "'maxStringLen', '2147483647'"
"""An option of every `from_json`: unless it is set, a document with a string beyond 20 million characters is none."""
DAY_MICROS = 86_400_000_000
HOURS, SIXTY = (
    "array(" + ", ".join(f"'{mark}{number:02}'" for number in range(count)) + ")"
    for mark, count in ((" ", 24), (":", 60))
)
UNSAFE = frozenset("'\\$")
LITERALS = {Kind.DATE: "DATE '{}'", Kind.TIMESTAMP: "TIMESTAMP_NTZ '{}'", Kind.TIMESTAMPTZ: "TIMESTAMP '{}+00:00'"}


class Spark(Dialect):
    """Spark SQL 4.1: the target side of every comparison."""

    kind: ClassVar[str] = "spark"
    ordered: ClassVar[frozenset[Kind]] = frozenset(
        {Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.UUID}
    )

    def quote(self, name: str) -> str:
        """One identifier, whatever it holds.

        Example:
            >>> Spark().quote("a`b.c")
            '`a``b.c`'
        """
        return "`" + name.replace("`", "``") + "`"

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text, as a literal that the optimizer folds.

        Example:
            >>> from tidegate.core.schema import TEXT
            >>> Spark().literal(TEXT, "it's")
            "CAST(X'69742773' AS string)"
        """
        stored = kind.stored
        if stored.kind is Kind.TEXT:
            return self.string(text)
        if stored.kind is Kind.BINARY:
            return f"X'{text}'"
        if stored.kind is Kind.BOOLEAN:
            return "true" if text == "1" else "false"
        if stored.kind is Kind.INTEGER and stored.bits == 64:
            return f"{text}L"
        return LITERALS.get(stored.kind, f"CAST('{{}}' AS {stored.spark})").format(text)

    def string(self, text: str) -> str:
        """A string literal; in hex where a parser setting or a variable could change its characters."""
        if UNSAFE.isdisjoint(text) and text.isprintable():
            return f"'{text}'"
        return f"CAST(X'{text.encode().hex()}' AS string)"

    def text(self, sql: str, column: Column) -> str:
        """The canonical text of an expression of the column's stored type; NULL stays NULL.

        Raises:
            InternalError: a type that no fingerprint covers.
        """
        return self.text_of(sql, column.type)

    def text_of(self, sql: str, kind: Type) -> str:  # noqa: PLR0911 - one answer a type
        """The canonical text of an expression of that (stored) type."""
        stored = kind.stored
        match stored.kind:
            case Kind.TEXT:
                return sql
            case Kind.INTEGER:
                return f"CAST({sql} AS string)"
            case Kind.DECIMAL:
                return f"CAST(CAST({sql} AS decimal(38,{stored.scale})) AS string)"
            case Kind.BOOLEAN:
                return f"CASE {sql} WHEN true THEN '1' WHEN false THEN '0' END"
            case Kind.BINARY:
                return f"lower(hex({sql}))"
            case Kind.DATE:
                return f"CAST({sql} AS string)"
            case Kind.TIMESTAMP:
                # Not date_format: a local time that the session's zone skips moves.
                text = f"CAST({sql} AS string)"
                return f"concat({text}, substr('.000000', length({text}) - 18))"
            case Kind.TIMESTAMPTZ:
                return self._utc(f"unix_micros({sql})")
            case _:
                raise InternalError(f"a column of type {stored} has no canonical text")

    def row(self, columns: Sequence[Column]) -> str:
        """The text of a row over the covered ones of the columns, in their order."""
        return row_of(self, [field(self, column) for column in columns if column.type.covered])

    def row_digest(self, columns: Sequence[Column]) -> str:
        """The md5 of a row's text; select it in a step of its own, so that it is computed once."""
        return self.digest(self.row(columns))

    def steps(self, columns: Sequence[Column]) -> tuple[tuple[str, ...], ...]:
        """Select lists, each over the one before it, from the columns of a row to the numbers `q0` to `q3`.

        In steps of their own the digest and what is made of it are computed once.
        """
        digest = f"unhex({self.row_digest(columns)}) AS digest"
        hashes = tuple(f"{murmur.hashed('digest', 1 + 4 * k)} AS q{k}" for k in range(4))
        undone = zip(*(murmur.inverse_steps(f"q{k}") for k in range(4)), strict=True)
        return (digest,), hashes, *(tuple(f"{sql} AS q{k}" for k, sql in enumerate(level)) for level in undone)

    def digest(self, row: str) -> str:
        """The md5 of a text in lower hex."""
        return f"md5(CAST({row} AS binary))"

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""
        return f"CAST(conv(substr({digest}, {1 + 8 * index}, 8), 16, 10) AS bigint)"

    def comparable(self, sql: str, column: Column) -> str:  # noqa: ARG002 - nothing compares otherwise here
        """The expression itself."""
        return sql

    def compared(self, sql: str, sign: str, kind: Type, text: str, *, pushed: bool = False) -> str:
        """A comparison with a bound, in a form in which a format that prunes by it loses no row.

        Args:
            sign: `>=`, `>`, `<` or `<=`.
            pushed: the format takes nothing but comparisons of columns; its partitions do not cut through the bound.
        """
        if sign == ">=" and str(least(kind)) == text:
            return f"{sql} IS NOT NULL"
        # What Spark neither simplifies, as it does `+ 0`, nor hands to a format.
        value = f"greatest({sql}, {sql})" if may_wrap(kind, text) and not pushed else sql
        return f"{value} {sign} {self.literal(kind, text)}"

    def read(self, column: Column) -> ColumnRead:
        """The column itself: rows are Spark's already."""
        return ColumnRead(sql=self.quote(column.name), wire_format=WireFormat.NATIVE)

    def row_hash(self, columns: Sequence[Column]) -> str:
        """A 64-bit number of a row over all the columns, equal for rows that are equal.

        Spark's hash passes over NULL, so that each column also says whether it is one. JSON would cut the
        microseconds of times.
        """
        names = [self.quote(column.name) for column in columns]
        values = []
        for name, column in zip(names, columns, strict=True):
            element = column.type.element
            cut = element is not None and element.kind in (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
            whole = f"CAST({name} AS array<string>)" if cut else name
            values.append(f"to_json({whole})" if column.type.kind is Kind.ARRAY else name)
        return f"xxhash64({', '.join([*values, *(f'{name} IS NULL' for name in names)])})"

    def quick(self, columns: Sequence[Column]) -> str:
        """The row's hash, as a number whose sum over any table fits."""
        return f"CAST({self.row_hash(columns)} AS decimal(20,0))"

    def as_text(self, sql: str) -> str:
        """A number as text."""
        return f"CAST({sql} AS string)"

    def concat(self, texts: Sequence[str]) -> str:
        """Texts one after the other."""
        return f"concat({', '.join(texts)})"

    def among(self, parts: Sequence[Slice], schema: Schema, *, pushed: bool = False) -> str:
        """What a stored row of any of the partitions or keys fulfils, in literals that files are pruned by.

        Args:
            pushed: see `compared`.
        """
        if any(not isinstance(part, (Partition, Keys)) and not _carried(part) for part in parts):
            return "true"
        found = [self._inside(part, schema, pushed=pushed) for part in joined(parts)]
        found += [self._one_of(part, schema) for part in parts if isinstance(part, Keys)]
        found += [self._of_files(part) for part in parts if isinstance(part, Files)]
        return f"({' OR '.join(found)})" if found else "false"

    def fingerprint(self, relation: str, columns: Sequence[Column]) -> str:
        """A query of one row, `Fingerprint.of_sums`, over a relation given as SQL."""
        for step in self.steps(columns):
            relation = f"(SELECT {', '.join(step)} FROM {relation})"
        sums = (f"CAST(sum(q{k}) AS string)" for k in range(4))
        return f"SELECT CAST(count(*) AS string), {', '.join(sums)} FROM {relation}"

    def wire_type(self, column: Column, wire_format: WireFormat) -> str:
        """The DDL type in which a travelled column arrives."""
        match wire_format:
            case WireFormat.NATIVE:
                return column.type.stored.spark
            case WireFormat.MICROS:
                return "bigint"
            case WireFormat.DAYS:
                return "int"
            case WireFormat.BYTES:
                return "binary"
            case WireFormat.TEXT | WireFormat.JSON:
                return "string"

    def decode(  # noqa: PLR0911 - one answer a way to travel
        self, sql: str, column: Column, wire_format: WireFormat, *, utc: bool = False
    ) -> str:
        """The stored value of a travelled expression; NULL stays NULL, a value that does not fit ends the query.

        The error names the column and never the value.

        Args:
            utc: the session's time zone is UTC, so that a cast does what else takes a calendar and twice the time.
        """
        stored = column.type.stored
        match wire_format:
            case WireFormat.NATIVE:
                return f"CAST({sql} AS {stored.spark})"
            case WireFormat.MICROS if stored.kind is Kind.TIMESTAMPTZ:
                return f"timestamp_micros({sql})"
            case WireFormat.MICROS if utc:
                return f"CAST(timestamp_micros({sql}) AS timestamp_ntz)"
            case WireFormat.MICROS:
                return f"timestampadd(MICROSECOND, {sql}, {EPOCH})"
            case WireFormat.DAYS:
                return f"date_from_unix_date({sql})"
            case WireFormat.JSON:
                return f"from_json({sql}, {self.string(stored.spark)}, map('mode', 'FAILFAST', {LONG_STRINGS}))"
            case WireFormat.BYTES:
                text, message = f"CAST({sql} AS string)", marked(f"a value of column {column.name!r} is not a string")
                failed = f"CAST(raise_error({self.string(message)}) AS string)"
                return f"CASE WHEN {sql} IS NULL OR is_valid_utf8({text}) THEN {text} ELSE {failed} END"
            case WireFormat.TEXT:
                return self._from_text(sql, column)

    def cast(self, sql: str, column: Column, cast: Cast) -> str:
        """The value in the table's type, where it has the same text; another one ends the query, as in `decode`."""
        text = self.text_of(sql, cast.source)
        text = f"concat({text}, {self.string(cast.suffix)})" if cast.suffix else text
        value = f"try_cast({text} AS {cast.table.spark})"
        message = self.string(marked(f"a value of column {column.name!r} is not a {cast.table.spark}"))
        failed = f"CAST(raise_error({message}) AS {cast.table.spark})"
        same = f"{self.text_of(value, cast.table)} = {text}"
        return f"CASE WHEN {sql} IS NULL THEN NULL WHEN {same} THEN {value} ELSE {failed} END"

    def _inside(self, part: Partition, schema: Schema, *, pushed: bool) -> str:
        column, sql = schema.find(part.column), self.quote(part.column)
        if column is None:
            raise InternalError(f"a partition of column {part.column!r}, which the table does not have")
        if part.of_null:
            return f"{sql} IS NULL"
        if part.prefix is not None:
            # A text that is shorter than the prefixes is a partition of its own.
            if len(part.prefix) < part.length:
                return f"{sql} = {self.string(part.prefix)}"
            # Not startswith: Iceberg asks it of a partition of NULL, too, and fails.
            low, beyond = f"{sql} >= {self.string(part.prefix)}", successor(part.prefix)
            return low if beyond is None else f"({low} AND {sql} < {self.string(beyond)})"
        low = self.compared(sql, ">=", column.type, part.low or "", pushed=pushed)
        return (
            low
            if part.high is None
            else f"({low} AND {self.compared(sql, '<', column.type, part.high, pushed=pushed)})"
        )

    def _one_of(self, part: Keys, schema: Schema) -> str:
        columns = [column for name in part.columns if (column := schema.find(name)) is not None]
        names = ", ".join(self.quote(column.name) for column in columns)
        keys = (
            ", ".join(self.literal(column.type, text) for column, text in zip(columns, key, strict=True))
            for key in part.values
        )
        listed = ", ".join(f"({key})" if len(columns) > 1 else key for key in keys)
        named = [f"({names}) IN ({listed})"] if listed else []
        named += [f"{self.quote(column.name)} IS NULL" for column in columns if part.nulls]
        return f"({' OR '.join(named)})" if len(named) > 1 else "".join(named) or "false"

    def _of_files(self, part: Files) -> str:
        listed = ", ".join(self.string(path) for path in part.paths)
        return f"{self.quote(part.carrier or '')} IN ({listed})" if listed else "false"

    def _from_text(self, sql: str, column: Column) -> str:
        stored = column.type.stored
        match stored.kind:
            case Kind.TEXT:
                return sql
            case Kind.BINARY:
                value = f"try_to_binary({sql}, 'hex')"
            case Kind.BOOLEAN:
                value = f"CASE {sql} WHEN '1' THEN true WHEN '0' THEN false END"
            case Kind.TIMESTAMPTZ:
                value = f"try_cast(concat({sql}, '+00:00') AS timestamp)"
            case _:
                value = f"try_cast({sql} AS {stored.spark})"
        message = self.string(marked(f"a value of column {column.name!r} is not a {stored.spark}"))
        failed = f"CAST(raise_error({message}) AS {stored.spark})"
        return f"CASE WHEN {sql} IS NULL THEN NULL ELSE coalesce({value}, {failed}) END"

    def _utc(self, micros: str) -> str:
        """The text of microseconds since 1970, by arithmetic: a cast takes a calendar and twice as long."""
        rest = f"pmod({micros}, {DAY_MICROS})"
        day = f"CAST(date_from_unix_date(CAST(({micros} - {rest}) div {DAY_MICROS} AS int)) AS string)"
        places = ((HOURS, "div 3600000000"), (SIXTY, "div 60000000 % 60"), (SIXTY, "div 1000000 % 60"))
        clock = ", ".join(f"{names}[CAST({rest} {place} AS int)]" for names, place in places)
        return f"concat({day}, {clock}, '.', substr(CAST({rest} % 1000000 + 1000000 AS string), 2))"


def _carried(part: Slice) -> bool:
    """Whether the table's rows of these files can be told."""
    return isinstance(part, Files) and part.carrier is not None
