"""Serves a dashboard by the commands of the command line, which find the warm service by themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from tidegate.api import Project
from tidegate.engine.events import Event
from tidegate.errors import PlanError
from tidegate.registry.reader import RegistryReader
from tidegate.service.events import followed
from tidegate.service.place import Place
from tidegate.service.processes import memory
from tidegate.service.web.port import Action

WORDS: dict[Action, tuple[str, ...]] = {
    Action.RUN: ("run",),
    Action.VERIFY: ("verify",),
    Action.REPAIR: ("verify", "--repair"),
}


@dataclass(slots=True, kw_only=True)
class Commands:
    """Implements `ServicePort` with the commands of the command line.

    Args:
        folder: the project's folder, or its file.
        same: the words by which a command opens the project as this process did.
    """

    project: Project
    folder: Path
    same: Sequence[str] = ()
    _at_work: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def registry(self) -> RegistryReader:
        return self.project.registry

    def subscribe(self) -> AbstractContextManager[SimpleQueue[Event]]:
        """The events of commands that the service runs; where none runs, the registry says when a run has ended."""
        return followed(Place.of(self.folder))

    def request(self, action: Action, stream: str, who: str) -> None:
        """Starts the command; `who` is in the registry's log of the stream.

        Raises:
            PlanError: a command that was asked for here is at work on the stream.
        """
        with self._lock:
            known = self._at_work.get(stream)
            if known is not None and known.poll() is None:
                raise PlanError(
                    f"a command is at work on stream {stream!r} already",
                    hint="Wait for it to end; `tidegate status` shows it.",
                )
            self.project.attention.asked(stream, str(action), who)
            self._at_work[stream] = subprocess.Popen(  # noqa: S603 - our own command; the stream is one of the project
                self._words(action, stream),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _words(self, action: Action, stream: str) -> Sequence[str]:
        first, *options = WORDS[action]
        options += ["--quiet", "--project", str(self.folder), *self.same]
        return [sys.executable, "-m", "tidegate", first, *options, "--", stream]

    def pause(self, stream: str, who: str) -> None:
        """Takes the stream off its schedule."""
        self.project.attention.pause(stream, who)

    def resume(self, stream: str, who: str) -> None:
        """Puts it back."""
        self.project.attention.resume(stream, who)

    def acknowledge(self, stream: str, who: str) -> None:
        self.project.attention.acknowledge(stream, who)

    def memory(self) -> int | None:
        return memory(os.getpid()) or None
