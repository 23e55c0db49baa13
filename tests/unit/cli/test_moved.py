"""What a run did to its rows is told the same in `run`, `history` and `watch`, with the rows that it set aside."""

import dataclasses
from datetime import UTC, datetime

import pytest

from tidegate.cli.commands import load, watch
from tidegate.cli.moved import MOVED, moved
from tidegate.cli.shell import Shell
from tidegate.core.outcome import Outcome, Result
from tidegate.core.report import RunReport
from tidegate.engine.watch import WatchResult

NOW = datetime(2025, 3, 1, 9, tzinfo=UTC)
SET_ASIDE = (
    "6,667 of 20,000 rows that were read are in quarantine, not in the table; "
    "`tidegate quarantine show orders` shows them"
)


@pytest.fixture
def outcome() -> Outcome:
    return Outcome(
        stream="orders",
        outcome=Result.LOADED,
        strategy="full",
        rows_read=20_000,
        rows_inserted=13_333,
        rows_quarantined=6_667,
        rows_warned=12,
        verified=True,
        seconds={"total": 12.34},
    )


def test_the_cells_of_a_run(outcome):
    assert dict(zip(MOVED, moved(outcome.to_dict()), strict=True)) == {
        "outcome": "loaded",
        "read": "20,000",
        "inserted": "13,333",
        "updated": "0",
        "deleted": "0",
        "quarantined": "6,667",
        "warned": "12",
        "verified": "yes",
        "time": "12.3 s",
    }


def test_a_run_that_has_not_ended_has_no_numbers():
    assert moved({"outcome": "running"}) == ("running", *(["-"] * 8))


def test_rows_set_aside_are_told(outcome):
    assert outcome.set_aside == SET_ASIDE
    assert dataclasses.replace(outcome, rows_quarantined=0).set_aside is None
    assert "1 of 20,000 rows that were read is in" in str(dataclasses.replace(outcome, rows_quarantined=1).set_aside)


def test_run_shows_them(outcome, tmp_path, capsys):
    report = RunReport(run_id="r", started_at=NOW, finished_at=NOW, streams=(outcome,))
    load._tell_run(Shell(folder=tmp_path), report)
    head, line = (each.split() for each in capsys.readouterr().out.splitlines())
    told = dict(zip(head, line, strict=False))
    assert (told["quarantined"], told["warned"]) == ("6,667", "12")


def test_watch_shows_them(outcome, tmp_path, capsys):
    turned = WatchResult(stream="orders", ended_at=NOW, next_at=NOW, outcome=outcome)
    watch._tell(Shell(folder=tmp_path), turned)
    line, note = capsys.readouterr().out.splitlines()
    assert "loaded, 13,333 inserted, 0 updated, 6,667 quarantined, 12 warned, 12.3 s" in line
    assert note == f"orders: {SET_ASIDE}"
