"""Prepares a batch with keys: one row per key, no NULL in a key, bounds for pruning.

Two rows with the same key never get through: a merge would insert both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Checked, Latest
from tidegate.core.display import counted, done_by
from tidegate.core.plan import SHORT_LIST, LoadPlan, Prune
from tidegate.core.schema import Type
from tidegate.dialects.spark import Spark
from tidegate.errors import CheckFailed, DuplicateKeys
from tidegate.spark import dataframe_ops, sql
from tidegate.spark.caching import persisted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LONGEST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A batch with one row a key.

    Args:
        frame: its rows.
        rows: how many.
        prune: literal bounds of its key columns.
        dropped: superseded rows were left out.
        also: the answer to each aggregate that was asked beside.
    """

    frame: DataFrame
    rows: int
    prune: tuple[Prune, ...]
    dropped: bool
    also: tuple[Any, ...] = ()


def keyed(held: DataFrame, plan: LoadPlan, rule: Latest, *, unique: bool, also: Sequence[str] = ()) -> Keyed:
    """One row a key of a persisted batch, by the rule.

    Args:
        unique: the source guarantees it, so nothing is looked for.
        also: more aggregates, asked in the same pass.

    Raises:
        CheckFailed: a key column holds a NULL.
        DuplicateKeys: rows of one key differ and nothing says which one is later.
    """
    found, prune = measure_batch(held, plan, key=rule.key, count_keys=not unique, unique=unique, also=also)
    if found.null_keys:
        raise CheckFailed(
            f"{counted(found.null_keys, 'row', 'have')} no value in a key column ({', '.join(rule.key)})",
            hint="Use a key that is never NULL, or filter out these rows with a `query:`.",
        )
    rows = found.rows if found.keys is None else found.keys
    if rows == found.rows:
        return Keyed(frame=held, rows=rows, prune=prune, dropped=False, also=found.also)
    tied = dataframe_ops.ties(held, rule)
    if tied:
        raise DuplicateKeys(
            f"{counted(tied, 'key')} ({', '.join(rule.key)}) {done_by(tied, 'have')} several different rows and "
            f"nothing says which one is later",
        )
    return Keyed(frame=dataframe_ops.latest(held, rule), rows=rows, prune=prune, dropped=True, also=found.also)


def without_older(one: Keyed, present: DataFrame, rule: Latest) -> Keyed:
    """The batch without rows of which the table has a later one of the key: a key's last row stays, whatever is read.

    Args:
        present: the table's rows.
    """
    older = persisted(dataframe_ops.older(one.frame, present, rule))
    try:
        count = older.count()
        if not count:
            return one
        # Its keys are few and are read again by the write.
        kept = dataframe_ops.without_keys(one.frame, older.localCheckpoint(), rule.key)
    finally:
        older.unpersist()
    return replace(one, frame=kept, rows=one.rows - count, dropped=True)


def with_carried(rows: DataFrame, checked: Checked, plan: LoadPlan) -> DataFrame:
    """The rows with what superseded rows of the quarantine have in columns that the load does not write."""
    carried = checked.verdicts.carried
    return rows if carried is None else rows.join(carried, on=list(plan.key), how="left")


def without_kept(differing: DataFrame, checked: Checked, delete_if: str) -> DataFrame:
    """What differs from the table without rows that only seem to be gone, because they were quarantined.

    Args:
        differing: with the columns of the key.
        delete_if: the condition of a row that the table alone has.
    """
    quarantined = checked.verdicts.quarantined
    if quarantined is None or quarantined.kept is None:
        return differing
    found = dataframe_ops.without_keys(differing.where(delete_if), quarantined.kept, quarantined.key)
    return differing.where(f"NOT ({delete_if})").unionByName(found)


def measure_batch(  # noqa: PLR0913 - what a batch is asked
    held: DataFrame,
    plan: LoadPlan,
    *,
    key: tuple[str, ...],
    count_keys: bool,
    unique: bool = False,
    also: Sequence[str] = (),
    moments: Mapping[str, Type] = MappingProxyType({}),
) -> tuple[dataframe_ops.Facts, tuple[Prune, ...]]:
    """What one pass tells of a batch, and literal bounds of its key columns.

    Args:
        unique: no two rows have one key.
        moments: more columns whose bounds are told.
    """
    types = plan.prunable
    ends = {
        name: (_end("min", name, kind), _end("max", name, kind), _values(name, unique=unique and key == (name,)))
        for name, kind in {**types, **moments}.items()
    }
    found = dataframe_ops.facts(held, key=key, count_keys=count_keys, ends=ends, also=also)
    short = (name for name in types if name in found.bounds and _short(found.bounds[name]))
    return found, tuple(_prune(held, name, types[name], found) for name in short)


def _prune(held: DataFrame, name: str, kind: Type, found: dataframe_ops.Facts) -> Prune:
    low, high = found.bounds[name]
    few: tuple[str, ...] = ()
    if low != high and found.distinct[name] <= SHORT_LIST:
        few = dataframe_ops.values(held, _text(sql.quote(name), kind), SHORT_LIST)
    return Prune(column=name, type=kind, low=low, high=high, values=few if all(map(_fits, few)) else ())


def _end(end: str, name: str, kind: Type) -> str:
    return _text(f"{end}({sql.quote(name)})", kind)


def _values(name: str, *, unique: bool) -> str:
    return f"{'count' if unique else 'approx_count_distinct'}({sql.quote(name)})"


def _text(expression: str, kind: Type) -> str:
    return Spark().text_of(expression, kind)


def _short(ends: tuple[str, str]) -> bool:
    return all(map(_fits, ends))


def _fits(text: str) -> bool:
    return len(text) <= LONGEST
