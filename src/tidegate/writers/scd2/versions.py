"""Reads the stored versions that a batch affects, and writes the new versions in one commit.

Versions that ended before the first change are never read.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tidegate.core.batch import Checked
from tidegate.core.display import counted, done_by
from tidegate.core.effects import Apply, Insert, Mirror, Upsert
from tidegate.core.plan import LoadPlan, Mode, Prune
from tidegate.core.ports.format import Staging
from tidegate.core.position_state import cursor_of
from tidegate.core.schema import BOOLEAN
from tidegate.core.slices import Keys, Slice
from tidegate.dialects.spark import Spark
from tidegate.errors import CheckFailed, DuplicateKeys
from tidegate.spark import dataframe_ops
from tidegate.spark.caching import persisted
from tidegate.spark.dataframe_ops import DELETED
from tidegate.spark.failures import translated
from tidegate.spark.sql import quote
from tidegate.writers._batch import measure_batch, without_kept
from tidegate.writers._differences import MOST_KEYS, texts
from tidegate.writers.scd2 import append_path, changes
from tidegate.writers.scd2 import history as histories
from tidegate.writers.scd2 import validity as dates
from tidegate.writers.scd2.changes import Brings, DatingRules
from tidegate.writers.scd2.history import AT, CLOSED, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BEGINS = (Mode.APPEND, Mode.OVERWRITE)
REPAIR = "Give the change a later sequence, or date it by a repair: `tidegate verify STREAM --repair`."


def repairs(plan: LoadPlan) -> bool:
    """Whether the load corrects rows of which the source does not say that they changed."""
    return any(isinstance(part, Keys) for part in plan.changes.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The changes of a load, ready to meet what is stored.

    Args:
        frame: as `_changes.of_rows` gives them.
        keys: their keys.
        prune: literal bounds of these.
        least, greatest: the moments of the first and the last one, as canonical text; None where none says one.
    """

    frame: DataFrame
    keys: DataFrame
    prune: tuple[Prune, ...]
    least: str | None
    greatest: str | None


class Differing(NamedTuple):
    """How many versions differ, and how many of these have ended before."""

    rows: int
    closed: int


def write(checked: Checked, plan: LoadPlan, staging: Staging, history: History) -> Checked:
    """One commit that makes the versions of the keys in the batch what all of their changes make.

    The events of a log have become these versions already, see `_event_history`.

    Raises:
        DuplicateKeys: two rows of one key differ and have one sequence.
        CheckFailed: the source holds a row of an older sequence than the one that it held.
    """
    if isinstance(plan.changes.effect, Apply):
        return _write_made(checked, plan, staging, history)
    if plan.write.mode in BEGINS:
        return _begin(checked, plan, staging, history)
    with ExitStack() as held, translated(f"writing the versions of {plan.stream.target}"):
        batch = _batch(checked, plan, staging, history)
        touched = _touched(batch, plan, history)
        stored = _stored(batch, staging, history, touched)
        found = replace(checked, prune=batch.prune, dated=replace(checked.dated, touched=touched))
        if _may_go_on(plan, history) and not checked.dated.placed:
            both = persisted(append_path.with_stored(batch.frame, stored, history, plan.table))
            held.callback(both.unpersist)
            appends_only, changed = append_path.appends_only(both, history, unique=checked.dated.unique)
            if appends_only:
                rows = append_path.differing(both, history, plan.table)
                _put(rows, batch.prune, plan, staging, history, Differing(rows=changed, closed=0))
                # What came or was touched has not ended before the batch begins: older files are not looked through.
                return (
                    found if found.compared.where else replace(found, compared=replace(found.compared, where=touched))
                )
        stored = persisted(stored)
        held.callback(stored.unpersist)
        placed = _placed(checked, batch, stored, plan, history)
        both = placed.unionByName(histories.stored_changes(stored, history))
        _refuse(both, plan, history)
        made = histories.versions(both, history)
        differing = persisted(histories.differing(made, stored, history, plan.table))
        held.callback(differing.unpersist)
        count = Differing(*dataframe_ops.count_if(differing, "true", CLOSED))
        _put(differing.drop(CLOSED), batch.prune, plan, staging, history, count)
        if isinstance(plan.changes.effect, Mirror):
            return _with_comparison(found, batch, plan)
        if found.keys is not None and history.valid_from in found.keys.columns and not checked.dated.placed:
            found = replace(found, keys=changes.begins(batch.frame, stored, history))
        if found.compared.where is None or not history.sequence:
            return found
        return _without_late(found, batch, changes.late(batch.frame, stored, history), plan)


