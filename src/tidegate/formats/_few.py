"""Decides when a write is so small that planning and compiling it would cost more than the write.

Asked by the stagings of the formats. Pure; must never change what a statement does, only how Spark runs it.
"""

from __future__ import annotations

from tidegate.core.plan import LoadPlan

FEW_ROWS = 20_000
# Planning a join while it runs, in several stages, and compiling it pay for themselves with many rows only.
SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


def few(plan: LoadPlan) -> bool:
    """Whether few rows come and nothing but these is looked at."""
    return not plan.changes.gone and plan.changes.rows is not None and plan.changes.rows <= FEW_ROWS


def named(plan: LoadPlan) -> bool:
    """Whether literals name every key of the batch, so that as few rows of the table meet it."""
    return any(each.names(plan.changes.rows) for each in plan.write.prune)
