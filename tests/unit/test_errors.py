"""Every error has its own code, a hint that repairs it, and a line in the table of the documents; the two agree."""

import copy
import pickle
import re
import signal
from pathlib import Path

import pytest

from tidegate import errors
from tidegate.cli.app import COMMANDS, USAGE
from tidegate.errors import INTERRUPTED, TidegateError

DOCUMENT = Path(__file__).parents[2] / "docs" / "errors.md"
LINE = re.compile(r"^\| \[`(?P<code>\w+)`\]\(#(?P=code)\)(?P<again> ↻)? \| (?P<exit>\d+) \| .+ \|$", re.MULTILINE)
OF_THE_COMMAND_LINE = {
    "usage": (USAGE, False),
    "service_lost": (1, False),
    "alert_undelivered": (1, False),
    "interrupted": (INTERRUPTED, False),
    "crashed": (128 + signal.SIGKILL, False),
}


def below(kind: type[TidegateError]) -> list[type[TidegateError]]:
    own = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    return [one for child in own for one in (child, *below(child))]


RAISED = below(TidegateError)


def test_the_document_lists_every_code_with_its_exit_code_and_whether_it_is_retried():
    told = {found["code"]: (int(found["exit"]), bool(found["again"])) for found in LINE.finditer(DOCUMENT.read_text())}
    assert told == {kind.code: (kind.exit_code, kind.retryable) for kind in RAISED} | OF_THE_COMMAND_LINE


def test_every_code_of_the_document_has_a_section():
    sections = re.findall(r"^### `(\w+)`$", DOCUMENT.read_text(), re.MULTILINE)
    assert sections == [found["code"] for found in LINE.finditer(DOCUMENT.read_text())]


def test_the_document_names_commands_that_exist():
    for named in re.findall(r"`tidegate ([a-z]+)", DOCUMENT.read_text()):
        assert named in {*COMMANDS, "state", "alerts"}


def test_codes_are_unique():
    codes = [kind.code for kind in RAISED]
    assert len(codes) == len(set(codes))


def test_the_tree_in_the_docstring_is_the_tree():
    drawn = re.findall(r"^ {4,}(\w+)(?: \*)?  ", errors.__doc__ or "", re.MULTILINE)
    assert sorted(drawn) == sorted(kind.__name__ for kind in RAISED)
    starred = re.findall(r"^ +(\w+) \*", errors.__doc__ or "", re.MULTILINE)
    assert sorted(starred) == sorted(kind.__name__ for kind in RAISED if kind.retryable)


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling_and_has_a_hint(kind):
    error = kind("one sentence", column="a")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (again.message, again.hint, again.context) == ("one sentence", error.hint, {"column": "a"})
    assert error.hint.endswith((".", "`"))
    assert kind.exit_code in (1, 2, 3, 4, 5)
