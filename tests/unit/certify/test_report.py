"""The report as JSON and Markdown, and what the command prints of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.cli.commands import certify
from tidegate.cli.shell import Shell
from tidegate.core.server import Server
from tidegate_scenarios.report import Case, Report, State

PASSED = Case(group="types", name="c_bigint", state=State.PASSED)
UNSUPPORTED = Case(group="strategies", name="cdc", state=State.NOT_SUPPORTED, detail="no slot | here")
FAILED = Case(group="types", name="c_time", state=State.FAILED, detail="c_time of row 1 is 'a',\nnot 'b'")


def report(*cases: Case, **changed: Any) -> Report:
    values: dict[str, Any] = {
        "dialect": "postgresql",
        "server": Server(product="PostgreSQL", version="15.8 (Debian)", major="15"),
        "versions": {"tidegate": "1.2", "spark": "4.1.3"},
        "date": "2025-03-01",
        "seconds": 61.04,
        "cases": cases,
        "vectors": {"c_bigint": {"declaration": "bigint", "values": [("-1", "-1"), ("2 | 1", "3")]}},
    }
    return Report(**{**values, **changed})


@pytest.mark.parametrize(
    ("cases", "ok"),
    [((PASSED,), True), ((PASSED, UNSUPPORTED), True), ((PASSED, FAILED), False), ((UNSUPPORTED,), False), ((), False)],
)
def test_it_is_a_certificate_if_something_passed_and_nothing_failed(cases: tuple[Case, ...], ok: bool) -> None:
    assert report(*cases).ok is ok


def test_the_document_has_every_case_and_every_value() -> None:
    document = json.loads(json.dumps(report(PASSED, FAILED).to_dict()))
    assert document["counts"] == {"passed": 1, "not supported": 0, "failed": 1}
    assert document["cases"][1] == {"group": "types", "name": "c_time", "state": "failed", "detail": FAILED.detail}
    assert document["vectors"]["c_bigint"]["values"] == [["-1", "-1"], ["2 | 1", "3"]]
    assert document["server"] == {"product": "PostgreSQL", "version": "15.8 (Debian)", "major": "15"}


def test_markdown_has_a_line_a_case_whatever_is_in_it() -> None:
    lines = report(PASSED, UNSUPPORTED, FAILED, left=("tidegate_types",)).markdown().splitlines()
    assert lines[0] == "# PostgreSQL 15.8 (Debian)"
    assert "2025-03-01: 1 passed, 1 not supported, 1 failed, in 61 s." in lines
    assert "| strategies | cdc | not supported | no slot \\| here |" in lines
    assert "| types | c_time | failed | c_time of row 1 is 'a', not 'b' |" in lines
    assert lines[-1] == "Left behind: tidegate_types"


def test_people_see_the_counts_of_each_group_and_what_did_not_pass(capsys: pytest.CaptureFixture[str]) -> None:
    certify._tell(Shell(folder=Path()), report(PASSED, UNSUPPORTED, FAILED))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "group tried passed not supported failed"
    assert "types 2 1 0 1" in lines
    assert "strategies 1 0 1 0" in lines
    assert any(line.startswith("types c_time failed c_time of row 1") for line in lines)
    assert not any(line.startswith("types c_bigint") for line in lines)
    assert lines[-1] == "PostgreSQL 15.8 (Debian): 1 passed, 1 not supported, 1 failed, in 61 s"
