"""Computes all versions of keys from their stored versions and the changes of a batch.

Versions of a key never overlap, and the result never depends on how changes were split into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.schema import Kind, Schema, Type
from tidegate.dialects.spark import Spark
from tidegate.spark.dataframe_ops import DELETED, ORDER
from tidegate.spark.sql import names, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What a change is: the row, the columns of it that make a version, when, whether it went, whether the row is as of that
# very moment, and whether the batch brought it.
ROW, TRACKED, AT, WENT = "__tidegate_row", "__tidegate_tracked", "__tidegate_at", "__tidegate_went"
EXACT, MINE = "__tidegate_exact", "__tidegate_mine"
CLOSED = "__tidegate_closed"
NEXT = "__tidegate_next"
_STATE, _HEAD, _RUN, _OUT = (f"__tidegate_{name}" for name in ("state", "head", "run", "out"))
_MADE, _STORED = (f"__tidegate_{name}" for name in ("made", "stored"))


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How a table keeps the versions of its keys.

    Args:
        columns: of the source.
        key: the columns that identify a row of the source.
        tracked: the columns of which a change makes a version.
        sequence: the columns whose first value that is not NULL dates a row; empty where the load does.
        type: of `valid_from` and `valid_to`.
        far: `valid_to` of a current version as canonical text; None for NULL.
    """

    columns: Schema
    key: tuple[str, ...]
    tracked: tuple[str, ...]
    sequence: tuple[str, ...]
    type: Type
    valid_from: str
    valid_to: str
    is_current: str
    version: str | None = None
    row_hash: str | None = None
    far: str | None = None

    @property
    def own(self) -> tuple[str, ...]:
        """The columns of the history, in order."""
        named = (self.valid_from, self.valid_to, self.is_current, self.version, self.row_hash)
        return tuple(name for name in named if name is not None)

    @property
    def by_key(self) -> str:
        """A window over one key."""
        return f"PARTITION BY {names(self.key)}"

    @property
    def at(self) -> str:
        """When a row of the source took effect; NULL where rows do not say."""
        value = f"coalesce({names(self.sequence)})" if self.sequence else "NULL"
        return f"CAST({value} AS {self.type.stored.spark})"

    @property
    def row(self) -> str:
        """A row of the source as one value."""
        return f"struct({names(self.columns.names)})"

    @property
    def row_tracked(self) -> str:
        """What of a row makes a version, as one value."""
        return f"struct({names(self.tracked)})"

    @property
    def deleted_row(self) -> str:
        """What is left of a row that went: its key."""
        quoted = [(name in self.key, quote(name)) for name in self.columns.names]
        kept = (name if is_key else f"IF(false, {name}, NULL) AS {name}" for is_key, name in quoted)
        return f"struct({', '.join(kept)})"

    @property
    def digest(self) -> str:
        """The row hash of a version."""
        tracked = [column for name in self.tracked if (column := self.columns.find(name)) is not None]
        return Spark().row_digest(tracked)

    @property
    def ended(self) -> str:
        """The end of a stored version; NULL where it has none."""
        return f"nullif({quote(self.valid_to)}, {self.moment(self.far)})" if self.far else quote(self.valid_to)

    @property
    def marker(self) -> str:
        """The condition of a stored row that is no version: a delete of a key that was not there."""
        return f"{quote(self.valid_from)} <=> {quote(self.valid_to)}"

    def moment(self, text: str | None) -> str:
        """A literal of the type; NULL for None."""
        return f"CAST(NULL AS {self.type.stored.spark})" if text is None else Spark().literal(self.type, text)

    def later(self, moment: str, steps: str = "1") -> str:
        """A moment that is later by so many of the least steps there are."""
        if self.type.kind is Kind.DATE:
            return f"date_add({moment}, CAST({steps} AS int))"
        if self.type.kind is Kind.INTEGER:
            return f"({moment} + CAST({steps} AS {self.type.spark}))"
        return f"timestampadd(MICROSECOND, {steps}, {moment})"


