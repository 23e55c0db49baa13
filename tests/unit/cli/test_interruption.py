"""An interruption is heard, whatever Python was at when it came, and what it ends is left to end."""

from __future__ import annotations

import os
import signal
import sys
import time
import weakref

import pytest

from tidegate.cli import app


class Thing:
    """Something to collect."""


def terminate(_: object = None) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_one_that_comes_while_garbage_is_collected_is_said_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    thing, slept = Thing(), []
    kept = weakref.ref(thing, terminate)
    with pytest.raises(KeyboardInterrupt), app._terminated_like_interrupted():  # noqa: PT012 - it may come anywhere
        del thing
        assert kept() is None, "what the callback raised was dropped"
        time.sleep(60)
        slept.append("to the end")
    assert slept == []
    assert told == [], "a stack trace of what was dropped"


def test_what_else_a_callback_raises_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[sys.UnraisableHookArgs] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    thing = Thing()
    kept = weakref.ref(thing, lambda _: 1 / 0)
    with app._terminated_like_interrupted():
        del thing
    assert kept() is None
    assert [each.exc_type for each in told] == [ZeroDivisionError]
    assert sys.unraisablehook == told.append


def test_what_ends_because_of_it_is_not_interrupted_again() -> None:
    done, before = [], signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), app._terminated_like_interrupted():  # noqa: PT012 - it may come anywhere
        try:
            terminate()
            time.sleep(20)
        finally:
            try:
                raise ValueError  # noqa: TRY301 - handled meanwhile
            except ValueError:
                time.sleep(1.2 * app.AGAIN)
            done.append("given back")
    assert done == ["given back"]
    time.sleep(1.2 * app.AGAIN)
    assert signal.getsignal(signal.SIGTERM) is before
