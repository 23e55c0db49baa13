"""Finds keys that were deleted at the source by comparing key fingerprints, then the few keys that differ.

`watch` runs before a load, without Spark; `find` runs once its rows are read. A key that exists at the source, even
beyond the bound of the load, is never reported as deleted. Keys are fetched only where the sides differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Checked, DeletedKeys
from tidegate.core.bucketing import Buckets
from tidegate.core.changes import ChangeSet
from tidegate.core.display import counted
from tidegate.core.effects import Upsert
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Prune
from tidegate.core.policies.deletes import Detect, Scope
from tidegate.core.ports.format import Staging
from tidegate.core.position_state import KEYS, key_census
from tidegate.core.schema import Column, Kind, Schema
from tidegate.core.slices import Everything, Keys, Range
from tidegate.dialects.spark import Spark
from tidegate.engine.column_changes import refuse_columns
from tidegate.engine.context import KeyDiff, LoadContext
from tidegate.engine.quarantine.quarantine import Quarantine
from tidegate.engine.reconcile import holds_rows
from tidegate.engine.verification.comparison import within
from tidegate.engine.verification.drilldown import differing
from tidegate.engine.verification.fingerprint_sources import TableSide
from tidegate.errors import PlanError, VerifyFailed
from tidegate.spark import dataframe_ops
from tidegate.spark.caching import persisted
from tidegate.spark.failures import translated
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_BUCKETS = 65_536
BUCKET_KEYS = 256
WIDEST = 2**40  # beyond, keys lie too far apart for ranges, and the sums of their distances grow too great
FEW_KEYS = 1_000  # so few are fetched at the cost of a fingerprint
MOST_FETCHED = 200_000
MOST_NAMED = 500  # buckets in one statement, candidates in one slice
MOST_LISTED = 5_000
MOST_LITERALS = 200  # of more values Iceberg does not look which files may hold one
MOST_CANDIDATES = 20_000
SORTED = frozenset({Kind.INTEGER, Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
"""Types of which the order of values is that of numbers, or of their canonical texts."""


def watch(work: LoadContext, changes: ChangeSet | None) -> tuple[LoadContext, ChangeSet | None]:
    """The changes, with a delete step if keys of the table may have been deleted; starts no Spark.

    The new position vouches for the source's keys: while they stay the same, no key of the table was deleted.

    Raises:
        PlanError: a column of the key has no exact text.
        ColumnMissing: it is not there.
    """
    stream, table = work.stream, work.recovered.table
    if stream.policies.deletes.detect is not Detect.KEY_DIFF:
        return work, changes
    refuse_columns(stream, work.probe.schema())  # before the source is asked for its keys
    # What waits in the quarantine may be gone as well.
    filled = (holds_rows(table) or Quarantine.of(stream).filled) and not work.context.full_refresh
    if stream.policies.deletes.scope is Scope.WINDOW:
        if changes is None or not filled:
            return work, changes
        reason = "rows of the loaded window are looked up in the source by key"
        return replace(work, key_diff=KeyDiff()), replace(changes, notes=(*changes.notes, reason))
    diff, census = _asked(work)
    since = work.recovered.vouched
    if changes is None:
        if since is None or not filled or key_census(since.state) == census:
            return work, None
        changes = ChangeSet(
            slices=(),
            effect=Upsert(),
            state=since.state,
            loaded_through=since.loaded_through,
            rows=0,
            bytes=0,
            reason="no row changed, but the source's keys differ from those that were loaded",
        )
    changes = replace(changes, state={**changes.state, KEYS: census})
    if not filled:
        return work, changes
    diff, reason = _cheapest(work, diff)
    return replace(work, key_diff=diff), replace(changes, notes=(*changes.notes, reason))


def find(work: LoadContext, plan: LoadPlan, session: SparkSession, staging: Staging, checked: Checked) -> Checked:
    """The batch with the deleted keys; a load without rows and deleted keys is skipped.

    Raises:
        DeleteFuse: more of them than the plan lets go.
    """
    if work.key_diff is None:
        return checked
    with translated(f"comparing the keys of {plan.stream.target}"):
        named = _named(work, plan, session, staging, checked)
        if named is not None:
            plan.refuse_many(len(named))
            found = _listed(plan, session, named, checked) if named else checked
        else:
            found = _with_missing_keys(work, plan, session, staging, checked)
    if found.deleted_keys is not None or plan.changes.slices:
        return found
    return replace(checked, skipped="every key of the table still exists at the source")


def need_absent(plan: LoadPlan, staging: Staging, checked: Checked) -> None:
    """Raises VerifyFailed if the committed version still has a deleted key."""
    deleted = checked.deleted_keys
    if deleted is None:
        return
    # Where nothing but these keys was reached for, and literals name each, no key has to be joined.
    named = not plan.changes.slices and len(plan.key) == 1 and any(bound.values for bound in deleted.reach)
    if not staging.read_keys(None if named else deleted.frame, prune=deleted.reach).isEmpty():
        raise VerifyFailed(
            f"stream {plan.stream.name!r}: keys that no longer exist at the source are still in {plan.stream.target}",
            load_id=plan.load_id,
        )


def _named(
    work: LoadContext, plan: LoadPlan, session: SparkSession, staging: Staging, checked: Checked
) -> list[tuple[str, ...]] | None:
    """The deleted keys as canonical texts, sorted; None if Spark must compare because there are too many."""
    diff = work.key_diff
    if diff is None or diff.buckets is None:
        return None
    keys = [quote(name) for name in plan.key]
    present = _present(work, plan, session, staging).selectExpr(*keys)
    after = present
    if plan.changes.slices:
        # What the table will hold of keys once the batch is in, without a look at which of them are new.
        batch = checked.frame.selectExpr(*keys)
        after = present.join(batch, on=list(plan.key), how="left_anti").unionAll(batch)
    columns = Schema(columns=_key_columns(work))
    table_side = TableSide(rows=after, columns=columns, key=plan.key).spread(diff.buckets)
    names = tuple(name for name in differing(diff.source, table_side) if name in table_side)
    fetched = sum(side[name].rows for side in (diff.source, table_side) for name in names if name in side)
    if fetched > MOST_FETCHED or len(names) > MOST_NAMED:
        return None
    if not names:
        return []
    spread = replace(diff.buckets, within=names, among=diff.buckets.count)
    source_keys = {row.key for row in work.probe.digests(Everything(), plan.key, spread)}
    side = TableSide(rows=present, columns=columns, key=plan.key)
    table_keys = set(zip(*dataframe_ops.columns_of(side.within(spread).selectExpr(*side.texts())), strict=True))
    missing = sorted(key for key in table_keys - source_keys if None not in key)
    return missing if len(missing) <= MOST_LISTED else None


def _listed(plan: LoadPlan, session: SparkSession, named: Sequence[tuple[str, ...]], checked: Checked) -> Checked:
    """The batch with these keys as literals, so that no later statement has to find them again."""
    types = [plan.columns.find(name) for name in plan.key]
    rows = [[Spark().literal(one.type, text) for one, text in zip(types, key, strict=True) if one] for key in named]
    reach: tuple[Prune, ...] = ()
    column = types[0]
    if column is not None and len(types) == 1 and column.type.stored.kind in SORTED:
        texts = sorted((text for (text,) in named), key=int if column.type.kind is Kind.INTEGER else str)
        values = tuple(texts) if len(texts) <= MOST_LITERALS else ()
        reach = (Prune(column=column.name, type=column.type, low=texts[0], high=texts[-1], values=values),)
    return replace(checked, deleted_keys=DeletedKeys(frame=dataframe_ops.listed(session, rows, plan.key), reach=reach))


def _with_missing_keys(
    work: LoadContext, plan: LoadPlan, session: SparkSession, staging: Staging, checked: Checked
) -> Checked:
    """The batch with the deleted keys that a join finds."""
    diff, keys = work.key_diff, [quote(name) for name in plan.key]
    if diff is None or diff.rows is None:
        missing = _of_window(work, plan, session, staging, checked.frame.selectExpr(*keys))
    else:
        present = _present(work, plan, session, staging).selectExpr(*keys)
        missing = present.join(_source_keys(work, plan, session), on=list(plan.key), how="left_anti")
    missing = persisted(missing)
    try:
        texts = TableSide(rows=missing, columns=Schema(columns=_key_columns(work)), key=plan.key).texts()
        named = [tuple(row) for row in missing.selectExpr(*texts).limit(MOST_LISTED + 1).collect()]
        few = len(named) <= MOST_LISTED and not any(None in key for key in named)
        plan.refuse_many(len(named) if few else missing.count())
    except BaseException:
        missing.unpersist()
        raise
    if not few:
        return replace(checked, deleted_keys=DeletedKeys(frame=missing))
    missing.unpersist()
    return _listed(plan, session, sorted(named), checked) if named else checked


def _of_window(
    work: LoadContext, plan: LoadPlan, session: SparkSession, staging: Staging, batch: DataFrame
) -> DataFrame:
    """Keys of the table's rows in the window that the source has neither in the window (the batch) nor beyond it."""
    keys, columns = [quote(name) for name in plan.key], plan.columns
    windows = [part for part in plan.changes.slices if isinstance(part, Range)]
    where = " OR ".join(within(part, columns) for part in windows) or "false"
    present = _present(work, plan, session, staging).where(where).selectExpr(*keys)
    candidates = persisted(present.join(batch, on=list(plan.key), how="left_anti"))
    texts = TableSide(rows=candidates, columns=Schema(columns=_key_columns(work)), key=plan.key).texts()
    found = [tuple(row) for row in candidates.selectExpr(*texts).limit(MOST_CANDIDATES + 1).collect()]
    if len(found) > MOST_CANDIDATES:
        source_keys = _source_keys(work, plan, session)
    else:
        slices = [
            Keys(columns=plan.key, values=tuple(found[first : first + MOST_NAMED]))
            for first in range(0, len(found), MOST_NAMED)
        ]
        source_keys = work.stream.source.read(session, work.probe, slices, columns).selectExpr(*keys)
    return candidates.join(source_keys, on=list(plan.key), how="left_anti")


