"""Actions of a dashboard in a process of its own become commands."""

import sys
import time
from pathlib import Path

import pytest

from support.dashboard import project
from tidegate.errors import PlanError
from tidegate.service.web.commands import Commands
from tidegate.service.web.port import Action


@pytest.fixture
def commands(tmp_path):
    with project(tmp_path, 1) as made:
        yield Commands(project=made, folder=tmp_path)


@pytest.mark.parametrize(
    ("action", "words"), [("run", ["run"]), ("verify", ["verify"]), ("repair", ["verify", "--repair"])]
)
def test_each_action_is_the_command_of_its_name(commands, action, words):
    made = commands._words(Action(action), "--strange")
    assert made[:3] == [sys.executable, "-m", "tidegate"]
    assert made[3 : 3 + len(words)] == words
    assert made[-2:] == ["--", "--strange"], "a stream is never taken for an option"


def test_a_command_is_recorded_with_who_asked_and_runs_once_at_a_time(commands, tmp_path):
    commands.request(Action.RUN, "orders_000", "ann")
    with pytest.raises(PlanError, match="at work"):
        commands.request(Action.VERIFY, "orders_000", "bob")
    (stream,) = commands.registry.status()
    (asked,) = [each for each in commands.registry.changes(stream.uid) if each.old_status == "ASKED"]
    assert (asked.new_status, asked.changed_by) == ("RUN", "ann")
    process = commands._at_work["orders_000"]
    deadline = time.monotonic() + 60
    while process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert Path(tmp_path).is_dir()


def test_memory_is_that_of_this_process(commands):
    assert commands.memory() > 10_000_000
