"""Which version of a lake table a position says was loaded."""

from __future__ import annotations

from tidegate.core.change_feed import Versioned
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.slices import SnapshotPair


def loaded_version(since: Position | None, probe: Probe) -> SnapshotPair | None:
    """Every row of that version; None where there is none, or where the source does not keep earlier ones."""
    version = since.state.get("version") if since else None
    return SnapshotPair(after=None, upto=version) if version is not None and isinstance(probe, Versioned) else None
