"""What a project says of a log that a database keeps of its own table."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a project says of such a log; see `ChangeLog`.

    Args:
        name: what the key of the log says.
        stream_key: by which its events are applied.
    """

    connection: Connection
    table: str
    name: str
    publication: str | None
    stream_key: tuple[str, ...]
    selection: ColumnSelection
    folder: Path
