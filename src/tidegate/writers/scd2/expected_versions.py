"""Computes the expected versions of a key from its events, for verification.

Folds the events of each key as one array, while the writer uses window functions over rows: the two implementations
must never call each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.spark.dataframe_ops import ORDER
from tidegate.spark.sql import quote
from tidegate.writers.scd2.history import AT, EXACT, NEXT, ROW, TRACKED, WENT, History, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBER = "__tidegate_number"
# The change that counts of several of one moment comes last: that of the greatest order, a row before a delete.
_EARLIER = " ".join(
    f"WHEN {less} THEN -1 WHEN {more} THEN 1"
    for less, more in (
        ("l.at < r.at", "l.at > r.at"),
        ("l.o < r.o", "l.o > r.o"),
        ("l.went AND NOT r.went", "r.went AND NOT l.went"),
        ("r.exact AND NOT l.exact", "l.exact AND NOT r.exact"),
    )
)


def versions(timeline: DataFrame, history: History) -> DataFrame:
    """Every version that these changes make.

    Rows: one a version, the columns of the source, then those of the history.
    """
    key = [quote(name) for name in history.key]
    change = f"struct({AT} AS at, {ORDER} AS o, {WENT} AS went, {EXACT} AS exact, {TRACKED} AS tracked, {ROW} AS row)"
    found = timeline.selectExpr(*key, f"{change} AS c").groupBy(*key).agg({"c": "collect_list"})
    ordered = found.selectExpr(f"array_sort(`collect_list(c)`, (l, r) -> CASE {_EARLIER} ELSE 0 END) AS every")
    each = ordered.selectExpr("filter(every, (e, i) -> NOT (get(every, i + 1).at <=> e.at)) AS each")
    before = "get(each, i - 1)"
    same = f"NOT e.went AND coalesce(NOT {before}.went AND {before}.tracked <=> e.tracked, false)"
    alone = f"e.went AND coalesce({before}.went, true)"
    seen = f"transform(each, (e, i) -> struct(i, {same} AS same, {alone} AS alone)) AS marked"
    marked = each.selectExpr("each", seen)
    heads = marked.selectExpr("each", "filter(marked, m -> NOT m.same) AS heads")
    until, number = "get(heads, j + 1).i", "0"
    if history.version is not None:
        number = "size(filter(slice(heads, 1, j + 1), h -> NOT get(each, h.i).went))"
    made = (
        "get(each, m.i).at AS at",
        "get(each, m.i).went AS went",
        "m.alone AS alone",
        f"get(each, coalesce({until}, size(each)) - 1).row AS row",
        f"get(each, {until}).at AS next",
        f"{number} AS n",
    )
    flat = heads.selectExpr(f"explode(transform(heads, (m, j) -> struct({', '.join(made)}))) AS v")
    runs = flat.where("NOT v.went OR v.alone").selectExpr(
        f"v.row AS {ROW}", f"v.at AS {AT}", f"v.went AS {WENT}", f"v.next AS {NEXT}", f"v.n AS {_NUMBER}"
    )
    return numbered(runs, history, _NUMBER)
