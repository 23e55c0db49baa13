"""The writer `merge`: keeps the latest row of each key, in the cheapest mode.

Never passes two rows with the same key to a format.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.batch import Batch, Checked, ComparisonScope, Fence, Folded, Latest, Verdicts
from tidegate.core.display import counted, done_by
from tidegate.core.effects import EFFECTS, Apply, Effect, Mirror, Upsert, WriteHint, event_rules
from tidegate.core.log import EventRules, Truncate
from tidegate.core.plan import LoadPlan, Mode, Prune, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import Column, Kind, Schema
from tidegate.core.yaml_text import mapped
from tidegate.errors import CheckFailed, DuplicateKeys, SchemaRefused
from tidegate.spark import dataframe_ops, sql
from tidegate.spark.caching import persisted
from tidegate.spark.dataframe_ops import DELETED, ORDER, TWICE
from tidegate.spark.failures import translated
from tidegate.spark.latest_events import KNOWN, TALLIES, LatestEventsSpec
from tidegate.spark.sql import quote, string
from tidegate.writers._batch import keyed, measure_batch, without_older
from tidegate.writers._modes import (
    MIRROR,
    REWRITE,
    as_it_is,
    choose_for_partitions,
    kept,
    last_of_each_key,
    one_a_key,
    put,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Below this share of the table's rows, deleting positions beside the files is cheaper than writing the files again.
SMALL_SHARE = 0.2
# Where no key of the table can meet one of the batch, or none is left.
WHOLE = (Mode.APPEND, Mode.OVERWRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Writer):
    """Updates rows whose key exists, inserts the others.

    Args:
        order_by: the columns whose greatest value decides between rows of one key that the cursor cannot tell apart.
    """

    kind: ClassVar[str] = "merge"
    accepts: ClassVar[frozenset[type[Effect]]] = EFFECTS
    needs_key: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    deletes_by_key: ClassVar[bool] = True

    order_by: tuple[str, ...] = ()

    def added(self, columns: Schema, cursor: Sequence[str]) -> tuple[Column, ...]:  # noqa: ARG002 - it orders nothing here
        """No columns of its own.

        Raises:
            SchemaRefused: `order_by` names a column whose values sort differently as the texts that the table keeps.
        """
        for name in self.order_by:
            found = columns.find(name)
            if found is not None and (found.as_text or found.type.kind is Kind.JSON):
                stated = mapped({name: "decimal(38,9)"})
                raise SchemaRefused(
                    f"write: merge cannot order rows by {name}: it is {found.label} at the source and kept as text, "
                    "which sorts differently, as '10' comes before '9'",
                    hint=f"If it holds numbers that fit, read them as such: `source: {{columns: {stated}}}`; else "
                    "order by another column, or cast it in a `query:`.",
                    column=name,
                )
        return ()

    def choose(self, facts: WriteFacts) -> WriteChoice:
        """The cheapest mode that the facts prove right, with the reason in one sentence."""
        if facts.reset:
            return WriteChoice(mode=Mode.OVERWRITE, reason="a full refresh replaces every row")
        if facts.table_rows == 0:
            return WriteChoice(mode=Mode.APPEND, reason="the table is empty, so it has no keys yet")
        match facts.effect:
            case Mirror(of=None, hint=hint):
                rewrites = hint is WriteHint.REWRITE and not facts.counted and not facts.unwritten
                return REWRITE if rewrites else MIRROR
            case Mirror() as mirror:
                return choose_for_partitions(facts, mirror, rewrite=False)
            case Upsert(repeats=str(why)) if facts.carried:
                reason = f"{why}, so the table's rows from these files are compared by key"
                return WriteChoice(mode=Mode.MERGE_PARTITIONS, reason=reason)
            case _:
                return self._by_share(facts)

    def _by_share(self, facts: WriteFacts) -> WriteChoice:
        keys = facts.keys
        prune = (keys.bounds,) if keys.bounds else ()
        if keys.unique and not facts.missing_keys and keys.bounds and keys.apart:
            reason = f"no {keys.bounds.column} of the batch is within the bounds of a file of the table"
            return WriteChoice(mode=Mode.APPEND, reason=reason)
        change = "only files that hold changed rows are written again"
        if not facts.copies_files:
            change = "files stay and changes are written beside them"
        if facts.rows is None or not facts.table_rows:
            reason = f"it is unknown how much of the table changes, so {change}"
            return WriteChoice(mode=Mode.MERGE_ON_READ, reason=reason, prune=prune)
        share = facts.rows / facts.table_rows
        if share <= SMALL_SHARE:
            reason = f"the batch is {share:.2%} of the table, so {change}"
            return WriteChoice(mode=Mode.MERGE_ON_READ, reason=reason, prune=prune)
        reason = f"the batch is {share:.0%} of the table, so its files are rewritten"
        return WriteChoice(mode=Mode.COPY_ON_WRITE, reason=reason, prune=prune)

    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        """One row a key.

        Rows are kept by Spark only where they are looked at twice: not when the source guarantees their keys and
        nothing in the table can match them.

        Raises:
            CheckFailed: a key column holds a NULL.
            DuplicateKeys: rows of one key differ and nothing says which one is later.
        """
        if batch.fence is not None:
            return folded(rows, plan, batch)
        if isinstance(plan.changes.effect, Apply):
            return last_of_each_key(rows, plan, batch)
        exact = batch.keys_unique or plan.changes.compares
        if plan.write.mode is Mode.MERGE_DIFFERENCES and exact:
            return as_it_is(rows, batch)
        if plan.write.mode is Mode.MERGE_PARTITIONS and isinstance(plan.changes.effect, Mirror):
            return one_a_key(rows, plan, batch, self.latest(plan.key, batch.latest.order if batch.latest else ()))
        if batch.keys_unique and plan.write.mode in WHOLE:
            return Checked(frame=rows)
        return self._one_row_a_key(rows, plan, batch)

    def latest(self, key: tuple[str, ...], cursor: tuple[str, ...]) -> Latest:
        """The greatest cursor, then the greatest `order_by`."""
        if len(cursor) > 1:
            return Latest(key=key, cursor=cursor, order=self.order_by)
        return Latest(key=key, order=(*cursor, *(name for name in self.order_by if name not in cursor)))

    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """One commit: a merge, or what the plan found to be cheaper and as right."""
        return put(checked, plan, staging)

    def _one_row_a_key(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        if batch.keys_unique and len(plan.key) == 1 and any(bound.names(plan.changes.rows) for bound in batch.bounds):
            return Checked(frame=rows, rows=plan.changes.rows, prune=batch.bounds, skip_equal=batch.skip_equal)
        if not plan.changes.slices:
            return Checked(frame=rows, rows=0)  # nothing was read: the load only deletes
        held = kept(rows, batch)
        if batch.keys_unique and batch.bounds:
            keys = held.selectExpr(*map(sql.quote, plan.key))
            return Checked(frame=held, keys=keys, prune=batch.bounds, skip_equal=batch.skip_equal, held=held)
        rule = self.latest(plan.key, batch.latest.order if batch.latest else ())
        try:
            with translated(f"reading the rows for {plan.stream.target}"):
                one = keyed(held, plan, rule, unique=batch.keys_unique)
                if batch.present is not None:
                    one = without_older(one, batch.present(), rule)
        except BaseException:
            held.unpersist()
            raise
        keys = held.selectExpr(*map(sql.quote, plan.key))
        return Checked(
            frame=one.frame,
            rows=one.rows,
            keys=None if plan.write.mode in WHOLE else keys.distinct() if one.dropped else keys,
            prune=one.prune,
            compared=ComparisonScope(latest=rule if one.dropped else None),
            skip_equal=batch.skip_equal,
            held=held,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingRows:
    """What one pass tells of the rows that events leave, one a key.

    Args:
        twice: keys of which two events of one order differ.
        cleared: keys that went with an event that empties the table.
        newest: their greatest order.
        open: some have a column whose value is older than their order, or not known yet.
        prune: literal bounds of their key columns.
    """

    keys: int
    twice: int
    newest: str | None
    prune: tuple[Prune, ...]
    cleared: int = 0
    open: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EventScan:
    """What one pass over the events tells.

    Args:
        refused: events that cannot be taken.
        partial: events that do not carry every column.
        emptied: the newest order of an event that empties the table and counts.
        left: of the newest event of each key.
        late: keys of which something newer may have been applied.
    """

    events: int
    refused: int
    partial: int
    emptied: str | None
    left: RemainingRows
    late: int


def folded(rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
    """The events made one row a key: what they leave of it; nothing is made of them where one cannot be taken.

    They are read once where each of them carries every column and none empties the table.

    Args:
        rows: read several times where these are likely not to, and then kept by Spark unless `batch.cheap`.

    Raises:
        CheckFailed: an event empties the table, and the rules say stop.
        DuplicateKeys: two events of one key and one order differ.
    """
    fence = batch.fence or Fence()
    spec = LatestEventsSpec(columns=plan.columns, key=plan.key, fence=fence)
    with ExitStack() as held, translated(f"reading the events for {plan.stream.target}"):
        if fence.open:  # where some were partial, others are
            rows = _kept(rows, batch, held)
        gathered = _persisted(spec.gathered(rows), held)
        scan = _scan(gathered, spec, plan)
        if scan.refused and not batch.reread:
            return Checked(frame=rows, verdicts=Verdicts(refused=scan.refused))
        if (emptied := _applied(scan, event_rules(plan.changes.effect) or EventRules())) is not None:
            spec = replace(spec, emptied=emptied)
            gathered = _persisted(spec.gathered(rows), held)
        if scan.partial or _unfilled(gathered, spec):
            rows = rows if fence.open else _kept(rows, batch, held)
            final = _by_column(rows.where(spec.usable), spec)
        else:
            late = emptied is not None or scan.late > 0
            final = spec.simple(gathered, late=late)
            if not (late or fence.open or batch.cheap):
                checked = _checked(final, plan, scan, scan.left, gathered)
                held.pop_all()
                return checked
        cleared = spec.cleared(final)
        final = kept(final if cleared is None else final.unionByName(cleared), batch)
        try:
            scan = replace(scan, emptied=emptied)
            return _checked(final, plan, scan, _left(final, plan, emptied), final)
        except BaseException:
            final.unpersist()
            raise


def _kept(rows: DataFrame, batch: Batch, held: ExitStack) -> DataFrame:
    return rows if batch.cheap else _persisted(rows, held)


def _persisted(rows: DataFrame, held: ExitStack) -> DataFrame:
    stored = persisted(rows)
    held.callback(stored.unpersist)
    return stored


def _scan(gathered: DataFrame, spec: LatestEventsSpec, plan: LoadPlan) -> EventScan:
    found, prune = measure_batch(
        spec.tallied(gathered), plan, key=plan.key, count_keys=False, unique=True, also=TALLIES
    )
    events, refused, partial, emptied, keys, twice, late, newest = found.also
    left = RemainingRows(keys=keys, twice=twice, newest=newest, prune=prune)
    return EventScan(events=events, refused=refused, partial=partial, emptied=emptied, left=left, late=late)


def _left(final: DataFrame, plan: LoadPlan, emptied: str | None) -> RemainingRows:
    cleared = f"count_if({_emptied_keys(emptied)})"
    also = (f"count_if({TWICE})", cleared, f"max({ORDER})", f"count_if(size({KNOWN}) > 0)")
    one = keyed(final, plan, Latest(key=plan.key, order=()), unique=True, also=also)
    twice, deleted, newest, known = one.also
    return RemainingRows(keys=one.rows, twice=twice, cleared=deleted, newest=newest, open=known > 0, prune=one.prune)


def _emptied_keys(emptied: str | None) -> str:
    """The condition of keys that went with an event that empties the table."""
    return "false" if emptied is None else f"{ORDER} = {string(emptied)} AND {DELETED}"


def _applied(scan: EventScan, rules: EventRules) -> str | None:
    """The order of the event that empties the table, if it is to."""
    if scan.emptied is not None and rules.truncate == Truncate.STOP:
        raise CheckFailed(
            "an event truncates the table, and truncate is stop; nothing was loaded",
            hint="Apply it, or ignore it, once: `tidegate run STREAM --set truncate=apply` or `ignore`.",
        )
    return scan.emptied if rules.truncate == Truncate.APPLY else None


def _by_column(events: DataFrame, spec: LatestEventsSpec) -> DataFrame:
    _refuse_twice(dataframe_ops.ties(spec.ties(events), Latest(key=spec.key, order=(ORDER,))), spec.key)
    return spec.by_column(events)


def _unfilled(gathered: DataFrame, spec: LatestEventsSpec) -> bool:
    """Whether a key among them has a column that no event has told yet, or only one before the last."""
    fence = spec.fence
    if fence.records is None or not fence.open:
        return False
    return not fence.records(spec.keys(gathered)).where(f"size({KNOWN}) > 0").isEmpty()


def _checked(final: DataFrame, plan: LoadPlan, scan: EventScan, left: RemainingRows, held: DataFrame) -> Checked:
    _refuse_twice(left.twice, plan.key)
    used = left.keys - left.cleared + (1 if scan.emptied is not None else 0)
    applied = final.where(f"NOT ({_emptied_keys(scan.emptied)})").selectExpr(
        *map(quote, plan.key), ORDER, DELETED, KNOWN
    )
    return Checked(
        frame=final.drop(ORDER, KNOWN, TWICE),
        rows=scan.events,
        keys=final.selectExpr(*map(quote, plan.key)),
        prune=left.prune,
        held=held,
        folded=Folded(
            applied=applied, emptied=scan.emptied, superseded=scan.events - used, newest=left.newest, open=left.open
        ),
    )


def _refuse_twice(twice: int, key: tuple[str, ...]) -> None:
    if twice:
        raise DuplicateKeys(
            f"{counted(twice, 'key')} ({', '.join(key)}) {done_by(twice, 'have')} two different events with the "
            f"same order",
            hint="Set `sequence:` of the envelope to all columns that order the events, or `key:` to those that "
            "identify a row.",
        )