def _present(work: LoadContext, plan: LoadPlan, session: SparkSession, staging: Staging) -> DataFrame:
    """The rows of the table, and the quarantined rows of other keys."""
    rows, quarantine = dataframe_ops.completed(staging.read(), plan.columns), Quarantine.of(work.stream)
    if not quarantine.filled:
        return rows
    waiting = dataframe_ops.completed(quarantine.waiting(session, plan.position, plan.columns), plan.columns)
    known = " AND ".join(f"{quote(name)} IS NOT NULL" for name in plan.key)
    waiting = waiting.where(known).dropDuplicates(list(plan.key))
    return rows.unionAll(
        dataframe_ops.without_keys(waiting, rows, plan.key).selectExpr(*map(quote, plan.columns.names))
    )


def _source_keys(work: LoadContext, plan: LoadPlan, session: SparkSession) -> DataFrame:
    rows = work.stream.source.read(session, work.probe, (Everything(),), plan.columns)
    return rows.selectExpr(*(quote(name) for name in plan.key))


def _key_columns(work: LoadContext) -> tuple[Column, ...]:
    columns = work.probe.schema()
    return tuple(column for name in work.stream.key if (column := columns.find(name)) is not None)


def _asked(work: LoadContext) -> tuple[KeyDiff, str]:
    """The cheapest comparison of the source's keys, and a text that identifies this set of keys.

    Uses ranges for integers that lie close together, the engine's own hash if it has one, and otherwise buckets by md5.
    """
    key, probe = work.stream.key, work.probe
    columns = _key_columns(work)
    for column in columns:
        if not column.type.covered:
            raise PlanError(
                f"the key column {column.name!r} is {column.type}, which has no exact text form, so keys cannot be "
                f"compared",
                hint="Choose a `key:` of other columns, or `deletes: {detect: none}`.",
            )
    spread = _ranges(work, columns)
    if spread is None and (hashed := probe.quick_hash(key)) is not None:
        return KeyDiff(rows=hashed[0]), f"{','.join(key)} {hashed[1]}"
    if spread is None:
        buckets = _power((work.recovered.table.rows or 0) // BUCKET_KEYS)
        spread = Buckets(count=min(MOST_BUCKETS, buckets), keys=True)
    source = probe.spread(Everything(), key, spread)
    rows = sum(one.rows for one in source.values())
    return KeyDiff(rows=rows, buckets=spread, source=source), _digest(key, spread, source)


def _ranges(work: LoadContext, key: Sequence[Column]) -> Buckets | None:
    if len(key) != 1 or key[0].type.kind is not Kind.INTEGER:
        return None
    bounds = work.probe.key_bounds(Everything(), key[0].name)
    span = int(bounds.high) - int(bounds.low) if bounds else 0
    return Buckets(count=1, keys=True, width=_power(max(BUCKET_KEYS, span // MOST_BUCKETS))) if span <= WIDEST else None


def _power(number: int) -> int:
    """The smallest power of two that is not below a number.

    Example:
        >>> _power(0), _power(64), _power(65)
        (1, 64, 128)
    """
    return 1 << max(number - 1, 0).bit_length()


def _cheapest(work: LoadContext, diff: KeyDiff) -> tuple[KeyDiff, str]:
    """Buckets, unless so many keys seem deleted that most buckets would be fetched anyway.

    Without buckets, all keys are fetched: if the engine has a hash of its own, computing the md5 of a key on both sides
    costs five times as much as fetching it.
    """
    rows, table_rows, spread = diff.rows or 0, work.recovered.table.rows, diff.buckets
    held = "an unknown number of rows" if table_rows is None else counted(table_rows, "row")
    about = f"the table has {held}, the source {counted(rows, 'key')}"
    missing = max(0, (table_rows or 0) - rows)
    fetched = min(rows, missing * rows // max(len(diff.source), 1))
    if spread is None or rows <= FEW_KEYS or fetched > rows // 2:
        return KeyDiff(rows=rows), f"deleted keys: {about}; all keys are fetched, which is cheaper"
    how = "fingerprints of buckets" if spread.width is None else f"count and sum over ranges of {spread.width}"
    of = counted(len(diff.source), "bucket")
    return diff, f"deleted keys: {about}; compared by {how}, about {counted(fetched, 'key')} fetched of {of}"


def _digest(key: tuple[str, ...], spread: Buckets, source: Mapping[str, Fingerprint]) -> str:
    """A text that identifies the set of keys, whatever buckets were used."""
    total = sum(source.values(), Fingerprint())
    if spread.width is None:
        return f"{','.join(key)} {total}"
    numbers = sum(int(name) * one.rows + one.s0 for name, one in source.items())
    return f"{','.join(key)} {total.rows} keys, sum {numbers}"
