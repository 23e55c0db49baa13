"""Each rule says what is wrong, since when, why, and what to run; and says nothing of what nobody can tell."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.alerts.check import TITLES, body_of, title_of
from tidegate.alerts.rules import BY_CODE, Situation, judge
from tidegate.cli.app import COMMANDS
from tidegate.config.alerts import AlertRules
from tidegate.core.incidents import evaluate
from tidegate.core.policies.schedule import Schedule
from tidegate.registry.facts import RunFacts
from tidegate.registry.recent_history import RecentHistory
from tidegate.registry.values import HookFailure, StreamStatus

NOW = datetime(2025, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ALL = AlertRules(
    lag_over=timedelta(minutes=5), no_data_for=2 * HOUR, failed_within=HOUR, quarantine_over=0, query_slower=3
)
OFF = AlertRules(**{each.name: None if "None" in str(each.type) else False for each in fields(AlertRules)})


def situation(*, facts=None, recent=None, schedule=HOUR, **status):
    good = replace(
        StreamStatus.new(uid="u", stream="a b", source="s", target="lake.s.t"),
        last_outcome="loaded",
        last_run_at=NOW - HOUR / 2,
        last_success_at=NOW - HOUR / 2,
        loaded_at=NOW - HOUR / 2,
    )
    return Situation(
        status=replace(good, **status),
        facts=RunFacts(**(facts or {})),
        recent=RecentHistory(**(recent or {})),
        schedule=Schedule(every=schedule) if schedule else None,
    )


def failed(code, outcome="failed"):
    error = {"code": code, "message": "what happened", "hint": "`tidegate doctor` helps."}
    return {"last_outcome": outcome, "last_error": error}


CASES = {
    "run_failed": situation(**failed("source")),
    "late": situation(last_success_at=NOW - 2.5 * HOUR),
    "lag_over": situation(lag_seconds=301),
    "no_data_for": situation(recent={"rows_at": NOW - 3 * HOUR}),
    "failed_within": situation(recent={"failed_at": NOW - HOUR / 4}),
    "schema_changed:l1": situation(
        recent={"columns_changed": ("l1", ({"kind": "add_column", "column": "c"},)), "columns_at": NOW - HOUR}
    ),
    "schema_changed": situation(**failed("schema_refused", "stopped")),
    "checks_failed": situation(**failed("check_failed", "stopped")),
    "quarantine_over": situation(rows_quarantined=1),
    "verification_differs": situation(facts={"compared": {"equal": False, "source_rows": 3, "target_rows": 2}}),
    "delete_guard": situation(**failed("delete_fuse", "stopped")),
    "maintenance_failed": situation(facts={"maintenance_failed": {"code": "write", "message": "m"}}),
    "hook_failed": situation(
        hooks_failed=(HookFailure(hook="webhook at h", since=NOW - HOUR, error={"message": "answered 500"}),)
    ),
    "query_slower": situation(recent={"query_seconds": (9.0, 2, 2, 2, 2, 3)}),
}


def test_every_rule_has_a_case_and_a_title():
    names = {each.name for each in fields(AlertRules)}
    assert {rule.partition(":")[0] for rule in CASES} == names == set(TITLES)


def test_a_stream_that_is_well_has_no_alarm():
    assert judge(situation(), ALL, NOW).alarms == ()


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_tells_what_why_and_what_to_run(rule):
    (alarm,) = judge(CASES[rule], ALL, NOW).alarms
    assert (alarm.rule, alarm.uid, alarm.stream) == (rule, "u", "a b")
    words = shlex.split(alarm.command)
    assert words[0] == "tidegate"
    assert "a b" in words
    assert words[1] in {*COMMANDS, "quarantine"}
    (incident,) = evaluate([alarm], (), (), NOW, HOUR).opened
    body = body_of("opened", incident, alarm, "table lake.s.t, project p", NOW)
    assert title_of("opened", incident).startswith("a b: ")
    for part in ("stream: a b, table lake.s.t, project p", "since: 2025-03-01", f"why: {alarm.why}", alarm.command):
        assert part in body


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_that_is_off_says_nothing(rule):
    assert judge(CASES[rule], OFF, NOW).alarms == ()


@pytest.mark.parametrize("code", BY_CODE)
def test_a_load_that_stopped_is_one_incident(code):
    facts = {"compared": {"equal": False}}
    (alarm,) = judge(situation(**failed(code), facts=facts if code == "verify_failed" else None), ALL, NOW).alarms
    assert alarm.rule == BY_CODE[code]


@pytest.mark.parametrize("outcome", ["running", "held", "interrupted"])
def test_of_a_run_that_did_not_end_nobody_can_tell(outcome):
    judged = judge(situation(last_outcome=outcome), ALL, NOW)
    assert not judged.alarms
    assert judged.unknown >= {"run_failed", "checks_failed", "delete_guard"}


def test_a_paused_stream_is_not_late_and_has_not_recovered():
    judged = judge(situation(last_success_at=NOW - 9 * HOUR, paused_at=NOW), ALL, NOW)
    assert not judged.alarms
    assert "late" in judged.unknown


@pytest.mark.parametrize(
    ("schedule", "known", "late"),
    [
        (Schedule(every=HOUR), None, None),
        (Schedule(every=HOUR), NOW, None),
        (Schedule(every=HOUR), NOW - HOUR / 2, None),
        (Schedule(every=HOUR), NOW - HOUR, NOW),
        (Schedule(cron="0 3 * * *"), NOW - 10 * HOUR, None),
        (Schedule(cron="0 3 * * *"), NOW - 34 * HOUR, NOW - 9 * HOUR),
    ],
)
def test_a_stream_that_was_never_loaded_is_late_once_its_turn_has_passed(schedule, known, late):
    new = replace(situation(registered_at=known, last_success_at=None, loaded_at=None), schedule=schedule)
    found = judge(new, AlertRules(), NOW).alarms
    assert [(alarm.rule, alarm.since) for alarm in found] == ([("late", late)] if late else [])
    assert not late or found[0].why == f"its schedule is {schedule}, and it was never loaded"


def test_a_log_or_table_that_does_not_answer_has_not_recovered():
    judged = judge(situation(lag_error={"code": "source"}, rows_quarantined=None), ALL, NOW)
    assert judged.unknown == {"lag_over", "quarantine_over"}


def test_bounds_are_exclusive():
    for well in (
        situation(lag_seconds=300),
        situation(recent={"rows_at": NOW - 2 * HOUR}),
        situation(recent={"failed_at": NOW - 2 * HOUR}),
        situation(recent={"query_seconds": (6.0, 2, 2, 2, 2, 2)}),
        situation(recent={"query_seconds": (9.0, 2, 2, 2, 2)}),
        situation(recent={"query_seconds": (0.9, 0.1, 0.1, 0.1, 0.1, 0.1)}),
        situation(last_success_at=NOW - 9 * HOUR, schedule=None),
    ):
        assert judge(well, ALL, NOW).alarms == ()


@pytest.mark.parametrize(
    ("stream", "since"),
    [
        (situation(**failed("source")), NOW - HOUR / 2),
        (situation(**failed("source"), recent={"failing": {"source": NOW - 5 * HOUR}}), NOW - 5 * HOUR),
        (
            situation(**failed("source"), recent={"failing": {"check_failed": NOW - 9 * HOUR, "write": NOW - HOUR}}),
            NOW - HOUR,
        ),
        (situation(**failed("check_failed"), recent={"failing": {"duplicate_keys": NOW - HOUR}}), NOW - HOUR),
        (situation(last_success_at=NOW - 2.5 * HOUR), NOW - HOUR / 2),
        (situation(facts={"compared": {"equal": False}, "unequal_since": NOW - 3 * HOUR}), NOW - 3 * HOUR),
        (situation(facts={"maintenance_failed": {}, "maintenance_failed_since": NOW - 4 * HOUR}), NOW - 4 * HOUR),
    ],
)
def test_since_is_when_it_began_not_when_somebody_looked(stream, since):
    (alarm,) = judge(stream, ALL, NOW).alarms
    assert alarm.since == since
    (incident,) = evaluate([alarm], (), (), NOW, HOUR).opened
    assert (incident.opened_at, incident.announced_at) == (since, NOW)
    assert f"since: {since:%Y-%m-%d %H:%M:%S}Z" in body_of("opened", incident, alarm, "table t", NOW)


@pytest.mark.parametrize(
    ("waiting", "since"),
    [(1, 1), (3, 1), (5, 2), (6, 4), (9, 4)],  # 9: rows that no run tells of have waited for longer still
)
def test_a_quarantine_is_over_its_bound_since_the_run_that_brought_it_there(waiting, since):
    added = ((NOW - HOUR, 3), (NOW - 2 * HOUR, 2), (NOW - 4 * HOUR, 1))
    (alarm,) = judge(situation(rows_quarantined=waiting, recent={"quarantined": added}), ALL, NOW).alarms
    assert alarm.since == NOW - since * HOUR


def test_durations_are_written_as_people_write_them():
    bounds = AlertRules(lag_over=timedelta(hours=1), no_data_for=timedelta(hours=51), failed_within=timedelta(days=1))
    wrong = situation(lag_seconds=90061, recent={"rows_at": NOW - 60 * HOUR, "failed_at": NOW - HOUR})
    why = {alarm.rule: alarm.why for alarm in judge(wrong, bounds, NOW).alarms}
    assert why["lag_over"] == "its log is 1 d 1 h ahead of the table, more than 1 h"
    assert why["no_data_for"].endswith("for more than 2 d 3 h")
    assert why["failed_within"].endswith("within the last 1 d")


@pytest.mark.parametrize("code", ["source", *BY_CODE])
def test_a_failure_is_told_once_while_it_goes_on_and_after(code):
    recent = {"failed_at": NOW - HOUR / 4}
    judged = judge(situation(**failed(code), recent=recent), ALL, NOW)
    assert [alarm.rule for alarm in judged.alarms] == [BY_CODE.get(code, "run_failed")]
    assert "failed_within" in judged.unknown, "one that is open of an earlier failure neither ends nor is repeated"
    well = situation(recent=recent)
    assert judge(replace(well, reported_at=NOW - HOUR / 4), ALL, NOW).alarms == ()
    (alarm,) = judge(replace(well, reported_at=NOW - HOUR / 2), ALL, NOW).alarms
    assert alarm.rule == "failed_within", "of an earlier failure people were told, not of this one"
    only = replace(ALL, **{BY_CODE.get(code, "run_failed"): False})
    assert [alarm.rule for alarm in judge(situation(**failed(code), recent=recent), only, NOW).alarms] == [
        "failed_within"
    ]


def test_a_difference_found_by_a_comparison_hides_no_failed_load():
    wrong = situation(facts={"compared": {"equal": False}}, recent={"failed_at": NOW - HOUR / 4})
    assert {alarm.rule for alarm in judge(wrong, ALL, NOW).alarms} == {"verification_differs", "failed_within"}
