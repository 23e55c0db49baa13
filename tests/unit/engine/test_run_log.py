"""The log of a run: what is kept of its events, how much of it, and that it never fails a load."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidegate.engine.events import Event, Journal, Moment, Stage
from tidegate.engine.run_log import LINES, LONGEST, RunLog
from tidegate.errors import RegistryError
from tidegate.registry import logs
from tidegate.registry.store import Registry

RUNS = 5
NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def log():
    return RunLog(listener=lambda _: None, redact=lambda text: text.replace("hunter2", "***"), now=lambda: NOON)


def saved(log, events):
    found = []
    with log.saved(lambda lines, left_out: found.append((lines, left_out))):
        for each in events:
            log(each)
    return found[-1]


def done(detail="", seconds=1.5):
    return Event(stream="a", stage=Stage.READ, moment=Moment.DONE, detail=detail, seconds=seconds)


def working(seconds, share=0.5):
    return Event(stream="a", stage=Stage.READ, moment=Moment.WORKING, detail="job", seconds=seconds, share=share)


def test_a_line_says_when_what_and_how_long_without_secrets(log):
    lines, left_out = saved(log, [Event(stream="a", stage=Stage.READ, moment=Moment.START), done("7 rows\nof hunter2")])
    assert left_out == 0
    assert lines == [
        {"at": NOON.isoformat(), "text": "read start"},
        {"at": NOON.isoformat(), "text": "read done, 1.5 s: 7 rows of ***", "stage": "read", "seconds": 1.5},
    ]


def test_every_event_is_passed_on():
    told = []
    log = RunLog(listener=told.append, redact=str, now=lambda: NOON)
    log(done())
    log(working(1))
    log(working(2))
    assert len(told) == 3


def test_progress_of_a_stage_is_kept_seldom(log):
    lines, _ = saved(log, [working(seconds) for seconds in range(1, 60)])
    assert len(lines) == 5


def test_a_long_log_keeps_its_beginning_and_its_end_and_says_what_it_lacks(log):
    lines, left_out = saved(log, [done(str(number)) for number in range(LINES + 50)])
    assert (len(lines), left_out) == (LINES, 50)
    assert (lines[0]["text"], lines[-1]["text"]) == ("read done, 1.5 s: 0", f"read done, 1.5 s: {LINES + 49}")
    texts = [each["text"] for each in lines]
    assert "read done, 1.5 s: 199" in texts
    assert "read done, 1.5 s: 200" not in texts
    (line,), _ = saved(RunLog(listener=lambda _: None, redact=str, now=lambda: NOON), [done("x" * 9999)])
    assert len(line["text"]) == LONGEST


def test_a_run_that_takes_long_saves_its_log_before_a_stage():
    clock, found = [0.0], []
    log = RunLog(listener=lambda _: None, redact=str, now=lambda: NOON, clock=lambda: clock[0])
    with log.saved(lambda lines, _: found.append(len(lines))):
        for stage in (Stage.DETECT, Stage.PLAN, Stage.READ):
            clock[0] += 6
            log(Event(stream="a", stage=stage, moment=Moment.START))
        assert found == [2]
    assert found == [2, 3]


def test_an_error_saves_the_log_and_a_registry_that_is_gone_hides_no_error(log):
    def refuse(_lines, _left_out):
        raise RegistryError("gone")

    def load():
        with log.saved(refuse):
            log(done())
            raise ValueError("the load")

    with pytest.raises(ValueError, match="the load"):
        load()


def test_a_part_that_runs_beside_the_stage_at_work_is_a_line_with_its_time(log):
    journal = Journal(stream="a", listener=log)
    with log.saved(lambda lines, _: found.extend(lines)):
        found = []
        with journal.stage(Stage.READ), journal.background(Stage.VERIFY, "the source has answered"):
            pass
    assert [each.get("stage") for each in found] == [None, "verify", "read"]
    assert "verify" not in journal.seconds, "only what is waited for counts as the stage"


def test_what_is_told_and_not_a_block_has_its_time_too():
    journal = Journal(stream="a")
    journal.tell(Stage.ADVANCE, Moment.START)
    journal.done(Stage.ADVANCE)
    assert journal.seconds["advance"] > 0


def test_the_registry_keeps_the_logs_of_the_newest_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "RUNS", RUNS)
    clock = iter(NOON + timedelta(minutes=minute) for minute in range(10_000))
    with Registry.open(f"sqlite:///{tmp_path}/registry.db") as registry:
        registry._clock = lambda: next(clock)
        for uid in ("u", "other"):
            registry.register(uid=uid, name=uid, source="s", target="t")
        registry.keep_log("other", "r0", [{"text": "stays"}])
        for number in range(RUNS + 5):
            registry.keep_log("u", f"r{number}", [{"text": "first"}])
        registry.keep_log("u", f"r{RUNS}", [{"text": "first"}, {"text": "second"}], 7)
        kept = [number for number in range(RUNS + 5) if registry.log("u", f"r{number}").lines]
        assert kept == list(range(5, RUNS + 5))
        log = registry.log("u", f"r{RUNS}")
        assert ([line["text"] for line in log.lines], log.left_out) == (["first", "second"], 7)
        assert registry.log("other", "r0").lines == [{"text": "stays"}]
        assert registry.log("u", "unknown").lines == ()
