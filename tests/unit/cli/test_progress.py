"""Progress: a live line on a terminal, plain lines for a pipe, records for a log."""

import io
import json
import logging
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.cli.logs import LogFormat
from tidegate.cli.progress import progress
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, render
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.engine.events import STAGES, Event, Moment, Stage, journals


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def events(stream="or[d]ers"):
    for stage in STAGES:
        yield Event(stream=stream, stage=stage, moment=Moment.START)
        yield Event(stream=stream, stage=stage, moment=Moment.DONE, seconds=1.25, detail=f"hunter2 {stage}")


def shell(**values) -> Shell:
    made = Shell(folder=Path(), **values)
    made.redact = lambda text: text.replace("hunter2", "***")
    return made


def told(one: Shell) -> None:
    with progress(one) as listener:
        for event in events():
            listener(event)


def test_a_pipe_gets_one_line_a_stage(capsys):
    told(shell())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"or[d]ers: {stage} 1.25 s  *** {stage}" for stage in STAGES]


ENDED = Outcome(
    stream="orders",
    outcome=Result.LOADED,
    strategy="full",
    rows_read=20_000,
    rows_inserted=13_333,
    rows_quarantined=6_667,
    seconds={"read_write": 10.0, "total": 12.34},
)
REFUSED = Outcome(
    stream="orders",
    outcome=Result.STOPPED,
    strategy="full",
    error=Problem(code="check_failed", message="m", hint="h"),
    seconds={"total": 1.0},
)


def whole_stream(outcome=ENDED, place=(3, 12)):
    about = {"stream": "orders", "place": place}
    yield Event(**about, stage=Stage.DETECT, moment=Moment.BEGUN)
    yield Event(**about, stage=Stage.READ, moment=Moment.START)
    yield Event(**about, stage=Stage.READ, moment=Moment.WORKING, detail="starting Spark")
    for second in range(1, 31):
        at_work = {"moment": Moment.WORKING, "detail": f"Spark task {second} of 40", "share": second / 40}
        yield Event(**about, stage=Stage.READ, rows=20_000, seconds=float(second), **at_work)
    yield Event(**about, stage=Stage.READ, moment=Moment.RETRY, seconds=0.5, detail="attempt 2 of 3 after hunter2")
    yield Event(**about, stage=Stage.ADVANCE, moment=Moment.ENDED, outcome=outcome)


def say(one, told):
    with progress(one) as listener:
        for event in told:
            listener(event)


def test_a_pipe_gets_begin_spark_rows_now_and_then_retries_and_the_end(capsys):
    say(shell(), whole_stream())
    assert capsys.readouterr().err.splitlines() == [
        "orders: stream 3 of 12",
        "orders: read in progress: starting Spark",
        "orders: read in progress: ~5,000 of 20,000 rows, ~500 rows/s, Spark task 10 of 40",
        "orders: read in progress: ~10,000 of 20,000 rows, ~500 rows/s, Spark task 20 of 40",
        "orders: read in progress: ~15,000 of 20,000 rows, ~500 rows/s, Spark task 30 of 40",
        "orders: retry in 0.5 s: attempt 2 of 3 after ***",
        "orders: loaded, 13,333 inserted, 6,667 quarantined, 12.3 s, 2,000 rows/s",
    ]


def test_the_end_names_the_error_and_a_single_stream_is_not_counted(capsys):
    say(shell(), whole_stream(REFUSED, place=(1, 1)))
    lines = capsys.readouterr().err.splitlines()
    assert (lines[0], lines[-1]) == (
        "orders: read in progress: starting Spark",
        "orders: stopped (check_failed), 1.0 s",
    )


def test_a_terminal_drops_streams_that_have_ended_and_keeps_a_line_of_each(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    told = list(whole_stream())
    with progress(shell()) as listener:
        for event in told[:-1]:
            listener(event)
        moving = plain(terminal)
        listener(told[-1])
        before = len(terminal.getvalue())
        listener(replace(told[0], stream="items", place=(4, 12)))
    assert "[3/12] orders" in moving
    assert "starting Spark" in moving
    assert "~15,000 of 20,000 rows, ~500 rows/s" in moving
    assert "retry in 0.5 s: attempt 2 of 3 after ***" in moving
    assert "[3/12] orders  loaded, 13,333 inserted, 6,667 quarantined" in plain(terminal)
    assert "orders" not in plain(terminal, before), "it does not spin any more"
    assert "[4/12] items" in plain(terminal, before)


def plain(terminal, begin=0):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()[begin:])


def test_json_leaves_stdout_alone_and_quiet_gets_nothing(capsys):
    say(shell(as_json=True), whole_stream())
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 7)
    told(shell(quiet=True))
    assert capsys.readouterr() == ("", "")
    for values in ({"quiet": True}, {"as_json": True}):
        with progress(shell(**values), with_json=False) as listener:
            for event in compared():
                listener(event)
    assert capsys.readouterr().err == ""


