"""The strategy `watermark`: reads rows changed since the last load, by a column that increases with every change.

Reads only up to a safe bound, and never moves the position past a row it has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from tidegate.core.bounds import DAY_LENGTH, Clock, TimeBound, beyond, earlier, step
from tidegate.core.changes import ChangeSet, Observed, SafeBound, SliceStats
from tidegate.core.display import counted
from tidegate.core.effects import Effect, Upsert
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.flavours import Bound
from tidegate.core.ledger import Ledger
from tidegate.core.ports.source import Probe
from tidegate.core.ports.strategy import Strategy
from tidegate.core.position import Position
from tidegate.core.slices import Range
from tidegate.core.source_identity import check_continues, check_owner
from tidegate.core.spelling import suggest
from tidegate.errors import ColumnMissing, ConfigError, HistoryGone, PlanError
from tidegate.strategies._rechecks import LookbackResult, Rechecks, Span

TICK = timedelta(microseconds=1)
CLOCKS_DIFFER = timedelta(hours=1)
"""How far the clocks of machines that read the same files may differ."""
AT = "at"
"""How many rows carry the position's value, where more of them may come."""


BOUND = "bound"
"""The bound of the load, where the column may be written in another zone than it is taken to be."""
LATELY = timedelta(minutes=5)


class OnNull(StrEnum):
    """What to do with rows whose cursor is NULL."""

    STOP = "stop"
    INCLUDE = "include"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark(Strategy):
    """Reads rows between the position and the safe bound, below which no row can still arrive.

    Args:
        column: a timestamp or date column that every insert and update sets.
        fallback: a second column of the same type and digits, for rows in which the first is NULL.
        lookback: how far before the position rows are compared with what was loaded, and read again if they differ; a
            list compares each day (or hour) again when it lies that far back.
        safety_lag: stay this far below the safe bound.
        on_null: what happens to rows whose cursor is NULL: `stop` the load, `include` them whenever they changed, or
            use the `fallback` column.
        clock: who sets the column; with `application` no bound is safe, so `safety_lag` and `lookback` are required.
        time_zone: the time zone of a column without one; the server's unless given.
    """

    kind: ClassVar[str] = "watermark"
    emits: ClassVar[frozenset[type[Effect]]] = frozenset({Upsert})
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "column": {"column": "updated_at"},
        "lookback": {"column": "updated_at", "lookback": "2h"},
        "lookbacks": {"column": "updated_at", "lookback": ["2d", "7d"]},
        "nulls": {"column": "updated_at", "on_null": "include"},
        "fallback": {"column": "updated_at", "on_null": "fallback", "fallback": "created_at"},
        "application": {
            "column": "updated_at",
            "clock": "application",
            "time_zone": "UTC",
            "safety_lag": "15m",
            "lookback": "2h",
        },
    }

    column: str
    fallback: str | None = None
    lookback: timedelta | tuple[timedelta, ...] = timedelta(0)
    safety_lag: timedelta = timedelta(0)
    on_null: OnNull = OnNull.STOP
    clock: Clock = Clock.DATABASE
    time_zone: str | None = None

    @property
    def rereads(self) -> bool:
        """Whether a window or the NULL rows are compared and read again."""
        return bool(self._offsets) or self.on_null is OnNull.INCLUDE

    @property
    def cursor(self) -> tuple[str, ...]:
        """The column, then its fallback."""
        return (self.column, self.fallback) if self.fallback else (self.column,)

    @property
    def bound(self) -> Bound:
        """The safe bound, which depends on what sets the column."""
        return Bound.TIME if self.clock is Clock.DATABASE else Bound.APPLICATION_TIME

    @property
    def bound_request(self) -> TimeBound:
        """The greatest value below which no row can still arrive."""
        return TimeBound(
            column=self.column,
            clock=self.clock,
            lag=self.safety_lag,
            fallback=self.fallback,
            time_zone=self.time_zone,
            # A row goes back to its fallback whenever the first column becomes NULL.
            lookback=max(self._offsets, default=timedelta(0)) if self.fallback is None else None,
        )

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the options on their own."""
        found = []
        if self.clock is Clock.APPLICATION and not (self.safety_lag and self._offsets):
            found.append(
                "clock: application needs safety_lag (longer than the longest transaction and the difference of the "
                "clocks) and lookback (what is compared again), because no bound of such a column is safe"
            )
        if (self.on_null is OnNull.FALLBACK) != (self.fallback is not None):
            found.append("on_null: fallback and the column fallback: must be set together")
        if self.fallback == self.column:
            found.append("fallback: must not be the cursor column itself")
        if min(self.safety_lag, *self._offsets, timedelta(0)) < timedelta(0):
            found.append("lookback and safety_lag cannot be negative")
        elif self._rechecks is not None:
            found.extend(self._rechecks.problems())
        if self._rechecks is not None and self.fallback is not None:
            found.append("lookback of several durations compares days of one column, and there is a fallback")
        return tuple(found)

    def resume(self, value: str | None) -> Mapping[str, Any]:
        """The state of a table that has every row up to a value; its window and NULL rows are read again."""
        if value is None:
            raise ConfigError(
                f"strategy watermark continues from a value of {self.column}, and none was given",
                hint="Give the greatest value up to which the table is complete, such as '2025-01-31 00:00:00.000000'.",
            )
        return self._state(_canonical(value), None, None)

    def resume_at(self, state: Mapping[str, Any]) -> str | None:
        """The value up to which the rows were read."""
        value: str | None = state.get("value")
        return value

    def check_value(self, state: Mapping[str, Any], probe: Probe) -> None:
        """The value must not lie beyond the safe bound of now, nor beyond the clock of files."""
        value, edge = self.resume_at(state), probe.edge()
        if value is None:
            return
        known = edge.upto if edge.final else edge.clock
        if known is None:
            raise ConfigError(
                f"nothing tells now whether {self.column} = {value} lies beyond the clock of the source: it is held "
                f"back by {', '.join(edge.held_by)}",
                hint="Set the position again once that has ended.",
            )
        if beyond(value, known, self._leeway if edge.final else timedelta(0)):
            held = f", held back by {', '.join(edge.held_by)}" if edge.held_by else ""
            raise ConfigError(
                f"{self.column} = {value} lies beyond {known}, up to which the source can be read now{held}: rows that "
                f"are written until then would be missed",
                hint="Give an earlier value, up to which the table holds every row of the source: `tidegate state set "
                "STREAM VALUE`, or `tidegate state adopt STREAM --at VALUE` for a table without a position.",
            )

    def check_position(self, since: Position, probe: Probe) -> None:
        """The source has to go on from where this strategy left it."""
        check_owner(since, self.kind, self.cursor)
        check_continues(since, probe)

    def detect(
        self,
        probe: Probe,
        since: Position | None,
        kept: Ledger | None = None,  # noqa: ARG002 - a cursor is all there is to compare
    ) -> ChangeSet | None:
        """The rows after the position up to the safe bound, and what differs of the lookback window."""
        edge = probe.edge()
        if since is not None:
            self.check_position(since, probe)
        state: Mapping[str, Any] = since.state if since else {}
        value: str | None = state.get("value")
        self._check_clock(value, edge)
        edge, new = self._whole_steps(probe, value, edge)
        self._check_zone(probe, state.get(BOUND), new, edge)
        last = new.last or value
        back = self._look_back(probe, value, last, state)
        more = self._more_at(probe, value, back.spans, state)
        nulls, print_of_nulls = self._nulls(probe, since, state.get("nulls"))
        if not new.rows and not back.spans and not more and not nulls:
            return None
        slices = self._slices((*back.spans, *more), value, last, nulls=nulls)
        stats = [probe.stats(part) for part in slices]
        why = "rows of the lookback window differ from those loaded" if back.spans else ""
        again = f"rows with {self.column} = {value}, up to which the table was loaded, arrived later" if more else None
        reason = "; ".join(
            filter(None, (self._reason(new, value, edge), why, again or "", "rows without a cursor" if nulls else ""))
        )
        more_state = {**self._kept(back), **({} if edge.final else self._at(probe, last))}
        more_state |= {BOUND: edge.upto} if edge.in_utc not in (None, edge.upto) else {}
        return ChangeSet(
            slices=slices,
            effect=Upsert(repeats=again),
            state={**self._state(last, self._window(probe, last), print_of_nulls), **more_state},
            loaded_through=last,
            rows=sum(each.rows for each in stats),
            bytes=sum(each.bytes for each in stats),
            reason=reason,
            edge=edge,
            observed=Observed(arrivals=((0, new.rows), *back.late) if value is not None and self._offsets else ()),
        )

    def _check_clock(self, value: str | None, edge: SafeBound) -> None:
        """Raises HistoryGone when the clock that sets the column went back to before the position.

        A bound is never below an earlier one, whoever writes. Rows that were written since the clock went back carry
        times of before the position; those within the lookback are found by comparing.
        """
        clock = edge.upto if edge.final else edge.clock
        if value is None or clock is None or not beyond(value, clock, self._leeway if edge.final else CLOCKS_DIFFER):
            return
        zone = f" in the time zone {self.time_zone}" if self.time_zone else ""
        raise HistoryGone(
            f"the table was loaded up to {self.column} = {value}, and the clock "
            f"{'of the source' if edge.final else 'here'} is behind that{zone}: rows that "
            f"{'were written since it went back' if edge.final else 'come with the times between'} would be missed",
            hint="Correct `time_zone:` in the strategy if it is not the one in which the column is written, then run "
            "again. Else run a full refresh: `tidegate run STREAM --full-refresh --yes`.",
            restored=edge.final,
            options={"time_zone": self.time_zone},
        )

    def _check_zone(self, probe: Probe, before: str | None, new: SliceStats, edge: SafeBound) -> None:
        """Raises ConfigError where the newest rows show the time of UTC, and the database is in another zone.

        Where that is east of UTC, the bound lies hours after all values, so that rows which commit late would be
        missed: new rows then come below the bound of the last load. West of it, every row waits for hours.

        Args:
            before: that bound.
        """
        utc, upto = edge.in_utc, edge.upto
        if utc is None or upto is None or utc == upto:
            return
        if upto > utc:
            last = new.last if before is not None and new.rows and new.last is not None and new.last <= before else None
        else:
            latest = (datetime.fromisoformat(utc) + LATELY).isoformat(" ", "microseconds")
            ahead = probe.stats(self._range(upto, latest)) if new.later else SliceStats(rows=0)
            last = None if ahead.later else ahead.last
        if last is not None and not beyond(utc, last, LATELY) and not beyond(last, utc, LATELY):
            raise ConfigError(
                f"the newest rows have the time of UTC in {self.column!r}, which has no time zone and is taken to be "
                f"in that of the database",
                hint="Set `strategy: {time_zone: UTC}`, or the zone in which all writers set the column; then "
                "`tidegate verify STREAM` shows whether rows were missed.",
                column=self.column,
            )

    @property
    def _leeway(self) -> timedelta:
        """How far a position may lie above the bound: what is compared again, and what is left out."""
        lookback = max(self._offsets, default=timedelta(0))
        return lookback + min(self.safety_lag, timedelta.max - lookback)

    def _whole_steps(self, probe: Probe, value: str | None, edge: SafeBound) -> tuple[SafeBound, SliceStats]:
        """The edge, below a value that later rows may still get, and the rows up to it.

        A column that keeps whole seconds, or a clock that is cut down to minutes, gives every row of a step the same
        value: until the step has passed, that value is left to a later load. How long a step is, the two greatest
        values tell. A lookback may compare it again anyway.
        """
        if edge.upto is None:
            return edge, SliceStats(rows=0)
        new = probe.stats(self._range(value, edge.upto))
        if new.last is None or not edge.final or self._compares_value or _passed(edge.upto, new.last):
            return edge, new
        upto = earlier(new.last, TICK)
        before = probe.stats(self._range(value, upto))
        if (other := before.last or value) is not None and _passed(edge.upto, new.last, other):
            return edge, new
        more = f"{self.column} = {new.last}, which more rows may still get,"
        return replace(edge, upto=upto, held_by=(*edge.held_by, more)), before

    def _range(self, after: str | None, upto: str | None) -> Range:
        return Range(cursor=self.cursor, after=after, upto=upto)

    def _state(self, value: str | None, window: str | None, nulls: str | None) -> dict[str, Any]:
        return {
            "cursor": list(self.cursor),
            "value": value,
            "window": {"lookback": self._offsets[0].total_seconds(), "fingerprint": window} if window else None,
            "nulls": nulls,
        }

    @property
    def _offsets(self) -> tuple[timedelta, ...]:
        """All configured lookbacks."""
        if isinstance(self.lookback, tuple):
            return self.lookback
        return (self.lookback,) if self.lookback else ()

    @property
    def _compares_value(self) -> bool:
        """Whether every run compares the rows with the position's value with those that were loaded."""
        return bool(self._offsets) if self._rechecks is None else timedelta(0) in self._offsets

    @property
    def _rechecks(self) -> Rechecks | None:
        """The days that are compared one by one; None if one window is compared."""
        several = isinstance(self.lookback, tuple) and bool(self.lookback)
        return Rechecks(column=self.column, offsets=self._offsets) if several else None

    def _look_back(self, probe: Probe, value: str | None, last: str | None, state: Mapping[str, Any]) -> LookbackResult:
        """The ranges before the position that differ."""
        if self._rechecks is not None:
            return self._rechecks.look(probe, value, last, state.get("rechecks"))
        if value is None or not self._offsets:
            return LookbackResult()
        (length,), window = self._offsets, state.get("window")
        known = window["fingerprint"] if window and window["lookback"] == length.total_seconds() else None
        now = self._window(probe, value)
        if now == known:
            return LookbackResult()
        more = _rows(now) - _rows(known) if known is not None else 0
        late = ((round(length.total_seconds()), more),) if more > 0 else ()
        return LookbackResult(spans=((earlier(value, length), value),), late=late)

    def _more_at(
        self, probe: Probe, value: str | None, spans: Sequence[Span], state: Mapping[str, Any]
    ) -> tuple[Span, ...]:
        """The position's own value, if rows with it arrived after it was loaded."""
        if value is None or AT not in state or self._compares_value or any(span[1] == value for span in spans):
            return ()
        return ((earlier(value, TICK), value),) if self._at(probe, value)[AT] > state[AT] else ()

    def _at(self, probe: Probe, value: str | None) -> dict[str, int]:
        """The number of rows with a value; kept beside a lookback, too, which may be gone when the next load begins."""
        if value is None:
            return {}
        return {AT: probe.stats(self._range(earlier(value, TICK), value)).rows}

    def _slices(self, spans: Sequence[Span], value: str | None, last: str | None, *, nulls: bool) -> tuple[Range, ...]:
        """The ranges of the lookback and of the new rows, joined if they meet."""
        apart = [span for span in spans if span[1] != value]
        after = next((span[0] for span in spans if span[1] == value), value)
        older = tuple(self._range(*span) for span in apart)
        if (after, value) == (value, last) and not nulls:
            return older
        return (*older, Range(cursor=self.cursor, after=after, upto=last, nulls=nulls))

    def _kept(self, back: LookbackResult) -> dict[str, Any]:
        return {"rechecks": back.state} if back.state is not None else {}

    def _window(self, probe: Probe, value: str | None) -> str | None:
        """The fingerprint of the one window before a value; None without one."""
        if value is None or not self._offsets or self._rechecks is not None:
            return None
        return str(probe.fingerprint(self._range(earlier(value, self._offsets[0]), value)))

    def _nulls(self, probe: Probe, since: Position | None, loaded: str | None) -> tuple[bool, str | None]:
        """Whether the rows without a cursor have to be read, and their fingerprint."""
        columns = [probe.schema().find(name) for name in self.cursor]
        missing = [name for name, column in zip(self.cursor, columns, strict=True) if column is None]
        if missing:
            raise ColumnMissing(
                f"the source has no column {missing[0]!r}; {suggest(missing[0], probe.schema().names)}",
                column=missing[0],
            )
        if any(column is not None and not column.nullable for column in columns):
            return False, None
        part = Range(cursor=self.cursor, after=None, upto=None, nulls=True)
        if self.on_null is OnNull.INCLUDE:
            found = probe.fingerprint(part)
            return (found.rows > 0 if since is None or loaded is None else str(found) != loaded), str(found)
        rows = probe.stats(part).rows
        if rows:
            raise PlanError(
                f"{counted(rows, 'row', 'have')} NULL in {' and '.join(self.cursor)}, so it is unknown when "
                f"they changed",
                hint="Set `strategy: {on_null: include}`, or `{on_null: fallback, fallback: created_at}`.",
            )
        return False, None

    def _reason(self, new: SliceStats, value: str | None, edge: SafeBound) -> str:
        if not new.rows:
            return ""
        after = f"after {value} " if value else ""
        return f"{counted(new.rows, 'row')} with {self.column} {after}up to {edge.upto}"


def _passed(upto: str, last: str, *others: str) -> bool:
    """Whether the step of the greatest value ends within an inclusive bound; that of a date or a number always does."""
    if len(last) == DAY_LENGTH or last.isdigit():
        return True
    return datetime.fromisoformat(last) + step(last, *others) <= datetime.fromisoformat(upto) + TICK


def _rows(window: str | None) -> int:
    return Fingerprint.parse(window).rows if window else 0


def _canonical(value: str) -> str:
    """A date or a timestamp as canonical text; one with a zone in UTC.

    Raises:
        ConfigError: neither.
    """
    try:
        if len(value) == DAY_LENGTH:
            return date.fromisoformat(value).isoformat()
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise ConfigError(
            f"{value!r} is not a date or timestamp",
            hint="Use a form such as '2025-01-31' or '2025-01-31 12:00:00.000000'.",
        ) from error
    if moment.tzinfo is not None:
        moment = (moment - (moment.utcoffset() or timedelta(0))).replace(tzinfo=None)
    return moment.isoformat(" ", "microseconds")