def currently(checked: Checked, plan: LoadPlan, staging: Staging, history: History) -> DataFrame:
    """The versions that will be current once the batch is written.

    Raises:
        CheckFailed: see `write`.
    """
    current = quote(history.is_current)
    with translated(f"reading the versions of {plan.stream.target}"):
        if plan.write.mode in BEGINS:
            return histories.versions(_placed_first(checked, plan, history), history).where(current)
        batch = _batch(checked, plan, staging, history)
        stored = _stored(batch, staging, history, _touched(batch, plan, history))
        both = _placed(checked, batch, stored, plan, history).unionByName(histories.stored_changes(stored, history))
        others = dataframe_ops.without_keys(staging.read().where(current), batch.keys, plan.key)
        return others.unionByName(histories.versions(both, history).where(current))


def _write_made(checked: Checked, plan: LoadPlan, staging: Staging, history: History) -> Checked:
    """The versions of some keys take the place of those that are stored of them."""
    own = [quote(name) for name in plan.table.names]
    with translated(f"writing the versions of {plan.stream.target}"):
        made = checked.frame.selectExpr(*own)
        if plan.write.mode in BEGINS:
            _add(made, plan, staging)
            return checked
        if checked.folded is not None and checked.folded.newest is None:
            staging.append(made)  # no event is new: the position moves all the same
            return checked
        found = staging.read_keys(checked.keys, prune=checked.prune)
        stored = found.where(checked.dated.touched or "true")
        wanted = dataframe_ops.typed(made, like=stored)
        differing = histories.differing(wanted, stored, history, plan.table).localCheckpoint()
        count = Differing(*dataframe_ops.count_if(differing, "true", CLOSED))
        _put(differing.drop(CLOSED), checked.prune, plan, staging, history, count)
    return checked


def _begin(checked: Checked, plan: LoadPlan, staging: Staging, history: History) -> Checked:
    """All that the table will hold."""
    with translated(f"writing the versions of {plan.stream.target}"):
        if checked.dated.unique:
            floor = ends_at(plan, history)
            _add(histories.first(checked.frame, history, floor), plan, staging)
            return checked
        placed = _placed_first(checked, plan, history)
        _refuse(placed, plan, history)
        _add(histories.versions(placed, history), plan, staging)
    return checked


def _placed_first(checked: Checked, plan: LoadPlan, history: History) -> DataFrame:
    floor = ends_at(plan, history) or _ends(checked.frame, history)[1]
    return changes.placed(checked.frame, None, history, DatingRules(floor=floor))


def _add(versions: DataFrame, plan: LoadPlan, staging: Staging) -> None:
    if plan.write.mode is Mode.APPEND:
        staging.append(versions)
    else:
        staging.overwrite(versions)


def _batch(checked: Checked, plan: LoadPlan, staging: Staging, history: History) -> Batch:
    key = [quote(name) for name in plan.key]
    current = staging.read_keys(None, prune=checked.prune).where(quote(history.is_current))
    frame, keys, prune = checked.frame, checked.frame.select(*key), checked.prune
    keys = keys if checked.dated.unique else keys.distinct()
    if isinstance(plan.changes.effect, Mirror):
        current = staging.read_partitions(plan.changes.slices).where(quote(history.is_current))
        others = [name for name in plan.columns.names if name not in plan.key]
        wanted = dataframe_ops.typed(frame, like=current).select(*map(quote, plan.columns.names))
        differing = dataframe_ops.differences(wanted, current, key=plan.key, others=others)
        differing = without_kept(differing, checked, DELETED).localCheckpoint()
        frame, keys = changes.of_rows(differing, history), differing.select(*key)
        prune = measure_batch(frame, plan, key=plan.key, count_keys=False)[1]
    else:
        frame = dataframe_ops.typed(frame, like=current)
    least, greatest = checked.dated.moments or _ends(frame, history)
    return Batch(frame=frame, keys=keys, prune=prune, least=least, greatest=greatest)


def _ends(frame: DataFrame, history: History) -> tuple[str | None, str | None]:
    ends = (f"{Spark().text_of(f'{end}({AT})', history.type)} AS {end}" for end in ("min", "max"))
    least, greatest = frame.selectExpr(*ends).collect()[0]
    return least, greatest


def _touched(batch: Batch, plan: LoadPlan, history: History) -> str:
    """The condition of the stored versions that the batch can meet: the others ended before its first change."""
    if history.version is not None:
        return "true"  # a version's number is known by those before it alone
    current = quote(history.is_current)
    first = batch.least
    if not history.sequence:  # the load dates its rows, unless they come with a moment
        first = min((at for at in (batch.least, dates.moment(plan.created_at, history.type)) if at), default=None)
    return current if first is None else f"{current} OR {quote(history.valid_to)} >= {history.moment(first)}"


