"""Looks at every stream, keeps what began and what ended, and sends what people have to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.alerts.channels import send
from tidegate.alerts.rules import OF_RUNS, Judgement, Situation, judge
from tidegate.config import Config
from tidegate.core.incidents import Alarm, Incident, evaluate
from tidegate.core.ports.format import Format
from tidegate.engine.assemble.assemble import recorded_place
from tidegate.engine.lag import with_lags
from tidegate.engine.overview import recorded
from tidegate.engine.quarantine.waiting import waiting_rows
from tidegate.errors import TidegateError
from tidegate.registry.facts import RunFacts
from tidegate.registry.incidents import Notice
from tidegate.registry.recent_history import RecentHistory
from tidegate.registry.store import Registry
from tidegate.registry.values import StreamStatus

ENDED_BY_SUCCESS = ("run_failed", "checks_failed", "delete_guard", "late")
"""Rules that are over once a run ends well."""


TITLES = {
    "run_failed": "run failed",
    "late": "late",
    "lag_over": "behind its log",
    "no_data_for": "no data",
    "failed_within": "a load failed",
    "schema_changed": "columns changed",
    "checks_failed": "checks failed",
    "quarantine_over": "rows in quarantine",
    "verification_differs": "table and source differ",
    "delete_guard": "too many deletes, load stopped",
    "maintenance_failed": "maintenance failed",
    "hook_failed": "hook failed after a load",
    "query_slower": "queries are slower than usual",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What one look at the streams did.

    Args:
        opened, repeated, recovered: incidents that this process told of, and no other.
        sent: messages that a channel took.
        undelivered: messages of the last day that no channel took, and why.
    """

    opened: tuple[Incident, ...] = ()
    repeated: tuple[Incident, ...] = ()
    recovered: tuple[Incident, ...] = ()
    sent: int = 0
    undelivered: tuple[tuple[Notice, str], ...] = ()


def check_alerts(config: Config, lakes: dict[str, Format], registry: Registry, now: datetime) -> Checked:
    """Keeps which incidents began, go on and ended, and sends the messages; several processes at once send one.

    A channel that does not take a message is part of the result, never an error: the message is sent again after five
    minutes, for a day.

    Raises:
        RegistryError: the registry does not answer.
        EnvironmentMissing: there is a message to send, and the extra `alerts` is not installed.
    """
    known = registry.incidents.open()
    streams = situations(config, lakes, registry, known, now)
    judged = {uid: judge(each, config.alerts.rules, now) for uid, each in streams.items()}
    alarms = {(alarm.rule, alarm.uid): alarm for each in judged.values() for alarm in each.alarms}
    of_project = [each for each in known if each.uid in streams]
    changes = evaluate(alarms.values(), _unknown(judged), of_project, now, config.alerts.repeat)

    def messages(kind: str, incident: Incident) -> Sequence[Notice]:
        alarm = alarms.get((incident.rule, incident.uid))
        return _messages(config, streams[incident.uid], (kind, incident, alarm), now)

    kept = registry.incidents.change(changes, messages)
    sent = deliver(config, registry)
    undelivered = tuple(registry.incidents.undelivered())
    return Checked(**kept, sent=sent, undelivered=undelivered)


