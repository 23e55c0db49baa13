"""A server that is killed and started again at its place, or stands still for a while.

Asked for by tests of faults. Must never touch a process that it did not start.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

STALL = 2.0
"""Seconds for which a server stands still."""


class Restarted:
    """One server, running from the beginning.

    Args:
        start: starts it, always at the same port and with the same data, and returns once it answers.
    """

    def __init__(self, start: Callable[[], AbstractContextManager[subprocess.Popen[bytes]]]) -> None:
        self._make = start
        self._held = ExitStack()
        self.start()

    def start(self) -> None:
        """Starts it; it must not be running."""
        self._process = self._held.enter_context(self._make())

    def kill(self) -> None:
        """As a loss of power ends it."""
        self._process.kill()
        self._process.wait(timeout=240)

    def restart(self) -> None:
        """Starts it if it does not run."""
        if self._process.poll() is not None:
            self.start()

    def stall(self) -> None:
        """It stands still, and goes on by itself."""
        self._process.send_signal(signal.SIGSTOP)
        threading.Timer(STALL, self.go_on).start()

    def go_on(self) -> None:
        """It stands still no more."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Ends it."""
        self.go_on()
        self._held.close()