def stored_changes(stored: DataFrame, history: History) -> DataFrame:
    """What stored versions tell of the changes that made them.

    A version tells of the row that began it, of the last one that left its tracked columns as they were, if rows carry
    their own moment, and of its end.
    """
    start, wrote = quote(history.valid_from), history.at
    began = f"struct({start} AS at, {history.marker} AS went, {_exactly(history)} AS exact)"
    touched = f"struct({wrote} AS at, false AS went, true AS exact)"
    ended = f"struct({history.ended} AS at, true AS went, true AS exact)"
    updated = f"{wrote} > {start} AND NOT ({history.marker})"
    each = f"filter(array({began}, IF({updated}, {touched}, NULL), {ended}), c -> c.at IS NOT NULL)"
    keys = [quote(name) for name in history.key]
    versions = stored.selectExpr(
        *keys,
        f"{history.row} AS {ROW}",
        f"{history.deleted_row} AS {_OUT}",
        f"{history.row_tracked} AS {TRACKED}",
        f"explode({each}) AS c",
    )
    return versions.selectExpr(
        *keys,
        f"IF(c.went, {_OUT}, {ROW}) AS {ROW}",
        TRACKED,
        f"c.at AS {AT}",
        f"c.went AS {WENT}",
        f"c.exact AS {EXACT}",
        f"false AS {MINE}",
    )


def conflicts(changes: DataFrame, history: History) -> int:
    """Keys that have different rows at one moment, so that nothing says which one counts."""
    rows = changes.where(f"NOT {WENT}").selectExpr(
        *map(quote, history.key), AT, TRACKED, f"IF({EXACT}, {ROW}, NULL) AS {ROW}"
    )
    found = rows.groupBy(*map(quote, history.key), AT).agg({ROW: "collect_set", TRACKED: "collect_set"})
    twice = found.where(f"size(`collect_set({ROW})`) > 1 OR size(`collect_set({TRACKED})`) > 1")
    return twice.select(*map(quote, history.key)).distinct().count()


def versions(changes: DataFrame, history: History) -> DataFrame:
    """Every version that all the changes of some keys make, a pure function of the set of changes.

    Args:
        changes: where they have `ORDER`, the later one counts of those of one moment; else rows of one are equal.

    Rows: one a version, the columns of the source, then those of the history.
    """
    number = f"sum(IF({WENT}, 0, 1)) OVER ({history.by_key} ORDER BY {AT})"
    return numbered(_runs(_timeline(changes, history), history), history, number)


def first(rows: DataFrame, history: History, floor: str | None) -> DataFrame:
    """The versions of changes of which no two have one key, where nothing is stored: as `versions`, row by row.

    Args:
        rows: as `_changes.of_rows` gives them.
        floor: the moment of rows that say none, as canonical text.
    """
    at = AT if history.sequence else f"coalesce({AT}, {history.moment(floor)})"
    runs = rows.where(f"NOT ({DELETED} AND {AT} IS NULL)").selectExpr(
        f"IF({DELETED}, {history.deleted_row}, {history.row}) AS {ROW}",
        f"{at} AS {AT}",
        f"{DELETED} AS {WENT}",
        f"{history.moment(None)} AS {NEXT}",
    )
    return numbered(runs, history, "1")


def differing(made: DataFrame, stored: DataFrame, history: History, columns: Schema) -> DataFrame:
    """What has to happen to the stored versions for them to become those that were made.

    Args:
        columns: of the table.

    Rows: one a version that differs, the columns, `DELETED`, and `CLOSED` where it stands among the closed ones.
    """
    by = [*history.key, history.valid_from]
    row = f"struct({names(columns.names)})"
    wanted = made.selectExpr(*map(quote, by), f"{row} AS {_MADE}")
    present = stored.selectExpr(*map(quote, by), f"{row} AS {_STORED}")
    both = wanted.join(present, on=by, how="full_outer").where(f"NOT ({_MADE} <=> {_STORED})")
    values = (quote(name) if name in by else f"{_MADE}.{quote(name)} AS {quote(name)}" for name in columns.names)
    closed = f"{_STORED} IS NOT NULL AND NOT {_STORED}.{quote(history.is_current)}"
    return both.selectExpr(*values, f"{_MADE} IS NULL AS {DELETED}", f"{closed} AS {CLOSED}")


def wrong(versions: DataFrame, history: History) -> int:
    """Keys whose versions overlap, end before they begin, or of which several are current.

    Args:
        versions: of some keys, without one missing in between.
    """
    keys = [quote(name) for name in history.key]
    plain = versions.where(f"NOT ({history.marker})").selectExpr(
        *keys,
        f"{quote(history.valid_from)} AS {AT}",
        f"{history.ended} AS {NEXT}",
        f"{quote(history.is_current)} AS {_STATE}",
        f"lead({quote(history.valid_from)}) OVER ({history.by_key} ORDER BY {quote(history.valid_from)}) AS {_RUN}",
    )
    alone = f"{AT} IS NULL OR {NEXT} <= {AT} OR NOT ({_STATE} <=> ({NEXT} IS NULL))"
    overlaps = f"{_RUN} IS NOT NULL AND ({NEXT} IS NULL OR {_RUN} < {NEXT})"
    found = plain.where(f"coalesce({alone}, false) OR {overlaps}").select(*keys)
    return 0 if found.isEmpty() else found.distinct().count()


