"""A run that is interrupted ends with 130, says what holds, and the next run completes it."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A shell says 130 of both. Python ends by the signal itself if it arrived while a module was being imported.
INTERRUPTED = (130, -signal.SIGINT)

PROJECT = """\
connections: {shop: "sqlite:///shop.db"}
spark: {master: "local[2]", conf: {spark.driver.memory: 1g, spark.ui.enabled: false}}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    key: [id]
    strategy: {kind: full}
    write: merge
"""


def tidegate(folder, *words) -> subprocess.Popen:
    command = [sys.executable, "-m", "tidegate", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, amount INTEGER)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", ((number, number) for number in range(1000)))
    return tmp_path


def last_runs(folder) -> dict[str, str]:
    """What `status` says of the last run of each stream; `history` says the same."""
    found = {}
    for stream in told(folder, "status")["streams"]:
        run = told(folder, "history", stream["stream"])["runs"][0]
        assert run["error"] == stream["last_error"]
        assert run["outcome"] == stream["last_outcome"]
        assert stream["held_by"] is None
        found[stream["stream"]] = run["outcome"]
    return found


def told(folder, *words):
    with tidegate(folder, *words, "--json") as process:
        return json.loads(process.communicate(timeout=60)[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_half_done(number, folder):
    with tidegate(folder, "run") as process:
        # The first stages are over, Spark starts or works.
        for line in process.stderr:
            if ": plan " in line:
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode in INTERRUPTED, err
    assert "interrupted. Nothing is left half done" in err
    assert "Traceback" not in err
    assert "loaded" not in out
    assert last_runs(folder) == {"orders": "interrupted"}
    with tidegate(folder, "run", "--json") as process:
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, out + err
    (outcome,) = json.loads(out)["streams"]
    assert (outcome["outcome"], outcome["rows_inserted"], outcome["verified"]) == ("loaded", 1000, True)


def test_loads_side_by_side_end_at_once_and_each_says_so(folder):
    file = folder / "tidegate.yaml"
    text = file.read_text(encoding="utf-8")
    head, stream = text.split("  orders:")
    more = stream.replace("lake.shop.orders", "lake.shop.again")
    file.write_text(f"{head}  orders:{stream}  again:{more}", encoding="utf-8")
    with tidegate(folder, "run", "--parallel", "2") as process:
        planned = 0
        for line in process.stderr:
            planned += ": plan " in line
            if planned == 2:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode in INTERRUPTED, err
    assert "Traceback" not in err
    assert last_runs(folder) == {"orders": "interrupted", "again": "interrupted"}
    assert {task["status_cd"] for task in told(folder, "tasks")["tasks"]} == {"ERROR"}
    assert {task["result_payload"]["error"]["code"] for task in told(folder, "tasks")["tasks"]} == {"interrupted"}


def test_a_run_that_was_killed_has_failed_for_everybody_who_asks(folder):
    with tidegate(folder, "run") as process:
        for line in process.stderr:
            if ": plan " in line:
                break
        assert last_runs_running(folder)
        process.kill()
        process.communicate(timeout=60)
    assert last_runs(folder) == {"orders": "failed"}
    assert told(folder, "status")["streams"][0]["last_error"]["code"] == "crashed"


def last_runs_running(folder) -> bool:
    (stream,) = told(folder, "status")["streams"]
    return stream["last_outcome"] == "running" and stream["held_by"] is not None
