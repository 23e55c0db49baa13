"""Reduces events to what they change for each key.

Never applies an event older than the last one applied for its key; every event that is skipped is counted.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, Fence, Folded, Latest, Verdicts
from tidegate.core.display import counted, done_by
from tidegate.core.effects import event_rules
from tidegate.core.log import EventRules, Truncate
from tidegate.core.plan import LoadPlan, Prune
from tidegate.errors import CheckFailed, DuplicateKeys
from tidegate.spark import dataframe_ops
from tidegate.spark.caching import persisted
from tidegate.spark.dataframe_ops import DELETED, ORDER, TWICE
from tidegate.spark.failures import translated
from tidegate.spark.latest_events import KNOWN, TALLIES, LatestEventsSpec
from tidegate.spark.sql import quote, string
from tidegate.writers._batch import keyed, measure_batch
from tidegate.writers._modes import kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
            applied=applied,
            emptied=scan.emptied,
            superseded=scan.events - used,
            newest=left.newest,
            open=left.open,
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
