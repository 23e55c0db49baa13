"""SQL that groups rows into partitions and hash buckets, in any dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tidegate.core.grouping import CHARACTERS, NULL_LABEL, Grouping, Periods, Prefixes, Ranges, Steps
from tidegate.core.ports.dialect import Dialect
from tidegate.core.schema import Column, Kind
from tidegate.core.slices import Everything, Partition, Slice
from tidegate.errors import PlanError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExpression:
    """The expression that rows are grouped by.

    Args:
        value: an expression of a row.
        name: the canonical text of the bucket, given an expression of a group's value.
    """

    value: str
    name: Callable[[str], str] = str

    @property
    def text(self) -> str:
        """The expression of the text of a row's bucket."""
        return self.name(self.value)


def by_bucket(dialect: Dialect, grouping: Grouping, column: Column | None) -> GroupExpression:
    """The same groups as `bucket` makes, whose texts are made once a group where that is cheaper."""
    if isinstance(grouping, Prefixes):
        value, name = dialect.by_characters(bucket(dialect, grouping, column))
        return GroupExpression(value=value, name=name)
    if column is None or not isinstance(grouping, Periods):
        return GroupExpression(value=bucket(dialect, grouping, column))
    characters = CHARACTERS[grouping.period]
    cheaper = dialect.truncated(dialect.quote(column.name), column.type, characters)
    if cheaper is None:
        return GroupExpression(value=bucket(dialect, grouping, column))
    value, kind = cheaper
    named = replace(column, type=kind)
    return GroupExpression(value=value, name=lambda sql: dialect.left(dialect.text(sql, named), characters))


def bucket(dialect: Dialect, grouping: Grouping, column: Column | None) -> str:
    """The canonical text of the bucket that a row falls in; NULL where the column is NULL."""
    if column is None:
        return "''"
    sql = dialect.quote(column.name)
    match grouping:
        case Steps(width=width):
            _refuse_without_order(dialect, column)
            number = dialect.comparable(sql, column)
            over = dialect.remainder(number, width)
            # Towards zero, which no number is too great for; `Steps.coarse` goes on from there.
            below = f"CASE WHEN {over} < 0 THEN '-' ELSE '' END"
            return dialect.concat([dialect.as_text(f"({number} - {over})"), below])
        case Ranges(cuts=cuts):
            _refuse_without_order(dialect, column)
            value = dialect.comparable(sql, column)
            return f"CASE WHEN {sql} IS NOT NULL THEN {_range(dialect, value, column, '', cuts)} END"
        case Periods(period=period):
            return dialect.left(dialect.text(sql, column), CHARACTERS[period])
        case Prefixes(length=length):
            return dialect.left(dialect.text(sql, column), length)
        case _:
            return "''"


def _range(dialect: Dialect, value: str, column: Column, least: str, cuts: Sequence[str]) -> str:
    """The bucket among those from `least` on, found by halves: ten comparisons among a thousand ranges."""
    if not cuts:
        return dialect.string(least)
    middle = len(cuts) // 2
    below = _range(dialect, value, column, least, cuts[:middle])
    above = _range(dialect, value, column, cuts[middle], cuts[middle + 1 :])
    return f"CASE WHEN {value} < {dialect.literal(column.type, cuts[middle])} THEN {below} ELSE {above} END"


def _refuse_without_order(dialect: Dialect, column: Column) -> None:
    """Numbers that a database keeps as texts fall into no steps."""
    if column.type.kind not in dialect.ordered:
        raise PlanError(
            f"{column.name} is {column.label}, which has no exact order in this database, so it cannot "
            f"be split into ranges",
            hint="Choose an integer column, or another `method:`.",
        )


def spread(dialect: Dialect, key: Sequence[Column], whole: Sequence[str], count: int) -> GroupExpression:
    """The bucket of a row among `count`: rows of different keys are spread, whole rows without one.

    Every engine gives a key the same bucket; those of a multiple of `count` lie within those of `count`. A single
    integer is spread by division, which costs less than a hash and is as even unless the numbers step by a power of
    two; all else by the md5 of the key's text.

    Args:
        whole: the fields of a row, by which rows without a key are spread.
    """
    if len(key) == 1 and key[0].type.kind is Kind.INTEGER:
        number = dialect.comparable(dialect.quote(key[0].name), key[0])
        return GroupExpression(value=dialect.remainder(f"coalesce({number}, 0)", count), name=dialect.as_text)
    text = row_of(dialect, [field(dialect, column) for column in key] or whole)
    return GroupExpression(
        value=dialect.remainder(dialect.quarter(dialect.digest(text), 3), count), name=dialect.as_text
    )


