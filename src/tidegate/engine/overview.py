"""Every stream of a project at a glance: what the registry knows of it, whether it is due, and what is in quarantine.

Starts no Spark. What cannot be asked never hides the rest.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.config import Config, StreamConfig
from tidegate.core.health import Condition, health, late_at
from tidegate.core.ids import join_name
from tidegate.core.outcome import Problem
from tidegate.core.policies.schedule import Schedule
from tidegate.core.ports.format import Format
from tidegate.engine.assemble import assemble, patterns
from tidegate.engine.assemble.assemble import TableLocation
from tidegate.engine.assemble.selection import Choice
from tidegate.engine.lag import with_lags
from tidegate.engine.quarantine.waiting import waiting_rows
from tidegate.errors import TidegateError
from tidegate.registry.reader import RegistryReader
from tidegate.registry.values import StreamStatus

AT_ONCE = 8
"""So many tables are asked at a time: a catalog far away answers each in a tenth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStream:
    """A stream of the project.

    Args:
        place: where its table is; None for a pattern of which nothing is known.
    """

    status: StreamStatus
    schedule: Schedule | None
    place: TableLocation | None


def overview(
    config: Config, lakes: dict[str, Format], registry: RegistryReader, now: datetime, choice: Choice
) -> list[StreamStatus]:
    """Every stream of the project that is meant, in its order, those that never ran among them.

    Of a pattern whose source does not answer: the streams that ran, else the pattern itself, each with the reason.

    Raises:
        ConfigError: see `Choice.among`.
    """
    known = {each.uid: each for each in registry.status()}
    every = [each for entry in config.streams for each in _of_entry(config, lakes, entry, known)]
    meant = {each.stream for each in choice.among([each.status for each in every], config.streams)}
    found = [each for each in every if each.status.stream in meant]
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="status") as pool:
        statuses = pool.map(lambda each: _with_quarantine(each, config.redact), found)
        statuses_now = [
            _with_schedule(status, each.schedule, now) for status, each in zip(statuses, found, strict=True)
        ]
    return with_lags(statuses_now, config, lakes)


def recorded(
    config: Config, lakes: Mapping[str, Format], known: Sequence[StreamStatus], now: datetime
) -> list[tuple[StreamStatus, StreamConfig]]:
    """Every stream of the project with its entry, as the registry alone tells: no source, log or table is asked.

    A stream of a pattern is there once it ran.
    """
    return _recorded(config.streams, lakes, known, now)


def recorded_stream(
    config: Config, lakes: Mapping[str, Format], registry: RegistryReader, name: str, now: datetime
) -> tuple[StreamStatus, StreamConfig] | None:
    """The same of one stream; None if the project has none of that name. Costs the same in a project of thousands."""
    entries = [
        one for one in config.streams if one.name == name or (one.is_pattern and fnmatch.fnmatchcase(name, one.name))
    ]
    known = registry.status(with_gaps=False, stream=name) if entries else []
    return next(iter(_recorded(entries, lakes, known, now)), None)


def _recorded(
    entries: Sequence[StreamConfig], lakes: Mapping[str, Format], known: Sequence[StreamStatus], now: datetime
) -> list[tuple[StreamStatus, StreamConfig]]:
    by_uid = {each.uid: each for each in known}
    places = {
        place.uid: (place, one) for one in entries if not one.is_pattern for place in [assemble.place_of(one, lakes)]
    }
    found = []
    for uid, (place, one) in places.items():
        new = by_uid.get(uid) or StreamStatus.new(
            uid=uid, stream=one.name, source=assemble.source_name(one), target=str(place.target)
        )
        found.append((new, one))
    ran = [each for each in known if each.uid not in places]
    for entry in entries:
        if entry.is_pattern:
            found += [(each, entry) for each in ran if _is_from_pattern(entry, each)]
    return [(_with_schedule(status, one.schedule, now), one) for status, one in found]


def _of_entry(
    config: Config, lakes: Mapping[str, Format], entry: StreamConfig, known: Mapping[str, StreamStatus]
) -> Iterator[ListedStream]:
    problem, entries = None, []
    try:
        entries = patterns.expanded(config, entry)
    except TidegateError as error:
        problem = _error_summary(error, config.redact)
    places = {place.uid: (place, one) for one in entries for place in [assemble.place_of(one, lakes)]}
    for uid, (place, one) in places.items():
        new = StreamStatus.new(uid=uid, stream=one.name, source=assemble.source_name(one), target=str(place.target))
        yield ListedStream(status=known.get(uid, new), schedule=entry.schedule, place=place)
    if not entry.is_pattern:
        return
    # Tables that the source has no more, or does not tell of now, were loaded all the same.
    own = {assemble.place_of(one, lakes).uid for one in config.streams if not one.is_pattern}
    earlier = [each for uid, each in known.items() if uid not in {*places, *own} and _is_from_pattern(entry, each)]
    for each in earlier:
        yield ListedStream(
            status=replace(each, problem=problem), schedule=entry.schedule, place=assemble.recorded_place(each, lakes)
        )
    if problem is not None and not earlier:
        new = StreamStatus.new(
            uid="", stream=entry.name, source=assemble.source_name(entry), target=join_name(entry.target)
        )
        yield ListedStream(status=replace(new, problem=problem), schedule=None, place=None)


def _is_from_pattern(pattern: StreamConfig, ran: StreamStatus) -> bool:
    """Whether a stream that ran once is one of the pattern's; a registry may hold those of other projects."""
    return fnmatch.fnmatchcase(ran.stream, pattern.name) and ran.source.startswith(f"{pattern.connection}: ")


def _with_quarantine(listed: ListedStream, redact: Callable[[str], str]) -> StreamStatus:
    status, place = listed.status, listed.place
    if place is None or not status.sequence:
        return status
    try:
        rules = waiting_rows(place.format, place.target, place.uid)
    except TidegateError as error:
        return replace(status, rows_quarantined=None, problem=_error_summary(error, redact))
    return replace(status, rows_quarantined=None if rules is None else sum(rules.values()))


def _with_schedule(status: StreamStatus, schedule: Schedule | None, now: datetime) -> StreamStatus:
    condition = _condition(status, schedule)
    status = replace(status, health=health(condition, now))
    if schedule is None or status.held_by is not None or status.paused_at is not None:
        return status
    due_at = schedule.due_at(status.last_run_at, status.registered_at or now, now)
    missed_at = late_at(condition, now)
    return replace(status, due_at=due_at, late=None if missed_at is None else missed_at <= now)


def _condition(status: StreamStatus, schedule: Schedule | None) -> Condition:
    return Condition(
        schedule=schedule,
        last_success_at=status.last_success_at,
        registered_at=status.registered_at,
        last_outcome=status.last_outcome,
        running=status.held_by is not None,
        paused=status.paused_at is not None,
    )


def _error_summary(error: TidegateError, redact: Callable[[str], str]) -> dict[str, str]:
    return Problem(code=error.code, message=redact(error.message), hint=redact(error.hint)).to_dict()