def test_a_json_log_gets_records(capsys):
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    try:
        one = shell(log_format=LogFormat.JSON)
        one.set_up_log()
        told(one)
    finally:
        logging.captureWarnings(capture=False)
        root.setLevel(before[0])
        root.handlers[:] = before[1]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert len(lines) == 2 * len(STAGES)
    assert lines[1] | {"timestamp": ""} == {
        "event": "stage",
        "level": "info",
        "logger": "tidegate",
        "stream": "or[d]ers",
        "stage": "detect",
        "moment": "done",
        "seconds": 1.25,
        "detail": "*** detect",
        "timestamp": "",
    }


def test_a_terminal_gets_a_live_line_that_leaves(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    told(shell())
    text = terminal.getvalue()
    assert "or[d]ers" in text
    assert str(Stage.ADVANCE) in text
    assert "hunter2" not in text
    assert "\x1b[2K" in text


@pytest.mark.parametrize("cell", ["plain", "[bold]markup[/]", "🙂", "x" * 300])
def test_a_table_on_a_terminal_shows_every_cell_as_it_is(cell, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    render(Table(columns=("stream", "outcome"), rows=((cell, "loaded"),)), terminal)
    shown = terminal.getvalue()
    assert "\x1b[" in shown
    assert sum(shown.count(letter) for letter in set(cell)) >= len(cell)
    assert "loaded" in shown


RAN = ("orders", "loaded", "20,000", "13,333", "6,667")


def shown(columns, rows, monkeypatch, *, width, optional=()):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    render(Table(columns=columns, rows=rows, optional=frozenset(optional)), terminal)
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()]


def test_a_terminal_aligns_numbers_to_the_right(monkeypatch):
    rows = (("a", "1,234"), ("b", "5"))
    lines = [line.strip() for line in shown(("stream", "read"), rows, monkeypatch, width=80)]
    assert lines[-2:] == ["a       1,234", "b           5"]


def test_a_terminal_leaves_out_what_has_nothing_to_say_and_a_pipe_does_not(monkeypatch, capsys):
    columns, rows = ("stream", "read", "quarantined"), (("a", "12", "0"), ("b", "-", "-"))
    assert "quarantined" not in "".join(shown(columns, rows, monkeypatch, width=80, optional=["quarantined"]))
    one = (*rows, ("c", "12", "3"))
    assert "quarantined" in "".join(shown(columns, one, monkeypatch, width=80, optional=["quarantined"]))
    render(Table(columns=columns, rows=rows, optional=frozenset({"quarantined"})), sys.stdout)
    assert capsys.readouterr().out.splitlines()[0].split() == list(columns)


def test_a_narrow_terminal_leaves_out_minor_columns_first(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    table = Table(columns=("stream", "loads", "through"), rows=(("orders", "12", "10:00:00.000000"),), minor={"loads"})
    for width, head in ((40, ["stream", "loads", "through"]), (17, ["stream", "through"])):
        monkeypatch.setenv("COLUMNS", str(width))
        terminal = Terminal()
        render(table, terminal)
        lines = plain(terminal).splitlines()
        assert (lines[0].split(), lines[2].split()[-1]) == (head, "10:00:00")


def test_a_table_wider_than_the_terminal_becomes_blocks_and_no_number_is_broken(monkeypatch):
    columns = ("stream", "outcome", "read", "inserted", "quarantined")
    assert len(shown(columns, (RAN,), monkeypatch, width=60)) == 3, "it fits as a table"
    lines = shown(columns, (RAN, RAN), monkeypatch, width=30)
    assert lines[:5] == [
        "orders",
        "  outcome      loaded",
        "  read         20,000",
        "  inserted     13,333",
        "  quarantined  6,667",
    ]


def compared():
    for journal in journals(["orders", "items"], None):
        found = []
        journal.listener = found.append
        journal.begin()
        with journal.stage(Stage.VERIFY) as tell:
            journal.working("starting Spark")
            tell("20 rows at the source, 20 in lake.shop.orders")
        journal.finish("equal, 1.2 s")
        yield from found


def test_what_ends_otherwise_than_a_load_is_counted_and_told_too(capsys):
    say(shell(), compared())
    lines = re.sub(r"verify [\d.]+ s", "verify 0.00 s", capsys.readouterr().err).splitlines()
    assert lines == [
        line.replace("ORDERS", name).replace("ONE", number)
        for name, number in (("orders", "1"), ("items", "2"))
        for line in (
            "ORDERS: stream ONE of 2",
            "ORDERS: verify in progress: starting Spark",
            "ORDERS: verify 0.00 s  20 rows at the source, 20 in lake.shop.orders",
            "ORDERS: equal, 1.2 s",
        )
    ]
