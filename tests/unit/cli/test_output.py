"""Stdout holds what a command says, whatever the code of a source prints."""

import sys

import pytest

pytest.importorskip("dlt")

MODULE = """
import os
import dlt

print("imported")

@dlt.resource
def rows():
    print("yields")
    os.system("echo started")
    yield {"id": 1}
"""
PROJECT = """\
streams:
  rows: {source: {dlt: "talks:rows"}, target: lake.s.rows, strategy: files, write: append}
"""


def test_what_a_source_prints_is_on_stderr(tidegate, capfd, tmp_path, monkeypatch):
    (tmp_path / "tidegate.yaml").write_text(PROJECT)
    (tmp_path / "talks.py").write_text(MODULE)
    with open(1, "w", encoding="utf-8", closefd=False) as stdout:  # as in a process of its own
        monkeypatch.setattr(sys, "stdout", stdout)
        found = tidegate("plan", "--json", "--trust-project")
        assert found.document["streams"][0]["outcome"] == "changed"
        assert [line for line in found.err.splitlines() if line in ("imported", "yields", "started")] == [
            "imported",
            "yields",
            "started",
        ]
        (tmp_path / "tidegate.yaml").write_text("streams: 7")
        assert tidegate("plan", "--json").document["error"]["code"] == "config"
        sys.stdout.write("restored\n")
    assert capfd.readouterr().out == "restored\n"
