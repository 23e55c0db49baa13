"""The strategy `smart`: chooses for each run the cheapest method that is correct: a column, partitions, or every row.

Combines the other strategies. Compares the whole table at regular intervals, to find what cheaper methods miss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, cast

from tidegate import plugins
from tidegate.core.bounds import BoundRequest, TimeBound
from tidegate.core.changes import ChangeSet
from tidegate.core.cost_model import CHOICE, CostHistory, LoadMethod
from tidegate.core.display import counted, short_duration
from tidegate.core.effects import Effect, Mirror, Upsert, WriteHint
from tidegate.core.flavours import Bound
from tidegate.core.fraction import Fraction
from tidegate.core.grouping import Period
from tidegate.core.ledger import Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.position_state import BEGIN, METHOD, OWN_FINGERPRINT, VOUCHER, WHOLE_AT
from tidegate.core.significance import Significance
from tidegate.core.slices import Everything, Slice
from tidegate.core.source_identity import check_continues, check_owner
from tidegate.errors import ConfigError
from tidegate.strategies._loaded import compared_partitions, loaded_version

WHOLE = (LoadMethod.PARTITIONS, LoadMethod.SNAPSHOT_DIFF, LoadMethod.FULL)
KIND = {
    LoadMethod.INCREMENTAL: "watermark",
    LoadMethod.PARTITIONS: "checksum",
    LoadMethod.SNAPSHOT_DIFF: "snapshot_diff",
    LoadMethod.FULL: "full",
}
OWN: Mapping[LoadMethod, tuple[str, ...]] = {
    LoadMethod.INCREMENTAL: ("cursor", "value", "window", "nulls", "at", "bound"),
    LoadMethod.PARTITIONS: (METHOD, BEGIN, *VOUCHER),
    LoadMethod.SNAPSHOT_DIFF: ("version", "fingerprint", OWN_FINGERPRINT),
    LoadMethod.FULL: (),
}
"""The keys of a position's state that each way reads and writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What a run knows before it chooses.

    Args:
        new: the changes that the column shows, or without a column, a check of the whole table.
    """

    probe: Probe
    since: Position | None
    kept: Ledger | None
    new: ChangeSet | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Smart(Strategy):
    """Uses the cheapest correct method, and compares the whole table at regular intervals whatever the column says.

    Args:
        column: a timestamp or date that every insert and update sets; without it every run compares the whole table.
        safety_lag: stay this far below the safe bound.
        time_zone: the time zone of a column without one; the server's unless given.
        partition_by: a column by which the table can be compared in partitions, with `period`, `modulus` or `length`.
        period: the length of a partition of `partition_by`: hour, day, week, month, quarter or year.
        modulus: how many numbers one partition of `partition_by` spans.
        length: how many characters of `partition_by` decide the partition.
        full_every: how often the whole table is compared or loaded, in the cheapest way.
        max_changed_fraction: if more than this share of the rows changed, the whole table is loaded or compared.
        significant_change: which differences are worth a load, as for snapshot_diff; every row is then compared.
    """

    kind: ClassVar[str] = "smart"
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror, Upsert})
    learns: ClassVar[bool] = True
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "whole": {},
        "column": {"column": "updated_at"},
        "partitions": {"partition_by": "id", "modulus": 1000},
        "column and partitions": {"column": "updated_at", "partition_by": "id", "modulus": 1000},
        "significant": {"significant_change": {"min_rows": 2}},
        "column and significant": {"column": "updated_at", "significant_change": {"min_rows": 2}},
    }

    column: str | None = None
    safety_lag: timedelta = timedelta(0)
    time_zone: str | None = None
    partition_by: str | None = None
    period: Period | None = None
    modulus: int | None = None
    length: int | None = None
    full_every: timedelta = timedelta(hours=24)
    max_changed_fraction: Fraction = 0.3
    significant_change: Significance | None = None
    cost_history: CostHistory = field(default_factory=CostHistory, metadata={"given": True}, repr=False)

    @property
    def rereads(self) -> bool:
        """Every row, whenever the whole table is compared."""
        return True

    @property
    def settles_unverified(self) -> bool:
        """Yes: it then compares or loads the whole table, whatever the column shows."""
        return True

    @property
    def cursor(self) -> tuple[str, ...]:
        """The column, if there is one."""
        return (self.column,) if self.column else ()

    @property
    def bound(self) -> Bound | None:
        """Of the column, if there is one."""
        return Bound.TIME if self.column else None

    @property
    def bound_request(self) -> BoundRequest | None:
        """That of the column, if there is one."""
        return TimeBound(column=self.column, lag=self.safety_lag, time_zone=self.time_zone) if self.column else None

    def learned(self, cost_history: CostHistory) -> Smart:
        """The same options, with the costs of earlier loads."""
        return replace(self, cost_history=cost_history)

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the options on their own."""
        found = []
        cut = [name for name in ("period", "modulus", "length") if getattr(self, name) is not None]
        if self.partition_by is None and cut:
            found.append(f"{cut[0]} needs partition_by:, the column to partition")
        if self.partition_by is not None and len(cut) != 1:
            found.append("partition_by needs one of period, modulus and length, which sets how it is partitioned")
        if not 0 < self.max_changed_fraction <= 1:
            found.append(f"max_changed_fraction is a share above 0 and up to 1, got {self.max_changed_fraction}")
        if self.full_every <= timedelta(0):
            found.append("full_every must be longer than 0")
        if self.significant_change is not None:
            found += self.significant_change.problems()
            if self.partition_by is not None:
                found.append("significant_change weighs rows and partition_by compares partitions: remove one of them")
        asked = {
            LoadMethod.INCREMENTAL: self.column is not None,
            LoadMethod.PARTITIONS: self.partition_by is not None and len(cut) == 1,
        }
        return (*found, *(text for way, has in asked.items() if has for text in self._strategy(way).problems()))

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The state of a table that holds every row up to a value; the next run compares the whole of it."""
        if self.column is not None and value is not None:
            return self._strategy(LoadMethod.INCREMENTAL).resume(value)
        if value is not None:
            raise ConfigError(
                f"strategy smart has no column here, so it cannot continue from {value!r}",
                hint="`tidegate run STREAM` finds what differs, whatever the position says.",
            )
        return {}

    def resume_at(self, state: Mapping[str, Any]) -> str | None:
        """The value up to which the rows were read."""
        value: str | None = state.get("value")
        return value

    def check_value(self, state: Mapping[str, Any], probe: Probe) -> None:
        """As of the column, if there is one."""
        if self.column is not None and "value" in state:
            self._strategy(LoadMethod.INCREMENTAL).check_value(state, probe)

    def covers(self, since: Position | None, probe: Probe) -> Slice:
        """The version that was loaded, if the source keeps versions; otherwise partitions, or rows up to a value."""
        return loaded_version(since, probe) or compared_partitions(since) or Strategy.covers(self, since, probe)

    def check_position(self, since: Position, probe: Probe) -> None:
        """The source has to go on from where this strategy left it."""
        check_owner(since, self.kind, self.cursor)
        check_continues(since, probe, recreated=self.column is None)

    def detect(self, probe: Probe, since: Position | None, kept: Ledger | None = None) -> ChangeSet | None:
        """The changes found by the cheapest correct method; None if nothing changed and no comparison is due.

        If the partitions were just measured for the previous answer, and the position does not vouch for them, the same
        answer is given again.
        """
        if since is not None and kept is not None and not kept.vouched(since.state):
            run = _Run(probe=probe, since=since, kept=kept, new=None)
            return self._whole(LoadMethod.PARTITIONS, run, why="the table was measured")
        new = self._first_look(probe, since)
        run = _Run(probe=probe, since=since, kept=kept, new=new)
        if since is None:
            return self._whole(LoadMethod.FULL, run, why="nothing has been loaded yet")
        self.check_position(since, probe)
        due = self.column is not None and self._due(since, probe.now())
        if new is None and not due:
            return None
        rows = probe.stats(Everything()).rows
        changed = (new.rows or 0) if new and self.column else 0
        missed = probe.schema().not_covered
        ways, why = self._correct_methods(since, rows, changed, due=due, covered=not missed)
        if new is not None and isinstance(new.effect, Mirror) and new.effect.hint is WriteHint.CONFIRM:
            why = f"no fingerprint covers {', '.join(missed)}, so only a comparison shows whether anything changed"
            ways = (LoadMethod.SNAPSHOT_DIFF,)
        sizes = {way: changed if way is LoadMethod.INCREMENTAL else rows for way in ways}
        costs = sorted((self.cost_history.estimate(way, sizes[way]) for way in ways), key=lambda cost: cost.seconds)
        way = costs[0].way
        chosen = (
            self._incremental(since, new, why) if way is LoadMethod.INCREMENTAL and new else self._whole(way, run, why)
        )
        return replace(chosen, notes=(*chosen.notes, *map(str, costs)))

    def _first_look(self, probe: Probe, since: Position | None) -> ChangeSet | None:
        """The changes that the column shows, or else the cheapest reliable check; None for none."""
        way = LoadMethod.SNAPSHOT_DIFF if self.column is None else LoadMethod.INCREMENTAL
        return self._strategy(way).detect(probe, self._since(since, way))

    def _correct_methods(
        self, since: Position, rows: int, changed: int, *, due: bool, covered: bool
    ) -> tuple[tuple[LoadMethod, ...], str]:
        """The methods that are correct now, and why others are excluded; partitions only where they are covered."""
        if self.significant_change is not None:
            return (LoadMethod.SNAPSHOT_DIFF,), "differences that may be too small for a load are weighed row by row"
        cut = self.partition_by is not None and covered
        whole = tuple(way for way in WHOLE if way is not LoadMethod.PARTITIONS or cut)
        if due:
            last = since.state.get(WHOLE_AT)
            every = f"the whole table is checked every {short_duration(self.full_every)}, last {last}"
            return whole, every if last else "it is not known that the table holds the source's rows"
        if self.column is None:
            return whole, "the rows differ from those that were loaded, and no column shows which changed"
        if changed > self.max_changed_fraction * rows:
            return whole, f"{changed:,} of {counted(rows, 'row')} changed, more than {self.max_changed_fraction:.0%}"
        return (LoadMethod.INCREMENTAL, *whole), f"{changed:,} of {counted(rows, 'row')} changed"

    def _incremental(self, since: Position, new: ChangeSet, why: str) -> ChangeSet:
        """The rows that the column shows as changed; the position no longer vouches for the whole table."""
        dropped = {*VOUCHER, *OWN[LoadMethod.SNAPSHOT_DIFF]}
        known = {name: value for name, value in since.state.items() if name not in dropped}
        choice = _choice(LoadMethod.INCREMENTAL, new.rows or 0)
        return replace(new, state={**known, **new.state, **choice}, reason=f"incremental, because {why}: {new.reason}")

    def _whole(self, way: LoadMethod, run: _Run, why: str) -> ChangeSet:
        """The changes of a method that compares every row."""
        found = self._strategy(way).detect(run.probe, self._since(run.since, way), run.kept)
        known = run.since.state if run.since else {}
        rows = run.probe.stats(Everything()).rows
        noted = {WHOLE_AT: run.probe.now().astimezone(UTC).isoformat(), **_choice(way, rows)}
        if found is None:
            reason = f"{way}, because {why}: nothing differs"
            return ChangeSet(slices=(), effect=Upsert(), state={**known, **noted}, rows=0, reason=reason)
        # Partitions may land in several commits: until all have, the column says what it said before.
        parts = way is LoadMethod.PARTITIONS
        looked = run.new.state if run.new and not parts else known
        names = OWN[LoadMethod.INCREMENTAL] if parts else (*OWN[LoadMethod.INCREMENTAL], *OWN[LoadMethod.SNAPSHOT_DIFF])
        kept = {name: looked[name] for name in names if name in looked}
        kept |= {"cursor": list(self.cursor)} if self.cursor else {}
        return replace(
            found,
            edge=run.probe.edge() if self.column is not None else None,
            state={**kept, **found.state, **noted},
            effect=self._hinted(found.effect, way),
            reason=f"{way}, because {why}" + (f": {found.reason}" if parts else ""),
        )

    def _hinted(self, effect: Effect, way: LoadMethod) -> Effect:
        """The changes, with a hint to rewrite the table if a full load is cheapest, and the time of the comparison."""
        if not isinstance(effect, Mirror):
            return effect
        if way is LoadMethod.FULL:
            return replace(effect, hint=WriteHint.REWRITE)
        noted = self.column is not None and effect.hint is WriteHint.CONFIRM
        return replace(effect, hint=WriteHint.COMPARE) if noted else effect

    def _due(self, since: Position, now: datetime) -> bool:
        """Whether the whole table has to be compared, whatever the column shows."""
        loaded = since.state.get(WHOLE_AT)
        if loaded is None:  # nor is it known what a comparison before that found
            return True
        known = (datetime.fromisoformat(loaded), self.cost_history.proven_at)
        # What a clock that was ahead dated says nothing of when it was.
        last = max((at for at in known if at is not None and at <= now), default=None)
        return last is None or now - last >= self.full_every

    def _strategy(self, way: LoadMethod) -> Strategy:
        return cast("Strategy", plugins.load("strategies", KIND[way])(**self._options(way)))

    def _options(self, way: LoadMethod) -> dict[str, Any]:
        if way is LoadMethod.INCREMENTAL:
            return {"column": self.column, "safety_lag": self.safety_lag, "time_zone": self.time_zone}
        if way is LoadMethod.SNAPSHOT_DIFF:
            return {"significant_change": self.significant_change}
        if way is not LoadMethod.PARTITIONS:
            return {}
        cuts = {"by_date": ("period", self.period), "by_integer": ("modulus", self.modulus)}
        cuts["by_substr"] = ("length", self.length)
        method, (name, value) = next((m, cut) for m, cut in cuts.items() if cut[1] is not None)
        return {"method": method, "column": self.partition_by, name: value}

    def _since(self, since: Position | None, way: LoadMethod) -> Position | None:
        """The position as the strategy of that method would have written it."""
        if since is None or (way is LoadMethod.INCREMENTAL and "value" not in since.state):
            return None
        own = {name: value for name, value in since.state.items() if name in OWN[way]}
        return replace(since, kind=KIND[way], state=own)


def _choice(way: LoadMethod, rows: int) -> dict[str, Any]:
    """What a position records about the chosen method, for later choices."""
    return {CHOICE: {"way": str(way), "rows": rows}}
