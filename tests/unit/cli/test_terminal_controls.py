"""What a name, a value or a server's error holds is shown by a terminal, and never obeyed."""

import io
import json
import logging
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidegate.cli.logs import LogFormat, LogLevel, set_up
from tidegate.cli.progress import progress
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table
from tidegate.core.outcome import Outcome, Result
from tidegate.core.report import RunReport
from tidegate.engine.events import Journal, Stage
from tidegate.errors import ConfigError

NOW = datetime(2025, 3, 1, tzinfo=UTC)
ATTACKS = {
    "clears the screen": "or\x1b[2Jders",
    "sets the title": "\x1b]0;pwned\x07",
    "fills the clipboard": "\x1b]52;c;Y3VybA==\x1b\\",
    "one byte for a sequence": "\x9b31m",
    "overwrites the line": "failed\rloaded",
    "rubs out": "failed\x08\x08\x7f",
    "turns the direction": "\u202etxt.exe",
    "isolates": "a\u2066b\u2069",
    "ends a line": "a\u2028b\x85c",
    "cannot be seen": "a\u200b\ufeffb\U000e0041",
}
ACTIVE = set("".join(ATTACKS.values())) - set(map(chr, range(32, 127)))


class Screen(io.StringIO):
    """A terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(params=["terminal", "pipe"])
def output(request, monkeypatch):
    """Makes what is written to stdout and stderr; called within the test, as pytest has streams of its own for each."""

    def make():
        made = Screen() if request.param == "terminal" else io.StringIO()
        monkeypatch.setattr("sys.stdout", made)
        monkeypatch.setattr("sys.stderr", made)
        return made

    return make


def obeyed(text):
    """The characters in it that a terminal would act on, but for colours of our own."""
    for colour in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[?25l", "\x1b[?25h"):
        text = text.replace(colour, "")
    return ACTIVE & set(text)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_results_errors_and_tables(output, attack):
    output, shell = output(), Shell(folder=Path())
    shell.say(attack)
    shell.result(attack)
    shell.table(Table(columns=("stream", "why"), rows=((attack, attack), ("x" * 200, attack))))
    shell.guard(lambda: _fail(ConfigError(attack, hint=attack, more=(attack,))))
    shell.guard(lambda: _fail(ValueError(attack)))
    said = output.getvalue()
    assert obeyed(said) == set()
    assert said.count(attack.encode("unicode_escape").decode()[:4]) >= 3


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_progress(output, attack):
    output = output()
    with progress(Shell(folder=Path())) as listener:
        journal = Journal(stream=attack, listener=listener, place=(1, 2))
        journal.begin()
        with journal.stage(Stage.DETECT) as detail:
            detail(attack)
        journal.retry(attack, 1.0)
        journal.finish(attack)
    said = output.getvalue()
    if output.isatty():  # which is redrawn by sequences of Rich's own
        said = said.replace("\x1b[2K", "").replace("\x1b[1A", "").replace("\r", "")
        assert ACTIVE & set(said) <= {"\x1b"}
        assert attack not in said
    else:
        assert obeyed(said) == set()


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_logs(monkeypatch, form, attack):
    output = io.StringIO()
    monkeypatch.setattr("sys.stderr", output)
    set_up(level=LogLevel.INFO, form=form, redact=str)
    logging.getLogger("tidegate").warning(attack, extra={"stream": attack})
    assert obeyed(output.getvalue()) == set()
    if form is LogFormat.JSON:
        assert json.loads(output.getvalue())["stream"] == attack


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_a_document_keeps_each_character(output, attack):
    output = output()
    Shell(folder=Path(), as_json=True).document({"stream": attack})
    assert obeyed(output.getvalue()) == set()
    assert json.loads(output.getvalue()) == {"stream": attack}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_results_of_the_library(attack):
    outcome = Outcome(stream=attack, outcome=Result.FAILED, strategy="full", notes=(attack,))
    assert obeyed(str(outcome)) == set()
    assert obeyed(str(RunReport(run_id="1", streams=(outcome,), started_at=NOW, finished_at=NOW))) == set()


def test_a_cell_cannot_pass_for_a_row(monkeypatch):
    output = io.StringIO()
    monkeypatch.setattr("sys.stdout", output)
    Shell(folder=Path()).table(Table(columns=("stream", "outcome"), rows=(("a\norders  loaded", "failed"),)))
    assert len(output.getvalue().splitlines()) == 2


def test_what_is_copied_reaches_a_pipe_as_it_is(monkeypatch):
    for made, expected in ((io.StringIO(), "\u202ea\n"), (Screen(), "\\u202ea\n")):
        monkeypatch.setattr("sys.stdout", made)
        Shell(folder=Path()).verbatim("\u202ea")
        assert made.getvalue() == expected


def test_words_in_every_script_stay(output):
    output = output()
    text = "Grüße 表 Ελληνικά עברית नमस्ते 👩‍👩‍👧 می‌خواهم\tx"
    Shell(folder=Path()).result(text)
    assert output.getvalue() == text + "\n"


def _fail(error):
    raise error
