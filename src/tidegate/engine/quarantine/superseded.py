"""Decides which quarantined rows a load supersedes, by the stream's own order.

Used for loads and replays alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import Fence, Folded, Latest
from tidegate.core.effects import Mirror, event_rules
from tidegate.core.log import UNKNOWN
from tidegate.core.plan import LoadPlan
from tidegate.core.policies.deletes import DELETED_AT
from tidegate.core.position_state import names_files
from tidegate.core.quarantine import Superseding, everything, superseding
from tidegate.dialects.spark import Spark
from tidegate.dialects.spark.row_text import row_text
from tidegate.engine.applied_events import based
from tidegate.engine.stream import Stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the quarantine needs to know about a load.

    Args:
        read: every row of the load; with `validation.ERRORS` where some are bad.
        bad: how many of them are not loaded.
        rule: determines the last row of each key; None if no two rows have the same key.
        unique: the source guarantees one row per key.
        full_refresh: the rows that are read replace everything in the table.
        fence, folded: the events that were applied before, and those that this load applies.
    """

    plan: LoadPlan
    read: DataFrame
    bad: int = 0
    rule: Latest | None = None
    unique: bool = False
    full_refresh: bool = False
    fence: Fence | None = None
    folded: Folded | None = None


def how(stream: Stream, load: Load) -> Superseding:
    """How the load's rows supersede waiting rows; for files, the load that read them decides."""
    by_load = names_files(load.plan.position.state)
    return superseding(
        load.plan.changes,
        one_a_key=one_a_key(stream),
        history=stream.writer.versions is not None,
        applies_events=stream.strategy.applies_events,
        unique=load.unique or not stream.order or by_load,
    )


def whole(stream: Stream, load: Load) -> bool:
    """Whether the rows replace everything in the table, so that no row that waited before counts."""
    plan, changes = load.plan, load.plan.changes
    if load.full_refresh or plan.deletes.reset is not None or plan.since is None:
        return True
    if stream.writer.versions is not None:
        return False
    mirrors = changes.whole or changes.grouping is not None or stream.writer.accepts == {Mirror}
    return everything(changes) and mirrors


def one_a_key(stream: Stream) -> bool:
    """Whether the table keeps one row, or one history, per key."""
    return bool(stream.key) and stream.writer.needs_key


def left(stream: Stream, rows: DataFrame, session: SparkSession, load: Load) -> DataFrame:
    """The rows of a quarantine, with those that the load supersedes marked as released.

    Args:
        rows: as of `validation.unpacked`, including those that the load adds.
    """
    from tidegate.spark import validation  # noqa: PLC0415 - rows are looked at, Spark is running

    plan, number = load.plan, load.plan.position.sequence
    older = f"{validation.META}load < {number}"
    among = Spark().among(plan.changes.slices, plan.columns)
    if whole(stream, load):
        rows = validation.closed(rows, older, number)
    match how(stream, load):
        case Superseding.SLICES:
            rows = validation.closed(rows, f"{older} AND {among}", number)
            return _read_again(rows, load) if one_a_key(stream) else rows
        case Superseding.KEY:
            return _read_again(_without_a_key(stream, rows, load), load)
        case Superseding.ORDER:
            return _by_order(stream, _without_a_key(stream, rows, load), session, load)
        case Superseding.EVENT:
            return _by_event(rows, load)
        case Superseding.VERSION:
            return _by_version(stream, rows, load, among)
        case Superseding.NOTHING:
            return rows


def _without_a_key(stream: Stream, rows: DataFrame, load: Load) -> DataFrame:
    """Without a key, a waiting row is superseded if it was read again: all of them, or an equal one."""
    from tidegate.spark import quarantined_rows, validation  # noqa: PLC0415 - as above

    plan, number = load.plan, load.plan.position.sequence
    keyless = " OR ".join(f"{Spark().quote(name)} IS NULL" for name in plan.key)
    if everything(plan.changes):
        return validation.closed(rows, f"{validation.META}load < {number} AND ({keyless})", number)
    return (
        quarantined_rows.the_same(rows, where=keyless, whole=row_text(plan.columns).pack, number=number)
        if stream.strategy.rereads or plan.changes.repeats
        else rows
    )


def _read_again(rows: DataFrame, load: Load) -> DataFrame:
    """Rows of a key that were read before are older."""
    from tidegate.spark import dataframe_ops, quarantined_rows  # noqa: PLC0415 - as above

    key, number = load.plan.key, load.plan.position.sequence
    others = load.read.selectExpr(*map(Spark().quote, key), f"{number}L AS {dataframe_ops.NUMBER}")
    return quarantined_rows.by_order(rows, others, key=key, order=(), number=number)


