"""The columns that tell what a run did to a stream, the same in `run` and `history`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.cli.tables import count, seconds, yes

ROWS = ("read", "inserted", "updated", "deleted", "quarantined", "warned")
MOVED = ("outcome", *ROWS, "verified", "time")
OPTIONAL = frozenset({"updated", "deleted", "quarantined", "warned"})


def moved(outcome: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of `MOVED`, from the document of an outcome; dashes for what it does not say."""
    return (
        outcome["outcome"],
        *(count(outcome.get(f"rows_{name}")) for name in ROWS),
        yes(value=outcome.get("verified")),
        seconds((outcome.get("seconds") or {}).get("total")),
    )
