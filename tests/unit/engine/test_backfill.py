"""A backfill's chunks: how they are planned, in which order they are loaded, and what becomes of those that fail."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest

from tidegate.core.backfill import Progress
from tidegate.engine.backfill import backfill
from tidegate.engine.backfill.backfill import Request
from tidegate.errors import ConfigError, HistoryGone, PlanError, PositionMissing, SourceUnavailable, VerifyFailed
from tidegate.registry.store import Registry
from tidegate.strategies.full import Full
from tidegate.writers.append import Append
from tidegate.writers.scd2 import Scd2
from unit.engine.sqlite_streams import THROUGH, Shop

WEEK = {"begin": "2025-01-01", "end": "2025-01-08"}


@pytest.fixture
def shop(tmp_path):
    shop = Shop(folder=tmp_path)
    shop.fill(240)
    shop.loaded()
    return shop


@pytest.fixture
def context(shop, tmp_path):
    with Registry.open(f"sqlite:///{tmp_path}/registry.db") as registry:
        yield shop.context(registry)


@pytest.fixture
def loads(monkeypatch):
    """Groups of chunks as they are loaded; those that are named fail so often."""
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)

    class Loads:
        groups: list[list[int]] = []  # noqa: RUF012 - of one test
        failing: dict[int, int] = {}  # noqa: RUF012 - as above

        def load(self, group):
            numbers = [chunk.number for chunk in group]
            self.groups.append(numbers)
            for number in numbers:
                if self.failing.get(number, 0):
                    self.failing[number] -= 1
                    raise SourceUnavailable("the line is cut") if number % 2 else VerifyFailed("they differ")
            return {chunk.number: chunk.rows for chunk in group}

    loads = Loads()
    loads.groups, loads.failing = [], {}
    return loads


def test_chunks_by_rows_of_the_source(shop, context):
    made = backfill.start(shop.stream(), context, Request(**WEEK, chunk=50))
    assert sum(chunk.rows for chunk in made.chunks) == 168
    assert all(chunk.rows <= 50 for chunk in made.chunks)
    assert made.chunks[0].after == "2024-12-31 23:59:59.999999"
    assert made.chunks[-1].upto == "2025-01-07 23:59:59.999999"
    assert (made.begin, made.end) == ("2025-01-01 00:00:00.000000", "2025-01-08 00:00:00.000000")


def test_a_range_may_begin_with_the_first_day_that_there_is(shop, context):
    shop.sql("insert into t values (-1, '0001-01-01 00:00:00.000000')")
    for chunk in (50, timedelta(days=100_000)):
        made = backfill.start(shop.stream(), context, Request(begin="0001-01-01", end="2025-01-08", chunk=chunk))
        assert (made.chunks[0].after, made.chunks[1].after is None) == (None, False)
        assert sum(chunk.rows for chunk in made.chunks) == 169
        assert context.registry.backfills.get(made.backfill_id) == made
        context.registry.backfills.mark(made.backfill_id, Progress.CANCELLED)


def test_a_backfill_without_rows_from_the_first_day_on_is_noted(shop, context):
    shop.sql("delete from t where at < '2025-01-03'")
    made = backfill.start(shop.stream(), context, Request(begin="0001-01-01", end="2025-01-03", chunk=timedelta(9e5)))
    context.registry.backfills.keep(made.backfill_id, replace(made.chunks[0], status=Progress.DONE))
    (empty,) = context.registry.intervals("a1b2").parts
    assert (empty.after, empty.upto) == (None, "2025-01-02 23:59:59.999999")


def test_chunks_of_a_length(shop, context):
    made = backfill.start(shop.stream(), context, Request(**WEEK, chunk=timedelta(days=2)))
    assert [chunk.rows for chunk in made.chunks] == [48, 48, 48, 24]


def test_a_rate_makes_chunks_small(shop, context):
    made = backfill.start(shop.stream(), context, Request(**WEEK, rate=2))
    assert max(chunk.rows for chunk in made.chunks) <= 20


@pytest.mark.parametrize(
    ("values", "error", "why"),
    [
        ({"begin": "2025-01-08", "end": "2025-01-01"}, ConfigError, "empty or reversed"),
        ({"begin": "2025-01-08", "end": "2025-01-08"}, ConfigError, "empty or reversed"),
        ({"begin": "2025-01-01", "end": "2999-01-01"}, ConfigError, "belong to its next loads"),
        ({"begin": "soon", "end": "2025-01-01"}, ConfigError, "not a date"),
        ({**WEEK, "chunk": 0}, ConfigError, "must not be empty"),
        ({**WEEK, "chunk": timedelta(microseconds=1)}, ConfigError, "chunks"),
        ({**WEEK, "parallel": 0}, ConfigError, "1 or more"),
        ({**WEEK, "rate": 0}, ConfigError, "1 or more"),
    ],
)
def test_a_range_that_cannot_be(shop, context, values, error, why):
    with pytest.raises(error, match=why) as caught:
        backfill.start(shop.stream(), context, Request(**values))
    assert caught.value.hint
    assert context.registry.backfills.open_of("a1b2") is None


def test_the_range_may_end_with_the_last_row_that_was_loaded(shop, context):
    with pytest.raises(ConfigError) as caught:
        backfill.start(shop.stream(), context, Request(begin="2025-01-01", end="2025-01-11"))
    end = caught.value.hint.partition("--to '")[2].partition("'")[0]
    made = backfill.start(shop.stream(), context, Request(begin="2025-01-01", end=end))
    assert made.chunks[-1].upto == THROUGH


def test_streams_whose_rows_cannot_be_loaded_again(shop, context):
    shop.writer = Append()
    with pytest.raises(PlanError, match="a second time"):
        backfill.start(shop.stream(), context, Request(**WEEK))
    shop.writer, shop.key = Scd2(), ("at",)
    with pytest.raises(PlanError, match="several rows per key"):
        backfill.start(shop.stream(), context, Request(**WEEK))
    shop.strategy = Full()
    with pytest.raises(PlanError, match="no cursor"):
        backfill.start(shop.stream(), context, Request(**WEEK))


def test_where_a_key_has_several_rows_each_chunk_is_compared_with_all_of_them(shop, context):
    shop.key = ("at",)
    assert backfill.start(shop.stream(), context, Request(**WEEK, parallel=4)).parallel == 1


def test_a_table_without_a_position_and_another_source(shop, context):
    from dataclasses import replace

    shop.position = replace(shop.position, source="another")
    with pytest.raises(HistoryGone):
        backfill.start(shop.stream(), context, Request(**WEEK))
    shop.position = None
    with pytest.raises(PositionMissing):
        backfill.start(shop.stream(), context, Request(**WEEK))


def test_chunks_are_loaded_in_groups_and_told(shop, context, loads):
    made = backfill.start(shop.stream(), context, Request(**WEEK, chunk=timedelta(days=1), parallel=3))
    told = []
    done = backfill.load_pending(context, made, loads.load, told.append)
    assert loads.groups == [[1, 2, 3], [4, 5, 6], [7]]
    assert [each.rows_done for each in told] == [72, 144, 168]
    assert done.status is Progress.DONE


def test_a_group_that_fails_is_taken_apart_and_what_is_done_stays_done(shop, context, loads):
    made = backfill.start(shop.stream(), context, Request(**WEEK, chunk=timedelta(days=1), parallel=2))
    loads.failing = {4: 2}
    found = backfill.load_pending(context, made, loads.load, backfill.ignore)
    assert loads.groups == [[1, 2], [3, 4], [3], [4], [5, 6], [7]]
    assert found.status is Progress.FAILED
    assert [chunk.number for chunk in found.chunks if chunk.status is Progress.FAILED] == [4]
    assert "they differ" in (found.chunks[3].error or "")
    loads.groups.clear()
    again = backfill.resume(shop.stream(), context)
    assert backfill.load_pending(context, again, loads.load, backfill.ignore).status is Progress.DONE
    assert loads.groups == [[4]]


def test_it_stops_by_itself_when_nothing_goes(shop, context, loads):
    made = backfill.start(shop.stream(), context, Request(**WEEK, chunk=timedelta(days=1)))
    loads.failing = dict.fromkeys(range(1, 8), 9)
    found = backfill.load_pending(context, made, loads.load, backfill.ignore)
    assert found.status is Progress.FAILED
    assert loads.groups == [[1], [1], [1], [2], [3], [3], [3]], "what may pass is tried again, what is wrong is not"


def test_pause_resume_and_cancel(shop, context, loads):
    stream = shop.stream()
    verbs = backfill.Backfills(lambda _name: stream, context)
    made = backfill.start(stream, context, Request(**WEEK, chunk=timedelta(days=1)))
    found = backfill.load_pending(context, made, loads.load, lambda _now: verbs.pause("t"))
    assert (found.status, loads.groups) == (Progress.PAUSED, [[1]])
    again = backfill.resume(stream, context)
    found = backfill.load_pending(
        context, again, loads.load, lambda now: verbs.cancel("t") if now.rows_done == 72 else None
    )
    assert (found.status, loads.groups) == (Progress.CANCELLED, [[1], [2], [3]])
    with pytest.raises(PlanError, match="no open backfill"):
        verbs.resume("t")
    assert [each.status for each in verbs.list("t")] == [Progress.CANCELLED]
