"""Repeats size-limited loads until a run has read what its log contained when the run started.

Stops after a load that was not committed, and does not follow a log that grows as fast as it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.core.outcome import Result
from tidegate.engine import outcome
from tidegate.engine.context import RunContext
from tidegate.engine.outcome import LoadResult


def catch_up(load: Callable[[RunContext], LoadResult], context: RunContext) -> LoadResult:
    """Loads until what waited when the first load was planned is in the table, or one does not land.

    Args:
        load: one load; its error is part of what it returns.
    """
    done = [load(context)]
    left = done[0].reached.log_behind
    later = replace(context, full_refresh=False, resync=False)
    while left > 0 and _continues(done[-1]) and not context.ended():
        done.append(load(later))
        left -= done[-1].counts.log_taken
    return outcome.combine_consecutive(done)


def _continues(last: LoadResult) -> bool:
    return last.result is Result.LOADED and last.error is None and last.reached.log_behind > 0
