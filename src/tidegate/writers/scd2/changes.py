"""Dates each change of a batch: by its own sequence, its log's order, or the time of the load.

A row that states when it took effect keeps that date, unless the table shows that it came later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tidegate.spark.dataframe_ops import DELETED, MOMENT, ORDER
from tidegate.spark.sql import quote
from tidegate.writers.scd2.history import AT, EXACT, MINE, ROW, TRACKED, WENT, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TURN = "__tidegate_turn"
LATER = "__tidegate_later"
_TWICE, _LAST, _SINCE, _NOW = (f"__tidegate_{name}" for name in ("twice", "last", "since", "now"))


class Brings(StrEnum):
    """What the rows of a batch are."""

    CHANGES = "changes"
    ROWS = "rows"  # what the source holds now of their keys, and of a key perhaps what it held before
    WHOLE = "whole"  # what the source holds now, newer than what is stored
    REPAIR = "repair"  # the same of keys that differ, although nothing says that they changed


@dataclass(frozen=True, slots=True, kw_only=True)
class DatingRules:
    """What dates a change that does not say itself when it took effect.

    Args:
        floor: the least moment for it, as canonical text; None for none but what is known of its key.
    """

    floor: str | None
    brings: Brings = Brings.CHANGES


def of_rows(rows: DataFrame, history: History) -> DataFrame:
    """Rows as changes.

    Rows: the columns of the source; `DELETED`; `AT`, NULL says no time; `TURN`, its place among the rows of its key;
    `LATER`, a row of the key follows.
    """
    deleted = DELETED if DELETED in rows.columns else f"false AS {DELETED}"
    columns = map(quote, history.columns.names)
    at = f"CAST({MOMENT} AS {history.type.stored.spark})" if MOMENT in rows.columns else history.at
    return rows.selectExpr(*columns, deleted, f"{at} AS {AT}", f"0L AS {TURN}", f"false AS {LATER}")


def of_log(rows: DataFrame, history: History) -> DataFrame:
    """Events of a log that the load dates, as changes, see `of_rows`; no two events of a key have one order.

    A delete that a row follows is left out: that row ends what was before.
    """
    columns = [*map(quote, history.columns.names), DELETED, AT]
    order = f"{history.by_key} ORDER BY {ORDER}"
    before, after = "UNBOUNDED PRECEDING AND 1 PRECEDING", "DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    counted = rows.selectExpr(
        *columns,
        f"CAST(coalesce(sum(IF({DELETED}, 0, 1)) OVER ({order} ROWS BETWEEN {before}), 0) AS bigint) AS {TURN}",
        f"coalesce(max(NOT {DELETED}) OVER ({order} {after}), false) AS {LATER}",
    )
    return counted.where(f"NOT ({DELETED} AND {LATER})")


def placed(changes: DataFrame, stored: DataFrame | None, history: History, dating: DatingRules) -> DataFrame:
    """Every change with its moment, as `_history.versions` takes them.

    A delete that says no time comes after all that is known of its key; of a key that is not there it is left out.
    """
    keys = [quote(name) for name in history.key]
    row = f"IF({DELETED}, {history.deleted_row}, {history.row}) AS {ROW}"
    found = changes.selectExpr(*keys, row, f"{history.row_tracked} AS {TRACKED}", f"{DELETED} AS {WENT}", AT, TURN)
    known = _with_known(found, stored, history)
    floor = history.moment(dating.floor)
    if history.sequence or dating.brings in (Brings.WHOLE, Brings.REPAIR):
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
    known = _with_known(newest, stored, history)
    return known.where(f"{AT} < {_LAST} AND NOT {_follows(history)}").select(*keys)


def begins(changes: DataFrame, stored: DataFrame, history: History) -> DataFrame:
    """The keys of rows with the moments at which their versions begin, where each makes one, see `Brings.ROWS`."""
    keys = [quote(name) for name in history.key]
    known = _with_known(changes.selectExpr(*keys, f"{history.row} AS {ROW}", AT), stored, history)
    begin = f"CASE WHEN {_NOW} <=> {ROW} THEN {_SINCE} ELSE {_following(history)} END AS {quote(history.valid_from)}"
    return known.selectExpr(*keys, begin).distinct()


def backwards(changes: DataFrame, stored: DataFrame, history: History) -> int:
    """Keys of which the source now holds another row, of an older sequence, than the one that is current."""
    keys = [quote(name) for name in history.key]
    rows = changes.where(f"NOT {DELETED}").selectExpr(*keys, AT, f"{history.row_tracked} AS {TRACKED}", f"1 AS {ROW}")
    known = _with_known(rows, stored, history).where(f"{AT} < {_LAST} AND NOT {_follows(history)}")
    return known.where(f"NOT ({_same(history)})").count()


def _at(history: History, dating: DatingRules) -> str:
    """When a change took effect; NULL for a delete that does not say."""
    base = f"greatest({history.moment(dating.floor)}, {history.later(_LAST)})"
    if not history.sequence:
        return f"CASE WHEN {WENT} THEN {AT} ELSE coalesce({AT}, {history.later(base, TURN)}) END"
    old = f"NOT {WENT} AND {AT} <= {_LAST}"
    if dating.brings is Brings.REPAIR:
        # Not the runner's clock: the source may state less for the next change, which would be taken for late.
        own = f"CASE WHEN {AT} > {_LAST} THEN {AT} ELSE coalesce({history.later(_LAST)}, {AT}, {base}) END"
        return f"CASE WHEN NOT {WENT} THEN {own} END"
    if dating.brings is Brings.WHOLE:
        return f"CASE WHEN {old} AND ({_follows(history)} OR {_same(history)}) THEN {base} ELSE {AT} END"
    return _following(history) if dating.brings is Brings.ROWS else AT


def _following(history: History) -> str:
    """The moment of a row that the source holds: its own, or the next one where it follows what states a later one.

    The newest row of a key alone.
    """
    newest = f"{AT} = max({AT}) OVER ({history.by_key}) AND {AT} <= {_LAST}"
    return f"CASE WHEN {newest} AND {_follows(history)} THEN {history.later(_LAST)} ELSE {AT} END"


def _follows(history: History) -> str:
    """Whether a row is later than all that is known of its key, whatever it states.

    It is where its key was found gone, for it is there; and where it states a later moment than the current row does
    itself.
    """
    own = f"coalesce({', '.join(f'{_NOW}.{quote(name)}' for name in history.sequence)})" if history.sequence else "NULL"
    return f"coalesce({_NOW} IS NULL OR {AT} > CAST({own} AS {history.type.stored.spark}), false)"


def _same(history: History) -> str:
    """Whether a change leaves the tracked columns of the current row as they are."""
    return f"struct({', '.join(f'{_NOW}.{quote(name)} AS {quote(name)}' for name in history.tracked)}) <=> {TRACKED}"


def _with_known(rows: DataFrame, stored: DataFrame | None, history: History) -> DataFrame:
    """The rows, each with the last moment that the table knows of its key, and the row that is current."""
    if stored is None:
        none = history.moment(None)
        return rows.selectExpr("*", f"{none} AS {_LAST}", f"{none} AS {_SINCE}", f"IF(false, {ROW}, NULL) AS {_NOW}")
    moments = [quote(history.valid_from), history.ended, history.at]
    last = f"greatest({', '.join(moments)}) AS {_LAST}"
    current = quote(history.is_current)
    now = f"IF({current}, {history.row}, NULL) AS {_NOW}"
    since = f"IF({current}, {quote(history.valid_from)}, NULL) AS {_SINCE}"
    keys = [quote(name) for name in history.key]
    first = f"row_number() OVER ({history.by_key} ORDER BY {_NOW} IS NULL) AS {_TWICE}"
    known = (
        stored.selectExpr(*keys, last, now, since)
        .selectExpr(*keys, f"max({_LAST}) OVER ({history.by_key}) AS {_LAST}", _SINCE, _NOW, first)
        .where(f"{_TWICE} = 1")
        .drop(_TWICE)
    )
    return rows.join(known, on=list(history.key), how="left")
