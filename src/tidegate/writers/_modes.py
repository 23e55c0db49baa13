"""Carries out the mode of a plan on a staging, including the replacement of whole partitions.

Rows of other partitions never disappear with a replaced file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, ComparisonScope, DeletedKeys, Latest
from tidegate.core.display import counted
from tidegate.core.effects import Apply, Mirror
from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging
from tidegate.core.position_state import names_partitions
from tidegate.core.slices import Keys
from tidegate.errors import DuplicateKeys, RowsMoved
from tidegate.spark import dataframe_ops
from tidegate.spark.caching import persisted
from tidegate.spark.failures import translated
from tidegate.spark.sql import quote
from tidegate.writers import _differences as differences
from tidegate.writers._batch import keyed, with_carried, without_kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


WENT = f"{dataframe_ops.DELETED} AND NOT {dataframe_ops.TWICE}"


def put(checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
    """One commit in the plan's mode, and what verification needs to find it again."""
    changelog = isinstance(plan.changes.effect, Apply)
    match plan.write.mode:
        case Mode.APPEND:
            rows = with_carried(checked.frame, checked, plan)
            staging.append(rows.where(f"NOT {dataframe_ops.DELETED}") if changelog else rows)
        case Mode.OVERWRITE if _compares(plan):
            return differences.replace_if_different(checked, plan, staging)
        case Mode.OVERWRITE:
            differences.refuse_many(checked.frame, plan, staging)
            staging.overwrite(checked.frame.where(f"NOT {dataframe_ops.DELETED}") if changelog else checked.frame)
        case Mode.MERGE_DIFFERENCES:
            return differences.merge(checked, plan, staging)
        case Mode.OVERWRITE_PARTITIONS | Mode.REPLACE_FILES:
            differences.refuse_many(checked.frame, plan, staging)
            staging.overwrite(checked.frame, plan.changes.slices)
        case Mode.MERGE_PARTITIONS:
            _merge_partitions(checked, plan, staging)
        case _ if checked.deleted_keys is not None:
            return _merge_with_deletes(checked, checked.deleted_keys, plan, staging)
        case _:
            deletes = dataframe_ops.DELETED if changelog else None
            if deletes and plan.deletes.at_most is not None:
                keys = checked.frame.where(deletes).selectExpr(*map(quote, plan.key))
                plan.refuse_many(staging.read_keys(keys, prune=checked.prune).count())
            rows = with_carried(checked.frame, checked, plan)
            staging.merge(rows, prune=checked.prune, skip_equal=checked.skip_equal, delete_if=deletes)
    return checked


def _compares(plan: LoadPlan) -> bool:
    """Whether rows without a key are compared as a multiset before any is written."""
    return plan.changes.compares and plan.deletes.reset is None and plan.base is not None and not plan.key


MIRROR = WriteChoice(
    mode=Mode.MERGE_DIFFERENCES,
    reason="every row is compared with the table by key and hash, and only rows that differ are written",
)


REWRITE = WriteChoice(mode=Mode.OVERWRITE, reason="the rows that are read are all the rows the table should have")


def choose_for_partitions(facts: WriteFacts, mirror: Mirror, *, rewrite: bool) -> WriteChoice:
    """How whole partitions become what the batch holds of them.

    Args:
        rewrite: the user wants files rewritten rather than rows compared.
    """
    if rewrite and facts.aligned and not (facts.keys.columns and mirror.moves):
        reason = "each partition consists of whole files of the table, so its files are replaced"
        return WriteChoice(mode=Mode.OVERWRITE_PARTITIONS, reason=reason)
    if facts.keys.columns:
        reason = "the rows of each partition are compared by key, and only those that differ are written"
        return WriteChoice(mode=Mode.MERGE_PARTITIONS, reason=reason)
    reason = "the stream has no key and files hold rows of several partitions, so rows are deleted and inserted again"
    return WriteChoice(mode=Mode.REPLACE_FILES, reason=reason)


