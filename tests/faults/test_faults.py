"""A small sample of the random kills, and a list of faults that names tests which exist."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.kills import play
from faults.matrix import FAULTS
from faults.page import page, sound

ROOT = Path(__file__).parents[2]
KILLS = 3


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_what_a_kill_at_any_moment_leaves_is_repaired_by_one_run(tmp_path):
    done = list(play(int(os.environ.get("TIDEGATE_SEED", "7")), KILLS, tmp_path / "project"))
    assert len(done) == KILLS
    assert [each["wrong"] for each in done if each["wrong"]] == []


def test_every_fault_names_tests_that_exist():
    assert [fault.number for fault in FAULTS] == list(range(1, len(FAULTS) + 1))
    for path, _, name in (test.partition("::") for fault in FAULTS for test in fault.tests):
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_the_page_counts_each_load_that_was_killed(tmp_path):
    lines = [
        {"seed": 1, "repairing": False, "hit": {"append_iceberg": "write start"}, "wrong": {}},
        {"seed": 1, "repairing": True, "hit": {"cdc_delta": "read done"}, "wrong": {"cdc_delta": "2 lost, 1 doubled"}},
        {"seed": 1, "repairing": True, "hit": {"cdc_delta": "read done"}, "wrong": {"all": "stuck: it ended"}},
    ]
    report = tmp_path / "junit.xml"
    names = "classname='tests.integration.cli.test_odd_names' name='test_sqlite[a]'"
    report.write_text(f"<r><testcase {names}/><testcase {names}><failure/></testcase></r>", encoding="utf-8")
    text = page(lines, [report])
    assert "Loads killed: 3. Lost: 2. Doubled: 1. Stuck: 1." in text
    assert "| append | iceberg | 1 | 0 | 0 | 0 | 100.00% |" in text
    assert "| cdc | delta | 2 | 2 | 1 | 1 | - |" in text
    assert "at random moments (above) | 3 | 2 | `crash` |" in text
    assert "| F13 | hostile names | 2 | 1 | `integration/cli/test_odd_names.py` |" in text
    assert not sound([], [report]), "a test failed"
    report.write_text(f"<r><testcase {names}/></r>", encoding="utf-8")
    assert sound(lines[:1], [report])
    assert not sound(lines, [report]), "two kills left something wrong"
    report.write_text("<r/>", encoding="utf-8")
    assert not sound(lines[:1], [report]), "nothing ran"
