"""The strategy `cdc`: applies the events that follow the position in the source's change log.

Never continues from a position that the log no longer covers, at either end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from tidegate.core.changes import ChangeSet, Observed
from tidegate.core.effects import Apply, Effect, Mirror, WriteHint
from tidegate.core.ledger import Ledger
from tidegate.core.log import RESYNC, EventRules, LogSpan, OnBadEvent, Truncate
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.slices import LogRange
from tidegate.core.source_identity import check_continues, check_owner
from tidegate.errors import ConfigError, HistoryGone, Incompatible

FLOOR = "floor"
"""The key of a position's state for the order at or below which no event counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cdc(Strategy):
    """Applies the events of a log in the order of each key, however often and in whatever order they arrive.

    Args:
        max_events: the most events that one load takes; the others are left for the next load.
        truncate: what an event that empties the table does: `apply`, `ignore` or `stop`.
        bad_events: what happens to events that cannot be applied: `stop` the load, or move them to the `quarantine`.
        remember: how long the last applied event of each key is remembered; an event that arrives later than that is
            not applied.
        compact_after: after how many loads what is remembered is compacted to one row for each key.
    """

    kind: ClassVar[str] = "cdc"
    rereads: ClassVar[bool] = False  # never as rows: an event that comes again is superseded
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror, Apply})
    always: ClassVar[frozenset[type[Effect]]] = frozenset({Apply})
    applies_events: ClassVar[bool] = True
    reads: ClassVar[frozenset[type]] = frozenset({LogRange})

    max_events: int | None = 1_000_000
    truncate: Truncate = Truncate.APPLY
    bad_events: OnBadEvent = OnBadEvent.STOP
    remember: timedelta = timedelta(days=7)
    compact_after: int = 64

    def problems(self) -> tuple[str, ...]:
        numbers = {"max_events": self.max_events, "compact_after": self.compact_after}
        return tuple(
            f"{name} is {number}, but must be at least 1"
            for name, number in numbers.items()
            if number is not None and number < 1
        )

    def resume(self, value: str | None) -> Mapping[str, Any]:  # noqa: ARG002 - whatever it is
        """Never: it is unknown which events are in a table that cdc did not load. Raises ConfigError: always."""
        raise ConfigError("strategy cdc cannot adopt a table with a value", hint="Use `tidegate resync STREAM`.")

    def event_rules(self) -> EventRules:
        """How events are applied that were read before: each was above the floor when it was."""
        return self._rules(None)

    def _rules(self, floor: str | None) -> EventRules:
        return EventRules(floor=floor, truncate=self.truncate, remember=self.remember, compact_after=self.compact_after)

    def detect(
        self,
        probe: Probe,
        since: Position | None,
        kept: Ledger | None = None,  # noqa: ARG002 - the position is all there is to go on from
    ) -> ChangeSet | None:
        """The events after the position; None for none.

        Raises:
            HistoryGone: the log has lost some of them, is another one, or ends before it.
        """
        log = probe.log
        if log is None:
            raise Incompatible("strategy cdc needs a change log: `source: {topic: …}`, `{slot: …}` or an `envelope:`")
        try:
            if since is not None:
                check_owner(since, self.kind, ())
                check_continues(since, probe)
            span = log.after(since.state if since else None, most=self.max_events)
        except HistoryGone as gone:
            raise HistoryGone(gone.message, hint=RESYNC, **gone.context) from gone
        return self._changes(span, since) if span.slices else None

    def _changes(self, span: LogSpan, since: Position | None) -> ChangeSet:
        floor = span.floor if since is None or span.bulk else since.state.get(FLOOR, span.floor)
        rules = self._rules(floor)
        waiting = ("later events in the log are for the next load (max_events)",) if span.behind else ()
        return ChangeSet(
            slices=span.slices,
            effect=Mirror(hint=WriteHint.COMPARE, log=rules) if span.bulk else Apply(rules=rules),
            state={**span.state, **({FLOOR: floor} if floor is not None else {})},
            rows=span.events,
            reason=span.reason,
            notes=waiting,
            observed=Observed(log_taken=span.taken, log_behind=span.behind),
        )
