"""What is wrong with one stream now, by the rules of the project. Pure: the current time is passed in."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidegate.config.alerts import AlertRules
from tidegate.core.display import counted, short_duration
from tidegate.core.health import Condition, late_at
from tidegate.core.incidents import Alarm
from tidegate.core.outcome import Result
from tidegate.core.policies.schedule import Schedule
from tidegate.registry.facts import RunFacts
from tidegate.registry.recent_history import RecentHistory
from tidegate.registry.values import RUNNING_OUTCOME, StreamStatus

BY_CODE = {
    "check_failed": "checks_failed",
    "duplicate_keys": "checks_failed",
    "verify_failed": "verification_differs",
    "delete_fuse": "delete_guard",
    "schema_refused": "schema_changed",
}
OF_RUNS = ("run_failed", "checks_failed", "verification_differs", "delete_guard", "schema_changed")
EVENT_LASTS = timedelta(days=1)
FEWEST_RUNS = 5
LEAST_DELAY = 1.0
"""Seconds by which a query has to be slower: the usual noise of short ones tells nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Everything that is known of a stream.

    Args:
        status: `lag_seconds` and `rows_quarantined` are None where nobody could tell.
        reported_at: when people were last told of a run that failed, or that it did no longer.
    """

    status: StreamStatus
    facts: RunFacts
    recent: RecentHistory
    schedule: Schedule | None = None
    tags: tuple[str, ...] = ()
    owner: str | None = None
    reported_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is wrong, and the rules of which nobody can tell now."""

    alarms: tuple[Alarm, ...]
    unknown: frozenset[str]


def judge(stream: Situation, rules: AlertRules, now: datetime) -> Judgement:
    """What the rules say of a stream; a rule that is switched off says nothing."""
    alarms = tuple(alarm for alarm in _alarms(stream, rules, now) if _is_on(rules, alarm.rule))
    unknown = set(_unknown(stream))
    if _reported(stream, alarms):
        alarms = tuple(alarm for alarm in alarms if alarm.rule != "failed_within")
        unknown.add("failed_within")
    return Judgement(alarms=alarms, unknown=frozenset(unknown - {alarm.rule for alarm in alarms}))


def _reported(stream: Situation, alarms: Iterable[Alarm]) -> bool:
    """Whether another rule tells, or told, of the last run that failed: a failure is one message."""
    failed, reported = stream.recent.failed_at, stream.reported_at
    now = {alarm.rule for alarm in _of_last_run(stream)}
    return any(alarm.rule in now for alarm in alarms) or (
        failed is not None and reported is not None and failed <= reported
    )


def _is_on(rules: AlertRules, rule: str) -> bool:
    """A bound of 0 is one, too."""
    value = getattr(rules, rule.partition(":")[0])
    return value is not None and value is not False


def _unknown(stream: Situation) -> Iterator[str]:
    status = stream.status
    if status.last_outcome in (RUNNING_OUTCOME, Result.HELD, Result.INTERRUPTED):
        yield from OF_RUNS
    if status.held_by is not None or status.paused_at is not None:
        yield from ("late", "no_data_for", "lag_over", "maintenance_failed")
    if status.lag_error is not None:
        yield "lag_over"
    if status.rows_quarantined is None:
        yield "quarantine_over"


def _alarms(stream: Situation, rules: AlertRules, now: datetime) -> Iterator[Alarm]:
    yield from _of_last_run(stream)
    if stream.status.held_by is None and stream.status.paused_at is None:
        yield from _of_time(stream, rules, now)
    yield from _of_history(stream, rules, now)
    yield from _of_table(stream, rules)


def _of_last_run(stream: Situation) -> Iterator[Alarm]:
    status = stream.status
    if status.last_outcome not in (Result.FAILED, Result.STOPPED):
        return
    error = status.last_error or {}
    error_text = ": ".join(filter(None, (error.get("code"), error.get("message")))) or "the run did not say why"
    rule = BY_CODE.get(error.get("code", ""), "run_failed")
    command = f"tidegate history {_name(status)}"
    if rule == "verification_differs":
        command = f"tidegate verify {_name(status)} --level rows"
    seen = status.acknowledged_at is not None
    since = min(_failing(stream, rule), default=status.last_run_at)
    yield _alarm(stream, rule, _hinted(error_text, error.get("hint")), command, since=since, seen=seen)


def _failing(stream: Situation, rule: str) -> list[datetime]:
    """By each error of this rule when the first run began that failed so since the last success."""
    return [at for code, at in stream.recent.failing.items() if BY_CODE.get(code, "run_failed") == rule]


def _of_time(stream: Situation, rules: AlertRules, now: datetime) -> Iterator[Alarm]:
    status, recent = stream.status, stream.recent
    run = f"tidegate run {_name(status)}"
    if (since := _late_since(stream, now)) is not None:
        last = status.last_success_at
        ended = f"its last success was {_minute(last)}" if last else "it was never loaded"
        why = f"its schedule is {stream.schedule}, and {ended}"
        yield _alarm(stream, "late", why, run, since=since)
    if rules.lag_over is not None and status.lag_seconds is not None:
        lag = timedelta(seconds=status.lag_seconds)
        if lag > rules.lag_over:
            why = f"its log is {short_duration(lag)} ahead of the table, more than {short_duration(rules.lag_over)}"
            yield _alarm(stream, "lag_over", why, run, since=now - lag)
    last = recent.rows_at or status.loaded_at
    if rules.no_data_for is not None and last is not None and now - last > rules.no_data_for:
        why = f"no row was loaded since {_minute(last)}, for more than {short_duration(rules.no_data_for)}"
        yield _alarm(stream, "no_data_for", why, f"tidegate plan {_name(status)}", since=last)


