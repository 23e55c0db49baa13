"""A small sample of the random kills, and a page that counts what it should."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.kills import play
from faults.matrix import FAULTS
from faults.page import page, ran, sound

TESTS = Path(__file__).parents[1]


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_what_a_kill_at_any_moment_leaves_is_repaired_by_one_run(tmp_path):
    done = list(play(int(os.environ.get("TIDEGATE_SEED", "7")), 3, tmp_path / "project"))
    assert [each["wrong"] for each in done] == [{}] * 3


def test_every_fault_names_tests_that_exist():
    assert [each for _, tests in FAULTS for each in tests if not (TESTS / each).exists()] == []


def test_the_page_counts_each_load_that_was_killed(tmp_path):
    lines = [
        {"seed": 1, "repairing": False, "hit": {"append_iceberg": "write start"}, "wrong": {}},
        {"seed": 1, "repairing": True, "hit": {"cdc_delta": "read done"}, "wrong": {"cdc_delta": "2 lost, 1 doubled"}},
        {"seed": 1, "repairing": True, "hit": {"cdc_delta": "read done"}, "wrong": {"all": "stuck: it ended"}},
    ]
    report = tmp_path / "junit.xml"
    names = "classname='tests.integration.cli.test_odd_names' name='test_sqlite[a]'"
    report.write_text(f"<r><testcase {names}/><testcase {names}><failure/></testcase></r>", encoding="utf-8")
    text = page(lines, ran([report]))
    assert "Loads killed: 3. Lost: 2. Doubled: 1. Stuck: 1." in text
    assert "| append | iceberg | 1 | 0 | 0 | 0 | 100.00% |" in text
    assert "| cdc | delta | 2 | 2 | 1 | 1 | - |" in text
    assert "at random moments (above) | 3 | 2 | `crash`, " in text
    assert "| F13 | hostile names | 2 | 1 | `integration/cli/test_odd_names.py` |" in text
    passed = [("integration/cli/test_odd_names.py", False)]
    assert not sound([], ran([report])), "a test failed"
    assert sound(lines[:1], passed)
    assert not sound(lines, passed), "two kills left something wrong"
    assert not sound(lines[:1], []), "nothing ran"
