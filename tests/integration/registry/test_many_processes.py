"""Ten processes of one project at once, of which two want each stream."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

FIVE = range(5)
SPARK = {
    "master": "local[1]",
    "conf": {
        "spark.driver.memory": "512m",
        "spark.ui.enabled": False,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    },
}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def registry(request):
    return {"registry": request.getfixturevalue("pg_url")} if request.param == "postgresql" else {}


@pytest.fixture
def shop(tmp_path):
    made = SqliteShop(path=tmp_path / "shop.db")
    for number in FIVE:
        made.sql(f"create table t{number} (id integer primary key autoincrement, name text)")
        add(made, number, 20 + number)
    return made


def add(shop, number, rows):
    shop.sql(*(f"insert into t{number} (name) values ('{number}-{row}')" for row in range(rows)))


@pytest.fixture
def workspace(tmp_path, shop, registry):
    made = Workspace(folder=tmp_path)
    streams = {
        f"s{number}": {
            "source": {"connection": "shop", "table": f"t{number}"},
            "target": f"lake.shop.t{number}",
            "strategy": {"kind": "sequence", "column": "id"},
            "write": "append",
        }
        for number in FIVE
    }
    made.write(streams, connections={"shop": {"url": shop.url}}, spark=SPARK, **registry)
    return made


def at_once(workspace, streams):
    """A process for each of these streams, all at the same time; exit code and outcome of each."""
    command = [sys.executable, "-m", "tidegate", "run", "--json", "--project", str(workspace.folder)]
    running = [
        subprocess.Popen(
            [*command, stream],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TIDEGATE_TRUST_PROJECT": "1"},
        )
        for stream in streams
    ]
    found = []
    for each in running:
        out, err = each.communicate(timeout=400)
        assert out, err
        found.append((each.returncode, *json.loads(out)["streams"]))
    return found


def exact(workspace, shop, number):
    shown = sorted((row["id"], row["name"]) for row in workspace.rows(f"shop.t{number}"))
    assert shown == shop.rows(f"select id, name from t{number} order by id")
    assert set(workspace.table(f"shop.t{number}").metadata.refs) == {"main"}


def test_ten_processes(workspace, shop):
    """Each of five streams by two of them, which make registry, catalog and tables at once, too."""
    streams = [f"s{number}" for number in FIVE]
    for _ in range(2):
        loaded = []
        for code, outcome in at_once(workspace, streams * 2):
            if outcome["error"]:
                assert (code, outcome["error"]["code"]) == (5, "lease_held"), outcome
                assert "is held by" in outcome["error"]["message"]
            elif outcome["outcome"] == "loaded":
                assert (code, outcome["verified"]) == (0, True), outcome
                loaded.append(outcome["stream"])
            else:
                assert (code, outcome["outcome"]) == (0, "unchanged"), outcome
        assert sorted(loaded) == streams
        for number in FIVE:
            exact(workspace, shop, number)
            add(shop, number, 5)
