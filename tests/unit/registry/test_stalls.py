"""How long an exchange with a server is waited for."""

import psycopg
import pytest

from tidegate.registry.stalls import STALLED, watched


def exchange(waits):
    """What psycopg hands to its loop: wants to read, is sent what came, returns an answer."""
    for _ in range(waits):
        ready = yield "read"
        if ready:
            return ready
    return "at last"


def drive(generator, answers):
    """The loop of psycopg: sends what came each time."""
    assert next(generator) == "read"
    try:
        for each in answers:
            assert generator.send(each) == "read"
    except StopIteration as end:
        return end.value
    raise AssertionError("it goes on")


def test_an_answer_is_handed_on():
    asked = []
    assert drive(watched(exchange(9), lambda: bool(asked.append(1)), 60), [0, 0, 1]) == 1
    assert asked == []
    assert drive(watched(exchange(2), bool, 60), [0, 0]) == "at last"


def test_a_server_that_answers_somebody_else_is_waited_for():
    asked = []
    assert drive(watched(exchange(3), lambda: bool(asked.append(1)), -1), [0, 0, 0]) == "at last"
    assert len(asked) == 3


def test_a_server_that_answers_nobody_is_given_up():
    with pytest.raises(psycopg.OperationalError, match=STALLED):
        drive(watched(exchange(3), lambda: True, -1), [0, 0])
