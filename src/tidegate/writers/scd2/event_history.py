"""Computes versions from events of a log, in whatever order and however often they are delivered.

Used by a load and again by verification. No event counts twice, and a version never depends on how events were split
into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, Dated, Fence, Folded, Verdicts
from tidegate.core.display import counted, done_by
from tidegate.core.effects import event_rules
from tidegate.core.log import CLEARS, EVENT_COLUMNS, REFUSED, UNKNOWN, EventRules, Truncate
from tidegate.core.plan import LoadPlan, Prune
from tidegate.dialects.spark import Spark
from tidegate.errors import CheckFailed, DuplicateKeys
from tidegate.spark import dataframe_ops
from tidegate.spark.dataframe_ops import DELETED, HASH, ORDER, TWICE
from tidegate.spark.failures import translated
from tidegate.spark.latest_events import APPLIED, FALLBACK, KEY_FLOOR, KNOWN, STATED, WAS_DELETED, WHOLE
from tidegate.spark.sql import names, quote
from tidegate.writers._batch import measure_batch
from tidegate.writers._modes import kept
from tidegate.writers.scd2 import changes
from tidegate.writers.scd2 import expected_versions as expected
from tidegate.writers.scd2 import history as histories
from tidegate.writers.scd2 import validity as dates
from tidegate.writers.scd2.changes import DatingRules
from tidegate.writers.scd2.history import AT, EXACT, MINE, ROW, TRACKED, WENT, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBER, _NEWEST, _THERE, _FINAL = (f"__tidegate_{name}" for name in ("number", "newest", "there", "final"))
_BEFORE, _AFTER, _CAP, _UNDATED = (f"__tidegate_{name}" for name in ("before", "after", "cap", "undated"))
RESET = "Rebuild the table, which discards its history: `tidegate run STREAM --full-refresh --yes`."


@dataclass(frozen=True, slots=True, kw_only=True)
class EventScan:
    """What one pass over the events of a load finds.

    Args:
        refused: events that cannot be taken.
        least: the least order among the others.
    """

    events: int
    refused: int
    least: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvents:
    """The events of a load that were not applied before, one row an order and key.

    Args:
        frame: the columns of the source, `DELETED`, `ORDER`, the stated moment as `AT`; persisted.
        greatest: the greatest stated moment, as canonical text.
        newest: the greatest order.
    """

    frame: DataFrame
    rows: int
    prune: tuple[Prune, ...]
    greatest: str | None
    newest: str | None

    def keys(self, history: History) -> DataFrame:
        return self.frame.select(*map(quote, history.key)).distinct()


def check(rows: DataFrame, plan: LoadPlan, batch: Batch, history: History) -> Checked:
    """The versions of every key among the events, as all events of these keys make them.

    Rows that are read `again` take another way from the events to the versions, for verification.

    Raises:
        CheckFailed: an event that cannot be placed, or that no history can be made of.
        DuplicateKeys: two events of one key and one order differ.
    """
    fence = batch.fence or Fence()
    held = kept(_plain(rows, history), batch)
    try:
        with translated(f"reading the events for {plan.stream.target}"):
            scan = _scan(held, plan)
            if scan.refused and not batch.reread:
                return Checked(frame=rows, verdicts=Verdicts(refused=scan.refused))
            # Cut off from how they were found: what is derived from them is planned many times.
            new = _new(_unapplied(held, scan, fence, history).localCheckpoint(), plan, history)
    finally:
        held.unpersist()
    with translated(f"reading {plan.stream.target}"):
        timeline, keep = (_sequenced if history.sequence else _in_log_order)(new, plan, fence, history)
    versions = (expected if batch.reread else histories).versions(timeline, history)
    return Checked(
        frame=versions.selectExpr(*map(quote, [*history.columns.names, *history.own]), f"false AS {DELETED}"),
        rows=scan.events,
        keys=new.keys(history),
        prune=new.prune,
        dated=Dated(sequence=history.sequence, touched=touched(plan, history)),
        folded=Folded(applied=keep, superseded=scan.events - new.rows, newest=new.newest),
    )


def touched(plan: LoadPlan, history: History) -> str:
    """The condition of the stored versions that events can change.

    Events that state moments may be late, so they can change any version of their key. Others are dated by the load,
    so they change none that ended before it.
    """
    if history.sequence or history.version is not None:
        return "true"
    first = history.moment(dates.moment(plan.created_at, history.type))
    return f"{quote(history.is_current)} OR {quote(history.valid_to)} >= {first}"


def _plain(rows: DataFrame, history: History) -> DataFrame:
    """The events with their order as text, which is how a log that is remembered gives it."""
    event_columns = [name for name in EVENT_COLUMNS if name in rows.columns]
    as_text = dict(rows.dtypes)[ORDER] == "string"
    order = ORDER if as_text else f"lpad(CAST({ORDER} AS string), 20, '0') AS {ORDER}"
    return rows.selectExpr(*map(quote, history.columns.names), DELETED, order, *event_columns)


def _scan(rows: DataFrame, plan: LoadPlan) -> EventScan:
    """One pass over the events. Raises CheckFailed: an event does not carry every column, or empties the table."""
    if REFUSED not in rows.columns:
        events, least = rows.selectExpr("count(*)", f"min({ORDER})").collect()[0]
        return EventScan(events=events, refused=0, least=least)
    usable = f"{REFUSED} IS NULL AND NOT {CLEARS}"
    asked = (
        "count(*)",
        f"count_if({REFUSED} IS NOT NULL)",
        f"count_if({usable} AND size({UNKNOWN}) > 0)",
        f"count_if({REFUSED} IS NULL AND {CLEARS})",
        f"min(CASE WHEN {usable} THEN {ORDER} END)",
    )
    events, refused, partial, cleared, least = rows.selectExpr(*asked).collect()[0]
    if partial:
        raise CheckFailed(
            f"{counted(partial, 'event')} without every column of their row, but a version needs all of them",
            hint="Have the source send whole rows (PostgreSQL: REPLICA IDENTITY FULL), or use write: merge.",
        )
    if cleared and (event_rules(plan.changes.effect) or EventRules()).truncate != Truncate.IGNORE:
        raise CheckFailed(
            f"{counted(cleared, 'event', 'empty')} the table (TRUNCATE), which write: scd2 does not treat as "
            f"the end of every row",
            hint=f"Ignore them once: `tidegate run STREAM --set truncate=ignore`. {RESET}",
        )
    return EventScan(events=events, refused=refused, least=least)


def _unapplied(rows: DataFrame, scan: EventScan, fence: Fence, history: History) -> DataFrame:
    """The events that were not applied before, one row a key and order.

    Rows: the columns of the source, `DELETED`, `ORDER`, the stated moment as `AT`, `TWICE`: another event of that order
    says something else; and what `_not_applied` adds.
    """
    usable = f"{REFUSED} IS NULL AND NOT {CLEARS}" if REFUSED in rows.columns else "true"
    columns = [*map(quote, history.columns.names), DELETED, ORDER]
    events = rows.where(f"{usable} AND {_above(fence.floor)}").selectExpr(*columns, f"{history.at} AS {AT}")
    single = f"PARTITION BY {names(history.key)}, {ORDER}"
    hashed = events.selectExpr("*", f"{_hash(history)} AS {HASH}").selectExpr(
        "*",
        f"row_number() OVER ({single} ORDER BY {HASH}, {AT} DESC) AS {_NUMBER}",
        f"max({HASH}) OVER ({single}) <> min({HASH}) OVER ({single}) AS {TWICE}",
    )
    return _not_applied(hashed.where(f"{_NUMBER} = 1").selectExpr(*columns, AT, TWICE), scan, fence, history)


def _new(fenced: DataFrame, plan: LoadPlan, history: History) -> NewEvents:
    """What one pass tells of the events that were not applied before.

    Raises:
        CheckFailed: a NULL in a column of the key, or in the sequence of a row.
        DuplicateKeys: two events of one key and one order differ.
    """
    undated = f"count_if(NOT {DELETED} AND {AT} IS NULL)"
    also = (f"count_if({TWICE})", undated, f"max({ORDER})", Spark().text_of(f"max({AT})", history.type))
    found, prune = measure_batch(fenced, plan, key=plan.key, count_keys=False, also=also)
    twice, dateless, newest, greatest = found.also
    _refuse(plan, history, keyless=found.null_keys, undated=dateless if history.sequence else 0, twice=twice)
    return NewEvents(frame=fenced.drop(TWICE), rows=found.rows, prune=prune, greatest=greatest, newest=newest)


def _refuse(plan: LoadPlan, history: History, *, keyless: int, undated: int, twice: int) -> None:
    if keyless:
        raise CheckFailed(
            f"{counted(keyless, 'row', 'have')} no value in a key column ({', '.join(plan.key)})",
            hint="Use a key that is never NULL, or filter out these rows with a `query:`.",
        )
    if undated:
        raise CheckFailed(
            f"{counted(undated, 'row', 'have')} no value in the sequence ({', '.join(history.sequence)}), so it "
            f"is unknown when they "
            f"took effect",
            hint="Use a column that is never NULL: `write: {kind: scd2, sequence_by: …}`, or filter these rows.",
        )
    if twice:
        raise DuplicateKeys(
            f"{counted(twice, 'event')} ({', '.join(plan.key)}) {done_by(twice, 'have')} the same order as "
            f"another, different event",
            hint="Set `sequence:` of the envelope to all columns that order the events, or `key:` to those that "
            "identify a row.",
        )


def _not_applied(events: DataFrame, scan: EventScan, fence: Fence, history: History) -> DataFrame:
    """Without the events that were applied before, or that are older than what is remembered.

    Where events state moments each of them counts once, however late. Otherwise the newest order of each key is all
    that counts: an event below it is superseded.

    Rows: as given; where events are kept, also `KEY_FLOOR`, `_NEWEST` and `_THERE` of what is kept of their key.
    """
    on, key = list(history.key), [quote(name) for name in history.key]
    keys = events.select(*key).distinct()
    if history.sequence and fence.events is not None:
        known = fence.events(keys)
        per_key = known.groupBy(*key).agg({KEY_FLOOR: "max", ORDER: "max", WHOLE: "max"})
        per_key = per_key.selectExpr(
            *key,
            f"coalesce(`max({KEY_FLOOR})`, '') AS {KEY_FLOOR}",
            f"CASE WHEN NOT `max({WHOLE})` THEN rtrim(`max({ORDER})`) END AS {_NEWEST}",
            f"`max({WHOLE})` AS {_THERE}",
        )
        orders = known.selectExpr(*key, ORDER)
        unseen = events.join(orders, on=[*on, ORDER], how="left_anti").join(per_key, on=on, how="left")
        # What the table was repaired to has no order: a delete that came late does not end it.
        ends = f"{DELETED} AND {AT} IS NULL AND {ORDER} < {_NEWEST}"
        counts = f"CASE WHEN {KEY_FLOOR} IS NULL THEN {_above(fence.horizon)} ELSE {ORDER} > {KEY_FLOOR} END"
        return unseen.where(f"({counts}) AND NOT coalesce({ends}, false)")
    seen = fence.newest is None or (scan.least is not None and scan.least <= fence.newest)
    if history.sequence or fence.records is None or not seen:
        return events.where(_above(fence.horizon))
    records = fence.records(keys).selectExpr(*key, APPLIED)
    newer = f"({APPLIED} IS NULL AND {_above(fence.horizon)}) OR {ORDER} > {APPLIED}"
    return events.join(records, on=on, how="left").where(newer).drop(APPLIED)


def _in_log_order(new: NewEvents, plan: LoadPlan, fence: Fence, history: History) -> tuple[DataFrame, DataFrame]:
    """Events that the load dates: they come after all that is known of their keys, in the order of the log.

    Rows: the timeline of the keys; and the events to remember, the newest of each key.
    """
    columns = [*map(quote, history.columns.names), DELETED, ORDER, AT]
    events = changes.of_log(new.frame.selectExpr(*columns), history)
    stored = _present(new, plan, fence, history)
    floor = dates.moment(plan.created_at, history.type)
    placed = changes.placed(events, stored, history, DatingRules(floor=floor))
    ordered = placed.selectExpr("*", f"'1' AS {ORDER}")
    if stored is not None:
        ordered = ordered.unionByName(histories.stored_changes(stored, history).selectExpr("*", f"'' AS {ORDER}"))
    key = [quote(name) for name in history.key]
    last = f"row_number() OVER ({history.by_key} ORDER BY {ORDER} DESC) AS {_NUMBER}"
    none = f"CAST(NULL AS map<string, string>) AS {KNOWN}"
    keep = new.frame.selectExpr("*", last).where(f"{_NUMBER} = 1").selectExpr(*key, ORDER, DELETED, none)
    return ordered, keep


def _sequenced(new: NewEvents, plan: LoadPlan, fence: Fence, history: History) -> tuple[DataFrame, DataFrame]:
    """Events that state when they took effect: each lands in its place among all events of its key.

    Rows: the timeline of the keys; and the events to remember, with what the table held of keys of which none were.
    """
    on, fallback = list(history.key), dates.moment(plan.created_at, history.type) or new.greatest
    remembered = fence.events is not None
    columns = map(quote, history.columns.names)
    floor = f"IF({KEY_FLOOR} IS NULL, {_literal(fence.horizon)}, NULL)" if remembered else "CAST(NULL AS string)"
    parts = [*columns, f"{DELETED} AS {WAS_DELETED}", ORDER, f"{AT} AS {STATED}"]
    own = new.frame.selectExpr(*parts, f"{history.moment(fallback)} AS {FALLBACK}", f"{floor} AS {KEY_FLOOR}")
    added = own
    stored = _present(new, plan, fence, history)
    if stored is not None:
        before = "CAST(NULL AS string)"
        if remembered:
            tags = new.frame.selectExpr(*map(quote, on), _NEWEST, _THERE).distinct()
            stored = stored.join(tags, on=on, how="left").where(f"NOT coalesce({_THERE}, false)")
            before = _NEWEST
        added = own.unionByName(_from_versions(stored, history, f"coalesce({before}, '')"))
    if fence.events is not None:
        known = fence.events(new.keys(history)).where(WHOLE).selectExpr(*map(quote, added.columns))
        events = known.selectExpr("*", f"false AS {MINE}").unionByName(added.selectExpr("*", f"true AS {MINE}"))
    else:
        events = added.selectExpr("*", f"true AS {MINE}")
    events = events.localCheckpoint()
    return _dated(events, history), events.where(MINE).drop(MINE)


def _present(new: NewEvents, plan: LoadPlan, fence: Fence, history: History) -> DataFrame | None:
    """The versions that the table holds of these keys, as far as the events can change them."""
    if fence.present is None or not new.rows:
        return None
    rows = fence.present().where(touched(plan, history))
    for bound in new.prune:
        rows = rows.where(_within(bound))
    return dataframe_ops.of_keys(rows, new.keys(history), history.key).localCheckpoint()


def _from_versions(stored: DataFrame, history: History, order: str) -> DataFrame:
    """The versions of keys as the events that they tell of: older than every event of the log.

    How the last version of a key ended, a delete of which the moment may have been that of a load, gives way to a row
    that follows it in the log.

    Args:
        order: the expression of the order of these events.
    """
    key, start = [quote(name) for name in history.key], quote(history.valid_from)
    follows = f"lead({start}) OVER ({history.by_key} ORDER BY {start}) AS {_AFTER}"
    known = stored.selectExpr("*", follows, f"{order} AS {ORDER}")
    began = f"struct({start} AS at, {history.marker} AS went, false AS final)"
    updated = f"{history.at} > {start} AND NOT ({history.marker})"
    wrote = f"IF({updated}, struct({history.at} AS at, false AS went, false AS final), NULL)"
    alone = f"{history.ended} IS NOT NULL AND NOT ({history.marker}) AND coalesce({_AFTER} > {history.ended}, true)"
    ended = f"IF({alone}, struct({history.ended} AS at, true AS went, {_AFTER} IS NULL AS final), NULL)"
    each = f"explode(filter(array({began}, {wrote}, {ended}), c -> c IS NOT NULL)) AS c"
    columns = [quote(name) for name in history.columns.names]
    versions = known.selectExpr(*columns, ORDER, each)
    others = [name if name in key else f"IF(c.went, NULL, {name}) AS {name}" for name in columns]
    return versions.selectExpr(
        *others,
        f"c.went AS {WAS_DELETED}",
        f"IF(c.final, concat({ORDER}, ' '), {ORDER}) AS {ORDER}",
        f"IF(c.final, NULL, c.at) AS {STATED}",
        f"IF(c.went, c.at, NULL) AS {FALLBACK}",
        f"CAST(NULL AS string) AS {KEY_FLOOR}",
    )


def _dated(events: DataFrame, history: History) -> DataFrame:
    """Every event of some keys at the moment when it took effect, a function of the set of these events alone.

    A delete that states no moment, or that brings the row as it was before, says only that the row went after that. It
    takes effect when it was loaded, though not before the row that it deletes nor after one that follows it in the log;
    where the row that follows it is dated before what it deletes, it ends nothing.
    """
    key = [quote(name) for name in history.key]
    row_at = f"IF({WAS_DELETED}, NULL, {STATED})"
    up = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    image = f"max(NOT {WAS_DELETED}) OVER ({history.by_key}, {STATED} ORDER BY {ORDER} {up})"
    placed = events.selectExpr(
        "*",
        f"{WAS_DELETED} AND ({STATED} IS NULL OR coalesce({image}, false)) AS {_UNDATED}",
        f"max({row_at}) OVER ({history.by_key} ORDER BY {ORDER} {up}) AS {_BEFORE}",
        f"last({row_at}, true) OVER ({history.by_key} ORDER BY {ORDER} DESC {up}) AS {_AFTER}",
    )
    ends = placed.where(f"{_UNDATED} AND {_AFTER} >= {_BEFORE}").selectExpr(*key, f"{ORDER} AS o", f"{_BEFORE} AS b")
    rows = events.where(f"NOT {WAS_DELETED}").selectExpr(*key, f"{ORDER} AS ro", f"{STATED} AS ra")
    following = ends.join(rows, on=list(history.key)).where("ro > o AND ra >= b")
    first = following.groupBy(*key, "o").agg({"ra": "min"})
    caps = first.selectExpr(*key, f"o AS {ORDER}", f"`min(ra)` AS {_CAP}", f"true AS {_UNDATED}")
    both = placed.join(caps, on=[*history.key, ORDER, _UNDATED], how="left")
    end = f"greatest({FALLBACK}, {history.later(_BEFORE)})"
    at = (
        f"CASE WHEN NOT {_UNDATED} THEN {STATED} WHEN {_BEFORE} IS NULL OR {_AFTER} < {_BEFORE} THEN NULL "
        f"ELSE least({end}, {_CAP}) END"
    )
    row = f"IF({WAS_DELETED}, {history.deleted_row}, {history.row}) AS {ROW}"
    dated = both.selectExpr(
        *key, row, f"{history.row_tracked} AS {TRACKED}", f"{WAS_DELETED} AS {WENT}", f"{at} AS {AT}", ORDER, MINE
    )
    return dated.where(f"{AT} IS NOT NULL").selectExpr("*", f"true AS {EXACT}")


def _hash(history: History) -> str:
    """Of what an event says; deletes of one order are equal, whichever row they repeat."""
    others = [quote(name) for name in history.columns.names if name not in history.key]
    values = [f"CASE WHEN NOT {DELETED} THEN {name} END" for name in others]
    nulls = [f"{name} IS NULL AND NOT {DELETED}" for name in others]
    return f"xxhash64({', '.join([DELETED, *values, *nulls])})"


def _within(bound: Prune) -> str:
    column = quote(bound.column)
    if bound.values:
        return f"{column} IN ({', '.join(Spark().literal(bound.type, value) for value in bound.values)})"
    low = Spark().compared(column, ">=", bound.type, bound.low)
    return f"{low} AND {Spark().compared(column, '<=', bound.type, bound.high)}"


def _above(floor: str | None) -> str:
    return "true" if floor is None else f"{ORDER} > {Spark().string(floor)}"


def _literal(text: str | None) -> str:
    return "CAST(NULL AS string)" if text is None else Spark().string(text)