def _late_since(stream: Situation, now: datetime) -> datetime | None:
    """When a stream became late, a whole turn of its schedule after it was due; None of one that is on time."""
    status = stream.status
    condition = Condition(
        schedule=stream.schedule, last_success_at=status.last_success_at, registered_at=status.registered_at
    )
    since = late_at(condition, now)
    return since if since is not None and since <= now else None


def _of_history(stream: Situation, rules: AlertRules, now: datetime) -> Iterator[Alarm]:
    recent, history = stream.recent, f"tidegate history {_name(stream.status)}"
    failed = recent.failed_at
    if rules.failed_within is not None and failed is not None and now - failed <= rules.failed_within:
        why = f"a load failed at {_minute(failed)}, within the last {short_duration(rules.failed_within)}"
        yield _alarm(stream, "failed_within", why, history, since=failed)
    load, changes = recent.columns_changed
    if changes and recent.columns_at is not None and now - recent.columns_at <= EVENT_LASTS:
        listed = ", ".join(f"{each.get('column')} ({str(each.get('kind')).replace('_', ' ')})" for each in changes)
        command = f"tidegate show {_name(stream.status)}"
        yield _alarm(
            stream, f"schema_changed:{load[:16]}", f"columns changed: {listed}", command, since=recent.columns_at
        )
    if rules.query_slower is not None and len(recent.query_seconds) > FEWEST_RUNS:
        took, *before = recent.query_seconds
        usual = statistics.median(before)
        if took > rules.query_slower * usual and took - usual > LEAST_DELAY:
            why = f"the queries that find and verify changes took {took:.1f} s, usually {usual:.1f} s"
            yield _alarm(stream, "query_slower", why, history, since=stream.status.last_run_at)


def _of_table(stream: Situation, rules: AlertRules) -> Iterator[Alarm]:
    status, name = stream.status, _name(stream.status)
    waiting = status.rows_quarantined
    if rules.quarantine_over is not None and waiting is not None and waiting > rules.quarantine_over:
        why = f"{counted(waiting, 'row', 'wait')} in quarantine, more than {rules.quarantine_over:,}"
        since = _over_since(waiting, rules.quarantine_over, stream.recent.quarantined)
        yield _alarm(stream, "quarantine_over", why, f"tidegate quarantine show {name}", since=since)
    compared = stream.facts.compared
    if compared is not None and not compared["equal"] and not _already(stream, "verification_differs"):
        rows = f"{compared.get('source_rows')} rows at the source, {compared.get('target_rows')} in the table"
        why = f"table and source differed when they were last compared: {rows}"
        command = f"tidegate verify {name} --level rows"
        yield _alarm(stream, "verification_differs", why, command, since=stream.facts.unequal_since)
    yield from _of_hooks(stream)
    failed = stream.facts.maintenance_failed
    if failed is not None and status.held_by is None and status.paused_at is None:
        why = _hinted(f"{failed.get('code')}: {failed.get('message')}", failed.get("hint"))
        since = stream.facts.maintenance_failed_since
        yield _alarm(stream, "maintenance_failed", why, f"tidegate maintain {name}", since=since)


def _of_hooks(stream: Situation) -> Iterator[Alarm]:
    """One incident for all hooks of a stream: who is asked looks at the same table."""
    failed = stream.status.hooks_failed
    if failed:
        why = "; ".join(f"{each.hook}: {each.error.get('message')}" for each in failed)
        since = min(each.since for each in failed)
        yield _alarm(stream, "hook_failed", why, f"tidegate run {_name(stream.status)}", since=since)


def _over_since(waiting: int, bound: int, added: Iterable[tuple[datetime, int]]) -> datetime | None:
    """Since when more rows than the bound wait, at least: what was replayed in between only makes it earlier.

    Args:
        added: ends of runs that put rows into quarantine, and how many, newest first.
    """
    at = None
    for ended_at, rows in added:
        at, waiting = ended_at, waiting - rows
        if waiting <= bound:
            break
    return at


def _already(stream: Situation, rule: str) -> bool:
    """Whether the last run says the same: one incident of a kind is enough."""
    return any(alarm.rule == rule for alarm in _of_last_run(stream))


def _alarm(  # noqa: PLR0913 - what an alarm says
    stream: Situation, rule: str, why: str, command: str, *, since: datetime | None = None, seen: bool = False
) -> Alarm:
    status = stream.status
    return Alarm(rule=rule, uid=status.uid, stream=status.stream, why=why, since=since, command=command, seen=seen)


def _hinted(text: str, hint: str | None) -> str:
    return f"{text}\n{hint}" if hint else text


def _name(status: StreamStatus) -> str:
    return shlex.quote(status.stream)


def _minute(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M}Z"
