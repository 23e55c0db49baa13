"""DataFrame operations on a batch: the latest row per key, bounds, fingerprints.

Written as SQL text, which classic and Connect sessions both accept; never imports pyspark functions, which belong to
one of the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Latest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.schema import Schema
from tidegate.spark.sql import names, quote, type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELETED = "__tidegate_gone"
ORDER = "__tidegate_order"
HASH = "__tidegate_hash"
TWICE = "__tidegate_twice"
NEW = "__tidegate_new"
NUMBER = "__tidegate_number"
RANK = "__tidegate_rank"
MOMENT = "__tidegate_moment"
"""When a row took effect, where something else than its own columns says so."""
HERE, THERE = "__tidegate_of_source", "__tidegate_of_table"
_HERE, _THERE, _WAS = "__tidegate_here", "__tidegate_there", "__tidegate_was_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one pass over a batch tells.

    Args:
        rows: rows with multiplicity.
        keys: distinct keys without a NULL; None when nobody asked.
        null_keys: rows with a NULL in a key column.
        bounds: least and greatest canonical text of each column asked for; absent where every value is NULL.
        distinct: about how many values each of these columns holds.
        also: the answer to each aggregate that was asked beside.
    """

    rows: int
    keys: int | None
    null_keys: int
    bounds: Mapping[str, tuple[str, str]]
    distinct: Mapping[str, int]
    also: tuple[Any, ...] = ()


def facts(
    rows: DataFrame,
    *,
    key: Sequence[str],
    count_keys: bool,
    ends: Mapping[str, tuple[str, str, str]],
    also: Sequence[str] = (),
) -> Facts:
    """One aggregate over the rows.

    Args:
        ends: a column's name to the expressions of the canonical texts of its least and its greatest value, and of how
            many values it holds.
        also: more aggregates.
    """
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in key) or "false"
    asked = [
        "count(*)",
        f"count_if({missing})",
        f"count(DISTINCT {names(key)})" if count_keys and key else "CAST(NULL AS bigint)",
    ]
    for expressions in ends.values():
        asked += expressions
    counted = len(asked)
    asked += also
    row = rows.selectExpr(*(f"{expression} AS f{index}" for index, expression in enumerate(asked))).collect()[0]
    bounds: dict[str, tuple[str, str]] = {}
    distinct: dict[str, int] = {}
    for index, name in enumerate(ends):
        low, high, values = row[3 + 3 * index : 6 + 3 * index]
        if low is not None:
            bounds[name] = (low, high)
            distinct[name] = values
    return Facts(
        rows=row[0], null_keys=row[1], keys=row[2], bounds=bounds, distinct=distinct, also=tuple(row[counted:])
    )


def values(rows: DataFrame, text: str, limit: int) -> tuple[str, ...]:
    """The distinct values of an expression, sorted; empty when there are more than `limit`."""
    found = rows.selectExpr(f"{text} AS v").where("v IS NOT NULL").distinct().limit(limit + 1).collect()
    return tuple(sorted(row[0] for row in found)) if len(found) <= limit else ()


CARRIED = "__tidegate_carried"
"""The columns that the load does not write, and of which a row brings values all the same."""


def completed(rows: DataFrame, columns: Schema, *more: str) -> DataFrame:
    """The rows with these columns in order, then those of `more`; a column that they lack is NULL."""
    known = set(rows.columns)
    missing = {each.name: f"CAST(NULL AS {each.type.stored.spark}) AS " for each in columns if each.name not in known}
    return rows.selectExpr(*(missing.get(each.name, "") + quote(each.name) for each in columns), *more)


def typed(rows: DataFrame, *, like: DataFrame) -> DataFrame:
    """The rows with the types that another frame has for columns of the same names, such as a table's wider ones."""
    types = dict(like.dtypes)
    named = ((quote(name), types.get(name)) for name in rows.columns)
    return rows.selectExpr(
        *(name if kind is None else f"CAST({name} AS {type_name(kind)}) AS {name}" for name, kind in named)
    )


