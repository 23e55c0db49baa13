"""When a stream is due, told by a clock that a test moves."""

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.core.policies.schedule import Agenda, Schedule

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def agenda(**schedules: Schedule) -> Agenda:
    return Agenda.of(schedules, NOON)


def test_an_interval_begins_at_once_and_counts_from_start_to_start():
    found = agenda(orders=Schedule(every=5 * MINUTE))
    assert found.take(NOON) == ["orders"]
    assert found.ended("orders", NOON + MINUTE, well=True) == NOON + 5 * MINUTE
    assert found.take(NOON + 5 * MINUTE - SECOND) == []
    assert found.take(NOON + 5 * MINUTE) == ["orders"]


def test_a_run_that_takes_longer_is_followed_at_once_by_one_run():
    found = agenda(orders=Schedule(every=5 * MINUTE))
    found.take(NOON)
    late = NOON + 23 * MINUTE
    assert found.take(late) == [], "never twice at a time"
    assert found.ended("orders", late, well=True) == late
    assert found.take(late) == ["orders"]
    assert found.ended("orders", late + SECOND, well=True) == late + 5 * MINUTE, "what was missed is not made up for"


def test_a_cron_waits_for_its_time_and_counts_missed_ones_once():
    found = agenda(orders=Schedule(cron="*/15 * * * *"))
    assert found.take(NOON) == []
    assert found.next_due() == NOON + 15 * MINUTE
    assert found.take(NOON + 15 * MINUTE) == ["orders"]
    assert found.ended("orders", NOON + 16 * MINUTE, well=True) == NOON + 30 * MINUTE
    assert found.take(NOON + 30 * MINUTE) == ["orders"]
    late = NOON + 70 * MINUTE
    assert found.ended("orders", late, well=True) == late, "12:45 and 13:00 have passed"
    assert found.take(late) == ["orders"]
    assert found.ended("orders", late + MINUTE, well=True) == NOON + 75 * MINUTE


def test_a_run_that_waited_for_a_place_answers_the_times_before_it_began():
    found = agenda(orders=Schedule(cron="0 * * * *"), items=Schedule(every=HOUR))
    began, ended = NOON + 130 * MINUTE, NOON + 140 * MINUTE
    assert found.take(NOON + HOUR) == ["items", "orders"]
    assert found.ended("orders", ended, began=began, well=True) == NOON + 3 * HOUR
    assert found.ended("items", ended, began=began, well=True) == began + HOUR


def test_times_of_a_cron_that_passed_while_nobody_watched_are_one_turn_that_is_due():
    daily, hourly = Schedule(cron="0 3 * * *"), Schedule(cron="0 * * * *")
    schedules = {"new": daily, "done": daily, "missed": daily, "hourly": hourly}
    midnight = NOON - 12 * HOUR
    began = {"done": midnight + 3 * HOUR, "missed": midnight - 50 * HOUR, "hourly": NOON - HOUR}
    found = Agenda.of(schedules, NOON + MINUTE, began)
    assert found.take(NOON + MINUTE) == ["missed", "hourly"], "longest overdue first"
    assert found.ended("missed", NOON + 2 * MINUTE, well=True) == midnight + 27 * HOUR
    assert found.next_due() == midnight + 27 * HOUR


def test_a_last_run_of_before_the_clock_was_set_back_delays_none():
    found = Agenda.of({"orders": Schedule(cron="0 * * * *")}, NOON, {"orders": NOON + 24 * HOUR})
    assert found.next_due() == NOON + HOUR


def test_errors_make_pauses_that_double_up_to_an_hour_and_success_ends_them():
    found = agenda(orders=Schedule(every=SECOND))
    now, pauses = NOON, []
    for _ in range(12):
        assert found.take(now) == ["orders"]
        due = found.ended("orders", now, well=False)
        pauses.append(due - now)
        now = due
    assert pauses[:4] == [10 * SECOND, 20 * SECOND, 40 * SECOND, 80 * SECOND]
    assert pauses == sorted(pauses)
    assert pauses[-1] == HOUR
    found.take(now)
    assert found.ended("orders", now, well=True) == now + SECOND
    found.take(now + SECOND)
    assert found.ended("orders", now + SECOND, well=False) == now + 11 * SECOND


def test_a_pause_is_never_shorter_than_the_schedule():
    found = agenda(orders=Schedule(every=HOUR), items=Schedule(cron="0 0 * * *"))
    found.take(NOON)
    assert found.ended("orders", NOON + SECOND, well=False) == NOON + HOUR
    midnight = NOON + 12 * HOUR
    assert found.take(midnight) == ["orders", "items"], "longest due first"
    assert found.ended("items", midnight, well=False) == midnight + 24 * HOUR


def test_a_clock_that_was_set_back_keeps_no_stream_from_its_turn():
    ahead = NOON + timedelta(days=1)
    found = Agenda.of({"orders": Schedule(every=HOUR), "items": Schedule(cron="0 * * * *")}, ahead)
    assert found.take(NOON) == ["orders"], "it was due at once, and is"
    assert found.next_due() == NOON + HOUR
    assert found.take(NOON + HOUR) == ["items"]
    for name in ("orders", "items"):
        assert found.ended(name, ahead, began=ahead, well=True) == ahead + HOUR
    assert found.take(NOON) == []
    assert found.take(NOON + HOUR) == ["orders", "items"]
    assert found.ended("orders", NOON, well=True) == NOON + HOUR, "set back during the run"


def test_what_is_due_after_a_clock_was_set_back_is_counted_from_now():
    ahead = NOON + timedelta(days=1)
    assert Schedule(every=HOUR).due_at(ahead, ahead, NOON) == NOON + HOUR
    assert Schedule(every=HOUR).due_at(None, ahead, NOON) == NOON
    assert Schedule(cron="0 * * * *").due_at(ahead, ahead, NOON) == NOON + HOUR


def test_streams_are_independent():
    found = agenda(a=Schedule(every=MINUTE), b=Schedule(every=10 * MINUTE))
    assert found.take(NOON) == ["a", "b"]
    assert found.next_due() is None
    found.ended("a", NOON, well=True)
    assert found.next_due() == NOON + MINUTE
    assert found.take(NOON + MINUTE) == ["a"], "b is still at work"


def test_a_turn_may_be_longer_than_the_calendar():
    every = Schedule(every=timedelta.max)
    assert every.after(NOON, NOON).year == 9999


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "one of"),
        ({"every": MINUTE, "cron": "* * * * *"}, "one of"),
        ({"every": timedelta(0)}, "1s or more"),
        ({"cron": "61 * * * *"}, "cron '61"),
        ({"cron": "every day"}, "five fields"),
    ],
)
def test_schedules_that_mean_nothing_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        Schedule(**given)
