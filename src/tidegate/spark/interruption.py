"""Handlers of SIGINT and SIGTERM that see to Spark first, and then do what would have been done without Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any


class Interruption:
    """The handlers as they are before PySpark makes a context, which puts one of its own in their place."""

    def __init__(self) -> None:
        self.before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._taken: dict[int, Any] = {}

    def take(self, first: Callable[[], None]) -> bool:
        """From here on an interruption calls `first`, then the handler of before; False in any thread but the main one.

        What was ignored, or ended the process at once, is not taken.
        """
        if threading.current_thread() is not threading.main_thread():
            return False

        def interrupt(number: int, frame: Any) -> None:
            first()
            self.before[number](number, frame)
            raise KeyboardInterrupt

        self._taken = {number: handler for number, handler in self.before.items() if callable(handler)}
        for number in self._taken:
            signal.signal(number, interrupt)
        return True

    def give_back(self) -> None:
        """The handlers of before; nothing if none was taken, or in a thread that may set none."""
        while self._taken and threading.current_thread() is threading.main_thread():
            signal.signal(*self._taken.popitem())
