"""Observers of runs: traces, lineage and whatever else is told of every stream at work.

An observer never changes what is loaded, and its failure never fails a load.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.engine.events import Event, Listener
from tidegate.engine.stream import Stream

log = logging.getLogger("tidegate")


class Command(StrEnum):
    """What is done to a stream."""

    RUN = "run"
    VERIFY = "verify"
    BACKFILL = "backfill"
    MAINTAIN = "maintain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The stream at work, told before the first event of it.

    Args:
        run_id: of the run, as the registry has it.
        part: what tells apart several of one stream within a run, such as the commits of a backfill; empty for one.
        due_at: when the schedule wanted it to begin; None of what no schedule asked for.
    """

    stream: Stream
    run_id: str
    command: Command
    part: str = ""
    due_at: datetime | None = None


Observer = Callable[[Subject], Listener]
"""Gives the listener of one stream at work; streams that are loaded in parallel have one each."""


_of_process: tuple[Observer, ...] = ()


def observe(*observers: Observer) -> None:
    """From here on these are told of every stream that this process works on, whoever asked for it."""
    global _of_process  # noqa: PLW0603 - a process belongs to one service, or to none
    _of_process = observers


def observed(listener: Listener, observers: Sequence[Observer], subject: Subject) -> Listener:
    """The listener and those of the observers; of one that fails the first failure is logged, then it is left out."""
    others = [_quiet(observer, subject) for observer in (*observers, *_of_process)]
    if not others:
        return listener

    def tell(event: Event) -> None:
        for other in others:
            other(event)
        listener(event)

    return tell


def _quiet(observer: Observer, subject: Subject) -> Listener:
    active: list[Listener] = []
    failed = False

    def tell(event: Event) -> None:
        nonlocal failed
        if failed:
            return
        try:
            if not active:
                active.append(observer(subject))
            active[0](event)
        except Exception as error:
            failed = True
            log.warning("stream %s: an observer failed and is left out: %s", subject.stream.name, type(error).__name__)
            log.debug("the observer's error", exc_info=error)

    return tell
