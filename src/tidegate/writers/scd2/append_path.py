"""The fast path of scd2: a batch whose changes are all newer than everything known of their keys.

Needs only one look at each key. A batch with a change before, or at the same moment as, a known one takes the general
path.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidegate.core.schema import Schema
from tidegate.spark.dataframe_ops import DELETED
from tidegate.spark.sql import names, quote
from tidegate.writers.scd2.history import AT, ROW, TRACKED, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_STORED, _LAST, _FOUND = (f"__tidegate_{name}" for name in ("stored", "last", "found"))
_SAME, _IN_PLACE = "__tidegate_same", "__tidegate_in_place"


def with_stored(changes: DataFrame, stored: DataFrame, history: History, columns: Schema) -> DataFrame:
    """Each change of a batch with what is stored of its key.

    Args:
        changes: as `_changes.of_rows` gives them.
        stored: the current versions, and those that ended no earlier than the batch begins.
        columns: of the table.

    Rows: one a change and stored version; of a change whose key has none the version is NULL.
    """
    keys = [quote(name) for name in history.key]
    known = f"greatest({quote(history.valid_from)}, {history.ended}, {history.at})"
    there = stored.selectExpr(
        *keys,
        f"struct({names(columns.names)}) AS {_STORED}",
        f"{history.row} AS {_FOUND}",
        f"{history.row_tracked} AS {_IN_PLACE}",
        f"{known} AS {_LAST}",
    )
    rows = changes.selectExpr(*keys, f"{history.row} AS {ROW}", f"{history.row_tracked} AS {TRACKED}", AT, DELETED)
    both = there.join(rows, on=list(history.key), how="right")
    return both.selectExpr(
        *keys,
        ROW,
        AT,
        DELETED,
        _STORED,
        _LAST,
        f"{_STORED} IS NOT NULL AND {_FOUND} <=> {ROW} AS {_SAME}",
        f"{_STORED} IS NOT NULL AND {_IN_PLACE} <=> {TRACKED} AS {_IN_PLACE}",
    )


def appends_only(both: DataFrame, history: History, *, unique: bool) -> tuple[bool, int]:
    """Whether every change is the only one of its key and later than all that is known of it; how many change a thing.

    A row that is just as its current version changes nothing, whenever it says that it took effect.

    Args:
        unique: no two changes have one key.
    """
    current = f"{_STORED}.{quote(history.is_current)}"
    later = f"NOT {DELETED} AND {AT} IS NOT NULL AND ({_STORED} IS NULL OR ({current} AND {AT} > {_LAST}))"
    asked = [f"count_if(NOT coalesce(({_SAME} AND {current}) OR ({later}), false))", f"count_if(NOT {_SAME})"]
    if not unique:
        asked.append(f"count(*) - count(DISTINCT {names(history.key)})")
    odd, changed, *twice = both.selectExpr(*(f"{one} AS n{number}" for number, one in enumerate(asked))).collect()[0]
    return not (odd or any(twice)), changed


def differing(both: DataFrame, history: History, columns: Schema) -> DataFrame:
    """What has to happen to the stored versions where a batch goes on: one comes, the one before it ends.

    Where no tracked column differs the current version is updated in place.

    Rows: one a version that differs, the columns, and `DELETED`, which is false.
    """
    started, ended = both.where(f"NOT {_IN_PLACE}"), both.where(f"{_STORED} IS NOT NULL AND NOT {_SAME}")
    new = started.selectExpr(*_new_version(history))
    if history.row_hash is not None:
        new = new.selectExpr("*", f"{history.digest} AS {quote(history.row_hash)}")
    new = new.selectExpr(*map(quote, columns.names), f"false AS {DELETED}")
    return new.unionAll(ended.selectExpr(*_ended_version(history, columns), f"false AS {DELETED}"))


def _new_version(history: History) -> Iterator[str]:
    for name in history.columns.names:
        yield f"{ROW}.{quote(name)} AS {quote(name)}"
    yield f"{AT} AS {quote(history.valid_from)}"
    yield f"{history.moment(history.far)} AS {quote(history.valid_to)}"
    yield f"true AS {quote(history.is_current)}"


def _ended_version(history: History, columns: Schema) -> Iterator[str]:
    own = {
        history.valid_to: f"IF({_IN_PLACE}, {_STORED}.{quote(history.valid_to)}, {AT})",
        history.is_current: _IN_PLACE,
    }
    for name in columns.names:
        stored = f"{_STORED}.{quote(name)}"
        row = f"IF({_IN_PLACE}, {ROW}.{quote(name)}, {stored})"
        yield f"{row if history.columns.find(name) else own.get(name, stored)} AS {quote(name)}"
