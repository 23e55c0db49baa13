"""Reduces events to one row per key: which event wins, and how missing columns are filled in.

Written as SQL text, which classic and Connect sessions both accept. An older event never overrides a newer one, in
whatever order they arrive.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import Fence
from tidegate.core.log import CLEARS, REFUSED, UNKNOWN
from tidegate.core.schema import Column, Schema
from tidegate.spark.dataframe_ops import DELETED, ORDER, TWICE, of_keys
from tidegate.spark.sql import names, quote, string

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APPLIED = "__tidegate_applied"
WAS_DELETED = "__tidegate_was_gone"
KNOWN = "__tidegate_known"
"""Of a key that was applied: its last order; whether that was its end; and of each column that its last event did not
carry the order from which on a value of it counts."""

STATED, FALLBACK = "__tidegate_stated", "__tidegate_fallback"
"""Of an event that a history keeps: the moment that it states itself, and the one that it gets where it states none."""
KEY_FLOOR, WHOLE = "__tidegate_key_floor", "__tidegate_whole"
"""Of a key whose events are kept: an order at or below which no other event of it counts; and whether a kept event may
stand for its part of the history, because nothing but events has written the table since."""

EVENTS, BAD, PARTIAL = "__tidegate_events", "__tidegate_bad", "__tidegate_partial"
CLEARED = "__tidegate_cleared"
"""Of all events of a key: how many there are, how many cannot be taken, how many do not carry every column, and the
newest order of one that empties the table."""
LATE = "__tidegate_late"
TALLIES = (
    *(f"coalesce(sum({name}), 0)" for name in (EVENTS, BAD, PARTIAL)),
    *(f"max({CLEARED})", f"count({ORDER})", f"count_if({TWICE})", f"count_if({LATE})", f"max({ORDER})"),
)
"""What `LatestEventsSpec.tallied` comes to: those of all keys together; keys that have a usable event, keys with two
different events of one order, and keys of which something newer may have been applied; and the greatest order."""

_HASH, _TOP, _LOW = "__tidegate_hash", "__tidegate_top", "__tidegate_low"
_DIFFER = f"{_TOP}.h <> ~{_LOW}.h"
_END, _HERE = "__tidegate_end", "__tidegate_here"
_NO_MAP = "CAST(NULL AS map<string, string>)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestEventsSpec:
    """How the events of one table are folded.

    Args:
        columns: of the table, in order.
        key: the key columns.
        fence: what was applied before.
        emptied: the order of the newest event among them that empties the table; None for none.
    """

    columns: Schema
    key: tuple[str, ...]
    fence: Fence
    emptied: str | None = None

    @property
    def others(self) -> list[str]:
        return [name for name in self.columns.names if name not in self.key]

    @property
    def usable(self) -> str:
        """The condition of events that may count, before anything is known of their keys."""
        floor = max((each for each in (self.fence.floor, self.emptied) if each is not None), default=None)
        return f"{REFUSED} IS NULL AND NOT {CLEARS} AND {_above(floor)}"

    def gathered(self, events: DataFrame) -> DataFrame:
        """What one pass over the events tells of each key, to be looked at and folded from.

        Rows: one a key of theirs, and one for events without a key: the key, its tallies, and the newest usable event.
        """
        # Only the order and the hash decide; what follows them is carried along.
        carried = [f"{quote(name)} AS v{number}" for number, name in enumerate(self.others)]
        newest = f"struct({', '.join([f'{ORDER} AS o', f'{_HASH} AS h', f'{DELETED} AS g', *carried])})"
        wanted = events.selectExpr("*", f"{self._hash()} AS {_HASH}").selectExpr(
            *map(quote, self.key),
            f"CASE WHEN {self.usable} THEN {newest} END AS {_TOP}",
            f"CASE WHEN {self.usable} THEN struct({ORDER} AS o, ~{_HASH} AS h) END AS {_LOW}",
            f"1L AS {EVENTS}",
            f"CAST({REFUSED} IS NOT NULL AS int) AS {BAD}",
            f"CAST(size({UNKNOWN}) > 0 AS int) AS {PARTIAL}",
            f"CASE WHEN {REFUSED} IS NULL AND {CLEARS} AND {_above(self.fence.floor)} THEN {ORDER} END AS {CLEARED}",
        )
        how = {_TOP: "max", _LOW: "max", EVENTS: "sum", BAD: "sum", PARTIAL: "sum", CLEARED: "max"}
        keys = [quote(name) for name in self.key]
        found = wanted.groupBy(*keys).agg(how)
        return found.selectExpr(*keys, *(f"`{kind}({name})` AS {name}" for name, kind in how.items()))

    def tallied(self, gathered: DataFrame) -> DataFrame:
        """What `TALLIES` are asked of: one row a key, which is NULL where no event of it is usable."""
        keys = (f"CASE WHEN {_TOP} IS NOT NULL THEN {quote(name)} END AS {quote(name)}" for name in self.key)
        tallies = (EVENTS, BAD, PARTIAL, CLEARED, f"{_TOP}.o AS {ORDER}")
        return gathered.selectExpr(*keys, *tallies, f"{self._late} AS {LATE}", f"{_DIFFER} AS {TWICE}")

    def simple(self, gathered: DataFrame, *, late: bool = True) -> DataFrame:
        """Of each key its newest event, if it is newer than what was applied; where every event carries every column.

        Args:
            gathered: cheap to read.
            late: whether there is a key of which something newer may have been applied, see `TALLIES`.

        Rows: the columns, `DELETED`, `ORDER`, `KNOWN`, and `TWICE`: another event of that order says something else.
        """
        newest = gathered.where(f"{_TOP} IS NOT NULL").selectExpr(
            *self._row(f"{_TOP}.v{number}" for number in self._numbers),
            f"{_TOP}.g AS {DELETED}",
            f"{_TOP}.o AS {ORDER}",
            f"{_NO_MAP} AS {KNOWN}",
            f"{_DIFFER} AS {TWICE}",
        )
        return self._fenced(newest, self._keys(gathered.where(self._late))) if late else newest

    def keys(self, gathered: DataFrame) -> DataFrame:
        return self._keys(gathered.where(f"{_TOP} IS NOT NULL"))

    def by_column(self, events: DataFrame) -> DataFrame:
        """Of each key what its events leave of it together with the row that is there: of each column the newest value.

        A value counts from the order on at which an event carried it, and none from before the key's last end. One that
        no event has told yet is NULL until one does, however late.

        Rows: as of `simple`; only keys of which something is newer than what was applied.
        """
        once = self._fenced(events, self._keys(events), newer=False)
        keys = self._keys(once).distinct()
        both = self._as_steps(once)
        if self.fence.present is not None or self.fence.records is not None:
            both = both.unionByName(self._present(keys))
        ended = f"max(CASE WHEN {DELETED} THEN {ORDER} END) OVER (PARTITION BY {names(self.key)})"
        steps = both.selectExpr("*", f"coalesce({ended}, '') AS {_END}")
        return self._left(steps)

    def ties(self, events: DataFrame) -> DataFrame:
        """The newest events of each key, to be looked at whether they differ: the key, `ORDER` and a hash."""
        return events.selectExpr(*map(quote, self.key), ORDER, f"{self._hash()} AS {_HASH}")

    def cleared(self, final: DataFrame) -> DataFrame | None:
        """The keys of the table whose rows are older than the event that empties it, but those that came after it.

        Args:
            final: the keys that events left something of.

        Rows: as of `simple`, all `DELETED`; None where there are none.
        """
        fence = self.fence
        if fence.present is None or self.emptied is None or (fence.records is None and not self._empties_all):
            return None
        keys = [quote(name) for name in self.key]
        left = fence.present().selectExpr(*keys)
        if fence.records is not None:
            records = fence.records(None)
            younger = records.where(f"{APPLIED} > {string(self.emptied)}").selectExpr(*keys)
            left = left.join(younger, on=list(self.key), how="left_anti")
            if not self._empties_all:
                left = left.join(records.selectExpr(*keys), on=list(self.key), how="left_semi")
        left = left.join(final.selectExpr(*keys), on=list(self.key), how="left_anti").distinct()
        return left.selectExpr(
            *(quote(each.name) if each.name in self.key else _null(each) for each in self.columns),
            f"true AS {DELETED}",
            f"{string(self.emptied)} AS {ORDER}",
            f"{_NO_MAP} AS {KNOWN}",
            f"false AS {TWICE}",
        )

    @property
    def _empties_all(self) -> bool:
        """Whether the event that empties the table is newer than every row that nothing is kept of."""
        return self.emptied is not None and (self.fence.horizon is None or self.emptied > self.fence.horizon)

    def _keys(self, rows: DataFrame) -> DataFrame:
        return rows.selectExpr(*map(quote, self.key))

    def _fenced(self, events: DataFrame, keys: DataFrame, *, newer: bool = True) -> DataFrame:
        """Without events that are older than what is kept of every key; if `newer`, than what was applied of theirs.

        Args:
            keys: those of the events of which something newer may have been applied; cheap to read.
        """
        if self.fence.records is None:
            return events.where(_above(self.fence.horizon))
        records = self.fence.records(keys).selectExpr(*map(quote, self.key), APPLIED)
        joined = events.join(records, on=list(self.key), how="left")
        known = self._counts if newer else f"{self._counts} OR {APPLIED} IS NOT NULL"
        return joined.where(known).drop(APPLIED)

    @property
    def _late(self) -> str:
        """The condition of keys in `gathered` of which something newer may have been applied."""
        fence = self.fence
        if fence.records is None and fence.horizon is None:
            return "false"
        return f"{_TOP} IS NOT NULL" + ("" if fence.newest is None else f" AND {_TOP}.o <= {string(fence.newest)}")

    @property
    def _counts(self) -> str:
        """The condition of events that are newer than what was applied of their key, or than all that is forgotten."""
        return f"({APPLIED} IS NULL AND {_above(self.fence.horizon)}) OR {ORDER} > {APPLIED}"

    def _hash(self) -> str:
        values = [f"CASE WHEN NOT {DELETED} THEN {quote(name)} END" for name in self.others]
        nulls = [f"{quote(name)} IS NULL AND NOT {DELETED}" for name in self.others]
        return f"xxhash64({', '.join([DELETED, *values, *nulls])})"

    def _as_steps(self, events: DataFrame) -> DataFrame:
        """Events with the order of each column's value: NULL where they do not carry it."""
        orders = [
            f"CASE WHEN NOT {DELETED} AND NOT coalesce(array_contains({UNKNOWN}, {string(name)}), false) "
            f"THEN {ORDER} END AS o{number}"
            for number, name in enumerate(self.others)
        ]
        columns = [quote(name) for name in self.columns.names]
        return events.selectExpr(*columns, DELETED, ORDER, f"CAST(NULL AS string) AS {APPLIED}", *orders)

    def _present(self, keys: DataFrame) -> DataFrame:
        """What the table holds of these keys, and what was applied of them, as one more step of each."""
        on, fence = list(self.key), self.fence
        if fence.present is not None:
            there = of_keys(fence.present(), keys, self.key)
            rows = keys.join(there.selectExpr(*map(quote, self.columns.names), f"true AS {_HERE}"), on=on, how="left")
        else:
            empty = [_null(each) for each in self.columns if each.name not in self.key]
            rows = keys.selectExpr(*map(quote, self.key), *empty, f"CAST(NULL AS boolean) AS {_HERE}")
        if fence.records is not None:
            rows = rows.join(fence.records(keys), on=on, how="left")
        else:
            none = f"CAST(NULL AS string) AS {APPLIED}"
            rows = rows.selectExpr("*", none, f"false AS {WAS_DELETED}", f"{_NO_MAP} AS {KNOWN}")
        # A row of a key that had ended was put there by a repair.
        deleted, since = f"(coalesce({WAS_DELETED}, false) AND {_HERE} IS NULL)", f"coalesce({APPLIED}, '')"
        orders = [
            f"CASE WHEN {_HERE} THEN coalesce(try_element_at({KNOWN}, {string(name)}), {since}) END AS o{number}"
            for number, name in enumerate(self.others)
        ]
        younger = "true"
        if self.emptied is not None:
            younger = f"{since} > {string(self.emptied)}" + ("" if self._empties_all else f" OR {since} = ''")
        kept = rows.where(f"({APPLIED} IS NOT NULL OR {_HERE}) AND ({younger})")
        columns = [quote(name) for name in self.columns.names]
        return kept.selectExpr(*columns, f"{deleted} AS {DELETED}", f"{since} AS {ORDER}", APPLIED, *orders)

    def _left(self, steps: DataFrame) -> DataFrame:
        """What all steps of a key leave of it; a value counts unless the key ended after it."""
        keys = [quote(name) for name in self.key]
        values = [
            f"CASE WHEN o{number} > {_END} OR (o{number} IS NOT NULL AND {_END} = '') "
            f"THEN struct(o{number} AS o, {quote(name)} AS v) END AS v{number}"
            for number, name in enumerate(self.others)
        ]
        before = [f"CASE WHEN {APPLIED} IS NOT NULL THEN o{number} END AS w{number}" for number in self._numbers]
        top = f"struct({ORDER} AS o, {DELETED} AS g) AS top"
        wanted = steps.selectExpr(*keys, top, f"{APPLIED} AS applied", f"{_END} AS ended", *values, *before)
        maxima = ["top", "applied", "ended", *(f"{kind}{number}" for number in self._numbers for kind in "vw")]
        found = wanted.groupBy(*keys).agg(dict.fromkeys(maxima, "max"))
        named = found.selectExpr(*keys, *(f"`max({name})` AS {name}" for name in maxima))
        patched = " OR ".join(f"NOT (v{number}.o <=> w{number})" for number in self._numbers) or "false"
        entries = ", ".join(
            f"CASE WHEN NOT (v{number}.o <=> top.o) THEN "
            f"struct({string(name)} AS key, greatest(coalesce(v{number}.o, ''), ended) AS value) END"
            for number, name in enumerate(self.others)
        )
        known = (
            f"CASE WHEN NOT top.g THEN map_from_entries(array_compact(array({entries}))) END" if entries else _NO_MAP
        )
        return named.where(f"applied IS NULL OR top.o > applied OR (NOT top.g AND ({patched}))").selectExpr(
            *self._row(f"CASE WHEN NOT top.g THEN v{number}.v END" for number in self._numbers),
            f"top.g AS {DELETED}",
            f"top.o AS {ORDER}",
            f"{known} AS {KNOWN}",
            f"false AS {TWICE}",
        )

    def _row(self, values: Iterable[str]) -> list[str]:
        """The columns in order; `values` are those beside the key."""
        others = iter(values)
        return [quote(name) if name in self.key else f"{next(others)} AS {quote(name)}" for name in self.columns.names]

    @property
    def _numbers(self) -> range:
        return range(len(self.others))


def reason(key: Sequence[str]) -> str:
    """The expression of why an event cannot be taken; NULL for one that can."""
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in key)
    return (
        f"coalesce({REFUSED}, CASE WHEN NOT {CLEARS} AND ({missing}) THEN 'a key column has no value' END, "
        f"CASE WHEN {ORDER} IS NULL THEN 'it has no order' END)"
    )


def _null(column: Column) -> str:
    return f"CAST(NULL AS {column.type.stored.spark}) AS {quote(column.name)}"


def _above(floor: str | None) -> str:
    return "true" if floor is None else f"{ORDER} > {string(floor)}"
