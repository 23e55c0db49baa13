"""The process of a service that runs streams when they are due, and when there has to be a new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

AGAIN = 30.0
"""Seconds after which a schedule that ended by an error is started again."""


@dataclass(kw_only=True)
class Schedule:
    """One process that starts loads, and those before it that finish theirs.

    Args:
        start: forks it, and returns its number.
        end: asks one to finish its loads and end.
    """

    start: Callable[[], int]
    end: Callable[[int], None]
    _pid: int | None = field(default=None, init=False)
    _ending: set[int] = field(default_factory=set, init=False)
    _at: float | None = field(default=0.0, init=False)

    @property
    def pids(self) -> frozenset[int]:
        """Of all of them."""
        return frozenset(self._ending if self._pid is None else {*self._ending, self._pid})

    def tick(self, now: float) -> None:
        """Starts the process if it is due."""
        if self._at is not None and now >= self._at:
            self._at = None
            self._pid = self.start()

    def anew(self, now: float) -> None:
        """A process with the project as it is now takes over; the one before finishes its loads, and starts none."""
        self.stop()
        self._at = now
        self.tick(now)

    def stop(self) -> None:
        """Asks the process to end; its loads finish first."""
        pid, self._pid, self._at = self._pid, None, None
        if pid is not None:
            self._ending.add(pid)
            self.end(pid)

    def ended(self, pid: int, now: float, code: int) -> str | None:
        """What there is to say of a process that has ended; if nobody asked it to, the next one waits."""
        if pid in self._ending:
            self._ending.remove(pid)
            return None
        self._pid, self._at = None, now + AGAIN
        return f"the schedule ended with exit code {code}; it starts again in {AGAIN:.0f} s"
