"""What a server retains of its log for one reader (a replication slot), until the reader confirms it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRetention:
    """What a server keeps for one stream.

    Args:
        name: of the slot.
        where: the connection's name.
        exists: it has been made; what follows is 0 or None where it was not.
        active: somebody reads it now.
        status: the server's word: `reserved`, `extended`, `unreserved`, `lost`.
        bytes: of the log, kept for it.
        behind: bytes of the log that were not yet loaded and confirmed.
        warning: what is wrong with it, for people; None for nothing.
    """

    name: str
    where: str
    exists: bool
    active: bool = False
    status: str | None = None
    bytes: int = 0
    behind: int = 0
    warning: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {**asdict(self), "status": self.status or "", "warning": self.warning or ""}
