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


def count(folder, query):
    with closing(sqlite3.connect(folder / "airline.db")) as connection:
        return connection.execute(query).fetchone()[0]


def test_each_step_did_what_it_should_and_both_sides_are_equal(demo):
    folder, document = demo
    assert (document["equal"], document["error"]) == (True, None)
    tables = ("flights", "weather", "airlines", "airports", "planes")
    assert all(proof.equal and proof.source.rows for proof in prove(folder, folder / "airline.db", tables))
    done, day = {step["step"]: step for step in document["steps"]}, document["arrivals"]
    assert done["first load"]["rows"] == sum(document["source_rows"].values())
    changed = {outcome["stream"]: outcome for outcome in done["one day of changes"]["streams"]}
    assert changed["flights"]["rows_inserted"] == day["scheduled"]
    assert changed["flights"]["rows_updated"] == day["closed"] + day["cancelled"] + day["corrected"]
    assert changed["weather"]["rows_inserted"] == day["weather"]
    planned = {plan["stream"]: plan["rows"] for plan in document["plan"]["streams"]}
    assert planned == {name: outcome["rows_read"] for name, outcome in changed.items()}
    assert {outcome["outcome"] for outcome in done["nothing changed"]["streams"]} == {"unchanged"}
    assert [done[step]["spark_started"] for step in ("first load", "nothing changed")] == [True, False]
    both = count(folder, "SELECT (SELECT count(*) FROM flights) + (SELECT count(*) FROM weather)")
    assert done["full reload"]["rows"] == both
    moved = [each for step in document["steps"] for each in step["streams"] if each["outcome"] == "loaded"]
    assert {outcome["verified"] for outcome in moved} == {True}


def test_the_user_can_go_on(demo):
    folder, _ = demo
    day = tidegate("tidegate_demo", str(folder))
    assert day.returncode == 0, day.stderr
    planned = tidegate("tidegate", "plan", "flights", "--project", str(folder), "--json")
    assert planned.returncode == 0, planned.stderr
    (plan,) = json.loads(planned.stdout)["streams"]
    newest = count(folder, "SELECT count(*) FROM flights WHERE updated_at > '2013-12-11 05:00:00'")
    assert plan["rows"] == newest > 0
