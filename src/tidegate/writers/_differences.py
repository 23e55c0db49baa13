"""Compares every row of the source with the table and writes the differences, where nothing shows what changed.

Commits every row that differs, or nothing if the differences are below `significant_change`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Checked, Latest
from tidegate.core.display import counted
from tidegate.core.effects import Mirror, WriteHint
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.format import Staging
from tidegate.core.schema import Kind, Type
from tidegate.core.significance import Significance
from tidegate.core.slices import Keys
from tidegate.dialects.spark import Spark
from tidegate.errors import CheckFailed, DuplicateKeys
from tidegate.spark import dataframe_ops
from tidegate.spark.caching import persisted
from tidegate.spark.dataframe_ops import DELETED, HASH, HERE, THERE, TWICE
from tidegate.spark.failures import translated
from tidegate.spark.sql import quote
from tidegate.writers._batch import keyed, with_carried, without_kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Up to here verification names the keys that moved; beyond, it compares the whole table.
MOST_KEYS = 20_000
NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT})
AGAIN = f"{HERE} > 0 AND {THERE} > 1"
_WAS = "__tidegate_was_"
SAME = "every row was compared, and none differs from the table"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What differs: keys in all, those whose rows are taken away before one comes again, those that go."""

    keys: int
    again: int
    deleted: int


