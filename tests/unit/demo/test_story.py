"""The story prints no figure of a load that failed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tidegate.core.fingerprint import Fingerprint
from tidegate_demo import story
from tidegate_demo.proof import Proof
from tidegate_demo.telling import Teller

GOOD = {
    "stream": "flights",
    "outcome": "loaded",
    "rows_read": 3,
    "rows_inserted": 2,
    "rows_updated": 1,
    "rows_deleted": 0,
    "verified": True,
    "spark_started": True,
    "notes": ["not covered: lat"],
    "error": None,
}
ERROR = {"code": "verify_failed", "message": "rows differ", "hint": "Run again."}
BAD = {**GOOD, "outcome": "failed", "error": ERROR}


@pytest.fixture
def stage(tmp_path):
    console = Console(file=io.StringIO(), width=200)
    return story.Story(directory=tmp_path), Teller(console=console), console


def test_a_step_is_told_with_its_rows_and_spark(stage):
    tale, teller, console = stage
    assert story._step(tale, teller, "first load", "tidegate run", lambda: {"exit_code": 0, "streams": [GOOD]})
    told = console.file.getvalue()
    assert "3 rows read: 2 inserted, 1 updated, verified before it became visible" in told
    assert "started Spark" in told
    assert tale.steps[0].rows == 3
    assert tale.exit_code == 0


@pytest.mark.parametrize(
    "document",
    [{"exit_code": 3, "streams": [GOOD, BAD]}, {"exit_code": 3, "error": ERROR}],
    ids=["a stream", "before any stream"],
)
def test_an_error_ends_the_story_with_its_exit_code(stage, document):
    tale, teller, console = stage
    assert not story._step(tale, teller, "first load", "tidegate run", lambda: document)
    assert tale.exit_code == 3
    assert "rows read" not in console.file.getvalue()
    assert tale.to_dict()["error"] == ERROR


def test_tables_that_differ_end_the_story_with_exit_code_3(stage):
    tale, _, _ = stage
    same, other = Fingerprint.of_texts(["a"]), Fingerprint.of_texts(["b"])
    tale.proofs = (Proof(table="flights", source=same, target=other), Proof(table="planes", source=same, target=same))
    assert story._differs(tale)
    assert (tale.exit_code, tale.equal) == (3, False)
    assert "flights" in tale.problem.message
    assert "planes" not in tale.problem.message


def test_silence_and_brevity(stage):
    tale, _, console = stage
    tale.steps.append(story.Step(name="first load", command="tidegate run", seconds=1.0, outcomes=(GOOD,)))
    Teller(console=console, brief=True).opening(tale.directory, again=False)
    assert not console.file.getvalue()
    Teller(console=console, silent=True, brief=True).table(tale)
    assert not console.file.getvalue()
    Teller(console=console, brief=True).table(tale)
    assert "first load" in console.file.getvalue()
