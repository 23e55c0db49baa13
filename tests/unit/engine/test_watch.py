"""Streams that run again and again: stopped without breaking one off, none twice at a time."""

import os
import signal
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.core.policies.maintenance import Maintenance
from tidegate.core.policies.schedule import Schedule
from tidegate.engine.maintenance.maintain import StreamUpkeep
from tidegate.engine.run import utc_now
from tidegate.engine.stream import Policies
from tidegate.engine.watch import Watch, WatchResult, schedules, stopped_by_signals
from tidegate.errors import ConfigError, RegistryError
from tidegate.strategies.full import Full

SOON = Schedule(every=timedelta(seconds=1))
NIGHT = datetime(2025, 6, 1, 3, tzinfo=UTC)


@dataclass
class Stream:
    name: str
    policies: Policies = field(default_factory=lambda: Policies(schedule=SOON))
    strategy: Full = field(default_factory=Full)


@dataclass
class Runs:
    """Counts who is at work; a run lasts until the gate is open."""

    fails: bool = False
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Event = field(default_factory=threading.Event)
    at_work: list[str] = field(default_factory=list)
    most: int = 0
    twice: bool = False
    kept: list[str] = field(default_factory=list)

    def run(self, stream: Stream, _due_at: datetime) -> Outcome:
        self.twice = self.twice or stream.name in self.at_work
        self.at_work.append(stream.name)
        self.most = max(self.most, len(self.at_work))
        self.began.set()
        assert self.gate.wait(10)
        self.at_work.remove(stream.name)
        problem = Problem(code="x", message="x", hint="x") if self.fails else None
        return Outcome(stream=stream.name, outcome=Result.LOADED, strategy="full", error=problem)

    def maintain(self, stream: Stream) -> StreamUpkeep:
        self.kept.append(stream.name)
        return StreamUpkeep(stream=stream.name, outcome="unchanged")


def at_once(**options):
    """Runs that end as soon as they have begun."""
    runs = Runs(**options)
    runs.gate.set()
    return runs


def watching(runs, *streams, parallel=1, stop_after=1):
    """A watch that stops after so many turns, and what it told."""
    told: list[WatchResult] = []

    def tell(turned):
        told.append(turned)
        if len(told) >= stop_after:
            watch.stop()

    named = {stream.name: stream for stream in streams}
    watch = Watch(streams=named, run=runs.run, maintain=runs.maintain, now=utc_now, tell=tell, parallel=parallel)
    return watch, told


def test_who_asks_to_stop_waits_for_the_load_at_work_and_no_other_starts():
    runs = Runs()
    watch, told = watching(runs, Stream("a"), Stream("b"))
    going = threading.Thread(target=watch.go, args=({"a": SOON, "b": SOON},))
    going.start()
    assert runs.began.wait(10)
    assert not watch.ended()
    watch.stop()
    assert watch.ended(), "a run that drains a log asks before each load"
    going.join(0.2)
    assert going.is_alive(), "the load at work is not broken off"
    runs.gate.set()
    going.join(10)
    assert not going.is_alive()
    assert [(turned.stream, turned.outcome.outcome) for turned in told] == [("a", Result.LOADED)]


@pytest.mark.parametrize(("parallel", "most"), [(1, 1), (2, 2)])
def test_so_many_at_a_time_and_none_twice(parallel, most):
    runs = at_once()
    slow = runs.run

    def run(stream, due_at):
        time.sleep(0.05)
        return slow(stream, due_at)

    watch, told = watching(runs, Stream("a"), Stream("b"), parallel=parallel, stop_after=4)
    watch.run = run
    if parallel == 2:
        runs.gate.clear()
        threading.Timer(0.3, runs.gate.set).start()
    watch.go({"a": SOON, "b": SOON})
    assert (runs.most, runs.twice) == (most, False)
    assert {turned.stream for turned in told} == {"a", "b"}
    assert all(turned.next_at > turned.ended_at - timedelta(seconds=1) for turned in told)


def test_a_paused_stream_is_left_out_until_it_is_resumed():
    runs = at_once()
    watch, told = watching(runs, Stream("a"), Stream("b"), stop_after=2)
    watch.paused = lambda stream: stream.name == "a" and not told
    watch.go({"a": SOON, "b": SOON})
    assert next(turned.stream for turned in told) == "b"
    assert len(told) >= 2


def test_a_registry_that_does_not_answer_hides_no_stream():
    runs = at_once()
    watch, told = watching(runs, Stream("a"))

    def paused(stream):
        raise RegistryError("gone")

    watch.paused = paused
    watch.go({"a": SOON})
    assert [turned.stream for turned in told] == ["a"]


