"""A watch loads what comes, in one warm process, and ends at SIGTERM without breaking a load off."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

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
    schedule: {every: 1s}
    maintenance: {every: 1d}
  never:
    source: {connection: shop, table: orders}
    target: lake.shop.never
    strategy: {kind: full}
    write: replace
"""


def insert(folder, *ids):
    with closing(sqlite3.connect(folder / "shop.db", timeout=30)) as database, database:
        database.executemany("INSERT INTO orders VALUES (?, 1)", ((number,) for number in ids))


def test_a_watch_loads_what_comes_and_ends_when_it_is_asked_to(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, amount INTEGER)")
    insert(tmp_path, 1, 2)
    command = [sys.executable, "-m", "tidegate", "watch", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, **pipes) as process:
        first = json.loads(process.stdout.readline())
        assert (first["stream"], first["outcome"], first["rows_inserted"]) == ("orders", "loaded", 2), first
        assert first["upkeep"]["outcome"] in ("maintained", "unchanged"), first["upkeep"]
        assert first["spark_started"]
        threads = Path(f"/proc/{process.pid}/task").glob("*/children")
        (java,) = "".join(each.read_text(encoding="ascii") for each in threads).split()
        options = Path(f"/proc/{java}/cmdline").read_text(encoding="utf-8")
        assert "TieredStopAtLevel" not in options, "a load of two rows starts the Spark that runs for days"
        assert "G1PeriodicGCInterval" in options
        insert(tmp_path, 3)
        turns = [json.loads(process.stdout.readline())]
        while turns[-1]["outcome"] == "unchanged":
            turns.append(json.loads(process.stdout.readline()))
        assert (turns[-1]["outcome"], turns[-1]["rows_inserted"]) == ("loaded", 1), turns[-1]
        assert not turns[-1]["spark_started"], "the session is warm"
        assert turns[-1]["upkeep"] is None, "maintained a moment ago"
        insert(tmp_path, *range(10, 200))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    last = [json.loads(line) for line in out.splitlines()]
    assert all(turn["outcome"] in ("loaded", "unchanged") for turn in last), "no load was interrupted"
    assert {turn["stream"] for turn in last} <= {"orders"}, "what has no schedule is not run"