def _by_order(stream: Stream, rows: DataFrame, session: SparkSession, load: Load) -> DataFrame:
    """Of several rows of one key the greatest counts, including the table's."""
    from tidegate.spark import dataframe_ops, quarantined_rows  # noqa: PLC0415 - as above

    plan, number, quote = load.plan, load.plan.position.sequence, Spark().quote
    asked = tuple(dict.fromkeys((*plan.key, *stream.order)))
    others = load.read.selectExpr(*map(quote, asked), f"{number}L AS {dataframe_ops.NUMBER}")
    if plan.base is not None:
        table = based(stream, session, plan)
        there = table.where(f"{DELETED_AT} IS NULL") if DELETED_AT in table.columns else table
        types = dict(others.dtypes)  # the table may keep wider ones
        cast = (f"try_cast({quote(name)} AS {types[name]}) AS {quote(name)}" for name in asked)
        present = dataframe_ops.completed(there, plan.columns).selectExpr(*cast, f"0L AS {dataframe_ops.NUMBER}")
        others = others.unionAll(present)
    return quarantined_rows.by_order(rows, others, key=plan.key, order=stream.order, number=number)


def _by_event(rows: DataFrame, load: Load) -> DataFrame:
    """Of several events of one key the last one counts, including those applied before."""
    from tidegate.spark import dataframe_ops, latest_events, quarantined_rows, validation  # noqa: PLC0415 - as above

    plan, fence, folded = load.plan, load.fence or Fence(), load.folded
    keys = [Spark().quote(name) for name in plan.key]
    number, parts = plan.position.sequence, []
    if fence.records is not None:
        asked = rows.where(validation.WAITS).selectExpr(*keys).distinct()
        parts.append(fence.records(asked).selectExpr(*keys, latest_events.APPLIED, latest_events.KNOWN))
    if folded is not None:
        parts.append(
            folded.applied.selectExpr(*keys, f"{dataframe_ops.ORDER} AS {latest_events.APPLIED}", latest_events.KNOWN)
        )
    applied = parts[0] if parts else None
    if applied is not None and len(parts) > 1:
        applied = dataframe_ops.latest(applied.unionAll(parts[1]), Latest(key=plan.key, order=(latest_events.APPLIED,)))
    emptied = folded.emptied if folded else None
    rules = event_rules(plan.changes.effect)
    ends = [each for each in (rules.floor if rules else None, fence.floor) if each]
    whole = row_text(plan.columns).pack
    return quarantined_rows.by_event(
        rows, applied, key=plan.key, number=number, whole=whole, floor=max(ends, default=None), emptied=emptied
    )


def _by_version(stream: Stream, rows: DataFrame, load: Load, among: str) -> DataFrame:
    """Every version counts until its key is deleted or, if loads date it, read again; a repeated one counts once."""
    from tidegate.spark import dataframe_ops, quarantined_rows, validation  # noqa: PLC0415 - as above

    plan, number, versions = load.plan, load.plan.position.sequence, stream.writer.versions
    if versions is None:
        return rows
    read, whole = load.read, isinstance(plan.changes.effect, Mirror)
    at = f"TIMESTAMP '{plan.created_at.isoformat()}'"
    logged, keys = dataframe_ops.DELETED in read.columns, [Spark().quote(name) for name in plan.key]
    place = dataframe_ops.ORDER if UNKNOWN in read.columns else f"CAST(NULL AS string) AS {dataframe_ops.ORDER}"
    if whole:
        rows = quarantined_rows.ended(rows, read, key=plan.key, among=among, at=at, number=number)
    elif logged:
        deleted = read.where(dataframe_ops.DELETED).selectExpr(*keys, place)
        rows = quarantined_rows.deleted(rows, deleted, key=plan.key, at=at, number=number)
    moment = versions.moment(stream.strategy.cursor)
    events = logged and stream.strategy.applies_events
    if moment is None:
        pack = row_text(plan.columns).pack
        # A good row ends what waits even if it makes no version, because the current one is the same.
        good = read.where(f"NOT {validation.BAD}") if validation.ERRORS in read.columns else read
        rows = quarantined_rows.deleted(rows, good.selectExpr(*keys, place), key=plan.key, at=at, number=number)
        if events:
            fence = load.fence or Fence()
            asked = rows.where(validation.WAITS).selectExpr(*keys).distinct()
            applied = fence.records(asked) if fence.records is not None else None
            return quarantined_rows.late_events(rows, applied, key=plan.key, whole=pack, number=number)
        return quarantined_rows.repeated(rows, key=plan.key, whole=pack, number=number) if whole else rows
    added = read.where(f"NOT {dataframe_ops.DELETED}") if logged else read
    order = (dataframe_ops.ORDER,) if events else ()
    others = added.selectExpr(
        *keys, f"{moment} AS {dataframe_ops.MOMENT}", f"{number}L AS {dataframe_ops.NUMBER}", *order
    )
    own = [
        f"{moment} AS {dataframe_ops.MOMENT}",
        *([f"{quarantined_rows.ORDERED} AS {dataframe_ops.ORDER}"] if events else []),
    ]
    key = (*plan.key, dataframe_ops.MOMENT)
    found = quarantined_rows.by_order(rows.selectExpr("*", *own), others, key=key, order=order, number=number)
    return found.drop(dataframe_ops.MOMENT, dataframe_ops.ORDER)
