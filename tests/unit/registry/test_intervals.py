"""What the registry knows of a stream's intervals, load by load."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from tidegate.core.backfill import Backfill, Chunk, Progress
from tidegate.core.changes import SafeBound
from tidegate.core.intervals import Gap, IntervalState
from tidegate.core.outcome import Outcome, Result
from tidegate.core.slices import Range
from tidegate.errors import PositionMoved
from unit.registry.loads import UID, load, outcome, publish


def known(registry):
    return [(part.label, str(part.known)) for part in registry.intervals(UID).parts]


def gaps(registry):
    (status,) = registry.status()
    return status.gaps


def lookback(since, after, upto):
    plan = load(since, through=upto)
    slices = (Range(cursor=("id",), after=after, upto=upto),)
    return replace(plan, changes=replace(plan.changes, slices=slices))


def run(registry, name, result):
    registry.start_run(name, UID)
    registry.finish_run(name, outcome(result))


def test_loads_say_what_is_done_empty_and_unverified(registry):
    first = publish(registry, load(through="10"), verified=True)
    second = load(first, through="20")
    second = replace(second, changes=replace(second.changes, edge=SafeBound(upto="25")))
    position = publish(registry, second)
    assert known(registry) == [("(-inf, 10]", "done"), ("(10, 20]", "unverified"), ("(20, 25]", "empty")]
    registry.verified(UID, position, after="15")
    assert known(registry)[1:3] == [("(10, 15]", "unverified"), ("(15, 20]", "done")]
    registry.verified(UID, position)
    assert known(registry) == [("(-inf, 20]", "done"), ("(20, 25]", "empty")]
    # A run that finds nothing has looked further.
    registry.start_run("run-2", UID)
    idle = Outcome(stream="orders", outcome=Result.UNCHANGED, strategy="watermark")
    registry.finish_run("run-2", replace(idle, position=position.to_dict(), looked_through="40"))
    assert known(registry)[-1] == ("(20, 40]", "empty")
    assert gaps(registry) == ()


def test_a_failed_lookback_is_a_gap_until_a_run_mends_it(registry):
    since = publish(registry, load(through="20"), verified=True)
    registry.start_run("run-1", UID)
    registry.save_plan(lookback(since, "15", "30"), "run-1")
    with registry.lease(UID):
        assert gaps(registry) == (), "it is at work"
    registry.finish_run("run-1", outcome(Result.FAILED))
    lacking = (Gap(label="(15, 20]", known=IntervalState.STALE), Gap(label="(20, 30]", known=IntervalState.FAILED))
    assert gaps(registry) == lacking
    run(registry, "run-2", Result.FAILED)
    assert gaps(registry) == lacking, "a run that does not get as far mends nothing"
    registry.start_run("run-3", UID)
    publish(registry, lookback(since, "15", "31"), verified=True)
    registry.finish_run("run-3", outcome(Result.LOADED))
    assert (gaps(registry), known(registry)) == ((), [("(-inf, 31]", "done")])


def test_what_was_there_before_a_rewind_is_a_gap(registry):
    first = publish(registry, load(through="10"), verified=True)
    publish(registry, load(first, through="20"), verified=True)
    back = replace(first, sequence=3, load_id="back")
    registry.set_position(UID, back, snapshot=None, table_uuid=None, reason="state rewind")
    assert known(registry) == [("(-inf, 10]", "done"), ("(10, 20]", "stale")]
    assert gaps(registry) == (Gap(label="(10, 20]", known=IntervalState.STALE),)
    publish(registry, load(back, through="20"), verified=True)
    assert known(registry) == [("(-inf, 20]", "done")]


def test_what_somebody_else_loaded_is_taken_on_trust_until_it_is_proven(registry):
    adopted = load(through="10").position
    registry.set_position(UID, adopted, snapshot=None, table_uuid=None, reason="state adopt")
    assert known(registry) == [("(-inf, 10]", "unverified")]
    publish(registry, load(adopted, through="20"), verified=True)
    assert known(registry) == [("(-inf, 10]", "unverified"), ("(10, 20]", "done")]
    registry.set_position(UID, None, snapshot=None, table_uuid=None, reason="emptied")
    assert known(registry) == []


def test_a_position_that_is_refused_leaves_the_intervals_alone(registry):
    since = publish(registry, load(through="10"), verified=True)
    late = load(since, through="20")
    publish(registry, load(since, through="15"), verified=True)
    registry.save_plan(late, "run-1")
    before = known(registry)
    with pytest.raises(PositionMoved):
        registry.advance(late, snapshot=None, table_uuid=None, verified=True)
    assert known(registry) == before == [("(-inf, 15]", "done")]


def test_chunks_of_a_halted_backfill_are_gaps(registry):
    publish(registry, load(through="40"), verified=True)
    chunks = tuple(Chunk(number=n, after=str(10 * n), upto=str(10 * n + 10), rows=5) for n in (0, 1, 2))
    asked = Backfill(
        backfill_id=0,
        stream="orders",
        begin="1",
        end="31",
        parallel=1,
        rate=None,
        status=Progress.RUNNING,
        chunks=chunks,
        created_at=load().created_at,
    )
    number = registry.backfills.create(UID, asked).backfill_id
    registry.backfills.keep(number, replace(chunks[0], status=Progress.DONE, rows=0))
    registry.backfills.keep(number, replace(chunks[1], status=Progress.FAILED, attempts=1))
    assert gaps(registry) == (), "it is at work"
    registry.backfills.mark(number, Progress.PAUSED)
    lacking = (Gap(label="(10, 20]", known=IntervalState.FAILED), Gap(label="(20, 30]", known=IntervalState.STALE))
    assert gaps(registry) == lacking
    assert known(registry)[1] == ("(0, 10]", "empty")
    registry.backfills.mark(number, Progress.CANCELLED)
    assert gaps(registry) == ()


def test_a_partition_that_failed_is_a_gap_until_it_is_loaded(registry, raw):
    with raw.begin() as connection:
        connection.execute(text("update object_info set checksum_method = '{}'"))
    for status in ("ERROR", "OK"):
        run(registry, f"run-{status}", Result.FAILED if status == "ERROR" else Result.LOADED)
        task = registry.start_task(UID, "load_partition", extract_group_id="20250108")
        registry.finish_task(task, status)
        assert gaps(registry) == ((Gap(label="20250108", known=IntervalState.FAILED),) if status == "ERROR" else ())
