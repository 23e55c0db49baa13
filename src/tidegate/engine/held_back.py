"""Rows that a run leaves to a later one, because they lie beyond the safe bound; above all those with a time to come.

The position never passes the clock: a row of the year 2099 would else hide all that comes until then.
"""

from __future__ import annotations

from tidegate.core.bounds import TimeBound, beyond
from tidegate.core.display import ahead_of_clock, counted
from tidegate.core.ports.source import Probe
from tidegate.core.slices import Range
from tidegate.dialects.shared.time_bounds import TIMES, latest
from tidegate.engine.context import LoadContext


def ahead_in_source(work: LoadContext) -> int:
    """The source's rows whose cursor lies ahead of the clock; of a source that only runs ask, those of the last run.

    A column without a zone counts by the zone in which it is latest.
    """
    stream, probe = work.stream, work.probe
    bound = stream.bound_request
    if bound is None:
        known = work.context.registry.status(stream=stream.name, with_gaps=False)
        return sum(each.rows_ahead for each in known if each.uid == stream.uid)
    column = probe.schema().find(bound.column) if isinstance(bound, TimeBound) else None
    if not isinstance(bound, TimeBound) or column is None or column.type.kind not in TIMES:
        return 0
    clock, greatest = latest(probe.now(), column.type, bound.time_zone), probe.at_bound().greatest
    if greatest is not None and not beyond(greatest, clock):
        return 0
    return probe.stats(Range(cursor=stream.strategy.cursor, after=clock, upto=clock)).later


def ahead(work: LoadContext) -> int:
    """The same, of a run that has asked for what is new."""
    return ahead_in_source(work) if work.probe.at_bound().later else work.probe.ahead()


def notes(probe: Probe, ahead: int) -> tuple[str, ...]:
    """How many rows wait, for people."""
    later = probe.at_bound().later
    waiting = (f"{counted(later, 'row')} beyond the safe bound {probe.edge().upto}: for a later load",) if later else ()
    return (*waiting, ahead_of_clock(ahead)) if ahead else waiting
