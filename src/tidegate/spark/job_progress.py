"""Tells how far the Spark job of a load is, by the tasks that Spark counts, from a thread beside the load."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tidegate.spark.remote import is_connect

if TYPE_CHECKING:
    from pyspark import SparkContext, StatusTracker
    from pyspark.sql import SparkSession

EVERY = 1.0  # seconds
NEWEST = 3
"""So many of the newest jobs are looked at: a load has one or two at work at a time."""
GROUP, DESCRIPTION = "spark.jobGroup.id", "spark.job.description"


@contextmanager
def watched(
    session: SparkSession, stream: str, tell: Callable[[str, float], None], *, every: float = EVERY
) -> Iterator[None]:
    """Calls `tell` now and then while a job of this thread is at work: in words, and the share of its tasks done.

    Spark's own user interface shows the jobs under the stream's name. A Connect session tells nothing: its jobs are
    counted by the server.
    """
    if is_connect(session):
        yield
        return
    context, group = session.sparkContext, f"tidegate {stream} {threading.get_ident()}"
    before = {name: context.getLocalProperty(name) for name in (GROUP, DESCRIPTION)}
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(context, group, tell, ended, every), name="progress", daemon=True)
    context.setLocalProperty(GROUP, group)
    context.setLocalProperty(DESCRIPTION, f"tidegate: {stream}")
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(every)  # a Spark that does not answer must not hold up what ends
        for name, value in before.items():
            with suppress(Exception):  # a Spark that died keeps no property
                context.setLocalProperty(name, value)  # type: ignore[arg-type]  # None takes it away


def _watch(
    context: SparkContext, group: str, tell: Callable[[str, float], None], ended: threading.Event, every: float
) -> None:
    # What Spark does not tell, because it died or its driver is busy, is no reason to end a load.
    with suppress(Exception):
        tracker = context.statusTracker()
        while not ended.wait(every):
            if (found := _tasks(tracker, group)) is not None:
                done, total = found
                tell(f"Spark task {done:,} of {total:,}", done / total)


def _tasks(tracker: StatusTracker, group: str) -> tuple[int, int] | None:
    """Tasks of the stage at work that are done, and all of them; None where none is at work."""
    for job in sorted(tracker.getJobIdsForGroup(group), reverse=True)[:NEWEST]:
        found = tracker.getJobInfo(job)
        if found is None or found.status != "RUNNING":
            continue
        stages = [stage for each in found.stageIds if (stage := tracker.getStageInfo(each)) is not None]
        busy = [stage for stage in stages if stage.numActiveTasks and stage.numTasks]
        if busy:
            return sum(stage.numCompletedTasks for stage in busy), sum(stage.numTasks for stage in busy)
    return None
