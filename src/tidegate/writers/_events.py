"""Decides what events of a log leave of each key.

Called by writers that apply events. Must never apply an event that is older than what was applied of its key, nor leave
one out that it does not count.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, Fence, Folded, Latest
from tidegate.core.log import EventRules, Truncate
from tidegate.core.plan import LoadPlan
from tidegate.errors import CheckFailed, DuplicateKeys
from tidegate.spark import frames
from tidegate.spark.failures import translated
from tidegate.spark.fold import KNOWN, TALLIES, Fold
from tidegate.spark.frames import GONE, ORDER, TWICE
from tidegate.spark.sql import quote, string
from tidegate.writers._batch import keyed
from tidegate.writers._modes import kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one pass over the events tells.

    Args:
        refused: events that cannot be taken.
        partial: events that do not carry every column.
        emptied: the newest order of an event that empties the table and counts.
    """

    events: int
    refused: int
    partial: int
    emptied: str | None


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
    fold = Fold(columns=plan.columns, key=plan.key, fence=fence)
    with ExitStack() as held, translated(f"reading the events for {plan.target}"):
        if fence.open:  # where some were partial, others are
            rows = _kept(rows, batch, held)
        gathered = _persisted(fold.gathered(rows), held)
        look = _look(gathered)
        if look.refused:
            return Checked(frame=rows, refused=look.refused)
        if (emptied := _applied(look, plan.changes.events or EventRules())) is not None:
            fold = replace(fold, emptied=emptied)
            gathered = _persisted(fold.gathered(rows), held)
        if look.partial or _unfilled(gathered, fold):
            rows = rows if fence.open else _kept(rows, batch, held)
            final = _by_column(rows.where(fold.usable), fold)
        else:
            final = fold.simple(gathered)
        cleared = fold.cleared(final)
        final = kept(final if cleared is None else final.unionByName(cleared), batch)
        try:
            return _checked(final, plan, replace(look, emptied=emptied))
        except BaseException:
            final.unpersist()
            raise


def _kept(rows: DataFrame, batch: Batch, held: ExitStack) -> DataFrame:
    return rows if batch.cheap else _persisted(rows, held)


def _persisted(rows: DataFrame, held: ExitStack) -> DataFrame:
    stored = rows.persist()
    held.callback(stored.unpersist)
    return stored


def _look(gathered: DataFrame) -> Look:
    tallies = (f"{tally} AS a{number}" for number, tally in enumerate(TALLIES))
    events, refused, partial, emptied = gathered.selectExpr(*tallies).collect()[0]
    return Look(events=events or 0, refused=refused or 0, partial=partial or 0, emptied=emptied)


def _applied(look: Look, rules: EventRules) -> str | None:
    """The order of the event that empties the table, if it is to."""
    if look.emptied is not None and rules.truncate == Truncate.STOP:
        raise CheckFailed(
            "an event empties the table, and truncate says stop; nothing was loaded",
            hint="Let it, or leave it out, once: `tidegate run STREAM --set truncate=apply` or `ignore`.",
        )
    return look.emptied if rules.truncate == Truncate.APPLY else None


def _by_column(events: DataFrame, fold: Fold) -> DataFrame:
    _refuse_twice(frames.ties(fold.ties(events), Latest(key=fold.key, order=(ORDER,))), fold.key)
    return fold.by_column(events)


def _unfilled(gathered: DataFrame, fold: Fold) -> bool:
    """Whether a key among them has a column that no event has told yet, or only one before the last."""
    fence = fold.fence
    if fence.records is None or not fence.open:
        return False
    return not fence.records(fold.keys(gathered)).where(f"size({KNOWN}) > 0").isEmpty()


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
