"""The strategy `full`: reads every row on every run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Effect, Mirror
from tidegate.core.ledger import Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.slices import Everything
from tidegate.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(Strategy):
    """Reads every row on every run; for small tables, and for tables that no other strategy fits."""

    kind: ClassVar[str] = "full"
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror})

    @property
    def rereads(self) -> bool:
        """Every row, every time."""
        return True

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """Nothing: a full load has no cursor to continue from."""
        if value is not None:
            raise ConfigError(
                f"strategy full has no cursor, so it cannot continue from {value!r}",
                hint="`tidegate run STREAM` loads every row, whatever the position says.",
            )
        return {}

    def detect(
        self,
        probe: Probe,
        since: Position | None,  # noqa: ARG002 - full ignores the past
        kept: Ledger | None = None,  # noqa: ARG002 - as above
    ) -> ChangeSet | None:
        """Always everything."""
        stats = probe.stats(Everything())
        return ChangeSet(
            slices=(Everything(),),
            effect=Mirror(),
            rows=stats.rows,
            bytes=stats.bytes,
            reason="strategy full reads every row",
        )