def situations(
    config: Config, lakes: dict[str, Format], registry: Registry, known: Sequence[Incident], now: datetime
) -> dict[str, Situation]:
    """Every stream of the project by its uid; logs and tables are asked only where a rule needs them."""
    rules = config.alerts.rules
    listed = recorded(config, lakes, registry.status(), now)
    statuses: Sequence[StreamStatus] = [status for status, _ in listed]
    if rules.lag_over is not None:
        statuses = with_lags(statuses, config, lakes)
    if rules.quarantine_over is not None:
        statuses = [_with_quarantine(each, lakes) for each in statuses]
    facts = registry.facts()
    for new in (each for each in statuses if each.uid not in facts):  # what never ran is late only from some time on
        registry.register(uid=new.uid, name=new.stream, source=new.source, target=new.target)
    recent = registry.recent_history(
        queries=rules.query_slower is not None, quarantines=_over_quarantine(statuses, rules.quarantine_over)
    )
    # A difference may be open for other reasons than a run.
    goes_on = {each.uid: now for each in known if each.rule in OF_RUNS and each.rule != "verification_differs"}
    reported_at = registry.incidents.reported(OF_RUNS) | goes_on
    return {
        status.uid: Situation(
            status=status,
            facts=facts.get(status.uid, RunFacts()),
            recent=recent.get(status.uid, RecentHistory()),
            schedule=entry.schedule,
            tags=entry.tags,
            owner=entry.owner,
            reported_at=reported_at.get(status.uid),
        )
        for status, (_, entry) in zip(statuses, listed, strict=True)
    }


def deliver(config: Config, registry: Registry) -> int:
    """Sends the messages that wait; how many a channel took."""
    channels = {name: each.url for name, each in config.alerts.channels.items() if each.url}
    sent = 0
    for notice in registry.incidents.claim(channels):
        problem = send(notice.channel, channels[notice.channel], notice.title, notice.body, notice.kind)
        if problem is None:
            registry.incidents.sent(notice)
            sent += 1
        else:
            registry.incidents.failed(notice, problem)
    return sent


def _over_quarantine(statuses: Sequence[StreamStatus], bound: int | None) -> set[str]:
    return set() if bound is None else {each.uid for each in statuses if (each.rows_quarantined or 0) > bound}


def _unknown(judged: Mapping[str, Judgement]) -> set[tuple[str, str]]:
    return {(rule, uid) for uid, each in judged.items() for rule in each.unknown}


def _messages(
    config: Config, stream: Situation, change: tuple[str, Incident, Alarm | None], now: datetime
) -> list[Notice]:
    kind, incident, alarm = change
    if kind == "recovered" and not config.alerts.recovered:
        return []
    where, success = f"table {stream.status.target}, project {config.name}", stream.status.last_success_at
    by_success = incident.rule in ENDED_BY_SUCCESS and success is not None and success > incident.opened_at
    title = config.redact(title_of(kind, incident))
    body = config.redact(body_of(kind, incident, alarm, where, success if by_success and success else now))
    return [
        Notice(channel=name, kind=kind, title=title, body=body)
        for name, channel in config.alerts.channels.items()
        if (channel.url or name in config.alerts.absent) and channel.takes(stream.tags, stream.owner)
    ]


def _with_quarantine(status: StreamStatus, lakes: Mapping[str, Format]) -> StreamStatus:
    place = recorded_place(status, lakes)
    if place is None or not status.sequence:
        return status
    try:
        waiting = waiting_rows(place.format, place.target, place.uid)
    except TidegateError:
        waiting = None
    return replace(status, rows_quarantined=None if waiting is None else sum(waiting.values()))


def title_of(kind: str, incident: Incident) -> str:
    """One line: the stream and what happened."""
    what = TITLES[incident.rule.partition(":")[0]]
    words = {"opened": what, "repeated": f"still: {what}", "recovered": f"recovered: {what}"}
    return f"{incident.stream}: {words[kind]}"


def body_of(kind: str, incident: Incident, alarm: Alarm | None, where: str, until: datetime) -> str:
    """The message; of a recovery without a command or hint, since there is nothing to do.

    Args:
        where: the table and the project.
        until: of a recovery when it was one.
    """
    lines = [f"stream: {incident.stream}, {where}"]
    if kind == "recovered":
        why, *_ = incident.why.splitlines()
        lines += [f"since: {_moment(incident.opened_at)}, until {_moment(until)}", f"it was: {why}"]
        return "\n".join(lines)
    since = alarm.since if alarm is not None and alarm.since is not None else incident.opened_at
    lines += [f"since: {_moment(since)}", f"why: {incident.why}"]
    if alarm is not None:
        lines.append(f"run: {alarm.command}")
    return "\n".join(lines)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
