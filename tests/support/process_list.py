"""The command lines of this machine's processes while a test runs, as `ps` shows them to everybody."""

from __future__ import annotations

import threading
import time
from pathlib import Path


class Processes:
    """Every command line that was seen within the block."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(path.read_bytes())
                except OSError:
                    continue
            time.sleep(0.02)
