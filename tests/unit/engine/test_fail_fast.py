"""One stream that fails hides no other, unless that is asked for."""

import sqlite3
from contextlib import closing

import pytest

from tidegate.api import Project


@pytest.mark.parametrize(("fail_fast", "ran"), [(False, ["first", "second"]), (True, ["first"])])
def test_one_failure_does_not_hide_the_others(fail_fast, ran, tmp_path, no_spark):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL)")
    stream = {"strategy": {"kind": "sequence", "column": "id"}, "write": "append"}
    streams = {
        name: {**stream, "target": f"lake.shop.{name}", "source": {"connection": "shop", "table": f"no_{name}"}}
        for name in ("first", "second")
    }
    values = {"connections": {"shop": {"url": "sqlite:///shop.db"}}, "streams": streams}
    project = Project.from_dict(values, folder=tmp_path)
    report = project.run(fail_fast=fail_fast)
    project.close()
    assert [(one.stream, one.error.code) for one in report.streams] == [(name, "column_missing") for name in ran]
