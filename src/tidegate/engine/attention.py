"""What people say of streams: pause and resume their schedule, acknowledge an error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.engine.stream import Stream
from tidegate.registry.store import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Records who said what of which stream; touches no table.

    Args:
        stream: the stream of that name.
    """

    stream: Callable[[str], Stream]
    registry: Registry

    def pause(self, name: str, by: str | None = None) -> None:
        """`watch` and `serve` leave the stream out; `run` by name still loads it.

        Args:
            by: who; this process unless given.
        """
        self.registry.pause(self._known(name), by)

    def resume(self, name: str, by: str | None = None) -> None:
        self.registry.resume(self._known(name), by)

    def acknowledge(self, name: str, by: str | None = None) -> None:
        """Somebody has seen the error of the stream's last run; nothing if that ended well."""
        self.registry.acknowledge(self._known(name), by)

    def asked(self, name: str, action: str, by: str) -> None:
        """Records who asked for an action on the stream."""
        self.registry.record(self._known(name), ("ASKED", action.upper()), reason=None, by=by)

    def _known(self, name: str) -> str:
        """The stream's identity; the registry knows it from here on, also where it never ran."""
        one = self.stream(name)
        self.registry.register(uid=one.uid, name=one.name, source=one.source_name, target=str(one.target))
        return one.uid
