"""Chooses Spark settings for writes so small, or so large, that Spark's optimizations cost more than they save.

Pure. The settings never change the result of a statement.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.plan import LoadPlan, Mode

FEW_ROWS = 20_000
# Up to so many rows another engine in this process has read and hashed them before Spark has planned to.
BACK_ROWS = 100_000
BACK_BYTES = 256 * 1024 * 1024
"""Of all their values, of which this process holds several copies at a time."""
# Beyond so many rows in the files that may hold a key of the commit, or bytes of their keys, Spark reads these sooner.
OTHERS = 20_000_000
OTHER_BYTES = 200_000_000
READERS = 4
# Planning a join while it runs, in several stages, and compiling it pay for themselves with many rows only.
AT_ONCE = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}
SETTINGS = {**AT_ONCE, "spark.sql.codegen.wholeStage": "false"}
JOINED_AT_ONCE = 2_000_000
"""Rows of a table that one partition joins sooner than many are planned."""
# A merge asks first, by a join of its own, which files hold a key of the batch, so that others are not rewritten.
ALL_FILES = {"spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled": "false"}


def all_files(plan: LoadPlan, table_rows: int | None) -> bool:
    """Whether so many rows come that hardly a file is left alone, and rewriting it is less than was read for it."""
    rows, copied = plan.changes.rows, plan.write.mode is Mode.COPY_ON_WRITE
    return copied and rows is not None and table_rows is not None and rows >= table_rows


def small_settings(plan: LoadPlan, table_rows: int | None) -> Mapping[str, str]:
    """Those of a load of few rows into a table of which few, or not very many, are joined with them; else none."""
    if not few(plan):
        return {}
    if named(plan):
        return SETTINGS
    return AT_ONCE if table_rows is not None and table_rows <= JOINED_AT_ONCE else {}


def few(plan: LoadPlan) -> bool:
    """Whether few rows come and nothing but these is looked at."""
    return _at_most(plan, FEW_ROWS)


def read_back(plan: LoadPlan) -> bool:
    """Whether the rows that come are few enough to be read back without Spark, and none is only marked as deleted."""
    return _at_most(plan, BACK_ROWS) and not plan.deletes.policy.soft


def _at_most(plan: LoadPlan, rows: int) -> bool:
    return not plan.deletes.missing_keys and plan.changes.rows is not None and plan.changes.rows <= rows


def named(plan: LoadPlan) -> bool:
    """Whether literals name every key of the batch, so that as few rows of the table meet it."""
    return any(each.names(plan.changes.rows) for each in plan.write.prune)