def of_keys(rows: DataFrame, keys: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows whose key is among `keys`, which holds key columns alone."""
    return rows.join(keys, on=list(key), how="left_semi")


def without_keys(rows: DataFrame, keys: DataFrame, key: Sequence[str]) -> DataFrame:
    return rows.join(keys.selectExpr(*map(quote, key)), on=list(key), how="left_anti")


def latest(rows: DataFrame, rule: Latest) -> DataFrame:
    """One row of each key: the one with the greatest `order`, NULL last.

    Rows: as given, at most one a key. Rows that tie must be equal (see `ties`), or the choice is arbitrary.
    """
    return ranked(rows, rule).where(f"{RANK} = 1").drop(RANK)


def greatest(rows: DataFrame, column: str, *, key: Sequence[str]) -> DataFrame:
    """Every row of which no other row of its key has a greater value in the column, NULL last."""
    return ranked(rows, Latest(key=tuple(key), order=(column,)), by="rank").where(f"{RANK} = 1").drop(RANK)


def older(rows: DataFrame, present: DataFrame, rule: Latest) -> DataFrame:
    """Keys of which `present` has a later row than `rows`, which has one a key; NULL comes before all else.

    Rows: one a key, key columns only.
    """
    keys, orders = [quote(name) for name in rule.key], dict.fromkeys([*rule.cursor, *rule.order])
    old = present.selectExpr(*keys, *(f"{quote(name)} AS {quote(_WAS + name)}" for name in orders))
    new = rows.selectExpr(*dict.fromkeys([*keys, *map(quote, orders)]))
    later = f"struct({', '.join(_orders(rule, _WAS))}) > struct({', '.join(_orders(rule))})"
    return new.join(old, on=list(rule.key), how="inner").where(later).selectExpr(*keys).distinct()


def ranked(rows: DataFrame, rule: Latest, *, by: str = "row_number") -> DataFrame:
    """The rows with `RANK`: 1 for the one of each key that `latest` keeps; by `rank`, also for those that tie."""
    return rows.selectExpr("*", f"{by}() OVER ({_window(rule)}) AS {RANK}")


def ties(rows: DataFrame, rule: Latest) -> int:
    """Keys whose latest rows differ, so that no rule says which one counts."""
    whole = f"struct({names(rows.columns)})"
    first = ranked(rows, rule, by="rank").where(f"{RANK} = 1")
    key = [f"{quote(name)} AS k{index}" for index, name in enumerate(rule.key)]
    grouped = first.selectExpr(*key, f"{whole} AS whole").distinct()
    keys = [f"k{index}" for index in range(len(rule.key))]
    return grouped.groupBy(*keys).count().where("count > 1").count()


def changelog(rows: DataFrame, *, deleted: str, commit: str, drop: Sequence[str]) -> DataFrame:
    """What a format tells of rows that came or went, as `core.ports.format.ChangeFeed` wants it.

    Rows: as given, without the columns of `drop`; `DELETED`; `ORDER`, greater for a later commit, and within one commit
    for a row that came.

    Args:
        --deleted: the condition of a row that was deleted.
        commit: a number that is greater for a later commit.
    """
    order = f"2 * CAST({commit} AS bigint) + CASE WHEN {deleted} THEN 0 ELSE 1 END"
    return rows.selectExpr("*", f"{deleted} AS {DELETED}", f"{order} AS {ORDER}").drop(*drop)


def repeated_keys(rows: DataFrame, rule: Latest) -> int:
    """Keys of which the last commit that touched them brought several rows.

    Args:
        rule: its order is `ORDER`.
    """
    last = rows.selectExpr("*", f"rank() OVER ({_window(rule)}) AS {RANK}").where(f"{RANK} = 1 AND NOT {DELETED}")
    return last.groupBy(*(quote(name) for name in rule.key)).count().where("count > 1").count()


def differences(
    wanted: DataFrame, present: DataFrame, *, key: Sequence[str], others: Sequence[str], unknown: bool = False
) -> DataFrame:
    """What has to happen to `present` for it to become `wanted`, which holds one row a key.

    Args:
        unknown: `present` does not tell every value, so no row counts as equal.

    Rows: one a key that differs, the columns of `wanted`, `DELETED`, `TWICE` and `NEW`. DELETED is true for a key that
    `wanted` does not have, whose other columns are then NULL, TWICE for one that both have and `present` several times:
    all of its rows have to go before the one that is wanted can come. NEW is true for one that `present` does not have.
    """
    keys = [quote(name) for name in key]
    new_rows = wanted.selectExpr(*keys, *(quote(name) for name in others), f"true AS {_HERE}")
    was = [f"{quote(name)} AS {quote(_WAS + name)}" for name in others]
    window = f"PARTITION BY {names(key)}"
    old_rows = (
        present.selectExpr(*keys, *was, f"count(*) OVER ({window}) AS {_THERE}", f"{_numbered(window)} AS {RANK}")
        .where(f"{RANK} = 1")
        .drop(RANK)
    )
    equal = " AND ".join(f"{quote(name)} <=> {quote(_WAS + name)}" for name in others) or "true"
    equal = "false" if unknown else equal
    twice = f"coalesce({_HERE} AND {_THERE} > 1, false)"
    differs = f"{_HERE} IS NULL OR {_THERE} IS NULL OR {twice} OR NOT ({equal})"
    both = new_rows.join(old_rows, on=list(key), how="full_outer").where(differs)
    columns = [quote(name) for name in wanted.columns]
    new = f"{_THERE} IS NULL AS {NEW}"
    return both.selectExpr(*columns, f"{_HERE} IS NULL OR {twice} AS {DELETED}", f"{twice} AS {TWICE}", new)


def differing(wanted: DataFrame, present: DataFrame, *, by: Sequence[str]) -> DataFrame:
    """The keys whose rows differ, found by the rows' hashes alone, so that only keys and hashes are brought together.

    Args:
        wanted, present: the columns of `by` and `HASH`.
        by: the key; `HASH` alone where there is none, so that rows are compared as multisets.

    Rows: one a key that differs: the columns of `by`, `HERE` and `THERE`, how often either side has it.
    """
    keys = [quote(name) for name in by]
    # Of one row on either side the hashes cancel out when they are equal; every number less is less to shuffle.
    hashes = [] if HASH in by else [HASH]
    new = wanted.selectExpr(*keys, f"1L AS {HERE}", f"0L AS {THERE}", *hashes)
    old = present.selectExpr(*keys, f"0L AS {HERE}", f"1L AS {THERE}", *hashes)
    both = new.unionAll(old).groupBy(*keys).agg({HERE: "sum", THERE: "sum", **dict.fromkeys(hashes, "bit_xor")})
    here, there = f"`sum({HERE})`", f"`sum({THERE})`"
    equal = f"{here} = {there}" if HASH in by else f"{here} = 1 AND {there} = 1 AND `bit_xor({HASH})` = 0"
    return both.where(f"NOT ({equal})").selectExpr(*keys, f"{here} AS {HERE}", f"{there} AS {THERE}")


def lacking(wanted: DataFrame, keys: DataFrame) -> DataFrame:
    """The rows that came, each as often as the other side lacks it.

    Args:
        wanted: with `HASH`.
        keys: of `differing` without a key.

    Rows: as `wanted`, without `HASH`.
    """
    added = wanted.join(keys.where(f"{HERE} > {THERE}"), on=[HASH], how="inner")
    numbered = added.selectExpr("*", f"row_number() OVER (PARTITION BY {HASH} ORDER BY {HASH}) AS {NUMBER}")
    return numbered.where(f"{NUMBER} <= {HERE} - {THERE}").drop(HASH, HERE, THERE, NUMBER)


def repairing(wanted: DataFrame, keys: DataFrame, *, key: Sequence[str], columns: Schema) -> DataFrame:
    """The rows by which a merge makes the differing keys what `wanted` has of them.

    Args:
        keys: of `differing`.

    Rows: one a key, the columns, then `DELETED`: true for a key that `wanted` lacks, whose other columns are NULL,
    and for one that is present several times; and `TWICE`, true for one that is wanted and present several times: all
    of its rows have to go before the one that is wanted can come.
    """
    names_of = [quote(name) for name in columns.names]
    added = wanted.selectExpr(*names_of).join(keys.where(f"{HERE} > 0"), on=list(key), how="inner")
    added = added.selectExpr(*names_of, f"{THERE} > 1 AS {DELETED}", f"{THERE} > 1 AS {TWICE}")
    return added.unionAll(
        keys.where(f"{HERE} = 0").selectExpr(*_key_only(key, columns), f"true AS {DELETED}", f"false AS {TWICE}")
    )


def count_if(rows: DataFrame, *conditions: str) -> tuple[int, ...]:
    """For each condition the rows that fulfil it, by one pass."""
    asked = (f"count_if({condition}) AS n{number}" for number, condition in enumerate(conditions))
    return tuple(rows.selectExpr(*asked).collect()[0])


def partitions(rows: DataFrame, *, by: str, steps: Sequence[Sequence[str]]) -> dict[str | None, Fingerprint]:
    """The fingerprint of each bucket that has rows.

    Args:
        by: the bucket's expression.
        steps: select lists, each over the one before, that end with the four numbers `q0` to `q3`.
    """
    bucket = f"{by} AS bucket"
    for step in steps:
        rows, bucket = rows.selectExpr(bucket, *step), "bucket"
    numbers = ["q0", "q1", "q2", "q3"]
    found = rows.selectExpr("bucket", "1L AS n", *numbers).groupBy("bucket").sum("n", *numbers).collect()
    return {row[0]: Fingerprint.of_sums(list(row)[1:]) for row in found}


def ranges(rows: DataFrame, *, by: str, rest: str) -> dict[str, Fingerprint]:
    """Of each range of integers that has rows, their number and the sum of their distances `rest` from its name."""
    found = rows.selectExpr(f"CAST({by} AS bigint) AS bucket", "1L AS n", f"CAST({rest} AS bigint) AS rest")
    sums = columns_of(found.groupBy("bucket").sum("n", "rest"))
    return {str(name): Fingerprint(rows=count, s0=total or 0) for name, count, total in zip(*sums, strict=True)}


def columns_of(rows: DataFrame) -> list[list[Any]]:
    """The values of each column; of many short rows in half the time that `collect` takes."""
    return [column.to_pylist() for column in rows.toArrow().columns]


def listed(session: SparkSession, rows: Sequence[Sequence[str]], columns: Sequence[str]) -> DataFrame:
    """Rows of literals, which no job has to read.

    Args:
        rows: expressions of literals, one for each column; at least one row.
    """
    values = ", ".join(f"({', '.join(row)})" for row in rows)
    # Names are given last and never parsed: in SQL text Spark replaces ${…} by a variable.
    return session.sql(f"SELECT * FROM VALUES {values}").toDF(*columns)


def with_deletes(rows: DataFrame, keys: DataFrame, *, key: Sequence[str], columns: Schema) -> DataFrame:
    """The rows, and those by which a merge deletes the keys of `keys`.

    Rows: the columns, then `DELETED`; of a key that goes every other column is NULL.
    """
    present = rows.selectExpr(*(quote(name) for name in columns.names), f"false AS {DELETED}")
    return present.unionAll(keys.selectExpr(*_key_only(key, columns), f"true AS {DELETED}"))


def fingerprint(rows: DataFrame, steps: Sequence[Sequence[str]]) -> Fingerprint:
    """Of all the rows; `steps` as for `partitions`."""
    for step in steps:
        rows = rows.selectExpr(*step)
    sums = (f"sum(q{number})" for number in range(4))
    return Fingerprint.of_sums(list(rows.selectExpr("count(*)", *sums).collect()[0]))


def _key_only(key: Sequence[str], columns: Schema) -> list[str]:
    """The columns of a row of which nothing but the key is known."""
    return [
        quote(each.name) if each.name in key else f"CAST(NULL AS {each.type.stored.spark}) AS {quote(each.name)}"
        for each in columns
    ]


def _numbered(window: str) -> str:
    return f"row_number() OVER ({window} ORDER BY CAST(NULL AS int))"


def _orders(rule: Latest, prefix: str = "") -> list[str]:
    """What rows of one key are ordered by, most significant first."""
    cursor = ", ".join(quote(prefix + name) for name in rule.cursor)
    return [*([f"coalesce({cursor})"] if cursor else []), *(quote(prefix + name) for name in rule.order)]


def _window(rule: Latest) -> str:
    # A window needs an order; without one every row of a key ties.
    order = ", ".join(f"{each} DESC NULLS LAST" for each in _orders(rule)) or "CAST(NULL AS int)"
    return f"PARTITION BY {names(rule.key)} ORDER BY {order}"
