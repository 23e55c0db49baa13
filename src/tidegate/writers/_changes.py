"""Decides when each change of a batch took effect: by its own sequence, its log's order or the load's time.

Called by the writer scd2; Spark SQL over frames, no table. Must never date a row that says itself when it took effect,
unless the table knows that it came later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.log import CLEARS, EVENT_COLUMNS, REFUSED, UNKNOWN
from tidegate.dialects.spark import Spark
from tidegate.errors import CheckFailed
from tidegate.spark import frames
from tidegate.spark.frames import GONE, ORDER
from tidegate.spark.sql import quote
from tidegate.writers._history import AT, EXACT, MINE, ROW, TRACKED, WENT, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TURN = "__tidegate_turn"
LATER = "__tidegate_later"
_TWICE, _LAST, _NOW, _KNOWN = (f"__tidegate_{name}" for name in ("twice", "last", "now", "known"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dating:
    """What dates a change that does not say itself when it took effect.

    Args:
        floor: the least moment for it, as canonical text; None for none but what is known of its key.
        mirror: the batch is what the source holds now: whatever it brings is newer than what is stored.
        log: the batch continues a log: a row of a key that is not there came after the key had gone.
    """

    floor: str | None
    mirror: bool = False
    log: bool = False


def of_rows(rows: DataFrame, history: History) -> DataFrame:
    """Rows as changes.

    Rows: the columns of the source; `GONE`; `AT`, NULL says no time; `TURN`, its place among the rows of its key;
    `LATER`, a row of the key follows.
    """
    gone = GONE if GONE in rows.columns else f"false AS {GONE}"
    columns = map(quote, history.columns.names)
    return rows.selectExpr(*columns, gone, f"{history.at} AS {AT}", f"0L AS {TURN}", f"false AS {LATER}")


def after_bulk(rows: DataFrame, floor: str | None) -> DataFrame:
    """The events of a log that the rows read before it do not hold already.

    Args:
        floor: the order of the last event that they hold; None where none were read.
    """
    return rows if floor is None else rows.where(f"{ORDER} > {Spark().string(floor)}")


def refuse_events(rows: DataFrame) -> None:
    """Refuses events that no history can be made of.

    Raises:
        CheckFailed: an event that could not be read, that lacks values of columns, or that empties the table.
    """
    if not set(EVENT_COLUMNS) <= set(rows.columns):
        return
    asked = (f"{REFUSED} IS NOT NULL", f"{REFUSED} IS NULL AND size({UNKNOWN}) > 0", f"{REFUSED} IS NULL AND {CLEARS}")
    refused, partial, cleared = frames.count_if(rows, *asked)
    if refused:
        raise CheckFailed(f"{refused} events cannot be read", hint="Look at them: `tidegate plan STREAM`.")
    if partial:
        raise CheckFailed(
            f"{partial} events do not carry every column of their row, and a version needs them all",
            hint="Let the source send whole rows (PostgreSQL: REPLICA IDENTITY FULL), or use write: merge.",
        )
    if cleared:
        raise CheckFailed(
            f"{cleared} events empty the table (TRUNCATE), which write: scd2 does not take for the end of every row",
            hint="Load it anew, which forgets its history: `tidegate run STREAM --full-refresh --yes`.",
        )


def of_log(rows: DataFrame, history: History) -> DataFrame:
    """Events of a log as changes, see `of_rows`.

    A delete that brings the row as it was says when that was written, not when it went. Of rows of one moment the last
    one is left: by the log's own order the others lasted no time.
    """
    columns = [*map(quote, history.columns.names), GONE]
    order = f"{history.by_key} ORDER BY {ORDER}"
    image = f"{GONE} AND coalesce(max(NOT {GONE}) OVER ({history.by_key}, {AT}), false)"
    # Rows that the load dates have no moment that they could share; an order that comes twice is one event.
    same = f"{history.by_key}, {GONE}, {AT if history.sequence else ORDER}"
    once = (
        rows.selectExpr(*columns, ORDER, f"{history.at} AS {AT}")
        .selectExpr(*columns, ORDER, f"CASE WHEN {image} THEN NULL ELSE {AT} END AS {AT}")
        .selectExpr("*", f"row_number() OVER ({same} ORDER BY {ORDER} DESC) AS {_TWICE}")
        .where(f"{_TWICE} = 1")
    )
    before, after = "UNBOUNDED PRECEDING AND 1 PRECEDING", "1 FOLLOWING AND UNBOUNDED FOLLOWING"
    return once.selectExpr(
        *columns,
        AT,
        f"CAST(coalesce(sum(IF({GONE}, 0, 1)) OVER ({order} ROWS BETWEEN {before}), 0) AS bigint) AS {TURN}",
        f"coalesce(max(NOT {GONE}) OVER ({order} ROWS BETWEEN {after}), false) AS {LATER}",
    )


def timed(changes: DataFrame, current: DataFrame | None, history: History) -> DataFrame:
    """The changes of a log without deletes that say no time and that a row follows, which ends what was before anyhow.

    Args:
        current: the current versions of the keys: a delete that brings such a row as it was says no time.
    """
    if current is not None and history.sequence:
        columns = [*map(quote, history.columns.names), GONE, TURN, LATER]
        known = f"array({quote(history.valid_from)}, {history.at}) AS {_KNOWN}"
        known_rows = current.selectExpr(*map(quote, history.key), known)
        both = changes.join(known_rows, on=list(history.key), how="left")
        image = f"{GONE} AND array_contains({_KNOWN}, {AT})"
        changes = both.selectExpr(*columns, f"CASE WHEN {image} THEN NULL ELSE {AT} END AS {AT}")
    return changes.where(f"NOT ({GONE} AND {AT} IS NULL AND {LATER})")


def left(changes: DataFrame, history: History) -> DataFrame:
    """What the last event of each key left of it; nothing of one that it took away."""
    # Before a row stands what went before it came, with the same number of rows before them both.
    last = f"row_number() OVER ({history.by_key} ORDER BY {TURN} DESC, {GONE}) AS {_TWICE}"
    return (
        changes.selectExpr("*", last).where(f"{_TWICE} = 1 AND NOT {GONE}").select(*map(quote, history.columns.names))
    )


def placed(changes: DataFrame, stored: DataFrame | None, history: History, dating: Dating) -> DataFrame:
    """Every change with its moment, as `_history.versions` takes them.

    A delete that says no time comes after all that is known of its key; of a key that is not there it is left out.
    """
    keys = [quote(name) for name in history.key]
    row = f"IF({GONE}, {history.gone}, {history.row}) AS {ROW}"
    found = changes.selectExpr(*keys, row, f"{history.row_tracked} AS {TRACKED}", f"{GONE} AS {WENT}", AT, TURN)
    known = _beside(found, stored, history)
    floor = history.moment(dating.floor)
    if history.sequence or dating.mirror:
        # The same row again adds nothing, whenever it says that it took effect.
        known = known.where(f"{WENT} OR NOT ({_NOW} <=> {ROW})")
    dated = known.selectExpr(*keys, ROW, TRACKED, WENT, _LAST, _NOW, f"{_at(history, dating)} AS {AT}")
    newest = f"max({AT}) OVER ({history.by_key})"
    there = f"{_NOW} IS NOT NULL OR {newest} IS NOT NULL"
    end = f"greatest({floor}, {history.later(f'greatest({_LAST}, {newest})')})"
    at = f"CASE WHEN {AT} IS NULL AND ({there}) THEN {end} ELSE {AT} END AS {AT}"
    ended = dated.selectExpr(*keys, ROW, TRACKED, WENT, at)
    return ended.where(f"{AT} IS NOT NULL").selectExpr("*", f"true AS {EXACT}", f"true AS {MINE}")


def late(changes: DataFrame, stored: DataFrame, history: History) -> DataFrame:
    """The keys of which the batch holds nothing that is newer than what the table knows of them."""
    keys = [quote(name) for name in history.key]
    newest = changes.selectExpr(*keys, f"max({AT}) OVER ({history.by_key}) AS {AT}", f"1 AS {ROW}").distinct()
    return _beside(newest, stored, history).where(f"{AT} < {_LAST}").select(*keys)


def backwards(changes: DataFrame, stored: DataFrame, history: History) -> int:
    """Keys of which the source now holds another row, of an older sequence, than the one that is current."""
    keys = [quote(name) for name in history.key]
    rows = changes.where(f"NOT {GONE}").selectExpr(*keys, AT, f"{history.row_tracked} AS {TRACKED}", f"1 AS {ROW}")
    return (
        _beside(rows, stored, history)
        .where(f"{_NOW} IS NOT NULL AND {AT} < {_LAST} AND NOT ({_same(history)})")
        .count()
    )


def _at(history: History, dating: Dating) -> str:
    """When a change took effect; NULL for a delete that does not say."""
    base = f"greatest({history.moment(dating.floor)}, {history.later(_LAST)})"
    if not history.sequence:
        return f"CASE WHEN {WENT} THEN {AT} ELSE {history.later(base, TURN)} END"
    old = f"NOT {WENT} AND {AT} <= {_LAST}"
    if dating.mirror:
        return f"CASE WHEN {old} AND ({_NOW} IS NULL OR {_same(history)}) THEN {base} ELSE {AT} END"
    if dating.log:
        return f"CASE WHEN {old} AND {_NOW} IS NULL THEN {_LAST} ELSE {AT} END"
    return AT


def _same(history: History) -> str:
    """Whether a change leaves the tracked columns of the current row as they are."""
    return f"struct({', '.join(f'{_NOW}.{quote(name)} AS {quote(name)}' for name in history.tracked)}) <=> {TRACKED}"


def _beside(rows: DataFrame, stored: DataFrame | None, history: History) -> DataFrame:
    """The rows, each with the last moment that the table knows of its key, and the row that is current."""
    if stored is None:
        return rows.selectExpr("*", f"{history.moment(None)} AS {_LAST}", f"IF(false, {ROW}, NULL) AS {_NOW}")
    moments = [quote(history.valid_from), history.ended, history.at]
    last = f"greatest({', '.join(moments)}) AS {_LAST}"
    now = f"IF({quote(history.is_current)}, {history.row}, NULL) AS {_NOW}"
    keys = [quote(name) for name in history.key]
    first = f"row_number() OVER ({history.by_key} ORDER BY {_NOW} IS NULL) AS {_TWICE}"
    standing = (
        stored.selectExpr(*keys, last, now)
        .selectExpr(*keys, f"max({_LAST}) OVER ({history.by_key}) AS {_LAST}", _NOW, first)
        .where(f"{_TWICE} = 1")
        .drop(_TWICE)
    )
    return rows.join(standing, on=list(history.key), how="left")
