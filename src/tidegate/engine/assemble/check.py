"""Implements `tidegate check`: every stream of a project and its problems.

Never reads rows and writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.config import Config
from tidegate.core.display import Shown
from tidegate.core.ports.format import Format
from tidegate.engine.assemble import assemble
from tidegate.engine.assemble.assemble import Choice
from tidegate.engine.stream import Stream
from tidegate.errors import TidegateError


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStream(Shown):
    """One stream as the project states it; `problems` is empty when it can run."""

    name: str
    source: str
    strategy: str
    write: str
    target: str
    problems: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {**asdict(self), "problems": list(self.problems)}


def check_streams(config: Config, lakes: Mapping[str, Format]) -> list[CheckedStream]:
    """Every stream, patterns expanded where their source can be reached."""
    found: list[CheckedStream] = []
    known: list[Stream] = []
    for entry in config.streams:
        about: dict[str, Any] = {
            "source": assemble.source_name(entry),
            "strategy": entry.strategy.items["kind"].text(),
            "write": entry.write.items["kind"].text(),
        }
        choice = Choice(select=entry.name)
        try:
            one = [assemble.join(config, dict(lakes), entry)] if not entry.is_pattern else None
            joined = one if one is not None else assemble.streams(config, dict(lakes), choice)
            assemble.refuse_shared_targets(config, [*known, *joined])
            known += joined
            found += [
                CheckedStream(name=stream.name, target=str(stream.target), **{**about, "source": stream.source_name})
                for stream in joined
            ]
        except TidegateError as error:
            found.append(
                CheckedStream(name=entry.name, target=".".join(entry.target), problems=(error.message,), **about)
            )
    return found