def one_a_key(rows: DataFrame, plan: LoadPlan, batch: Batch, rule: Latest | None = None) -> Checked:
    """The rows of whole partitions, of which no two have one key and none may be left out; or the last one of each key.

    Args:
        rule: which is the last row of a key, where the slices name keys; None where all of them count.

    Raises:
        CheckFailed: a NULL in a key column.
        DuplicateKeys: two rows of one key, and it is partitions that are read, or nothing says which one is later.
    """
    held = persisted(rows)
    if batch.keys_unique:
        return Checked(frame=held, held=held)
    by_key = rule if all(isinstance(part, Keys) for part in plan.changes.slices) else None
    try:
        with translated(f"reading the rows for {plan.stream.target}"):
            one = keyed(held, plan, by_key or Latest(key=plan.key, order=()), unique=False)
    except BaseException:
        held.unpersist()
        raise
    if by_key is not None:
        return Checked(
            frame=one.frame, rows=one.rows, held=held, compared=ComparisonScope(latest=by_key if one.dropped else None)
        )
    if one.dropped:
        held.unpersist()
        raise DuplicateKeys(
            f"rows with the same key ({', '.join(plan.key)}) occur several times, equal in every column"
        )
    return Checked(frame=held, rows=one.rows, held=held)


def as_it_is(rows: DataFrame, batch: Batch) -> Checked:
    """Every row, kept by Spark where reading it again would ask the source again."""
    if batch.cheap:
        return Checked(frame=rows)
    held = persisted(rows)
    return Checked(frame=held, held=held)


def kept(rows: DataFrame, batch: Batch) -> DataFrame:
    """The rows, kept by Spark so that they are not read again for each look at them.

    Rows of a version are cut off from the table that they come from: Spark 4.1 cannot merge from a view over a range of
    an Iceberg table's snapshots (SPARK-57539).
    """
    if not batch.cheap:
        return persisted(rows)
    with translated("reading the rows"):
        return rows.localCheckpoint()