def merge(checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
    """What differs from the table is merged: rows that came, changed or went.

    Raises:
        CheckFailed: a key column of the source holds a NULL.
        DuplicateKeys: the source has several rows with the same key.
    """
    found = _differing(checked.frame, staging.read(), plan, plan.key)
    keys = persisted(without_kept(found, checked, f"{HERE} = 0"))
    try:
        with translated(f"comparing with {plan.stream.target}"):
            counts = _counted(keys, plan)
            plan.refuse_many(counts.deleted)
            if (skipped := _insignificant(checked.frame, keys, plan, staging)) is not None:
                return replace(checked, skipped=skipped)
            if not counts.keys and _confirmed(checked, plan):
                return replace(checked, skipped=SAME)
            moved = texts(keys, plan) if counts.keys <= MOST_KEYS else None
        _merge(checked, keys, plan, staging, counts)
    finally:
        keys.unpersist()
    slices = None if moved is None else (Keys(columns=plan.key, values=moved),)
    return replace(checked, rows=counts.keys, compared=replace(checked.compared, moved=slices))


def replace_if_different(checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
    """Rows that came are added, each as often as the table lacks it; only where some went is every row replaced."""
    present = staging.read()
    keys = persisted(_differing(checked.frame, present, plan, ()))
    try:
        with translated(f"comparing with {plan.stream.target}"):
            if (skipped := _insignificant(checked.frame, keys, plan, staging)) is not None:
                return replace(checked, skipped=skipped)
            different, removed = dataframe_ops.count_if(keys, "true", f"{THERE} > {HERE}")
            if not different and _confirmed(checked, plan):
                return replace(checked, skipped=SAME)
            plan.refuse_many(_surplus(keys))
        if removed:
            staging.overwrite(checked.frame)
        elif different:
            hash_of = f"{Spark().row_hash(plan.columns.columns)} AS {HASH}"
            staging.append(dataframe_ops.lacking(_cast(checked.frame, present, plan).selectExpr("*", hash_of), keys))
        else:
            staging.append(checked.frame.where("false"))
    finally:
        keys.unpersist()
    return checked


def _confirmed(checked: Checked, plan: LoadPlan) -> bool:
    """Whether a load in which no row differs has nothing else to commit: a position, columns, rows set aside."""
    effect, quarantined = plan.changes.effect, checked.verdicts.quarantined
    confirms = isinstance(effect, Mirror) and effect.hint is WriteHint.CONFIRM
    return confirms and not plan.evolution.apply and not (quarantined and quarantined.rows)


def refuse_many(wanted: DataFrame, plan: LoadPlan, staging: Staging) -> None:
    """Counts the rows that go with files that are replaced, where a stream limits them; keys where it has one.

    Raises:
        DeleteFuse: more than may.
    """
    if plan.deletes.at_most is None or plan.deletes.reset is not None or plan.base is None:
        return
    whole = plan.changes.whole
    present = staging.read() if whole else staging.read_partitions(plan.changes.slices)
    with translated(f"comparing with {plan.stream.target}"):
        if plan.key:
            missing = dataframe_ops.without_keys(present.selectExpr(*map(quote, plan.key)), wanted, plan.key).count()
        else:
            missing = _surplus(_differing(wanted, present, plan, ()))
    plan.refuse_many(missing)


def _surplus(keys: DataFrame) -> int:
    """Rows that the table has and the source has not, each as often as it is there too often."""
    found = keys.selectExpr(f"CAST(coalesce(sum(greatest({THERE} - {HERE}, 0L)), 0) AS bigint) AS n").collect()
    return int(found[0][0])


def _differing(wanted: DataFrame, present: DataFrame, plan: LoadPlan, key: Sequence[str]) -> DataFrame:
    new, old = _cast(wanted, present, plan), dataframe_ops.completed(present, plan.columns)
    asked = [*(quote(name) for name in key), f"{Spark().row_hash(plan.columns.columns)} AS {HASH}"]
    return dataframe_ops.differing(new.selectExpr(*asked), old.selectExpr(*asked), by=key or (HASH,))


def _cast(wanted: DataFrame, present: DataFrame, plan: LoadPlan) -> DataFrame:
    """The rows with the table's types: it may keep a wider one, and hashes are equal for values of one type only."""
    kept = dict(dataframe_ops.completed(present, plan.columns).dtypes)
    complete = dataframe_ops.completed(wanted, plan.columns)
    return complete.selectExpr(
        *(f"CAST({quote(name)} AS {kept[name]}) AS {quote(name)}" for name in plan.columns.names)
    )


def _counted(keys: DataFrame, plan: LoadPlan) -> Counts:
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in plan.key)
    asked = ("true", f"{HERE} > 0 AND ({missing})", f"{HERE} > 1", AGAIN, f"{HERE} = 0")
    total, nulls, several, again, deleted = dataframe_ops.count_if(keys, *asked)
    listed = ", ".join(plan.key)
    if nulls:
        raise CheckFailed(
            f"source rows have no value in a key column ({listed})",
            hint="Use a key that is never NULL, or filter out these rows.",
        )
    if several:
        raise DuplicateKeys(
            f"the source has several rows with the same key ({listed}), {counted(several, 'key')} in all",
            hint="Set `key:` to the columns that identify a row, or compare without a key: `write: replace`.",
        )
    return Counts(keys=total, again=again, deleted=deleted)


def _merge(checked: Checked, keys: DataFrame, plan: LoadPlan, staging: Staging, counts: Counts) -> None:
    wanted = checked.frame
    if not counts.keys:
        staging.append(wanted.where("false"))  # the position moves all the same
        return
    with translated(f"comparing with {plan.stream.target}"):
        prune = keyed(keys, plan, Latest(key=plan.key, order=()), unique=True).prune
    moving = dataframe_ops.repairing(wanted, keys, key=plan.key, columns=plan.columns)
    moving = persisted(with_carried(moving, checked, plan))
    try:
        staging.merge(moving, prune=prune, skip_equal=False, delete_if=DELETED, again=TWICE)
        if counts.again:
            # All rows of such a key went; the one that is wanted comes by a second merge of the same load.
            again = dataframe_ops.of_keys(moving, keys.where(AGAIN).select(*map(quote, plan.key)), plan.key)
            again = again.drop(DELETED, TWICE).selectExpr("*", f"false AS {DELETED}")
            staging.merge(again, prune=prune, skip_equal=False, delete_if=DELETED)
    finally:
        moving.unpersist()


def texts(keys: DataFrame, plan: LoadPlan) -> tuple[tuple[str, ...], ...] | None:
    """The keys as canonical texts; None where a column has none."""
    columns = [column for name in plan.key if (column := plan.columns.find(name)) is not None]
    if not all(column.type.covered for column in columns):
        return None
    spark = Spark()
    asked = (f"{spark.text(quote(column.name), column)} AS k{number}" for number, column in enumerate(columns))
    return tuple(tuple(row) for row in keys.selectExpr(*asked).collect())


def _insignificant(wanted: DataFrame, keys: DataFrame, plan: LoadPlan, staging: Staging) -> str | None:
    """Why the differences are not worth a load; None when they are, or when there is none.

    New columns are worth one: the table has them already.
    """
    rule = plan.changes.effect.ignore if isinstance(plan.changes.effect, Mirror) else None
    if rule is None or plan.evolution.apply:
        return None
    different = _rows(keys, plan)
    if not different:
        return None
    counting = _significant(wanted, keys, plan, staging, rule) if plan.key else different
    table_rows = staging.read().count() if rule.min_fraction else 0
    if rule.enough(counting, table_rows):
        return None
    rows = counted(different, "row", "differ")
    return f"{rows}, {counting} of them significantly: too few for a load (significant_change)"


def _rows(keys: DataFrame, plan: LoadPlan) -> int:
    """Rows that differ; of keys one each, of rows without a key as many as either side has more."""
    if plan.key:
        return keys.count()
    found = keys.selectExpr(f"CAST(coalesce(sum(abs({HERE} - {THERE})), 0) AS bigint) AS n").collect()
    return int(found[0][0])


def _significant(wanted: DataFrame, keys: DataFrame, plan: LoadPlan, staging: Staging, rule: Significance) -> int:
    """Keys that came or went, and those whose values changed by enough."""
    (came_or_went,) = dataframe_ops.count_if(keys, f"{HERE} = 0 OR {THERE} = 0")
    both = keys.where(f"{HERE} > 0 AND {THERE} > 0").select(*map(quote, plan.key))
    looked_at = [
        column
        for column in plan.columns
        if column.name not in plan.key and (not rule.columns or column.name in rule.columns)
    ]
    if not looked_at:
        return came_or_went
    new = dataframe_ops.of_keys(wanted, both, plan.key).select(
        *map(quote, plan.key), *(quote(column.name) for column in looked_at)
    )
    old = dataframe_ops.of_keys(staging.read(), both, plan.key).selectExpr(
        *map(quote, plan.key), *(f"{quote(column.name)} AS {quote(_WAS + column.name)}" for column in looked_at)
    )
    changed = " OR ".join(_differs(quote(c.name), quote(_WAS + c.name), c.type, rule) for c in looked_at)
    by_enough = new.join(old, on=list(plan.key)).where(changed).select(*map(quote, plan.key)).distinct()
    return came_or_went + by_enough.count()


def _differs(new: str, old: str, kind: Type, rule: Significance) -> str:
    """Whether a value changed by enough."""
    if kind.kind not in NUMBERS or not (rule.absolute or rule.relative):
        return f"NOT ({new} <=> {old})"
    # Of a difference that is too great for the type nobody doubts that it counts.
    apart = f"coalesce(abs(try_subtract({new}, {old})), CAST('Infinity' AS double))"
    least = f"greatest({_number(rule.absolute)}, {_number(rule.relative)} * abs(CAST({old} AS double)))"
    return f"CASE WHEN {new} IS NULL OR {old} IS NULL THEN NOT ({new} <=> {old}) ELSE {apart} > {least} END"


def _number(value: float) -> str:
    return f"CAST('{value!r}' AS double)"
