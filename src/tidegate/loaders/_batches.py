"""Reduces a batch to the rows to apply: one row per key, without rows that the target already has.

Works with every kind of Spark session, and never depends on the order of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Latest
from tidegate.core.display import counted, done_by
from tidegate.errors import CheckFailed, ColumnMissing, DuplicateKeys, SchemaRefused
from tidegate.formats.delta.staging import NO_VALUE
from tidegate.spark import dataframe_ops
from tidegate.spark.sql import quote, type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DELETED = dataframe_ops.DELETED
_WAS, _STORED = "__tidegate_was", "__tidegate_stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a load does to its target.

    Args:
        rows: the target's columns; with `DELETED` as well where there is a key.
        key: rows are merged by it; appended when empty.
        watermark: how far the target is loaded once they are in it, as canonical text.
        gaps: numbers between the last watermark and this one that no row has; None when nobody counted.
        state: what the position keeps beside the watermark.
        type: Spark's name of the watermark's type, kept beside `state`, but no reason for a commit; None to keep none.
        load_id: the load's mark, where it was noted before.
    """

    rows: DataFrame
    watermark: str | None
    key: tuple[str, ...] = ()
    gaps: int | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    type: str | None = None
    load_id: str | None = None


def key_of(primary_key: str | Sequence[str] | None) -> tuple[str, ...]:
    """The key's columns, given as one name or several."""
    return (primary_key,) if isinstance(primary_key, str) else tuple(primary_key or ())


def need_columns(rows: DataFrame, wanted: Sequence[str]) -> None:
    """Raises ColumnMissing for the first column that is not there."""
    for name in wanted:
        if name not in rows.columns:
            raise ColumnMissing(
                f"column {name!r} is not among {', '.join(rows.columns)}",
                hint="Correct the name passed to the loader.",
                column=name,
            )


def refuse(rows: DataFrame, condition: str, problem: str, hint: str, **context: str) -> None:
    """Raises CheckFailed when rows fulfil a condition.

    Args:
        problem: follows the number of these rows in the message.
    """
    (bad,) = dataframe_ops.count_if(rows, condition)
    if bad:
        raise CheckFailed(f"{counted(bad, 'row', 'have')} {problem}", hint=hint, **context)


def need_keys(rows: DataFrame, key: Sequence[str]) -> None:
    """Raises CheckFailed when a row has a NULL in its key."""
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in key)
    problem = f"a NULL in their key ({', '.join(key)}); nothing was loaded"
    refuse(rows, missing, problem, "Correct them at the source, or use another `primary_key=`.")


def need_kept(rows: DataFrame, partition_by: Sequence[str]) -> None:
    """Raises SchemaRefused when a text would be read back as NULL, because the name of a folder holds it."""
    kinds = dict(rows.dtypes)
    for name in filter(None, map(spelled(rows), partition_by)):
        lost = f"{quote(name)} IN ('', '{NO_VALUE}')" if kinds[name] == "string" else "false"
        if any(dataframe_ops.count_if(rows, lost)):
            raise SchemaRefused(
                f"column {name!r} holds a text that the target would store as NULL, because it partitions the target; "
                "nothing was loaded",
                hint="Correct the value at the source, or load into a target without that `partition_by=`.",
                column=name,
            )


def one_a_key(rows: DataFrame, rule: Latest) -> DataFrame:
    """The latest row of each key. Raises CheckFailed (a NULL in a key) and DuplicateKeys (nothing says which)."""
    need_keys(rows, rule.key)
    if tied := dataframe_ops.ties(rows, rule):
        by = f"the same {', '.join(rule.order)}" if rule.order else "several rows"
        raise DuplicateKeys(
            f"{counted(tied, 'key')} ({', '.join(rule.key)}) {done_by(tied, 'have')} {by} and other values; "
            f"nothing was loaded",
            hint="Correct them at the source, or use a `primary_key=` that is unique.",
        )
    return dataframe_ops.latest(rows, rule)


def not_outdated(rows: DataFrame, known: DataFrame, key: Sequence[str], order: str, *, equal: bool) -> DataFrame:
    """The rows that are newer than what is known of their key, one row a key.

    Args:
        known: the key columns and `order`.
        equal: a row as new as what is known is outdated, too.
    """
    was = known.selectExpr(*(quote(name) for name in key), f"{quote(order)} AS {_WAS}")
    was = was.groupBy(*(quote(name) for name in key)).agg({_WAS: "max"}).withColumnRenamed(f"max({_WAS})", _WAS)
    joined = rows.join(was, on=list(key), how="left")
    kept = joined.where(f"{_WAS} IS NULL OR {quote(order)} {'>' if equal else '>='} {_WAS}")
    return kept.select(*(quote(name) for name in rows.columns))


