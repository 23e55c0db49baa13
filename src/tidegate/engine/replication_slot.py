"""Creates a stream's replication slot before its first load, and confirms the position after each commit.

Never confirms a position that is not published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.config import Config, StreamConfig
from tidegate.core.position import Position
from tidegate.core.position_state import is_of_empty_table
from tidegate.core.retention import SlotRetention
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, Incompatible, SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSlot:
    """The replication slot of one stream."""

    stream: str
    slot: SlotRetention

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {"stream": self.stream, **self.slot.to_dict()}


def begin(stream: Stream, since: Position | None) -> None:
    """Before a load: a first load creates the slot, so that the log has everything that happens meanwhile.

    Other loads confirm the table's position again, because a run may have ended before it did.

    Args:
        since: the table's own position; None for a load from nothing.
    """
    slot = stream.source.replication_slot
    if since is None and slot is not None:
        slot.claim()
    acknowledge(stream, since)


def acknowledge(stream: Stream, position: Position | None) -> tuple[str, ...]:
    """After a commit is published and recorded, or when a later run finds it published.

    Returns:
        A note for people if the source could not be told, which does no harm.
    """
    slot = stream.source.replication_slot
    if position is None or is_of_empty_table(position.state) or slot is None:
        return ()
    try:
        slot.acknowledge(position.state)
    except SourceError as error:
        return (f"the load could not be confirmed to the source; the next run confirms it: {error.message}",)
    return ()


def slots(streams: Sequence[Stream]) -> list[StreamSlot]:
    return [
        StreamSlot(stream=stream.name, slot=slot.retained())
        for stream in streams
        if (slot := stream.source.replication_slot) is not None
    ]


def drop(streams: Sequence[Stream], name: str) -> StreamSlot:
    """Drops the slot of that name. Raises ConfigError: none of the streams uses it, or it does not exist."""
    for stream in streams:
        slot = stream.source.replication_slot
        retained = slot.retained() if slot is not None else None
        if slot is not None and retained is not None and retained.name == name:
            if not retained.exists:
                raise ConfigError(
                    f"the slot {name} does not exist", hint="`tidegate slot list` shows the existing slots."
                )
            slot.release()
            return StreamSlot(stream=stream.name, slot=retained)
    raise ConfigError(
        f"no stream of this project has a slot {name!r}", hint="`tidegate slot list` shows the project's slots."
    )


def refuse_shared(config: Config, entry: StreamConfig) -> None:
    """Raises Incompatible when another stream reads the same slot: what one of them confirms, the other has lost."""
    slot = _slot(config, entry)
    for other in config.streams:
        if slot is not None and other.name != entry.name and _slot(config, other) == slot:
            raise Incompatible(
                f"{entry.mark}: the slot {slot[1]} is also used by stream {other.name!r}, and changes that one of them "
                f"confirms would be lost for the other",
                hint="Give each stream its own `slot:`; the first run creates it.",
            )


def _slot(config: Config, entry: StreamConfig) -> tuple[str, str] | None:
    """The database and the slot's name."""
    node = entry.source.get("slot")
    if node is None or entry.connection is None:
        return None
    connection = config.connections[entry.connection]
    return connection.url or connection.name, node.text()
