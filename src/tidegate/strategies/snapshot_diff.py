"""The strategy `snapshot_diff`: compares every row with the table, unless a fingerprint shows that nothing changed.

For sources without timestamps and without a log. A source counts as unchanged only by an answer that covers all its
columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tidegate.core.changes import Action, ChangeSet, Part
from tidegate.core.effects import Effect, Mirror, WriteHint
from tidegate.core.ledger import Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.position_state import OWN_FINGERPRINT
from tidegate.core.significance import Significance
from tidegate.core.slices import Everything, Slice
from tidegate.core.source_identity import check_owner, check_same_source
from tidegate.errors import ColumnMissing, ConfigError
from tidegate.strategies._loaded import loaded_version, renumbered


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDiff(Strategy):
    """Compares every row with the table, and loads inserted, updated and deleted rows.

    Args:
        significant_change: which differences are worth a load; any difference unless given.
    """

    kind: ClassVar[str] = "snapshot_diff"
    rereads: ClassVar[bool] = True  # every row that is compared
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror})
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "any": {},
        "significant": {"significant_change": {"min_rows": 2}},
    }

    significant_change: Significance | None = None

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the options on their own."""
        return self.significant_change.problems() if self.significant_change else ()

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """Nothing is known of the rows: the next run compares them."""
        if value is not None:
            raise ConfigError(
                f"strategy snapshot_diff has no cursor, so it cannot continue from {value!r}",
                hint="`tidegate run STREAM` compares every row and loads what differs, whatever the position says.",
            )
        return {}

    def covers(self, since: Position | None, probe: Probe) -> Slice:
        """The version that was loaded, where the source keeps versions; else every row."""
        return loaded_version(since, probe) or Strategy.covers(self, since, probe)

    def check_position(self, since: Position, probe: Probe) -> None:
        """The source has to be the one that this strategy loaded, at whatever state."""
        check_owner(since, self.kind, self.cursor)
        check_same_source(since, probe, recreated=True)

    def detect(
        self,
        probe: Probe,
        since: Position | None,
        kept: Ledger | None = None,  # noqa: ARG002 - the table itself is what is compared with
    ) -> ChangeSet | None:
        """Everything, to be compared; None where version or fingerprint is the one that was loaded."""
        if since is not None:
            self.check_position(since, probe)
        self._check_columns(probe)
        version = probe.version()
        if version is not None:
            if since is not None and self._same(since, probe, {"version": version}) and not renumbered(since, probe):
                return None
            stats = probe.stats(Everything())
            return self._everything({"version": version}, f"the source is at version {version}", rows=stats.rows)
        missed = probe.schema().not_covered
        own = probe.own_fingerprint() if missed else None
        if own is not None and since is not None and self._same(since, probe, {OWN_FINGERPRINT: own}):
            return None
        found = probe.fingerprint(Everything())
        state = {"fingerprint": str(found), **({OWN_FINGERPRINT: own} if own is not None else {})}
        parts = (Part(slice=Everything(), action=Action.RELOAD if since else Action.LOAD, fingerprint=found),)
        changes = self._everything(
            state,
            f"the source's {'fingerprint' if own is None else 'own fingerprint'} is not the loaded one",
            rows=found.rows,
            parts=parts,
        )
        if own is not None or since is None or not self._same(since, probe, state):
            return changes
        return self._confirming(changes, missed) if missed else None

    def _confirming(self, changes: ChangeSet, missed: Sequence[str]) -> ChangeSet:
        """The same where only values that no fingerprint covers may have changed."""
        effect = Mirror(hint=WriteHint.CONFIRM, ignore=self.significant_change)
        return replace(
            changes, effect=effect, reason=f"every row is compared: no fingerprint covers {', '.join(missed)}"
        )

    def _same(self, since: Position, probe: Probe, found: Mapping[str, str]) -> bool:
        return since.schema == probe.schema().digest and found.items() <= since.state.items()

    def _everything(
        self, state: Mapping[str, Any], reason: str, *, rows: int, parts: tuple[Part, ...] = ()
    ) -> ChangeSet:
        return ChangeSet(
            slices=(Everything(),),
            effect=Mirror(hint=WriteHint.COMPARE, ignore=self.significant_change),
            state=state,
            rows=rows,
            reason=f"every row is compared: {reason}",
            parts=parts,
        )

    def _check_columns(self, probe: Probe) -> None:
        for name in self.significant_change.columns if self.significant_change else ():
            if probe.schema().find(name) is None:
                raise ColumnMissing(f"significant_change names {name!r}, which the source does not have", column=name)
