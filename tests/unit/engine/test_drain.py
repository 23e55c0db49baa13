"""A run goes on until what its log held when it began is loaded, and no longer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from tidegate.core.outcome import Problem, Result
from tidegate.engine.context import RunContext
from tidegate.engine.outcome import Counts, LoadResult, StreamState
from tidegate.engine.run import catch_up
from tidegate.engine.verification.proof import Verdict

LOST = Problem(code="history_gone", message="gone", hint="", exit_code=4)


def context(**options) -> RunContext:
    given = {"registry": None, "sessions": None, "run_id": "r", "now": lambda: datetime.now(UTC), "redact": str}
    return RunContext(**given, **options)


@dataclass
class Log:
    """So many events, of which a load takes at most three; `grows` come with each load."""

    waiting: int
    grows: int = 0
    fails_at: int = 0
    asked: list[RunContext] = field(default_factory=list)

    def load(self, asked: RunContext) -> LoadResult:
        self.asked.append(asked)
        number = len(self.asked)
        if number == self.fails_at:
            return LoadResult(result=Result.STOPPED, error=LOST)
        taken = min(self.waiting, 3)
        if not taken:
            return LoadResult(result=Result.UNCHANGED)
        self.waiting += self.grows - taken
        return LoadResult(
            result=Result.LOADED,
            counts=Counts(rows_read=taken, rows_inserted=taken, log_taken=taken),
            reached=StreamState(snapshot=str(number), log_behind=self.waiting),
            notes=(f"after load {number}",),
            spark_started=number == 1,
            verdict=Verdict(equal=True),
        )


@pytest.mark.parametrize(("waiting", "loads"), [(0, 1), (3, 1), (4, 2), (10, 4)])
def test_what_is_there_is_loaded_and_told_as_one(waiting, loads):
    log = Log(waiting)
    told = catch_up(log.load, context())
    assert (len(log.asked), told.reached.log_behind) == (loads, 0)
    assert (told.counts.rows_read, told.counts.rows_inserted) == (waiting, waiting)
    assert told.result == ("loaded" if waiting else "unchanged")
    if waiting:
        assert (told.reached.snapshot, told.notes, told.spark_started) == (str(loads), (f"after load {loads}",), True)


def test_a_log_that_grows_as_fast_as_it_is_read_is_left_to_the_next_run():
    log = Log(7, grows=3)
    told = catch_up(log.load, context())
    assert (len(log.asked), told.counts.rows_read, told.reached.log_behind) == (4, 12, 7)


def test_a_load_that_does_not_land_ends_the_run_and_those_before_it_are_told():
    log = Log(10, fails_at=3)
    told = catch_up(log.load, context())
    assert (told.result, told.error, told.counts.rows_read, told.reached.snapshot) == ("stopped", LOST, 6, "2")
    alone = Log(10, fails_at=1)
    assert catch_up(alone.load, context()).error == LOST
    assert len(alone.asked) == 1


def test_only_the_first_load_replaces_the_table():
    log = Log(6)
    catch_up(log.load, context(full_refresh=True, allow_deletes=True))
    assert [(one.full_refresh, one.allow_deletes) for one in log.asked] == [(True, True), (False, True)]


def test_who_asks_to_stop_waits_for_one_load():
    log = Log(10)
    told = catch_up(log.load, context(ended=lambda: True))
    assert (len(log.asked), told.counts.rows_read, told.reached.log_behind) == (1, 3, 7)