def last_of_each_key(rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
    """The rows of a changelog made one a key: what its last commit left of it.

    Raises:
        CheckFailed: a NULL in a key column.
        DuplicateKeys: one commit brought several rows of one key.
    """
    held, rule = kept(rows, batch), Latest(key=plan.key, order=(dataframe_ops.ORDER,))
    try:
        with translated(f"reading the rows for {plan.stream.target}"):
            one = keyed(held, plan, rule, unique=False)
            twice = dataframe_ops.repeated_keys(held, rule) if one.dropped else 0
    except BaseException:
        held.unpersist()
        raise
    if twice:
        held.unpersist()
        raise DuplicateKeys(
            f"the source has several rows with the same key ({', '.join(plan.key)}), {counted(twice, 'key')} in all",
            hint="Set `key:` to the columns that identify a row of the source.",
        )
    keys = held.selectExpr(*(quote(name) for name in plan.key)).distinct()
    frame = one.frame.drop(dataframe_ops.ORDER)
    if batch.current is not None:
        try:
            there = _still_there(frame, batch.current, plan)
            frame = frame if there is None else _replaced(frame, there, plan)
        except BaseException:
            held.unpersist()
            raise
    return Checked(
        frame=frame, rows=one.rows, keys=keys, prune=one.prune, compared=ComparisonScope(latest=rule), held=held
    )


Current = Callable[["DataFrame"], "DataFrame"]
"""The rows that the source has of some keys."""


def as_present(rows: DataFrame, current: Current | None, plan: LoadPlan, *, dated: bool) -> DataFrame:
    """The events of a changelog, of which those of a key are one where a row of it went and the source has another.

    Args:
        dated: rows say themselves since when they count.

    Raises:
        DuplicateKeys: it has several, or the one that went was loaded before, which was then the later one.
    """
    if current is None:
        return rows
    key, last = (
        [quote(name) for name in plan.key],
        dataframe_ops.latest(rows, Latest(key=plan.key, order=(dataframe_ops.ORDER,))),
    )
    there = _still_there(last, current, plan)
    if there is None:
        return rows
    added = rows.where(f"NOT {dataframe_ops.DELETED}").selectExpr(*key)
    if dated and not dataframe_ops.without_keys(there, added, plan.key).isEmpty():
        raise DuplicateKeys(
            f"a row of a key ({', '.join(plan.key)}) was removed while the source has another one, and nothing says "
            f"since when the other one is valid again",
            hint="Set `key:` to the columns that identify a row of the source.",
        )
    return _replaced(rows, there.join(last.selectExpr(*key, dataframe_ops.ORDER), on=list(plan.key), how="inner"), plan)


def _still_there(rows: DataFrame, current: Current, plan: LoadPlan) -> DataFrame | None:
    """The rows that the source has of keys of which one went last; None where it has none.

    A table without a unique key may hold two rows of a key for a while: that one of them went last does not say that
    the key is gone.

    Args:
        rows: the last event of each key.

    Raises:
        DuplicateKeys: it has several.
    """
    deleted = rows.where(dataframe_ops.DELETED).selectExpr(*(quote(name) for name in plan.key))
    if deleted.isEmpty():
        return None
    with translated(f"reading the rows for {plan.stream.target}"):
        there = current(deleted).localCheckpoint()
        count, keys = there.count(), there.selectExpr(*(quote(name) for name in plan.key)).distinct().count()
    if count > keys:
        raise DuplicateKeys(
            f"the source has several rows with the same key ({', '.join(plan.key)}), "
            f"{counted(count - keys, 'row')} too many",
            hint="Set `key:` to the columns that identify a row of the source.",
        )
    return there if count else None


def _replaced(rows: DataFrame, there: DataFrame, plan: LoadPlan) -> DataFrame:
    """The rows, of which those of the keys in `there` give way to what the source has of them."""
    again = there.selectExpr(
        *(f"false AS {name}" if name == dataframe_ops.DELETED else quote(name) for name in rows.columns)
    )
    return dataframe_ops.without_keys(rows, there, plan.key).selectExpr(*map(quote, rows.columns)).unionAll(again)


def _merge_with_deletes(checked: Checked, deleted: DeletedKeys, plan: LoadPlan, staging: Staging) -> Checked:
    """The batch and the keys that are gone, in one merge."""
    if not plan.changes.slices:
        staging.delete(deleted.frame, prune=deleted.reach)
        return checked
    rows = persisted(dataframe_ops.with_deletes(checked.frame, deleted.frame, key=plan.key, columns=plan.columns))
    try:
        with translated(f"reading the rows for {plan.stream.target}"):
            prune = keyed(rows, plan, Latest(key=plan.key, order=()), unique=True).prune
        merged = with_carried(rows, checked, plan)
        staging.merge(merged, prune=prune, skip_equal=checked.skip_equal, delete_if=dataframe_ops.DELETED)
    finally:
        rows.unpersist()
    return replace(checked, deleted_keys=replace(deleted, reach=prune))


def _merge_partitions(checked: Checked, plan: LoadPlan, staging: Staging) -> None:
    """What differs between the batch and the table's rows of the same slices, in one merge that also deletes.

    A key that the table holds several times takes a second merge on the same invisible version: the first one takes
    all of its rows away.
    """
    if _merge_differences(checked, plan, staging):
        _merge_differences(checked, plan, staging)


def _merge_differences(checked: Checked, plan: LoadPlan, staging: Staging) -> bool:
    """Whether a key was there several times.

    Raises:
        RowsMoved: rows of other partitions were taken, of which the position says that they are as they were.
    """
    current = staging.read_partitions(plan.changes.slices)
    others = [name for name in plan.columns.names if name not in plan.key]
    with translated(f"comparing with {plan.stream.target}"):
        # Cut off from the source: Spark refuses a merge that deletes from a plan that is not deterministic, as that of
        # converted texts is not.
        differing = dataframe_ops.differences(checked.frame, current, key=plan.key, others=others)
        differing = without_kept(differing, checked, WENT).localCheckpoint()
        # A row of the table without a key can only go, and lies within no bounds.
        nulls = any(isinstance(part, Keys) and part.nulls for part in plan.changes.slices)
        named = differing.where(" AND ".join(f"{quote(name)} IS NOT NULL" for name in plan.key))
        one = keyed(named if nulls else differing, plan, Latest(key=plan.key, order=()), unique=True)
        prune = () if nulls else one.prune
        twice, new, missing = dataframe_ops.count_if(differing, dataframe_ops.TWICE, dataframe_ops.NEW, WENT)
    plan.refuse_many(missing)
    vouched = names_partitions(plan.position.state)
    if vouched and new and not staging.invisible:
        # What is seen at once must be known before: whether a row that is new here stands elsewhere in the table.
        keys = differing.where(dataframe_ops.NEW).selectExpr(*map(quote, plan.key))
        if not staging.read_keys(keys, prune=prune).isEmpty():
            raise RowsMoved(f"rows of {plan.stream.target} have moved between partitions")
    # Not bounded by the slices: the row of a key may have to come from another one.
    staging.merge(
        with_carried(differing.drop(dataframe_ops.NEW), checked, plan),
        prune=prune,
        skip_equal=False,
        delete_if=dataframe_ops.DELETED,
        again=dataframe_ops.TWICE,
    )
    # A row that was marked as deleted comes back by an update: only what was looked for before is known to be new.
    looked = plan.deletes.policy.soft and not staging.invisible
    if vouched and not looked and staging.receipt().rows_inserted < new:
        raise RowsMoved(f"rows of {plan.stream.target} have moved between partitions")
    return twice > 0
