"""Protocol for sources that retain a log for one reader (a replication slot) until the reader confirms it.

Only what a table's own position covers may be confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from tidegate.core.position import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """What a server keeps for one stream.

    Args:
        name: of the slot.
        where: the connection's name.
        exists: it has been made; what follows is 0 or empty where it was not.
        active: somebody reads it now.
        status: the server's word: `reserved`, `extended`, `unreserved`, `lost`.
        bytes: of the log, kept for it.
        behind: bytes of the log that were not yet loaded and confirmed.
        warning: what is wrong with it, for people; empty for nothing.
    """

    name: str
    where: str
    exists: bool
    active: bool = False
    status: str = ""
    bytes: int = 0
    behind: int = 0
    warning: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@runtime_checkable
class Retaining(Protocol):
    """A source whose server retains the log until it is confirmed."""

    def claim(self, key: Sequence[str]) -> None:
        """Makes the server keep every change from now on, where it does not yet.

        Called before the first row of a table is read that has no position, so that nothing falls in between.

        Args:
            key: of the stream, by which changes will be applied.

        Raises:
            ConfigError: the server's log would not say which row of that key changed, or cannot be kept.
        """

    def acknowledge(self, position: Position) -> None:
        """Lets the server forget what a published position covers; any number of times, nothing where it has.

        Raises:
            SourceError: it does not answer; nothing is lost, the next run tells it again.
        """

    def retained(self) -> Retained | None:
        """What the server retains; None for a log that is not retained for one reader."""

    def release(self) -> None:
        """Drops everything that the server retains; the stream then needs a full refresh."""
