"""The strategy `table_changes`: reads the changes of a lake table from its versions.

Where the versions do not record the changes, all rows are compared. Uses only the source table's metadata. A range of
versions that is no longer known never counts as empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tidegate.core.change_feed import EMPTY, FeedContent, Span
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Effect, Insert, Mirror, WriteHint
from tidegate.core.ledger import Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.slices import Everything, Slice, SnapshotPair
from tidegate.core.source_identity import check_continues, check_owner
from tidegate.errors import ConfigError, Incompatible
from tidegate.strategies._loaded import loaded_version


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChanges(Strategy):
    """Reads the inserts, updates and deletes of a lake table after the loaded version."""

    kind: ClassVar[str] = "table_changes"
    rereads: ClassVar[bool] = False  # where only a comparison finds what changed, `append` is refused
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror, Insert, Apply})
    always: ClassVar[frozenset[type[Effect]]] = frozenset({Insert})
    reads: ClassVar[frozenset[type]] = frozenset({SnapshotPair})

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The state of a table that holds a version of its source.

        Raises:
            ConfigError: not the number of a version or a snapshot.
        """
        if value is None or not value.isdigit():
            raise ConfigError(
                f"strategy table_changes continues from a version, not from {value!r}",
                hint="Give the version (Delta) or the snapshot (Iceberg) of the source that is in the table.",
            )
        return {"version": value}

    def unclaimed(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """With the version: it is no claim, but where the changes begin that the table does not have."""
        return {**Strategy.unclaimed(self, state), **({"version": state["version"]} if "version" in state else {})}

    def covers(self, since: Position | None, probe: Probe) -> Slice:
        """The version that was loaded."""
        return loaded_version(since, probe) or Strategy.covers(self, since, probe)

    def detect(
        self,
        probe: Probe,
        since: Position | None,
        kept: Ledger | None = None,  # noqa: ARG002 - the version is all there is to compare
    ) -> ChangeSet | None:
        """What happened after the version that was loaded; None when it is still the newest."""
        now, versions = probe.version(), probe.versions
        if versions is None or now is None:
            raise Incompatible(
                "strategy table_changes needs a source with versions: `source: {iceberg: …}` or `{delta: …}`"
            )
        after = None
        if since is not None:
            check_owner(since, self.kind, ())
            check_continues(since, probe)
            after = since.state.get("version")
            if after is None:
                return self._compared(probe, now, "the position does not say which version was loaded")
        if after == now:
            return None
        if after in (None, EMPTY):
            rows = probe.stats(Everything()).rows
            reason = f"every row of version {now}"
            return self._change_set(now, Everything(), Insert(), rows=rows, reason=reason)
        if now == EMPTY:
            return self._compared(probe, now, f"it shows no version any more, and {after} was loaded")
        return self._since(probe, after, now, versions.between(after))

    def _since(self, probe: Probe, after: str, now: str, span: Span) -> ChangeSet:
        between = f"between versions {after} and {now}"
        pair = SnapshotPair(after=after, upto=now, appends=span.content is FeedContent.APPENDS)
        match span.content:
            case FeedContent.NOTHING:
                reason = f"no row changed {between}"
                return ChangeSet(slices=(), effect=Insert(), state={"version": now}, rows=0, reason=reason)
            case FeedContent.APPENDS:
                return self._change_set(now, pair, Insert(), rows=span.rows, reason=f"rows were only added {between}")
            case FeedContent.CHANGES:
                return self._change_set(now, pair, Apply(), rows=span.rows, reason=f"rows changed {between}")
            case FeedContent.UNKNOWN:
                return self._compared(probe, now, span.reason)

    def _compared(self, probe: Probe, now: str, why: str) -> ChangeSet:
        return ChangeSet(
            slices=(Everything(),),
            effect=Mirror(hint=WriteHint.COMPARE),
            state={"version": now},
            rows=probe.stats(Everything()).rows,
            reason=f"compared as a whole, because {why}",
        )

    def _change_set(
        self, now: str, part: Everything | SnapshotPair, effect: Effect, *, rows: int | None, reason: str
    ) -> ChangeSet:
        return ChangeSet(slices=(part,), effect=effect, state={"version": now}, rows=rows, reason=reason)
