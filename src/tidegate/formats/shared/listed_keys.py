"""Names the keys of few rows in a merge, so that the rest of a large table takes no part in its join.

Spark cannot broadcast the rows of a merge that also inserts (a right outer join), and would shuffle and sort the keys
of the whole table to join them. Rows outside a list of literals are left out while they are scanned. A list never
changes the result of the merge: it holds every key of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tidegate.core.plan import SHORT_LIST, LoadPlan, Mode, Prune
from tidegate.core.schema import Kind, Type
from tidegate.core.slices import Keys
from tidegate.dialects.spark import Spark
from tidegate.formats.shared.small_write import AT_ONCE, few, named
from tidegate.spark import dataframe_ops, sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGE_TABLE = 200_000
"""Rows of a table from which on a list costs less than the join without it."""
LONGEST = 500_000
"""Characters of a list."""


@contextmanager
def listed(
    session: SparkSession, rows: DataFrame, plan: LoadPlan, prune: Sequence[Prune], *, table_rows: int | None
) -> Iterator[Sequence[Prune]]:
    """Bounds of the rows for their merge, which list their keys where that pays; the session is set for it meanwhile.

    Args:
        rows: cheap to read twice.
        prune: bounds that are known already.
        table_rows: of the table before the merge; None if it is not known.
    """
    found = listed_keys(rows, plan, prune) if worth_listing(plan, table_rows) else tuple(prune)
    longest = max((len(each.values) for each in found), default=0)
    if longest <= SHORT_LIST:
        yield found
        return
    if longest < (plan.changes.rows or 0) / 2:
        # Rows of many keys have the same values in each column: lists of them leave in much of the table.
        yield tuple(prune)
        return
    # Nothing large is left to be joined: planned at once, in one partition, which writes one file.
    before = {name: str(session.conf.get(name)) for name in AT_ONCE}
    try:
        for name, value in AT_ONCE.items():
            session.conf.set(name, value)
        yield found
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


def worth_listing(plan: LoadPlan, table_rows: int | None) -> bool:
    """Whether few rows come to a large table, and no bound names their keys already."""
    large = table_rows is not None and table_rows >= LARGE_TABLE
    nulls = any(isinstance(part, Keys) and part.nulls for part in plan.changes.slices)
    return large and plan.write.mode is Mode.MERGE_ON_READ and few(plan) and not named(plan) and not nulls


def listed_keys(rows: DataFrame, plan: LoadPlan, prune: Sequence[Prune]) -> tuple[Prune, ...]:
    """Bounds that list the values of every key column of a type that has literals; too long a list is left out."""
    types, dialect = plan.prunable, Spark()
    if not types:
        return tuple(prune)
    texts = rows.selectExpr(*(dialect.text_of(sql.quote(name), kind) for name, kind in types.items())).toDF(*types)
    known = {each.column: each for each in prune}
    for (name, kind), column in zip(types.items(), dataframe_ops.columns_of(texts), strict=True):
        values = tuple(sorted({text for text in column if text is not None}, key=_order(kind)))
        if values and sum(map(len, values)) <= LONGEST:
            ends = known.get(name) or Prune(column=name, type=kind, low=values[0], high=values[-1])
            known[name] = replace(ends, values=values)
    return tuple(known.values())


def _order(kind: Type) -> Callable[[str], Any]:
    """By which canonical texts of the type sort as Spark orders their values."""
    orders: dict[Kind, Callable[[str], Any]] = {Kind.INTEGER: int, Kind.DECIMAL: Decimal}
    return orders.get(kind.stored.kind, str)
