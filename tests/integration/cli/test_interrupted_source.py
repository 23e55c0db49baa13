"""Ctrl-C while SQLite is at work for a load."""

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

PROJECT = """
connections: {{shop: {{url: 'sqlite:///{folder}/shop.db'}}}}
lakes: {{lake: {{format: iceberg}}}}
streams:
  big:
    source: {{connection: shop, table: big}}
    target: lake.shop.big
    key: [id]
    strategy: {{kind: checksum}}
    write: merge
"""


@pytest.mark.slow
def test_an_interruption_in_a_function_of_sqlite_is_no_fault_of_the_data(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("create table big (id integer primary key not null, name text)")
        shop.execute(
            "insert into big with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) "
            "select i, 'name ' || i from n"
        )
    (tmp_path / "tidegate.yaml").write_text(PROJECT.format(folder=tmp_path))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "tidegate", "run", "--local"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as run:
        said = run.stderr.readline()
        time.sleep(1.5)
        run.send_signal(signal.SIGINT)
        said += run.communicate(timeout=60)[1]
    assert run.returncode == 130, said
    assert "interrupted" in said
    assert "UTF-8" not in said
