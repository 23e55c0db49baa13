"""A run that is interrupted ends with 130, says what holds, and the next run completes it."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_half_done(number, folder):
    with tidegate(folder, "run") as process:
        # The first stages are over, Spark starts or works.
        for line in process.stderr:
            if ": plan " in line:
                break
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted. Nothing is left half done" in err
    assert "Traceback" not in err
    assert "loaded" not in out
    with tidegate(folder, "run", "--json") as process:
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, out + err
    (outcome,) = json.loads(out)["streams"]
    assert (outcome["outcome"], outcome["rows_inserted"], outcome["verified"]) == ("loaded", 1000, True)
