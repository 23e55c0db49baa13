"""What the dashboard asks of the process that it is part of."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import StrEnum
from queue import SimpleQueue
from typing import Protocol

from tidegate.api import Project
from tidegate.engine.events import Event
from tidegate.registry.reader import RegistryReader


class Action(StrEnum):
    """What a person may ask of a stream."""

    RUN = "run"
    VERIFY = "verify"
    REPAIR = "repair"


class ServicePort(Protocol):
    """The service as its dashboard sees it; every call is safe from any thread."""

    @property
    def project(self) -> Project:
        """The project that is served."""

    @property
    def registry(self) -> RegistryReader:
        """Its registry, open for reading."""

    def subscribe(self) -> AbstractContextManager[SimpleQueue[Event]]:
        """A queue that gets each event of each run from now on, until the block ends."""

    def request(self, action: Action, stream: str, who: str) -> None:
        """The stream is run, verified or repaired as soon as a place is free; returns at once.

        Args:
            who: the person, as the registry records it.

        Raises:
            TidegateError: it cannot be taken on; nothing happens.
        """

    def pause(self, stream: str, who: str) -> None:
        """The stream is not run by its schedule from now on."""

    def resume(self, stream: str, who: str) -> None:
        """The stream is run by its schedule again."""

    def acknowledge(self, stream: str, who: str) -> None:
        """A person has seen the error of the stream's last run."""

    def memory(self) -> int | None:
        """Bytes of memory that the process holds; None where the system does not tell."""