def changed(rows: DataFrame, present: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows that the target does not hold as they are, and `DELETED`, which is false for all.

    Raises:
        DuplicateKeys: the target holds several rows of one of the keys.
    """
    others = [name for name in rows.columns if name not in key]
    loaded_keys = rows.select(*(quote(name) for name in key))
    stored = dataframe_ops.of_keys(aligned(present, rows), loaded_keys, key)
    found = dataframe_ops.differences(rows, stored, key=key, others=others)
    (twice,) = dataframe_ops.count_if(found, dataframe_ops.TWICE)
    refuse_twice(twice, key)
    return found.drop(dataframe_ops.TWICE, dataframe_ops.NEW)


def refuse_twice(keys: int, key: Sequence[str]) -> None:
    """Raises DuplicateKeys when the target holds several rows of any key.

    Args:
        keys: how many such keys there are.
    """
    if keys:
        raise DuplicateKeys(
            f"the target has several rows for each of {counted(keys, 'key')} ({', '.join(key)}); nothing was loaded",
            hint="Load into an empty target, or pass the key that it was loaded with.",
        )


def new_rows(rows: DataFrame, present: DataFrame | None, key: Sequence[str], *, casts: bool) -> DataFrame:
    """The rows that the target does not hold: compared by key, or without one by the whole row and how often it comes.

    Args:
        casts: see `Sink`.

    Rows: with a key one a key and `DELETED`.
    """
    need_columns(rows, key)
    if not key:
        return rows if present is None else _lacking(rows, aligned(present, rows), casts=casts)
    need_keys(rows, key)
    return marked(rows) if present is None else changed(rows, present, key)


def _lacking(rows: DataFrame, stored: DataFrame, *, casts: bool) -> DataFrame:
    """The rows, each as often as the target lacks it.

    Args:
        stored: those of the target, in the columns of `rows`.
    """
    found = rows.exceptAll(stored)
    if not casts or found.dtypes == stored.dtypes:
        return found
    return _lacking_as_stored(dataframe_ops.typed(rows, like=found), stored)


def _lacking_as_stored(rows: DataFrame, stored: DataFrame) -> DataFrame:
    """The same where the target's types are narrower: a row is compared as the target would hold it.

    It keeps its own values: the write refuses one that does not fit, of which a cast may make a NULL.
    """
    known = dict(rows.dtypes)
    cast = {
        quote(name): quote(name) if kind == known[name] else f"try_cast({quote(name)} AS {type_name(kind)})"
        for name, kind in stored.dtypes
    }
    fits = " AND ".join(f"({name} IS NULL OR {value} IS NOT NULL)" for name, value in cast.items())
    values = (f"{value} AS c{number}" for number, value in enumerate(cast.values()))
    same = f"struct({', '.join(values)}, {fits} AS fits) AS {_STORED}"
    nothing = (f"CAST(NULL AS {type_name(kind)}) AS {quote(name)}" for name, kind in rows.dtypes)
    here, there, number = dataframe_ops.HERE, dataframe_ops.THERE, dataframe_ops.NUMBER
    both = rows.selectExpr(*cast, same, f"true AS {here}").unionAll(
        stored.selectExpr(*nothing, same, f"false AS {here}")
    )
    numbered = both.selectExpr(
        "*",
        f"count(CASE WHEN NOT {here} THEN 1 END) OVER (PARTITION BY {_STORED}) AS {there}",
        f"row_number() OVER (PARTITION BY {_STORED}, {here} ORDER BY {here}) AS {number}",
    )
    return numbered.where(f"{here} AND {number} > {there}").select(*cast)


def marked(rows: DataFrame, condition: str = "false") -> DataFrame:
    """The rows and `DELETED`."""
    return rows.selectExpr("*", f"{condition} AS {DELETED}")


def aligned(present: DataFrame, rows: DataFrame) -> DataFrame:
    """The columns of `rows` of what is present, whatever case they are spelled in, NULL for those it does not have."""
    known = spelled(present)
    columns = ((known(name), name, kind) for name, kind in rows.dtypes)
    return present.selectExpr(
        *(
            f"{f'CAST(NULL AS {type_name(kind)})' if found is None else quote(found)} AS {quote(name)}"
            for found, name, kind in columns
        )
    )


def spelled(rows: DataFrame) -> Callable[[str], str | None]:
    """Tells what a column is called in these rows: as given, or else in another case; None for no column."""
    exact, known = set(rows.columns), {name.lower(): name for name in rows.columns}
    return lambda name: name if name in exact else known.get(name.lower())