def lacking(changes: DataFrame, stored: DataFrame, history: History) -> int:
    """Rows that no version shows at their moment."""
    keys = [quote(name) for name in history.key]
    rows = changes.where(f"NOT {DELETED} AND {AT} IS NOT NULL").selectExpr(
        *keys, AT, f"{history.row_tracked} AS {TRACKED}"
    )
    begin = f"{quote(history.valid_from)} AS {_STORED}"
    shown = stored.where(f"NOT ({history.marker})").selectExpr(
        *keys, begin, f"{history.ended} AS {NEXT}", f"{history.row_tracked} AS {_MADE}"
    )
    within = f"{_STORED} <= {AT} AND ({NEXT} IS NULL OR {AT} < {NEXT}) AND {_MADE} = {TRACKED}"
    met = rows.join(shown, on=list(history.key), how="inner").where(within).selectExpr(*keys, AT, TRACKED)
    return rows.distinct().count() - met.distinct().count()


def _exactly(history: History) -> str:
    """Whether a stored row is as of the moment that its version began."""
    return f"coalesce({history.at} = {quote(history.valid_from)}, true)" if history.sequence else "true"


def _timeline(changes: DataFrame, history: History) -> DataFrame:
    """One change a key and moment: the later one of a log, else a row wins over a delete."""
    first = f"{WENT}, {EXACT} DESC, {MINE} DESC"
    first = f"{ORDER} DESC, {first}" if ORDER in changes.columns else first
    number = f"row_number() OVER ({history.by_key}, {AT} ORDER BY {first})"
    return changes.selectExpr("*", f"{number} AS {_RUN}").where(f"{_RUN} = 1").drop(_RUN)


def _runs(timeline: DataFrame, history: History) -> DataFrame:
    """The changes that begin or end a version, each row as the last change before the next one left it."""
    order = f"{history.by_key} ORDER BY {AT}"
    before = f"lag({WENT}, 1, true) OVER ({order})"
    same = f"NOT {WENT} AND NOT {before} AND lag({TRACKED}) OVER ({order}) <=> {TRACKED}"
    marked = timeline.selectExpr("*", f"NOT ({same}) AS {_HEAD}", f"{WENT} AND {before} AS {_OUT}")
    running = marked.selectExpr("*", f"sum(IF({_HEAD}, 1, 0)) OVER ({order}) AS {_RUN}")
    whole = f"{history.by_key}, {_RUN} ORDER BY {AT} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    last = running.selectExpr(
        *map(quote, history.key), AT, WENT, _HEAD, _OUT, f"last_value({ROW}) OVER ({whole}) AS {ROW}"
    )
    heads = last.where(_HEAD).drop(_HEAD)
    ends = heads.selectExpr("*", f"lead({AT}) OVER ({order}) AS {NEXT}")
    return ends.where(f"NOT {WENT} OR {_OUT}")


def numbered(runs: DataFrame, history: History, number: str) -> DataFrame:
    """The versions in the table's own columns.

    Args:
        number: the expression of a version's number.
    """
    end = f"CASE WHEN {WENT} THEN {AT} ELSE coalesce({NEXT}, {history.moment(history.far)}) END"
    columns = [f"{ROW}.{quote(name)} AS {quote(name)}" for name in history.columns.names]
    own = [
        f"{AT} AS {quote(history.valid_from)}",
        f"{end} AS {quote(history.valid_to)}",
        f"NOT {WENT} AND {NEXT} IS NULL AS {quote(history.is_current)}",
    ]
    if history.version is not None:
        own.append(f"CAST(IF({WENT}, NULL, {number}) AS int) AS {quote(history.version)}")
    found = runs.selectExpr(*columns, *own, WENT)
    if history.row_hash is not None:
        found = found.selectExpr("*", f"IF({WENT}, NULL, {history.digest}) AS {quote(history.row_hash)}")
    return found.drop(WENT)
