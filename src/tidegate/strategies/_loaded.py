"""Which rows of a source a position says were loaded, where no cursor says it."""

from __future__ import annotations

from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.position_state import begin_of
from tidegate.core.slices import Partition, SnapshotPair


def loaded_version(since: Position | None, probe: Probe) -> SnapshotPair | None:
    """Every row of that version; None where there is none, or where the source does not keep earlier ones."""
    version = since.state.get("version") if since else None
    return SnapshotPair(after=None, upto=version) if version is not None and probe.versions is not None else None


def renumbered(since: Position | None, probe: Probe) -> bool:
    """Whether a version is another one than was loaded, although it has its number."""
    restore = probe.restore
    return since is not None and restore is not None and restore.restore_reason(since) is not None


def compared_partitions(since: Position | None) -> Partition | None:
    """The rows from where on partitions were compared; None where all of them were."""
    begin = begin_of(since.state) if since else None
    if begin is None:
        return None
    return Partition(column=begin["column"], label=f"from {begin['value']}", low=begin["value"], nulls=True)
