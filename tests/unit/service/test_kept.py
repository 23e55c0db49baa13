"""Which process runs when; processes are numbers that nobody has."""

import pytest

from tidegate.service.supervisor import AGAIN, Kept


def made(*, takes_over=True):
    """A process that is kept, and those that were asked to end."""
    numbers, asked = iter(range(1, 100)), []
    return Kept(name="it", start=lambda: next(numbers), end=asked.append, takes_over=takes_over), asked


def test_it_starts_once():
    one, asked = made()
    for now in (1.0, 2.0, 3.0):
        one.tick(now)
    assert (one.pids, asked) == ({1}, [])


def test_the_next_one_takes_over_while_loads_finish():
    one, asked = made()
    one.tick(1.0)
    one.replace(2.0)
    assert (one.pids, asked) == ({1, 2}, [1])
    assert one.ended(1, 3.0, 0) is None
    one.tick(4.0)
    assert one.pids == {2}


def test_the_next_one_waits_for_what_only_one_can_have():
    one, asked = made(takes_over=False)
    one.tick(1.0)
    one.replace(2.0)
    assert (one.pids, asked) == ({1}, [1])
    assert one.ended(1, 3.0, 0) is None
    one.tick(3.0)
    assert one.pids == {2}


@pytest.mark.parametrize("code", [0, 2, -9])
def test_after_an_end_that_nobody_asked_for_the_next_one_waits(code):
    one, _ = made()
    one.tick(1.0)
    assert "starts again" in one.ended(1, 10.0, code)
    one.tick(10.0 + AGAIN - 1)
    assert not one.pids
    one.tick(10.0 + AGAIN)
    assert one.pids == {2}


def test_a_stop_is_for_good():
    one, asked = made()
    one.tick(1.0)
    one.stop()
    assert one.ended(1, 2.0, 0) is None
    one.tick(1000.0)
    assert (one.pids, asked) == (set(), [1])
