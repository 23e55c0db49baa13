"""Decides what names a thing for good: targets, connections and a stream's uid.

Called by config and engine. Must never depend on a run, a registry or a machine.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table: the lake (the catalog's name), the namespace, the table."""

    lake: str
    namespace: tuple[str, ...]
    table: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Lake, namespace and table in order."""
        return (self.lake, *self.namespace, self.table)

    def __str__(self) -> str:
        return ".".join(f"`{part}`" if "." in part or "`" in part else part for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A named way to a source; the URL may hold a password and is never shown."""

    name: str
    url: str = field(repr=False)


def stream_uid(name: str, target: Target) -> str:
    """The identity of a stream: sixteen hex digits of its name and target.

    It survives restarts and the loss of the registry. A renamed stream is another one unless the project
    states `uid:`.
    """
    return hashlib.sha256("\0".join((name, *target.parts)).encode()).hexdigest()[:16]


def new_load_id() -> str:
    """A fresh mark for one load."""
    return uuid.uuid4().hex
