"""A process that a service keeps: the schedule, or the dashboard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

AGAIN = 30.0
"""Seconds after which a process that nobody asked to end is started again."""


@dataclass(kw_only=True)
class Kept:
    """One process at work, and those before it that are ending.

    Args:
        name: what it is, for people.
        start: forks it, and returns its number.
        end: asks one to finish what it is at and end.
        takes_over: the next one starts at once; otherwise when the one before has ended.
    """

    name: str
    start: Callable[[], int]
    end: Callable[[int], None]
    takes_over: bool = False
    _pid: int | None = field(default=None, init=False)
    _ending: set[int] = field(default_factory=set, init=False)
    _at: float | None = field(default=0.0, init=False)

    @property
    def pids(self) -> frozenset[int]:
        """Of all of them."""
        return frozenset(self._ending if self._pid is None else {*self._ending, self._pid})

    def tick(self, now: float) -> None:
        """Starts the process if it is due."""
        if self._at is not None and now >= self._at and (self.takes_over or not self._ending):
            self._at = None
            self._pid = self.start()

    def replace(self, now: float) -> None:
        """A process that knows the project as it is now takes the place of the one before."""
        self.stop()
        self._at = now
        self.tick(now)

    def stop(self) -> None:
        """Asks the process to end; there will be no other."""
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
        return f"{self.name} ended with exit code {code}; it starts again in {AGAIN:.0f} s"
