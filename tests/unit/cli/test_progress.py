"""Progress: a live line on a terminal, plain lines for a pipe, records for a log."""

import io
import json
import logging
import re
import sys
from pathlib import Path

import pytest

from tidegate.cli.logs import LogFormat
from tidegate.cli.progress import progress
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, render
from tidegate.engine.events import STAGES, Event, Moment, Stage


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


def test_quiet_gets_nothing(capsys):
    told(shell(quiet=True))
    assert capsys.readouterr() == ("", "")


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
    assert lines[-3:-1] == ["a        1,234", "b            5"]


def test_a_terminal_leaves_out_what_has_nothing_to_say_and_a_pipe_does_not(monkeypatch, capsys):
    columns, rows = ("stream", "read", "quarantined"), (("a", "12", "0"), ("b", "-", "-"))
    assert "quarantined" not in "".join(shown(columns, rows, monkeypatch, width=80, optional=["quarantined"]))
    one = (*rows, ("c", "12", "3"))
    assert "quarantined" in "".join(shown(columns, one, monkeypatch, width=80, optional=["quarantined"]))
    render(Table(columns=columns, rows=rows, optional=frozenset({"quarantined"})), sys.stdout)
    assert capsys.readouterr().out.splitlines()[0].split() == list(columns)


def test_a_table_wider_than_the_terminal_becomes_blocks_and_no_number_is_broken(monkeypatch):
    columns = ("stream", "outcome", "read", "inserted", "quarantined")
    assert len(shown(columns, (RAN,), monkeypatch, width=60)) == 5, "it fits as a table"
    lines = shown(columns, (RAN, RAN), monkeypatch, width=30)
    assert lines[:5] == [
        "orders",
        "  outcome      loaded",
        "  read         20,000",
        "  inserted     13,333",
        "  quarantined  6,667",
    ]
