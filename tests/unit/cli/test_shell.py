"""The border of every command: errors, secrets, interruption."""

import json
import logging
import warnings
from pathlib import Path

import pytest

from tidegate.cli.logs import LogFormat, LogLevel
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count, seconds, size, yes
from tidegate.config.secrets import redacting
from tidegate.errors import ConfigError, PositionMissing


def shell(**values) -> Shell:
    made = Shell(folder=Path(), **values)
    made.redact = lambda text: text.replace("hunter2", "***")
    return made


def failing(error):
    def work():
        raise error

    return work


def test_an_error_is_one_sentence_with_code_and_hint(capsys):
    assert shell().guard(failing(PositionMissing("the table of hunter2 has rows"))) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[position_missing]: the table of *** has rows\n  hint: Take the table over with")


def test_every_other_problem_follows_and_with_json_the_error_is_the_document(capsys):
    shell().guard(failing(ConfigError("one", more=("two", "three"))))
    assert capsys.readouterr().err.splitlines()[1:3] == ["error[config]: two", "error[config]: three"]
    assert shell(as_json=True).guard(failing(ConfigError("no hunter2", hint="h"))) == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {"error": {"code": "config", "message": "no ***", "hint": "h"}, "exit_code": 2}


@pytest.mark.parametrize("level", [LogLevel.INFO, LogLevel.DEBUG])
def test_a_bug_is_told_as_one_and_the_traceback_is_for_debug(capsys, level):
    assert shell(log_level=level).guard(failing(KeyError("hunter2"))) == 1
    err = capsys.readouterr().err
    assert "error[internal]: KeyError: '***'" in err
    assert ("Traceback" in err, "hunter2" in err) == (level is LogLevel.DEBUG, False)


@pytest.mark.parametrize("as_json", [True, False])
def test_an_interruption_ends_with_130_and_says_what_holds(as_json, capsys):
    assert shell(as_json=as_json).guard(failing(KeyboardInterrupt())) == 130
    assert "Nothing is left half done" in "".join(capsys.readouterr())


def test_a_document_is_redacted_and_stays_json(capsys):
    one = shell(as_json=True)
    one.redact = lambda text: text.replace('"quoted"', "***")
    for told in (one.document, one.line):
        told({"a": ['x "quoted" y'], "b": {"c": 1, "d": None}})
        assert json.loads(capsys.readouterr().out) == {"a": ["x *** y"], "b": {"c": 1, "d": None}}


@pytest.mark.parametrize("password", ["1", "true", "null", "a"])
def test_a_short_password_changes_no_number_and_no_name(password, capsys):
    one = shell(as_json=True)
    one.redact = redacting(f"postgresql://u:{password}@h/db")
    for told in (one.document, one.line):
        told({"a": [1, 1.5, True, None], "b": f"is {password}"})
        assert json.loads(capsys.readouterr().out) == {"a": [1, 1.5, True, None], "b": "is ***"}


def test_a_table_for_a_pipe_is_plain_and_whole(capsys):
    name = "n" * 200
    shell().table(Table(columns=("stream", "rows"), rows=((name, "1"), ("hunter2", "22"))))
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{'stream':200}  rows", f"{name}  1", f"{'***':200}  22"]


def test_figures_for_people():
    assert [count(1234567), count(None)] == ["1,234,567", "-"]
    assert [size(999), size(1500), size(2_500_000), size(10**16), size(None)] == [
        "999 B",
        "1.5 kB",
        "2.5 MB",
        "10000.0 TB",
        "-",
    ]
    assert [seconds(1.25), seconds(None)] == ["1.2 s", "-"]
    assert [yes(value=True), yes(value=False), yes(value=None)] == ["yes", "no", "-"]


@pytest.fixture
def clean_logging():
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("tidegate").level)
    yield
    logging.captureWarnings(capture=False)
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    logging.getLogger("tidegate").setLevel(before[2])


def logged(capsys, **values) -> list[str]:
    shell(**values).set_up_log()
    own = logging.getLogger("tidegate")
    own.debug("a detail")
    own.info("stage %s", "done", extra={"stream": "hunter2", "count": 3})
    own.warning("careful")
    logging.getLogger("py4j").info("chatter")
    logging.getLogger("other").error("trouble with hunter2")
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()


@pytest.mark.usefixtures("clean_logging")
def test_the_log_as_json(capsys):
    lines = [json.loads(line) for line in logged(capsys, log_format=LogFormat.JSON)]
    assert [line["event"] for line in lines] == ["stage done", "careful", "trouble with ***"]
    assert (lines[0]["stream"], lines[0]["count"], lines[0]["level"]) == ("***", 3, "info")
    assert lines[0]["timestamp"].endswith("Z")


@pytest.mark.usefixtures("clean_logging")
def test_the_log_as_text(capsys):
    lines = logged(capsys)
    assert len(lines) == 3
    assert "stage done" in lines[0]
    assert "stream=***" in lines[0]
    assert "\x1b" not in "".join(lines)


@pytest.mark.usefixtures("clean_logging")
@pytest.mark.parametrize(("values", "told"), [({"quiet": True}, 2), ({"log_level": LogLevel.ERROR}, 1)])
def test_less_can_be_asked_for(values, told, capsys):
    assert len(logged(capsys, **values)) == told


@pytest.mark.usefixtures("clean_logging")
def test_secrets_that_are_known_later_are_masked_too(capsys):
    one = shell()
    one.set_up_log()
    one.redact = lambda text: text.replace("later", "***")
    logging.getLogger("tidegate").error("not later")
    assert "not ***" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
@pytest.mark.usefixtures("clean_logging")
def test_warnings_of_libraries_are_no_output(capsys):
    shell().set_up_log()
    warnings.warn("deprecated", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == ""
