"""A JVM that is killed while it starts is a fault of the moment, not of the project: exit code 1, and a retry helps."""

from __future__ import annotations

import json
import os

import pytest

from support.workspace import SqliteShop, Workspace
from tidegate.spark.java import find_java

pytestmark = pytest.mark.slow

JAVA = """#!/bin/sh
case "$*" in
  *launcher.Main*|*-version*) exec {java} "$@" ;;
  *) {end} ;;
esac
"""


@pytest.mark.parametrize(
    ("end", "code", "exit_code", "wanted"),
    [
        ("kill -9 $$", "spark_lost", 1, "ended by signal 9 while it started"),
        ("echo 'Error: no room' >&2; exit 1", "environment", 2, "Spark did not start"),
    ],
)
def test_java_that_ends_while_it_starts(tmp_path, end, code, exit_code, wanted):
    home, shop, workspace = tmp_path / "jdk", SqliteShop(path=tmp_path / "shop.db"), Workspace(folder=tmp_path)
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(JAVA.format(java=find_java().path, end=end), encoding="utf-8")
    java.chmod(0o755)
    shop.sql("create table orders (id integer primary key, name text)", "insert into orders values (1, 'a')")
    one = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": "id",
        "strategy": "full",
        "write": "replace",
    }
    workspace.write({"orders": one}, connections={"shop": {"url": shop.url}})
    done = workspace.cli("run", "--json", env={"JAVA_HOME": str(home), "PATH": os.environ["PATH"]})
    (stream,) = json.loads(done.stdout)["streams"]
    error = stream["error"]
    assert (error["code"], done.returncode) == (code, exit_code), error
    assert wanted in error["message"]
    assert not workspace.has_table("shop.orders")
