"""Which incidents begin, go on and end, given what is wrong now and what people were told before. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

EVENT = ":"
"""In the rule of what happened once: it is told once, and has no end that anybody is told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """Something that is wrong with a stream now.

    Args:
        rule: which one; of an event with the event's own id, as `schema_changed:4f2a`.
        since: when it began, as far as is known.
        command: what a person runs next.
        seen: a person has acknowledged it, so it is not repeated.
    """

    rule: str
    uid: str
    stream: str
    why: str
    since: datetime | None
    command: str
    seen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An alarm that people were told of.

    Args:
        opened_at: when what is wrong began; when it was first noticed where nobody can tell.
        announced_at: when the last message about it was made.
    """

    rule: str
    uid: str
    stream: str
    why: str
    opened_at: datetime
    announced_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What has to be told, and what ended without a word."""

    opened: tuple[Incident, ...] = ()
    repeated: tuple[Incident, ...] = ()
    recovered: tuple[Incident, ...] = ()
    ended: tuple[Incident, ...] = ()


def evaluate(
    alarms: Iterable[Alarm],
    unknown: Container[tuple[str, str]],
    known: Iterable[Incident],
    now: datetime,
    repeat: timedelta,
) -> Changes:
    """One message for each incident, one each time that `repeat` has passed, and one at its end.

    Args:
        unknown: rules and uids of which nobody can tell now: their incidents neither end nor are repeated.
        known: every open incident; those of streams that are gone from the project are not passed.
    """
    wrong = {(each.rule, each.uid): each for each in alarms}
    before = {(each.rule, each.uid): each for each in known}
    opened = tuple(_incident(alarm, now) for key, alarm in wrong.items() if key not in before)
    repeated = tuple(
        replace(before[key], why=alarm.why, announced_at=now)
        for key, alarm in wrong.items()
        if key in before and _again(alarm, before[key], now, repeat)
    )
    over = [each for key, each in before.items() if key not in wrong and key not in unknown]
    return Changes(
        opened=opened,
        repeated=repeated,
        recovered=tuple(each for each in over if EVENT not in each.rule),
        ended=tuple(each for each in over if EVENT in each.rule),
    )


def _again(alarm: Alarm, before: Incident, now: datetime, repeat: timedelta) -> bool:
    return not alarm.seen and EVENT not in alarm.rule and now - before.announced_at >= repeat


def _incident(alarm: Alarm, now: datetime) -> Incident:
    return Incident(
        rule=alarm.rule,
        uid=alarm.uid,
        stream=alarm.stream,
        why=alarm.why,
        opened_at=alarm.since or now,
        announced_at=now,
    )