def test_errors_pause_the_stream():
    runs = at_once(fails=True)
    watch, told = watching(runs, Stream("a"))
    watch.go({"a": SOON})
    assert told[0].next_at - told[0].ended_at == timedelta(seconds=10)
    assert runs.kept == [], "a stream that fails is not maintained"


def test_a_turn_that_breaks_is_logged_with_its_stream_which_is_retried(caplog):
    runs = at_once()
    watch, told = watching(runs, Stream("a"), Stream("b"), stop_after=4)
    well, broken = runs.run, []

    def run(stream, due_at):
        if stream.name == "a" and not broken:
            broken.append(stream.name)
            raise ValueError("a bug")
        return well(stream, due_at)

    now, late = utc_now, timedelta(0)

    def clock():
        return now() + (timedelta(seconds=10) if told else late)  # by then it is due again

    watch.run, watch.now = run, clock
    watch.go({"a": SOON, "b": SOON})
    (first, *later) = [turned.outcome for turned in told if turned.stream == "a"]
    assert (first.outcome, first.error.code) == (Result.FAILED, "internal")
    assert "ValueError: a bug" in first.error.message
    assert [each.outcome for each in later[:1]] == [Result.LOADED]
    assert "stream a: ValueError: a bug" in caplog.text


def test_maintenance_that_breaks_takes_nothing_from_the_load(caplog):
    runs = at_once()
    often = Policies(schedule=SOON, maintenance=Maintenance(every=timedelta(hours=1)))
    watch, told = watching(runs, Stream("a", policies=often), stop_after=2)

    def broken(stream):
        raise ValueError("a bug")

    watch.maintain = broken
    watch.go({"a": SOON})
    assert [(turned.outcome.outcome, turned.upkeep) for turned in told] == [(Result.LOADED, None)] * 2
    assert "stream a: ValueError: a bug" in caplog.text


def test_a_stop_in_a_function_of_sqlite_is_no_fault_of_the_data(tmp_path):
    """The handlers of a watch raise nothing that SQLite could swallow: the load at work ends as it would have."""
    found = []

    def loads():
        connection = sqlite3.connect(tmp_path / "shop.db")
        connection.create_function("asked", 0, lambda: os.kill(os.getpid(), signal.SIGINT) or "whole")
        found.extend(connection.execute("SELECT asked()").fetchone())
        connection.close()

    stopped = threading.Event()
    with stopped_by_signals(stopped.set):
        loads()
        assert stopped.wait(10)
        stopped.clear()
    assert found == ["whole"]


def test_tables_are_maintained_as_often_as_the_rules_say():
    runs = at_once()
    often = Maintenance(every=timedelta(hours=1))
    watch, told = watching(
        runs, Stream("a", policies=Policies(schedule=SOON, maintenance=often)), Stream("b"), stop_after=4
    )
    watch.go({"a": SOON, "b": SOON})
    assert runs.kept == ["a"]
    assert [turned.upkeep is not None for turned in told if turned.stream == "a"] == [True, False]


def test_a_clock_that_was_set_back_keeps_no_table_from_its_maintenance():
    often = Policies(schedule=SOON, maintenance=Maintenance(every=timedelta(hours=1)))
    watch, _ = watching(Runs(), Stream("a", policies=often))
    last = watch._maintained["a"] = utc_now()
    found = []
    for minutes in (59, 60, -1):
        watch.now = lambda minutes=minutes: last + timedelta(minutes=minutes)
        found.append(watch._needs_upkeep(watch.streams["a"]))
    assert found == [False, True, True]


def test_a_turn_that_waited_for_a_place_when_a_watch_stopped_is_run_by_the_next_one():
    nightly = {name: Schedule(cron="0 3 * * *") for name in "ab"}
    clock, began = iter(range(10_000)), {name: NIGHT - timedelta(days=1) for name in "ab"}
    found = []
    for _ in range(2):
        runs = Runs()
        watch, _ = watching(runs, Stream("a"), Stream("b"))
        watch.now = lambda: NIGHT + timedelta(seconds=next(clock))
        going = threading.Thread(target=watch.go, args=(nightly, dict(began)))
        going.start()
        assert runs.began.wait(10)
        found += runs.at_work
        watch.stop()
        began[runs.at_work[0]] = watch.now()
        runs.gate.set()
        going.join(10)
        assert not going.is_alive()
    assert sorted(found) == ["a", "b"]


def test_streams_without_a_schedule_need_one_from_the_call():
    named = [Stream("a"), Stream("b", policies=Policies())]
    assert set(schedules(named, None)) == {"a"}
    assert schedules(named, timedelta(minutes=5))["b"] == Schedule(every=timedelta(minutes=5))
    with pytest.raises(ConfigError, match="nothing to watch"):
        schedules(named[1:], None)
