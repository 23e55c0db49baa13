"""Finds the quarantined rows that still wait, by the order in which rows of their stream supersede each other.

Written as SQL text, which classic and Connect sessions both accept. DataFrames called `rows` come from
`validation.unpacked`; a superseded row gets the number of the current load as `until`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.core.batch import Fence, Folded
from tidegate.core.log import CLEARS, REFUSED, UNKNOWN
from tidegate.core.schema import Schema
from tidegate.spark import dataframe_ops
from tidegate.spark.latest_events import APPLIED, KNOWN, LatestEventsSpec
from tidegate.spark.sql import names, quote, string
from tidegate.spark.validation import META, WAITS, closed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDERED = f"coalesce({META}log_order, '')"
"""The order of an event; one that was kept before orders were comes before all others."""
BEHIND = "  "
"""What an order gets behind it for a row that was read after its event: it sorts before every later event. One blank
already tells a history of an end."""
LACKS = f"coalesce(from_json({META}lacks, 'array<string>'), array())"
_CARRIED = f"json_object_keys({META}row)"
_MINE, _BEST = f"{META}mine", f"{META}best"
_NEWER, _TURN = f"{META}newer", f"{META}turn"


def by_order(rows: DataFrame, others: DataFrame, *, key: Sequence[str], order: Sequence[str], number: int) -> DataFrame:
    """A row waits unless another one of its key is greater in order, or equal and read later.

    Args:
        others: rows that are not in the quarantine: the key, the columns of `order`, and the load that read them as
            `dataframe_ops.NUMBER`.
        order: NULL comes first.
    """
    keys, ordered = [quote(name) for name in key], [quote(name) for name in order]
    place = f"struct({', '.join([*ordered, f'{META}load AS {dataframe_ops.NUMBER}'])})"
    waiting = rows.where(WAITS).selectExpr(*keys, f"{place} AS {_MINE}")
    wanted = waiting.selectExpr(*keys).distinct().hint("broadcast")
    newer = others.join(wanted, on=list(key), how="left_semi")
    newer = newer.selectExpr(*keys, f"struct({', '.join([*ordered, dataframe_ops.NUMBER])}) AS {_MINE}")
    best = newer.unionAll(waiting).groupBy(*keys).agg({_MINE: "max"}).withColumnRenamed(f"max({_MINE})", _BEST)
    joined = rows.join(best, on=list(key), how="left")
    return closed(joined, f"{_BEST} > {place}", number).drop(_BEST)


def by_event(  # noqa: PLR0913 - what was applied, and by what
    rows: DataFrame,
    applied: DataFrame | None,
    *,
    key: Sequence[str],
    number: int,
    whole: str,
    floor: str | None = None,
    emptied: str | None = None,
) -> DataFrame:
    """An event waits unless a later one of its key was applied or waits; one with a value that is missing waits on.

    Args:
        applied: one row a key that was applied: the key, `APPLIED` and `KNOWN`; None for none.
        whole: SQL of all values of a row: the texts that are kept may list them in another order.
        floor: events at or below it count no more if this load read them: rows that were read in bulk hold it.
        emptied: the order of an event that emptied the table.
    """
    keys, there = [quote(name) for name in key], rows.columns
    if applied is None:
        joined = rows.selectExpr(
            "*", f"CAST(NULL AS string) AS {APPLIED}", f"CAST(NULL AS map<string, string>) AS {KNOWN}"
        )
    else:
        joined = rows.join(applied.selectExpr(*keys, APPLIED, KNOWN), on=list(key), how="left")
    each = f"PARTITION BY {WAITS}, {names(key)}"
    read_in_bulk = f"{META}load = {number} AND {ORDERED} <= {string(floor)}" if floor is not None else "false"
    complete = f"CASE WHEN {META}lacks IS NULL AND NOT ({read_in_bulk}) THEN {ORDERED} END"
    same = f"{each}, {ORDERED}, {whole}, {META}lacks ORDER BY {META}load DESC"
    marked = joined.selectExpr(
        "*", f"max({complete}) OVER ({each}) AS {_NEWER}", f"row_number() OVER ({same}) AS {_TURN}"
    )
    fills = f"exists(map_keys({KNOWN}), c -> {ORDERED} > element_at({KNOWN}, c) AND NOT array_contains({LACKS}, c))"
    older = [f"({ORDERED} <= {APPLIED} AND NOT coalesce({fills}, false))", f"{ORDERED} < {_NEWER}", f"{_TURN} > 1"]
    older.append(f"({read_in_bulk})")
    if emptied is not None:
        older.append(f"{ORDERED} <= {string(emptied)}")
    placed = " AND ".join([f"{META}row IS NOT NULL", *(f"{name} IS NOT NULL" for name in keys)])
    conditions = " OR ".join(f"coalesce({one}, false)" for one in older)
    return closed(marked, f"{placed} AND ({conditions})", number).selectExpr(*map(quote, there))


def ended(  # noqa: PLR0913 - what was looked for, and what was found
    rows: DataFrame, present: DataFrame, *, key: Sequence[str], among: str, at: str, number: int
) -> DataFrame:
    """A version ends where its row is not among those that are there now.

    Args:
        present: the keys that are there.
        among: the condition of the rows that would have been found.
        at: when it was looked, as SQL.
    """
    here = present.selectExpr(*map(quote, key)).distinct().selectExpr("*", f"true AS {_BEST}")
    condition = f"{META}load < {number} AND coalesce({among}, false) AND {_BEST} IS NULL"
    return _ended(rows.join(here, on=list(key), how="left"), condition, at, rows.columns)


def deleted(rows: DataFrame, deleted_keys: DataFrame, *, key: Sequence[str], at: str, number: int) -> DataFrame:
    """A version ends where a delete of its key, or what else ends it, came after it.

    Args:
        deleted_keys: the keys, and as `ORDER` the place of the delete in its log; NULL says that it is read after all
            that earlier loads have read.
        at: when it was read, as SQL.
    """
    keys = [quote(name) for name in key]
    last = (
        deleted_keys.selectExpr(*keys, f"coalesce({dataframe_ops.ORDER}, '') AS {_BEST}")
        .groupBy(*keys)
        .agg({_BEST: "max"})
    )
    joined = rows.join(last.withColumnRenamed(f"max({_BEST})", _BEST), on=list(key), how="left")
    condition = f"{_BEST} > {ORDERED} OR ({_BEST} = '' AND {META}load < {number})"
    return _ended(joined, condition, at, rows.columns)


def _ended(rows: DataFrame, condition: str, at: str, columns: Sequence[str]) -> DataFrame:
    ends = f"{WAITS} AND {META}ended IS NULL AND coalesce({condition}, false)"
    end = f"CASE WHEN {ends} THEN {at} ELSE {META}ended END AS {META}ended"
    return rows.selectExpr(*(end if name == f"{META}ended" else quote(name) for name in columns))


def repeated(rows: DataFrame, *, key: Sequence[str], whole: str, number: int) -> DataFrame:
    """A version that was read again as it was waits once, since it was read first."""
    order = f"{META}load, {META}load_id"
    before = f"lag({whole}) OVER (PARTITION BY {WAITS}, {names(key)} ORDER BY {order})"
    end = f"lag({META}ended) OVER (PARTITION BY {WAITS}, {names(key)} ORDER BY {order})"
    marked = rows.selectExpr("*", f"{before} <=> {whole} AND {end} IS NULL AS {_BEST}")
    return closed(marked, f"{META}load = {number} AND {_BEST}", number).drop(_BEST)


def late_events(
    rows: DataFrame, applied: DataFrame | None, *, key: Sequence[str], whole: str, number: int
) -> DataFrame:
    """Of events that their loads date one does not wait if it was read before, or something newer was applied then.

    Args:
        applied: one row a key that was applied by earlier loads: the key and `APPLIED`; None for none.
    """
    first = f"min({META}load) OVER (PARTITION BY {names(key)}, {ORDERED}, {whole})"
    there = rows.columns
    joined = rows if applied is None else rows.join(applied.selectExpr(*map(quote, key), APPLIED), list(key), "left")
    newer = "" if applied is None else f" OR coalesce({ORDERED} <= {APPLIED}, false)"
    marked = joined.selectExpr("*", f"{first} AS {_BEST}")
    condition = f"{META}load = {number} AND {META}row IS NOT NULL AND ({_BEST} < {number}{newer})"
    return closed(marked, condition, number).selectExpr(*map(quote, there))


def the_same(rows: DataFrame, *, where: str, whole: str, number: int) -> DataFrame:
    """A row that no key tells apart and that was read again as it was waits once.

    Args:
        where: the condition of such rows.
    """
    last = f"max({META}load) OVER (PARTITION BY {WAITS}, {whole})"
    marked = rows.selectExpr("*", f"{last} AS {_BEST}")
    return closed(marked, f"({where}) AND {META}load < {_BEST}", number).drop(_BEST)


def still_current(
    rows: DataFrame, stored: DataFrame, *, key: Sequence[str], moment: str | None, known: str
) -> DataFrame:
    """Of each key the row that waits and would be current, if nothing newer is known of the key.

    Args:
        rows: that wait.
        stored: every version of the table.
        moment: when a row took effect; None where its load says so.
        known: the last moment that a version tells of.
    """
    keys = [quote(name) for name in key]
    at = moment or f"{META}at"
    newest = f"row_number() OVER (PARTITION BY {names(key)} ORDER BY {at} DESC, {META}load DESC)"
    last = rows.selectExpr("*", f"{at} AS {dataframe_ops.MOMENT}", f"{newest} AS {_TURN}")
    last = last.where(f"{_TURN} = 1 AND {META}ended IS NULL").drop(_TURN)
    moments = stored.selectExpr(*keys, f"{known} AS {_BEST}").groupBy(*keys).agg({_BEST: "max"})
    moments = moments.withColumnRenamed(f"max({_BEST})", _BEST)
    joined = last.join(moments, on=list(key), how="left")
    return joined.where(f"{_BEST} IS NULL OR {dataframe_ops.MOMENT} >= {_BEST}").drop(_BEST, dataframe_ops.MOMENT)


def with_lacks(rows: DataFrame, columns: Schema) -> DataFrame:
    """The rows with the columns whose values an event does not carry, so that no rule asks for them.

    Nor does it carry those that were not loaded when it was read.
    """
    named = f"array({', '.join(map(string, columns.names))})"
    unread = f"coalesce(array_except({named}, {_CARRIED}), array())"
    return rows.selectExpr("*", f"array_union({LACKS}, {unread}) AS {UNKNOWN}")


def as_kept(rows: DataFrame, stored: DataFrame, columns: Schema, *, key: Sequence[str]) -> DataFrame:
    """The rows with these columns; one that was not loaded when a row was read is as the table has it.

    Args:
        stored: the table's rows, one a key.
    """
    others = [name for name in columns.names if name not in key and name in stored.columns]
    one = stored.selectExpr(*map(quote, key), *(f"{quote(name)} AS {quote(META + name)}" for name in others))
    joined = rows.selectExpr(*map(quote, columns.names), f"{_CARRIED} AS {_BEST}").join(
        one.dropDuplicates(list(key)), on=list(key), how="left"
    )
    return joined.selectExpr(
        *(
            f"if(array_contains({_BEST}, {string(name)}), {quote(name)}, {quote(META + name)}) AS {quote(name)}"
            if name in others
            else quote(name)
            for name in columns.names
        )
    )


def inherited(rows: DataFrame, *, key: Sequence[str], number: int) -> DataFrame:
    """The rows; one that the load adds has what the one that it supersedes has in columns that it was not read with.

    Args:
        number: of the load.
    """
    keys = " AND ".join(f"{quote(name)} IS NOT NULL" for name in key)
    older = f"{META}until = {number} AND {META}load < {number} AND {META}row IS NOT NULL AND {keys}"
    last = f"max_by({META}row, CASE WHEN {older} THEN {META}load END) OVER (PARTITION BY {names(key)})"
    values = [f"CAST(parse_json({row}) AS map<string, variant>)" for row in (_BEST, f"{META}row")]
    unread = f"map_filter({values[0]}, (c, v) -> NOT array_contains({_CARRIED}, c))"
    adds = f"{META}load = {number} AND {META}until IS NULL AND {META}row IS NOT NULL AND {_BEST} IS NOT NULL AND {keys}"
    row = f"CASE WHEN {adds} THEN to_json(map_concat({values[1]}, {unread})) ELSE {META}row END AS {META}row"
    marked = rows.selectExpr("*", f"{last} AS {_BEST}")
    return marked.selectExpr(*(row if name == f"{META}row" else quote(name) for name in rows.columns))


def superseded(rows: DataFrame, columns: Sequence[str], *, key: Sequence[str], number: int) -> DataFrame:
    """Of each key the values that the last row which the load supersedes has in these columns, and in which of them.

    Args:
        number: of the load.
    """
    own = f"array_intersect({_CARRIED}, array({', '.join(map(string, columns))}))"
    last = f"row_number() OVER (PARTITION BY {names(key)} ORDER BY {META}load DESC)"
    found = rows.where(f"{META}until = {number} AND {META}load < {number} AND size({own}) > 0")
    asked = (quote(name) for name in (*key, *columns))
    return (
        found.selectExpr(*asked, f"{own} AS {dataframe_ops.CARRIED}", f"{last} AS {_TURN}")
        .where(f"{_TURN} = 1")
        .drop(_TURN)
    )


def after_events(rows: DataFrame, fence: Fence, *, key: Sequence[str]) -> DataFrame:
    """Rows read from the table that a log is of, with the `ORDER` directly behind what was applied of their keys."""
    keys = [quote(name) for name in key]
    wanted = rows.selectExpr(*keys).distinct()
    if fence.events is not None:  # of a history
        found = fence.events(wanted).selectExpr(*keys, f"{dataframe_ops.ORDER} AS {APPLIED}")
    elif fence.records is not None:
        found = fence.records(wanted).selectExpr(*keys, APPLIED)
    else:
        found = wanted.selectExpr(*keys, f"CAST(NULL AS string) AS {APPLIED}")
    last = found.groupBy(*keys).agg({APPLIED: "max"}).withColumnRenamed(f"max({APPLIED})", APPLIED)
    behind = f"greatest(coalesce({APPLIED}, {string(fence.horizon or '')}), {string(fence.floor or '')})"
    joined = rows.join(last, on=list(key), how="left")
    return joined.selectExpr("*", f"concat({behind}, '{BEHIND}') AS {dataframe_ops.ORDER}").drop(APPLIED)


def as_events(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows of `with_lacks` as the events that they were, see `core.ports.source.Log`."""
    return rows.selectExpr(
        *map(quote, columns),
        f"false AS {dataframe_ops.DELETED}",
        f"{ORDERED} AS {dataframe_ops.ORDER}",
        UNKNOWN,
        f"false AS {CLEARS}",
        f"CAST(NULL AS string) AS {REFUSED}",
    )


def remembered(rows: DataFrame, key: Sequence[str]) -> Folded:
    """What is remembered of events that are loaded with the moments of the loads that read them."""
    newest = rows.selectExpr(*map(quote, key), f"{ORDERED} AS {dataframe_ops.ORDER}").groupBy(*map(quote, key))
    last = newest.agg({dataframe_ops.ORDER: "max"}).withColumnRenamed(
        f"max({dataframe_ops.ORDER})", dataframe_ops.ORDER
    )
    kept = last.selectExpr("*", f"false AS {dataframe_ops.DELETED}", f"CAST(NULL AS map<string, string>) AS {KNOWN}")
    (greatest,) = kept.selectExpr(f"max({dataframe_ops.ORDER})").collect()[0]
    return Folded(applied=kept, newest=greatest)


def applied(rows: DataFrame, table: DataFrame, columns: Schema, *, key: tuple[str, ...]) -> DataFrame:
    """What events that wait would leave of their keys: a column that none of them carries is as the table has it."""
    fold = LatestEventsSpec(columns=columns, key=key, fence=Fence(present=lambda: table))
    return fold.by_column(as_events(with_lacks(rows, columns), columns.names)).where(f"NOT {dataframe_ops.DELETED}")