def key_range(dialect: Dialect, key: Column, width: int) -> tuple[str, str]:
    """The number that names the range of an integer key, one of its ends, and the key's distance from it.

    Grouped by as a number, which costs half of what its text does.
    """
    number = dialect.comparable(dialect.quote(key.name), key)
    rest = dialect.remainder(number, width)
    return f"({number} - {rest})", rest


def in_key_ranges(dialect: Dialect, key: Column, names: Sequence[str], width: int, *, spans: int | None = None) -> str:
    """What a key of the named ranges fulfils; neighbouring ranges become one, so that an index serves few.

    Args:
        spans: the most intervals that are compared with; of more ranges those that lie next to each other share one,
            and the range of each key is looked up. An engine that compiles conditions takes seconds for hundreds.

    Example:
        >>> from tidegate.core.schema import BIGINT
        >>> from tidegate.dialects.spark.dialect import Spark
        >>> in_key_ranges(Spark(), Column(name="id", type=BIGINT), ["10", "20"], 10)
        '((`id` >= 10L AND `id` <= 29L))'
    """
    number, most = dialect.comparable(dialect.quote(key.name), key), 2 ** (key.type.bits - 1)
    joined: list[tuple[int, int]] = []
    for low, high in sorted(_ends(int(name), width) for name in names):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    shared = spans is not None and len(joined) > spans
    if spans is not None and shared:
        joined = _spans(joined, spans)

    def end(value: int) -> str:
        return dialect.literal(key.type, str(min(max(value, -most), most - 1)))

    def inside(low: int, high: int) -> str:
        ends = ((">=", max(low, -most)), ("<=", min(high, most - 1)))
        return f"({' AND '.join(dialect.compared(number, sign, key.type, str(end)) for sign, end in ends)})"

    found = (inside(low, high) for low, high in joined)
    within = f"({' OR '.join(found) or '1 = 0'})"
    if not shared:
        return within
    listed = ", ".join(end(name) for name in sorted(map(int, names)))
    return f"({within} AND {key_range(dialect, key, width)[0]} IN ({listed}))"


def _spans(intervals: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """So many intervals at most, with the widest gaps between sorted ones; one where gaps are the lesser part.

    Example:
        >>> _spans([(0, 1), (4, 5), (90, 91)], 2), _spans([(0, 1), (4, 5), (8, 9)], 2)
        ([(0, 5), (90, 91)], [(0, 9)])
    """
    gaps = sorted(range(1, len(intervals)), key=lambda at: intervals[at][0] - intervals[at - 1][1], reverse=True)
    starts = [0, *sorted(gaps[: most - 1]), len(intervals)]
    found = [(intervals[first][0], intervals[beyond - 1][1]) for first, beyond in pairwise(starts)]
    whole = (intervals[0][0], intervals[-1][1])
    return [whole] if 2 * sum(high - low for low, high in found) > whole[1] - whole[0] else found


def _ends(name: int, width: int) -> tuple[int, int]:
    return (name if name > 0 else name - width + 1), (name if name < 0 else name + width - 1)


def scope(since: Partition | None, only: Sequence[Slice]) -> tuple[Slice, ...]:
    """The slices that a question about partitions is about; rows of NULL are in every period of time."""
    if only:
        return tuple(only)
    if since is None:
        return (Everything(),)
    return (since, Partition(column=since.column, label=NULL_LABEL))


def field(dialect: Dialect, column: Column, suffix: str = "") -> str:
    """A column's field in the text of a row.

    Args:
        suffix: what stands behind each text but that of NULL.
    """
    text = dialect.text(dialect.quote(column.name), column)
    if column.type.stored.kind is Kind.TEXT and column.type.kind not in (Kind.UUID, Kind.TIME):
        text = dialect.escaped(text, column)
    if suffix:
        some = dialect.concat([f"({text})", dialect.string(suffix)])
        text = f"CASE WHEN {dialect.quote(column.name)} IS NOT NULL THEN {some} END"
    return f"coalesce({text}, '~N')"


def row_of(dialect: Dialect, fields: Sequence[str]) -> str:
    """The text of a row whose fields are given (see `core/fingerprint`)."""
    parts = [part for field in fields for part in ("'|'", field)]
    return dialect.concat(parts[1:]) if parts else "''"
