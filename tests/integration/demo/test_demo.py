"""The whole demo, as a newcomer starts it: every figure is held against the source by other means."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tidegate_demo.proof import prove

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def tidegate(*arguments):
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, timeout=400)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("somewhere") / "demo"
    done = tidegate("tidegate", "demo", str(folder), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, json.loads(done.stdout)


def steps(document):
    return {step["step"]: step for step in document["steps"]}


def count(folder, query):
    with closing(sqlite3.connect(folder / "airline.db")) as connection:
        return connection.execute(query).fetchone()[0]


def test_it_ends_well_and_both_sides_are_equal(demo):
    folder, document = demo
    assert document["equal"] is True
    assert document["error"] is None
    tables = ("flights", "weather", "airlines", "airports", "planes")
    assert all(proof.equal and proof.source.rows for proof in prove(folder, folder / "airline.db", tables))


def test_each_step_moved_what_it_should(demo):
    folder, document = demo
    done, day = steps(document), document["arrivals"]
    assert done["first load"]["rows"] == sum(document["source_rows"].values())
    changed = {outcome["stream"]: outcome for outcome in done["one day of changes"]["streams"]}
    assert changed["flights"]["rows_inserted"] == day["scheduled"]
    assert changed["flights"]["rows_updated"] == day["closed"] + day["cancelled"] + day["corrected"]
    assert changed["weather"]["rows_inserted"] == day["weather"]
    assert {outcome["outcome"] for outcome in done["nothing changed"]["streams"]} == {"unchanged"}
    both = count(folder, "SELECT (SELECT count(*) FROM flights) + (SELECT count(*) FROM weather)")
    assert done["full reload"]["rows"] == both


def test_everything_that_moved_was_verified_before_it_was_seen(demo):
    _, document = demo
    moved = [o for step in document["steps"] for o in step["streams"] if o["outcome"] == "loaded"]
    assert moved
    assert all(outcome["verified"] is True for outcome in moved)


def test_the_plan_said_what_the_run_did(demo):
    _, document = demo
    planned = {plan["stream"]: plan["rows"] for plan in document["plan"]["streams"]}
    read = {outcome["stream"]: outcome["rows_read"] for outcome in steps(document)["one day of changes"]["streams"]}
    assert planned == read


def test_a_run_without_changes_needs_no_spark(demo):
    _, document = demo
    assert steps(document)["first load"]["spark_started"] is True
    assert steps(document)["nothing changed"]["spark_started"] is False


def test_the_user_can_go_on(demo):
    folder, _ = demo
    day = tidegate("tidegate_demo", str(folder))
    assert day.returncode == 0, day.stderr
    planned = tidegate("tidegate", "plan", "flights", "--project", str(folder), "--json")
    assert planned.returncode == 0, planned.stderr
    (plan,) = json.loads(planned.stdout)["streams"]
    newest = count(folder, "SELECT count(*) FROM flights WHERE updated_at > '2013-12-11 05:00:00'")
    assert plan["rows"] == newest > 0


def test_a_folder_of_somebody_else_is_a_usage_error(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    done = tidegate("tidegate", "demo", str(tmp_path), "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "config"
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
