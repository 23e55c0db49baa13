"""The log of one stream's run: its events as lines, which the registry keeps, with or without a service."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any

from tidegate.engine.events import Event, Listener, Moment
from tidegate.errors import RegistryError

LINES = 400
"""Of one run: the first half of them, and the last. With `LONGEST` they bound the bytes that a log takes."""
LONGEST = 300
SELDOM = 10.0
"""Seconds between two lines that tell how far one stage is, and between two times that a run at work saves its log."""

Save = Callable[[list[dict[str, Any]], int], None]
"""Takes the lines so far, and how many were left out between the first half and the last."""


@dataclass(kw_only=True)
class Seldom:
    """Of the events that tell how far a stage is, one every `SELDOM` seconds a stream; all others."""

    told_at: dict[str, float] = field(default_factory=dict)

    def passes(self, event: Event) -> bool:
        if event.moment is not Moment.WORKING:
            self.told_at.pop(event.stream, None)
        elif event.share is not None:
            if event.seconds - self.told_at.get(event.stream, 0.0) < SELDOM:
                return False
            self.told_at[event.stream] = event.seconds
        return True


@dataclass(kw_only=True)
class RunLog:
    """Keeps a line of each event, and passes the event on.

    A line has `at` (ISO 8601, UTC), `text`, and of a stage that is done `stage` and `seconds`.

    Args:
        redact: takes the project's secrets out of a text.
        clock: seconds that only grow.
    """

    listener: Listener
    redact: Callable[[str], str]
    now: Callable[[], datetime]
    clock: Callable[[], float] = time.monotonic
    _first: list[dict[str, Any]] = field(default_factory=list)
    _last: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LINES // 2))
    _left_out: int = 0
    _seldom: Seldom = field(default_factory=Seldom)
    _lock: Lock = field(default_factory=Lock)  # a job's progress is told_at by a thread beside the load
    _save: Save | None = None
    _saved: float = 0.0

    def __call__(self, event: Event) -> None:
        """Takes an event."""
        self.listener(event)
        if not self._seldom.passes(event):
            return
        line: dict[str, Any] = {"at": self.now().isoformat(), "text": self.redact(line_of(event))[:LONGEST]}
        if event.moment in (Moment.DONE, Moment.BACKGROUND):
            line |= {"stage": str(event.stage), "seconds": round(event.seconds, 3)}
        if event.moment is Moment.BACKGROUND:
            line["background"] = True
        with self._lock:
            if len(self._first) < LINES // 2:
                self._first.append(line)
            else:
                self._left_out += len(self._last) == self._last.maxlen
                self._last.append(line)
        if event.moment is Moment.START and self.clock() - self._saved >= SELDOM:
            self._keep()

    @contextmanager
    def saved(self, save: Save) -> Iterator[None]:
        """Saves the lines at the end of the block, however it ends, and before stages of a run that takes long."""
        self._save, self._saved = save, self.clock()
        try:
            yield
        finally:
            self._keep()

    def _keep(self) -> None:
        if self._save is None:
            return
        with self._lock:
            lines, left_out = [*self._first, *self._last], self._left_out
        # A log never fails a load.
        with suppress(RegistryError):
            self._save(lines, left_out)
        self._saved = self.clock()


def line_of(event: Event) -> str:
    """An event in one line.

    Example:
        >>> from tidegate.engine.events import Stage
        >>> line_of(Event(stream="a", stage=Stage.READ, moment=Moment.DONE, seconds=1.5, detail="7 rows"))
        'read done, 1.5 s: 7 rows'
    """
    if event.moment is Moment.ENDED:
        return f"ended: {event.outcome.outcome if event.outcome is not None else event.detail}"
    timed = event.moment in (Moment.DONE, Moment.BACKGROUND)
    took = f", {event.seconds:.1f} s" if timed else f" in {event.seconds:.1f} s" if event.moment is Moment.RETRY else ""
    share = f", {event.share:.0%}" if event.share is not None else ""
    text = f"{event.stage} {event.moment}{took}{share}{': ' + event.detail if event.detail else ''}"
    return " ".join(text.splitlines())
