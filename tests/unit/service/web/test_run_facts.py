"""The waterfall draws stages when they were at work, also those that overlap."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.registry.logs import KeptLog
from tidegate.registry.values import RunRecord
from tidegate.service.web import run_facts

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


def run(seconds=None):
    return RunRecord(
        run_id="r",
        uid="u",
        stream="s",
        outcome="loaded",
        started_at=NOON,
        finished_at=NOON,
        started_by="me",
        details={"seconds": seconds} if seconds else None,
        error=None,
    )


def line(stage, began, took, **more):
    at = (NOON + timedelta(seconds=began + took)).isoformat()
    return {"at": at, "text": f"{stage} done", "stage": stage, "seconds": took, **more}


def bars(picture, stage):
    """Of a stage its bars: begin and length in thousandths, and the lane."""
    found = re.search(rf"<li><span>{stage}</span>(.*?)</li>", picture, re.DOTALL)[1]
    rects = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="[\d.]+" class="(\w+)"', found)
    return [(float(x), float(width), int(float(y)) // 12, kind) for x, y, width, kind in rects]


def test_stages_of_slices_that_overlap_are_drawn_where_they_were():
    log = KeptLog(lines=[line("read", 0, 4), line("read", 3, 3), line("write", 4, 2), line("read", 8, 2)])
    picture = run_facts.waterfall(run(), log)
    assert bars(picture, "read") == [(0, 400, 0, "ok"), (800, 200, 0, "ok"), (300, 300, 1, "ok")]
    assert bars(picture, "write") == [(400, 200, 0, "ok")]
    assert bars(picture, "verify") == []
    assert "9.00 s, 3 parts" in picture


def test_what_runs_beside_other_stages_is_no_part_of_the_seconds_of_its_own():
    log = KeptLog(lines=[line("verify", 1, 3, background=True), line("read", 0, 5), line("verify", 5, 5)])
    picture = run_facts.waterfall(run(), log)
    assert bars(picture, "verify") == [(100, 300, 0, "background"), (500, 500, 0, "ok")]
    assert "<span>5.00 s</span>" in picture


def test_without_a_log_the_stages_follow_each_other():
    picture = run_facts.waterfall(run({"detect": 1.0, "read": 3.0}), KeptLog())
    assert bars(picture, "read") == [(250, 750, 0, "ok")]
    assert run_facts.waterfall(run(), KeptLog()) is None


@pytest.mark.parametrize("left_out", [0, 7])
def test_a_log_says_where_lines_are_left_out(left_out):
    found = run_facts.lines(KeptLog(lines=[line("read", 0, 1), line("write", 1, 1)], left_out=left_out))
    texts = [each["text"] for each in found]
    assert texts == ["read done", *(["7 lines are left out here"] if left_out else []), "write done"]