def _stored(batch: Batch, staging: Staging, history: History, touched: str) -> DataFrame:
    """The versions that the batch can meet; of a partitioned table each part is pruned by itself."""
    found = staging.read_keys(batch.keys, prune=batch.prune)
    if touched == "true":
        return found
    current = quote(history.is_current)
    now = found.where(current)
    return now if touched == current else now.unionAll(found.where(f"NOT {current} AND ({touched})"))


def _placed(checked: Checked, batch: Batch, stored: DataFrame, plan: LoadPlan, history: History) -> DataFrame:
    brings = _brings(checked, plan)
    if brings is Brings.WHOLE and history.sequence and (back := changes.backwards(batch.frame, stored, history)):
        raise CheckFailed(
            f"{counted(back, 'key')} went back to an older sequence ({', '.join(history.sequence)}) at the source",
            hint=REPAIR,
        )
    # Numbers of other keys say nothing of one that is repaired.
    floor = ends_at(plan, history) or (None if brings is Brings.REPAIR else batch.greatest)
    return changes.placed(batch.frame, stored, history, DatingRules(floor=floor, brings=brings))


def ends_at(plan: LoadPlan, history: History) -> str | None:
    """When a row went, and what came that says no time: never later than what the source brings next.

    By the bound of the cursor that dates the rows, up to which the snapshot has all; else by the time of the snapshot,
    where rows have times of their own; else the load dates everything. None where no time is counted.
    """
    edge = plan.changes.edge
    if edge is not None and edge.final and history.sequence and history.sequence == cursor_of(plan.position.state):
        return edge.upto
    read_at = plan.changes.read_at if history.sequence else None
    return dates.moment(read_at or plan.created_at, history.type)


def _brings(checked: Checked, plan: LoadPlan) -> Brings:
    if not isinstance(plan.changes.effect, Mirror):
        return Brings.CHANGES if checked.dated.placed else Brings.ROWS
    return Brings.REPAIR if repairs(plan) else Brings.WHOLE


def _refuse(placed: DataFrame, plan: LoadPlan, history: History) -> None:
    """Raises DuplicateKeys where nothing says which of two rows counts."""
    with translated(f"reading the rows for {plan.stream.target}"):
        found = histories.conflicts(placed, history)
    if found:
        by = ", ".join(history.sequence) or "the time of the load"
        raise DuplicateKeys(
            f"{counted(found, 'key')} ({', '.join(plan.key)}) {done_by(found, 'have')} different rows with the "
            f"same sequence ({by}), so nothing says "
            f"which one is later",
            hint=REPAIR
            if history.sequence
            else "Use the column that dates a change: `write: {kind: scd2, sequence_by: …}`.",
        )


def _may_go_on(plan: LoadPlan, history: History) -> bool:
    """Whether each row of the batch says itself when it took effect, and no number depends on all of its history."""
    dated = isinstance(plan.changes.effect, Insert | Upsert) and bool(history.sequence)
    return dated and history.version is None


def _put(  # noqa: PLR0913, PLR0917 - what a merge is made of
    differing: DataFrame,
    prune: tuple[Prune, ...],
    plan: LoadPlan,
    staging: Staging,
    history: History,
    count: Differing,
) -> None:
    if not count.rows:
        staging.append(differing.where("false"))  # the position moves all the same
        return
    # Where only current versions change, those that have ended need not be looked through.
    now = Prune(column=history.is_current, type=BOOLEAN, low="1", high="1", values=("1",))
    staging.merge(
        differing,
        prune=prune if count.closed else (*prune, now),
        skip_equal=False,
        delete_if=DELETED,
        by=(*plan.key, history.valid_from),
    )


def _with_comparison(checked: Checked, batch: Batch, plan: LoadPlan) -> Checked:
    """What verification compares of a batch that is all that the source holds, or all of some partitions or keys."""
    rows = batch.keys.count()
    moved: tuple[Slice, ...] | None = plan.changes.slices
    if plan.write.mode is Mode.MERGE_DIFFERENCES:
        values = texts(batch.keys, plan) if rows <= MOST_KEYS else None
        moved = None if values is None else (Keys(columns=plan.key, values=values),)
    return replace(checked, keys=batch.keys, rows=rows, compared=replace(checked.compared, moved=moved))


def _without_late(checked: Checked, batch: Batch, late: DataFrame, plan: LoadPlan) -> Checked:
    """What verification compares where current versions stand for their keys: not those of late changes alone."""
    if late.isEmpty():
        return checked
    rest = batch.keys.join(late, on=list(plan.key), how="left_anti").limit(MOST_KEYS).localCheckpoint()
    values = texts(rest, plan)
    moved = () if values is None else (Keys(columns=plan.key, values=values),)
    return replace(checked, compared=replace(checked.compared, moved=moved))
