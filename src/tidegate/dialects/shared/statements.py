"""The statements that every database runs, built from its dialect's expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets
from tidegate.core.casts import Cast
from tidegate.core.grouping import Grouping
from tidegate.core.ports.dialect import Dialect, Relation
from tidegate.core.schema import TEXT, Column, Schema
from tidegate.core.slices import Everything, Keys, Partition, Range, Slice
from tidegate.core.spelling import suggest
from tidegate.dialects.shared import casting
from tidegate.dialects.shared.buckets import GroupExpression, by_bucket, in_key_ranges, key_range, row_of, spread
from tidegate.dialects.shared.time_bounds import must_be_alike
from tidegate.errors import ColumnMissing, ConfigError, InternalError

RANK = "tidegate rank"
DIGEST = "tidegate digest"
CURSOR = "tidegate cursor"
BUCKET = "tidegate bucket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """Statements over one relation; `casts` are the columns that the table, as in `schema`, keeps in another type."""

    dialect: Dialect
    relation: Relation
    schema: Schema
    casts: Mapping[str, Cast] = field(default_factory=dict)

    @property
    def own(self) -> Schema:
        return casting.own(self.schema, self.casts)

    def column(self, name: str) -> Column:
        """The column of that name.

        Raises:
            ColumnMissing: the relation has no such column.
            SchemaRefused: its values are cast, and those of the database mean something else.
        """
        found = self.schema.find(name)
        if found is None:
            if name in self.schema.excluded:
                raise ConfigError(f"the stream needs column {name!r}, which `source:` leaves out (include, exclude)")
            near = suggest(name, self.schema.names)
            raise ColumnMissing(f"{self.relation.label} has no column {name!r}; {near}", column=name)
        casting.refuse(name, self.casts)
        return found

    def cursor(self, names: Sequence[str]) -> tuple[str, Column]:
        """The cursor's expression and a column of its type."""
        columns = [self.column(name) for name in names]
        must_be_alike(columns)
        quoted = [self.dialect.quote(name) for name in names]
        return (quoted[0] if len(quoted) == 1 else f"coalesce({', '.join(quoted)})"), columns[0]

    def condition(self, part: Slice) -> str:
        """What a row of the slice fulfils."""
        if isinstance(part, Everything):
            return "1 = 1"
        if isinstance(part, Partition):
            return self._inside(part)
        if isinstance(part, Keys):
            return self._one_of(part)
        if not isinstance(part, Range):
            raise InternalError(f"a database has no {part.label}")
        cursor, column = self.cursor(part.cursor)
        found = self._between(cursor, column, part.after, part.upto)
        if not part.nulls:
            return found
        return f"({found} OR {cursor} IS NULL)" if part.upto is not None else f"{cursor} IS NULL"

    def stats(self, part: Slice) -> str:
        """Rows, last cursor, rows beyond the slice, greatest cursor: one pass over what is above its lower bound.

        The greatest one is asked for as text, so that a value without one (`infinity`) is refused: no bound reaches it.
        """
        if not isinstance(part, Range):
            return f"SELECT count(*), NULL, 0, NULL FROM {self.relation.sql} WHERE {self.condition(part)}"
        cursor, column = self.cursor(part.cursor)
        value, v = self._value(cursor, column), self.dialect.quote(CURSOR)
        wanted = []
        if part.upto is not None:
            wanted.append(self._above(cursor, column, part.after) if part.after is not None else "1 = 1")
        if part.nulls:
            wanted.append(f"{cursor} IS NULL")
        inner = f"SELECT {value} AS {v} FROM {self.relation.sql} WHERE {' OR '.join(wanted) or '1 = 0'}"
        inside = f"{v} <= {self._literal(column, part.upto)}" if part.upto is not None else "1 = 0"
        beyond = f"{v} > {self._literal(column, part.upto)}" if part.upto is not None else "1 = 0"
        counted = f"{inside} OR {v} IS NULL" if part.nulls else inside
        last = self.dialect.text(f"max(CASE WHEN {inside} THEN {v} END)", column)
        found = f"{_count_if(counted)}, {last}, {_count_if(beyond)}, {self.dialect.text(f'max({v})', column)}"
        return f"SELECT {found} FROM {self.dialect.named(inner, 'cursors')}"

    def greatest(self, name: str) -> str:
        """The greatest value of a column as canonical text."""
        column = self.column(name)
        return f"SELECT {self.dialect.text(f'max({self.dialect.quote(name)})', column)} FROM {self.relation.sql}"

    def newest(self, cursor: str, key: Sequence[str], after: str | None, upto: str, limit: int) -> str:
        """Key and cursor, as canonical texts, of the rows with the greatest cursors within the bounds."""
        sql, column = self.cursor([cursor])
        where = self._between(sql, column, after, upto)
        rest = f"FROM {self.relation.sql} WHERE {where} ORDER BY {self._value(sql, column)} DESC"
        return self.dialect.limited(", ".join(self._texts([*key, cursor])), rest, limit)

    def below(self, cursor: str, key: Sequence[str], least: Mapping[tuple[str, ...], str]) -> str:
        """Key and cursor, as canonical texts, of one row whose cursor is below the least one stated for its key."""
        sql, column = self.cursor([cursor])
        value = self._value(sql, column)
        each = (
            f"({self._one_of(Keys(columns=tuple(key), values=(values,)))} "
            f"AND {self._compared(value, '<', column, text)})"
            for values, text in least.items()
        )
        rest = f"FROM {self.relation.sql} WHERE {' OR '.join(each)}"
        return self.dialect.limited(", ".join(self._texts([*key, cursor])), rest, 1)

    def count(self, part: Slice, latest: Latest | None) -> str:
        """One number: the slice's rows, or its distinct keys."""
        return f"SELECT count(*) FROM {self.rows(part, latest)}"

    def rows(self, part: Slice, latest: Latest | None, cut: str | None = None) -> str:
        """What stands behind FROM for the rows of a slice; without superseded rows if `latest` is given."""
        return self.rows_where(self.condition(part), latest, cut)

    def rows_where(self, where: str, latest: Latest | None = None, cut: str | None = None, apart: str = "") -> str:
        """The same for the rows that fulfil a condition.

        Args:
            apart: an expression; of rows of one key that differ in it, one of each is the last.
        """
        where = f"{where} AND {cut}" if cut else where
        if latest is None:
            return f"{self.relation.sql} WHERE {where}"
        quote = self.dialect.quote
        keys = [self._value(quote(name), self.column(name)) for name in latest.key]
        if latest.touched:
            touching = f"FROM {self.relation.sql} WHERE {self.among(latest.touched)}"
            where = f"{where} AND {self.dialect.is_among(keys, touching)}"
        order = [self.dialect.descending(self._value(quote(name), self.column(name))) for name in latest.order]
        if latest.cursor:
            order.insert(0, self.dialect.descending(self._value(*self.cursor(latest.cursor))))
        each = ", ".join([*keys, apart] if apart else keys)
        rank = f"row_number() OVER (PARTITION BY {each} ORDER BY {', '.join(order or keys)})"
        every = self.dialect.every([quote(name) for name in self.schema.names])
        ranked = f"SELECT {every}, {rank} AS {quote(RANK)} FROM {self.relation.sql} WHERE {where}"
        return f"{self.dialect.named(ranked, 'ranked')} WHERE {quote(RANK)} = 1"

    def fingerprint(self, part: Slice, latest: Latest | None, cut: str | None = None) -> str:
        """One row, `Fingerprint.of_sums`; of the rows at one place if `cut` is given."""
        return self.summed(self._packed(), self.rows(part, latest, cut))

    def summed(self, digest: str, source: str) -> str:
        """One row, `Fingerprint.of_sums`, from a packed digest of each row that stands behind FROM."""
        inner = f"SELECT {digest} AS {self.dialect.quote(DIGEST)} FROM {source} {self.dialect.fence}"
        return f"SELECT count(*), {self._sums()} FROM {self.dialect.named(inner, 'hashed')}"

    def grouped(self, by: GroupExpression, parts: Sequence[Slice], cut: str | None = None) -> str:
        """One row a bucket of the slices: the bucket, then `Fingerprint.of_sums`.

        Args:
            by: the bucket, see `bucket`.
            cut: only the rows at one place.
        """
        return self.grouped_where(by, self.among(parts), cut)

    def grouped_where(
        self,
        by: GroupExpression,
        where: str,
        cut: str | None = None,
        covered: Sequence[Column] | None = None,
        latest: Latest | None = None,
    ) -> str:
        """The same for the rows that fulfil a condition; of these columns alone if they are given."""
        bucket, digest = self.dialect.quote(BUCKET), self.dialect.quote(DIGEST)
        source = self.rows_where(where, latest, cut)
        inner = f"SELECT {by.value} AS {bucket}, {self._packed(covered)} AS {digest} FROM {source} {self.dialect.fence}"
        hashed = self.dialect.named(inner, "hashed")
        return f"SELECT {by.name(bucket)}, count(*), {self._sums()} FROM {hashed} GROUP BY {bucket}"

    def quick_hashes(self, by: GroupExpression, parts: Sequence[Slice], cut: str | None = None) -> str | None:
        """One row a bucket of the slices: the bucket, rows, and the sum of the engine's own hash; None without one."""
        hashed = self.dialect.quick(self.own.columns)
        if hashed is None:
            return None
        bucket, digest = self.dialect.quote(BUCKET), self.dialect.quote(DIGEST)
        source = f"{self.relation.sql} WHERE {self.among(parts, cut)}"
        inner = f"SELECT {by.value} AS {bucket}, {hashed} AS {digest} FROM {source} {self.dialect.fence}"
        total = self.dialect.as_text(f"sum({digest})")
        rows = self.dialect.named(inner, "hashed")
        return f"SELECT {by.name(bucket)}, count(*), {total} FROM {rows} GROUP BY {bucket}"

    def bucket(self, grouping: Grouping) -> GroupExpression:
        """The bucket that a row falls in."""
        return by_bucket(self.dialect, grouping, self.column(grouping.column) if grouping.column else None)

    def spread(self, key: Sequence[str], count: int) -> GroupExpression:
        """The bucket of a row among `count`, see `_buckets.spread`."""
        whole = casting.fields(self.dialect, self.schema.covered, self.casts)
        return spread(self.dialect, [self.column(name) for name in key], whole, count)

    def spread_of(
        self, key: Sequence[str], spread: Buckets, where: str, cut: str | None = None, latest: Latest | None = None
    ) -> str:
        """One row a bucket of the rows that fulfil a condition: the bucket, then `Fingerprint.of_sums`."""
        if spread.width is None:
            covered = [self.column(name) for name in key] if spread.keys else None
            return self.grouped_where(self.spread(key, spread.count), where, cut, covered, latest)
        bucket, rest = self.dialect.quote(BUCKET), self.dialect.quote(DIGEST)
        by, distance = key_range(self.dialect, self.column(key[0]), spread.width)
        source = self.rows_where(where, latest, cut)
        inner = f"SELECT {by} AS {bucket}, {distance} AS {rest} FROM {source} {self.dialect.fence}"
        name, total = self.dialect.as_text(bucket), self.dialect.as_text(f"coalesce(sum({rest}), 0)")
        ranged = self.dialect.named(inner, "ranged")
        return f"SELECT {name}, count(*), {total}, '0', '0', '0' FROM {ranged} GROUP BY {bucket}"

    def within(self, key: Sequence[str], spread: Buckets) -> str:
        """What a row of the named buckets of a smaller spread fulfils; every row where none are named."""
        if spread.within is None:
            return "1 = 1"
        if spread.width is not None:
            return in_key_ranges(self.dialect, self.column(key[0]), spread.within, spread.width)
        names = ", ".join(self.dialect.string(name) for name in spread.within) or "NULL"
        return f"{self.spread(key, spread.among).text} IN ({names})"

    def partition(self, grouping: Grouping, bucket: str | None) -> Slice:
        column = self.column(grouping.column) if grouping.column else None
        return grouping.part(grouping.coarse(bucket), column)

    def digests(
        self, key: Sequence[str], part: Slice, where: str, *, keys: bool = False, latest: Latest | None = None
    ) -> str:
        """One row a row: its key as canonical texts, its md5 (nothing for `keys`), 1 if it lies in the slice.

        With `latest` the last row of each key that lies in the slice, and the last one that does not.
        """
        texts = self._texts(key)
        inside = f"CASE WHEN {self.condition(part)} THEN 1 ELSE 0 END"
        digest = "''" if keys else self._digest()
        return f"SELECT {', '.join([*texts, digest, inside])} FROM {self.rows_where(where, latest, apart=inside)}"

    def among(self, parts: Sequence[Slice], cut: str | None = None) -> str:
        """What a row of any of the slices fulfils."""
        any_of = " OR ".join(self.condition(part) for part in parts) or "1 = 0"
        return f"({any_of}) AND {cut}" if cut else f"({any_of})"

    def key_bounds(self, part: Slice, name: str, *, counted: bool = True) -> str:
        """Rows, least and greatest value of a column as canonical texts.

        Args:
            counted: the rows are told; else they are NULL, and an index may tell the rest without looking at any.
        """
        column = self.column(name)
        value = self._value(self.dialect.quote(name), column)
        low, high = (self.dialect.text(f"{function}({value})", column) for function in ("min", "max"))
        rows = "count(*)" if counted else "NULL"
        return f"SELECT {rows}, {low}, {high} FROM {self.relation.sql} WHERE {self.condition(part)}"

    def values(self, part: Slice, name: str, limit: int) -> str:
        """Distinct values of a column as canonical texts, at most `limit` of them."""
        column = self.column(name)
        value = self.dialect.text(self.dialect.quote(name), column)
        where = f"{self.condition(part)} AND {self.dialect.quote(name)} IS NOT NULL"
        return self.dialect.limited(value, f"FROM {self.relation.sql} WHERE {where}", limit, distinct=True)

    def borders(self, part: Range, parts: int) -> str:
        """Cursors, as canonical texts in order, that split the slice into parts of equal numbers of rows."""
        cursor, column = self.cursor(part.cursor)
        quote, named = self.dialect.quote, self.dialect.named
        value, bucket = quote(CURSOR), quote(BUCKET)
        cursors = (
            f"SELECT {self._value(cursor, column)} AS {value} FROM {self.relation.sql} WHERE {self.condition(part)}"
        )
        split = f"SELECT {value}, {self.dialect.tiles(parts, value)} AS {bucket} FROM {named(cursors, 'cursors')}"
        last = self.dialect.text(f"max({value})", column)
        rest = f"WHERE {value} IS NOT NULL GROUP BY {bucket} ORDER BY {bucket}"
        return f"SELECT {last} FROM {named(split, 'buckets')} {rest}"

    def reading(self, aliases: Sequence[str], extra: Sequence[str]) -> str:
        """The subquery that Spark reads: each column's exact expression under its alias, then raw columns."""
        columns = [
            f"{self.dialect.read(column).sql} AS {self.dialect.quote(alias)}"
            for column, alias in zip(self.own, aliases, strict=True)
        ]
        return self.dialect.named(f"SELECT {', '.join([*columns, *extra])} FROM {self.relation.sql}", "reading")

    def has_order(self, name: str) -> bool:
        """Whether least and greatest value of the column mean the same to every engine."""
        return self.column(name).type.kind in self.dialect.ordered

    def _texts(self, names: Sequence[str]) -> list[str]:
        return [self.dialect.text(self.dialect.quote(name), self.column(name)) for name in names]

    def _inside(self, part: Partition) -> str:
        column, sql = self.column(part.column), self.dialect.quote(part.column)
        if part.of_null:
            return f"{sql} IS NULL"
        if part.prefix is not None:
            prefix, _ = self.dialect.by_characters(self.dialect.left(self.dialect.text(sql, column), part.length))
            return f"{prefix} = {self.dialect.by_characters(self.dialect.string(part.prefix))[0]}"
        value = self._value(sql, column)
        below = f" AND {self._compared(value, '<', column, part.high)}" if part.high is not None else ""
        inside = f"({self._compared(value, '>=', column, part.low)}{below})"
        return f"({inside} OR {sql} IS NULL)" if part.nulls else inside

    def _one_of(self, part: Keys) -> str:
        columns = [self.column(name) for name in part.columns]
        if part.nulls:
            empty = [f"{self.dialect.quote(column.name)} IS NULL" for column in columns]
            return f"({' OR '.join([self._one_of(replace(part, nulls=False)), *empty])})"
        if not part.values:
            return "1 = 0"
        values = [self._named(column) for column in columns]
        found = [[self._name(column, text) for column, text in zip(columns, key, strict=True)] for key in part.values]
        if len(columns) == 1:
            exact = f"{values[0]} IN ({', '.join(key[0] for key in found)})"
        else:
            each = (" AND ".join(f"{value} = {text}" for value, text in zip(values, key, strict=True)) for key in found)
            exact = f"({' OR '.join(f'({one})' for one in each)})"
        return " AND ".join([*self._matching(part, columns), exact])

    def _matching(self, part: Keys, columns: Sequence[Column]) -> Iterator[str]:
        for place, column in enumerate(columns):
            texts = sorted({key[place] for key in part.values})
            condition = self.dialect.seek(self.dialect.quote(column.name), column, texts)
            if condition is not None:
                yield condition

    def _named(self, column: Column) -> str:
        """What of a row equals `_name` of its value's canonical text, and of no other's.

        A type whose values have no exact literal in every engine is compared by its canonical text: of booleans,
        bytes, times and documents, and of numbers that the database keeps as text.
        """
        sql = self.dialect.quote(column.name)
        if self._by_value(column):
            return self._value(sql, column)
        return self._value(self.dialect.text(sql, column), replace(column, type=TEXT, native=None))

    def _name(self, column: Column, text: str) -> str:
        return self.dialect.literal(column.type if self._by_value(column) else TEXT, text)

    def _by_value(self, column: Column) -> bool:
        return column.type.kind in self.dialect.ordered

    def _digest(self, covered: Sequence[Column] | None = None) -> str:
        columns = self.schema.covered if covered is None else covered
        return self.dialect.digest(row_of(self.dialect, casting.fields(self.dialect, columns, self.casts)))

    def _packed(self, covered: Sequence[Column] | None = None) -> str:
        """The digest in the form that `_sums` takes."""
        return self.dialect.packed(self._digest(covered))

    def _sums(self) -> str:
        digest = self.dialect.quote(DIGEST)
        quarters = (self.dialect.quarter_of(digest, k) for k in range(4))
        return ", ".join(self.dialect.as_text(f"coalesce(sum({quarter}), 0)") for quarter in quarters)

    def _between(self, cursor: str, column: Column, after: str | None, upto: str | None) -> str:
        if upto is None:
            return "1 = 0"
        value = self._value(cursor, column)
        high = self._compared(value, "<=", column, upto)
        return f"({self._above(cursor, column, after)} AND {high})" if after is not None else f"({high})"

    def _above(self, cursor: str, column: Column, after: str) -> str:
        above = self._compared(self._value(cursor, column), ">", column, after)
        likely = self.dialect.likely_above(cursor, column, after)
        return above if likely == "1 = 1" else f"({likely} AND {above})"

    def _compared(self, value: str, sign: str, column: Column, text: str | None) -> str:
        return self.dialect.compared(value, sign, column.type, text or "")

    def _value(self, sql: str, column: Column) -> str:
        return self.dialect.comparable(sql, column)

    def _literal(self, column: Column, text: str | None) -> str:
        return self.dialect.literal(column.type, text or "")


def _count_if(condition: str) -> str:
    return f"count(CASE WHEN {condition} THEN 1 END)"
