"""Decides what events of a log leave of each key.

Called by writers that apply events. Must never apply an event that is older than what was applied of its key, nor leave
one out that it does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, Fence, Folded, Latest
from tidegate.core.log import CLEARS, UNKNOWN, EventRules, Truncate
from tidegate.core.plan import LoadPlan
from tidegate.errors import CheckFailed, DuplicateKeys
from tidegate.spark import frames
from tidegate.spark.failures import translated
from tidegate.spark.fold import KNOWN, Fold
from tidegate.spark.frames import GONE, ORDER, TWICE
from tidegate.spark.sql import quote, string
from tidegate.writers._batch import keyed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one pass over the events tells.

    Args:
        emptied: the newest order of an event that empties the table and counts.
        partial: events that do not carry every column.
    """

    events: int
    emptied: str | None
    partial: int


def folded(rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
    """The events, of which every one can be taken, made one row a key: what they leave of it.

    Args:
        rows: kept by Spark, for they are looked at several times.

    Raises:
        CheckFailed: an event empties the table, and the rules say stop.
        DuplicateKeys: two events of one key and one order differ.
    """
    rules = plan.changes.events or EventRules()
    fence = batch.fence or Fence()
    with translated(f"reading the events for {plan.target}"):
        look = _look(rows, fence, rules)
        fold = Fold(columns=plan.columns, key=plan.key, fence=fence, emptied=look.emptied)
        final = _final(rows, fold, look).persist()
        try:
            return _checked(final, plan, look)
        except BaseException:
            final.unpersist()
            raise


def _look(rows: DataFrame, fence: Fence, rules: EventRules) -> Look:
    clears = f"{CLEARS} AND {_above(fence.floor)}"
    asked = (
        "count(*)",
        f"max(CASE WHEN {clears} THEN {ORDER} END)",
        f"count_if(size({UNKNOWN}) > 0)",
    )
    events, emptied, partial = rows.selectExpr(*(f"{each} AS a{n}" for n, each in enumerate(asked))).collect()[0]
    if emptied is not None and rules.truncate == Truncate.STOP:
        raise CheckFailed(
            "an event empties the table, and truncate says stop; nothing was loaded",
            hint="Let it, or leave it out, once: `tidegate run STREAM --set truncate=apply` or `ignore`.",
        )
    applied = emptied if rules.truncate == Truncate.APPLY else None
    return Look(events=events, emptied=applied, partial=partial)


def _final(rows: DataFrame, fold: Fold, look: Look) -> DataFrame:
    fence = fold.fence
    floor = max((each for each in (fence.floor, look.emptied) if each is not None), default=None)
    events = rows.where(f"NOT {CLEARS} AND {_above(floor)}")
    columnwise = look.partial > 0 or _unfilled(events, fence, fold)
    final = fold.by_column(events) if columnwise else fold.simple(events)
    if columnwise:
        _refuse_twice(frames.ties(fold.ties(events), Latest(key=fold.key, order=(ORDER,))), fold.key)
    cleared = fold.cleared(final)
    return final if cleared is None else final.unionByName(cleared)


def _unfilled(events: DataFrame, fence: Fence, fold: Fold) -> bool:
    """Whether a key among them has a column that no event has told yet, or only one before the last."""
    if fence.records is None or not fence.open:
        return False
    records = fence.records(events.selectExpr(*map(quote, fold.key)))
    return not records.where(f"size({KNOWN}) > 0").isEmpty()


def _checked(final: DataFrame, plan: LoadPlan, look: Look) -> Checked:
    emptied = "false" if look.emptied is None else f"{ORDER} = {string(look.emptied)} AND {GONE}"
    one = keyed(final, plan, Latest(key=plan.key, order=()), unique=True, also=(TWICE, emptied))
    twice, cleared = one.also
    _refuse_twice(twice, plan.key)
    used = one.rows - cleared + (1 if look.emptied is not None else 0)
    applied = final.where(f"NOT ({emptied})").selectExpr(*map(quote, plan.key), ORDER, GONE, KNOWN)
    return Checked(
        frame=final.drop(ORDER, KNOWN, TWICE),
        rows=look.events,
        keys=final.selectExpr(*map(quote, plan.key)),
        prune=one.prune,
        held=final,
        folded=Folded(
            applied=applied,
            emptied=look.emptied,
            superseded=look.events - used,
        ),
    )


def _refuse_twice(twice: int, key: tuple[str, ...]) -> None:
    if twice:
        raise DuplicateKeys(
            f"{twice} keys ({', '.join(key)}) have two events of one order that differ",
            hint="Name all columns that order the events, as `sequence:` of the envelope, or those that identify a row "
            "as `key:`.",
        )


def _above(floor: str | None) -> str:
    return "true" if floor is None else f"{ORDER} > {string(floor)}"
