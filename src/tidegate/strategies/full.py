"""The strategy `full`: reads every row, unless the source is known to hold what was loaded last."""

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
from tidegate.core.position_state import OWN_FINGERPRINT
from tidegate.core.slices import Everything
from tidegate.errors import ConfigError
from tidegate.strategies._loaded import renumbered

CALLED = {
    "version": "the version of the source",
    "fingerprint": "the fingerprint of the source",
    OWN_FINGERPRINT: "the source's own fingerprint",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Full(Strategy):
    """Reads every row, unless the whole source is unchanged; for small tables, and where no other strategy fits."""

    kind: ClassVar[str] = "full"
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror})
    restores: ClassVar[bool] = True

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
        since: Position | None,
        kept: Ledger | None = None,  # noqa: ARG002 - the whole is compared, no part of it
    ) -> ChangeSet | None:
        """Everything; None where the source's version, or else a fingerprint of all columns, is the loaded one.

        Where no fingerprint covers a column, the source's own answers are compared with each other.
        """
        same = since is not None and (since.source, since.schema) == (probe.identity(), probe.schema().digest)
        loaded: Mapping[str, Any] = since.state if same and since is not None else {}
        version, missed = probe.version(), probe.schema().not_covered
        if version is not None:
            found = {"version": version}
        elif missed:
            own = probe.own_fingerprint()
            if own is None:  # what no fingerprint covers may have changed
                return self._everything(probe, {}, f"no fingerprint covers {', '.join(missed)}")
            found = {OWN_FINGERPRINT: own}
        else:
            found = {"fingerprint": str(probe.fingerprint(Everything()))}
        if found.items() <= loaded.items() and not (version is not None and renumbered(since, probe)):
            return None
        (name,) = found
        if name in loaded:
            return self._everything(probe, found, f"{CALLED[name]} is not the loaded one")
        return self._everything(probe, found, "nothing has been loaded yet" if since is None else "")

    def unchanged(self, since: Position) -> str:
        """By what the source is known to be as it was."""
        called = next(called for name, called in CALLED.items() if name in since.state)
        return f"{called} is the loaded one, and the table is as the last load left it"

    def _everything(self, probe: Probe, state: Mapping[str, Any], why: str) -> ChangeSet:
        stats = probe.stats(Everything())
        return ChangeSet(
            slices=(Everything(),),
            effect=Mirror(),
            state=state,
            rows=stats.rows,
            bytes=stats.bytes,
            reason="every row is read" + (f": {why}" if why else ""),
        )
