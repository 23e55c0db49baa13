"""Hands a command to the service of its project, if there is one: before anything else is imported.

The service's process for it writes to this terminal; what is left to do here is to pass signals on, and to wait.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

COMMANDS = frozenset({"run", "verify", "maintain", "backfill", "resync", "rollback", "quarantine"})
"""Those that move rows, or start and stop what does."""
SHOW_CURSOR = "\x1b[?25h\n"
LOST = """\
error[service_lost]: the service ended while it ran this command
  hint: Nothing is left half done. Run the command again, or with --local; `tidegate status` says what had ended.
  more: `tidegate explain service_lost`
"""


def handed_over(words: Sequence[str]) -> int | None:
    """The exit code of the command as the service ran it; None where it has to run here."""
    if not words or words[0] not in COMMANDS or {"--local", "--help", "-h"} & set(words) or sys.platform != "linux":
        return None
    from tidegate.service import wire  # noqa: PLC0415 - a command that is not handed over needs neither
    from tidegate.service.place import Place  # noqa: PLC0415 - as above

    place = Place.of(_project(words))
    connection = place.connect()
    if connection is None:
        return None
    with connection, _Signals(connection):
        try:
            wire.send(connection, _request(words, str(place.project)), [0, 1, 2])
        except OSError:
            return None
        answer = _answer(connection)
        if answer is None:
            answer = {"refused": "the service of this project ended before it began this command"}
        elif "begun" in answer:
            answer = _answer(connection)
    if answer is None:
        if sys.stderr.isatty():
            sys.stderr.write(SHOW_CURSOR)  # whoever drew the progress has no time left to
        sys.stderr.write(LOST)
        return 1
    if "refused" in answer:
        sys.stderr.write(f"{answer['refused']}: running without it\n")
        return None
    return int(answer["exit"])


def _answer(connection: socket.socket) -> dict[str, Any] | None:
    """The next message; None if the service has ended."""
    from tidegate.service import wire  # noqa: PLC0415 - as above

    message = wire.receive(connection)
    return None if message is None else message[0]


def _project(words: Sequence[str]) -> str:
    for number, word in enumerate(words):
        if word == "--project" and number + 1 < len(words):
            return words[number + 1]
        if word.startswith("--project="):
            return word.partition("=")[2]
    return "."


def _request(words: Sequence[str], project: str) -> dict[str, Any]:
    import tidegate  # noqa: PLC0415 - as above

    return {
        "ask": "command",
        "version": tidegate.__version__,
        "project": project,
        "words": list(words),
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
        "encoding": sys.stdout.encoding,
    }


class _Signals:
    """Passes what would end this process on to the one that runs the command; it ends as it would have ended here."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._pass_on)

    def __exit__(self, *error: object) -> None:
        while self._before:
            signal.signal(*self._before.popitem())

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        from tidegate.service import wire  # noqa: PLC0415 - as above

        try:
            wire.send(self._connection, {"signal": int(number)})
        except OSError:
            return
