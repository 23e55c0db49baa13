"""`status` lists every stream of a project: those that never ran, those of patterns, and what is due."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tidegate.api import Project
from tidegate.core.health import Condition, late_at
from tidegate.core.outcome import Outcome, Result
from tidegate.core.policies.schedule import Schedule
from tidegate.engine.assemble.selection import Choice
from tidegate.engine.overview import overview, recorded
from tidegate.telemetry.metrics import Metrics

NOW = datetime(2025, 3, 1, 9, 0, tzinfo=UTC)
STREAM = {"strategy": {"kind": "full"}, "write": "replace"}
ORDERS = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.shop.orders", **STREAM}


@pytest.fixture
def folder(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        for name in ("orders", "raw_a", "raw_b"):
            database.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY NOT NULL)")
    return tmp_path


def project(folder, **streams) -> Project:
    values = {
        "connections": {"shop": {"url": f"sqlite:///{folder / 'shop.db'}"}},
        "streams": {"orders": ORDERS, **streams},
    }
    return Project.from_dict(values, folder=folder)


PATTERN = {"source": {"connection": "shop", "table": "raw_*"}, "target": "lake.raw.{table}", **STREAM}


def registered(one: Project, ago: timedelta = timedelta(0), run: str | None = None, ended=Result.UNCHANGED) -> str:
    """Makes the stream known that long ago; with a run that ended so."""
    (uid,) = (each.uid for each in one.status())
    registry = one.registry
    registry._clock = lambda: NOW - ago
    registry.register(uid=uid, name="orders", source="shop: orders", target="lake.shop.orders")
    if run:
        registry.start_run(run, uid)
        registry.finish_run(run, Outcome(stream="orders", outcome=ended, strategy="full"))
    return uid


def listed(one: Project) -> dict:
    return {each.stream: each for each in one.status()}


def test_streams_that_never_ran_are_listed(folder):
    with project(folder) as one:
        (status,) = one.status()
    assert (status.stream, status.source, status.target) == ("orders", "shop: orders", "lake.shop.orders")
    assert (status.status, status.last_outcome, status.sequence, status.rows_quarantined) == ("NEW", None, 0, 0)
    assert yaml.safe_load(yaml.safe_dump(status.to_dict()))["last_success_at"] is None


def test_a_pattern_stands_for_its_tables(folder):
    with project(folder, **{"raw.*": PATTERN}) as one:
        assert list(listed(one)) == ["orders", "raw.raw_a", "raw.raw_b"]


def test_tables_that_are_gone_at_the_source_stay_and_other_projects_do_not_come(folder):
    with project(folder, **{"raw.*": PATTERN}) as one:
        uid = listed(one)["raw.raw_b"].uid
        one.registry.register(uid=uid, name="raw.raw_b", source="shop: raw_b", target="lake.raw.raw_b")
        one.registry.register(uid="else", name="raw.other", source="another: raw_b", target="lake.raw.other")
        one.registry.register(uid="more", name="more", source="shop: more", target="lake.raw.more")
        with closing(sqlite3.connect(folder / "shop.db")) as database, database:
            database.execute("DROP TABLE raw_b")
        found = listed(one)
    assert list(found) == ["orders", "raw.raw_a", "raw.raw_b"]
    assert found["raw.raw_b"].uid == uid


def test_a_pattern_whose_source_does_not_answer_says_so(folder):
    with project(folder, **{"raw.*": PATTERN}) as one:
        uid = listed(one)["raw.raw_b"].uid
        (folder / "shop.db").unlink()
        found = listed(one)
        assert list(found) == ["orders", "raw.*"]
        assert found["raw.*"].problem is not None
        assert found["orders"].problem is None
        one.registry.register(uid=uid, name="raw.raw_b", source="shop: raw_b", target="lake.raw.raw_b")
        again = listed(one)
    assert list(again) == ["orders", "raw.raw_b"]
    assert again["raw.raw_b"].problem == found["raw.*"].problem


@pytest.mark.parametrize(
    ("schedule", "ran", "due", "late"),
    [
        ({"every": "5m"}, None, NOW, None),
        ({"every": "5m"}, timedelta(minutes=2), NOW + timedelta(minutes=3), False),
        ({"every": "5m"}, timedelta(minutes=7), NOW - timedelta(minutes=2), False),
        ({"every": "5m"}, timedelta(minutes=10), NOW - timedelta(minutes=5), True),
        ({"cron": "0 * * * *"}, None, NOW + timedelta(hours=1), None),
        ({"cron": "0 * * * *"}, timedelta(minutes=30), NOW, False),
        ({"cron": "0 * * * *"}, timedelta(minutes=90), NOW - timedelta(hours=1), True),
        (None, timedelta(days=9), None, None),
    ],
)
def test_what_is_due_and_what_is_late(schedule, ran, due, late, folder):
    with project(folder, orders=ORDERS | ({"schedule": schedule} if schedule else {})) as one:
        if ran is not None:
            registered(one, ran, "r")
        (status,) = overview(one.config, one.lakes, one.registry, NOW, Choice())
    assert (status.due_at, status.late) == (due, late)


@pytest.mark.parametrize(
    ("schedule", "known", "due", "late", "state"),
    [
        ({"every": "5m"}, timedelta(minutes=4), NOW - timedelta(minutes=4), False, "on_time"),
        ({"every": "5m"}, timedelta(minutes=5), NOW - timedelta(minutes=5), True, "delayed"),
        ({"every": "5m"}, timedelta(minutes=10), NOW - timedelta(minutes=10), True, "error"),
        ({"cron": "0 * * * *"}, timedelta(minutes=59), NOW, False, "on_time"),
        ({"cron": "0 * * * *"}, timedelta(minutes=119), NOW - timedelta(hours=1), True, "delayed"),
    ],
)
def test_a_stream_that_was_never_loaded_is_late_everywhere_alike(schedule, known, due, late, state, folder):
    with project(folder, orders=ORDERS | {"schedule": schedule}) as one:
        registered(one, known)
        ((listed, _),) = recorded(one.config, one.lakes, one.registry.status(), NOW)
        (status,) = overview(one.config, one.lakes, one.registry, NOW, Choice())
        lines = Metrics(config=one.config, lakes=one.lakes, now=lambda: NOW).render().decode().splitlines()
    for each in (status, listed):
        assert (each.due_at, each.late, each.health) == (due, late, state)
    (measured,) = (line for line in lines if line.startswith("tidegate_stream_state{") and line.endswith(" 1"))
    assert f'state="{state}"' in measured


def test_a_stream_at_work_is_neither_due_nor_late(folder):
    with project(folder, orders=ORDERS | {"schedule": {"every": "5m"}}) as one, one.registry.lease(registered(one)):
        (status,) = one.status()
    assert (status.due_at, status.late, status.held_by is None) == (None, None, False)


def test_the_turn_after_the_one_that_was_missed():
    schedule = Schedule(every=timedelta(minutes=5))
    assert schedule.due_at(None, NOW, NOW) == NOW
    assert late_at(Condition(schedule=schedule, registered_at=NOW), NOW) == NOW + timedelta(minutes=5)
    assert late_at(Condition(schedule=schedule, last_success_at=NOW), NOW) == NOW + timedelta(minutes=10)
    assert late_at(Condition(schedule=schedule), NOW) is None


def test_a_stream_that_runs_and_fails_each_time_is_late_as_its_alert_says(folder):
    with project(folder, orders=ORDERS | {"schedule": {"every": "5m"}}) as one:
        for minutes in (9, 4):
            registered(one, timedelta(minutes=minutes), f"r{minutes}", Result.FAILED)
        (status,) = overview(one.config, one.lakes, one.registry, NOW, Choice())
        assert (status.due_at, status.late) == (NOW + timedelta(minutes=1), True)
