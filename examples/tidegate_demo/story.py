"""Runs the demo step by step and measures each step.

Shows no numbers of a failed load or of tables that differ.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.api import Project
from tidegate.core.outcome import Problem
from tidegate.errors import InternalError, VerifyFailed
from tidegate.spark.java import find_java
from tidegate_demo import airline, flights
from tidegate_demo.folder import Folder
from tidegate_demo.proof import prove
from tidegate_demo.record import Step, Story
from tidegate_demo.telling import Teller

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

MOVING = ("flights", "weather")


def run(directory: Path, console: Console, *, as_json: bool, quiet: bool) -> int:
    """Plays the whole demo in that folder and returns the exit code.

    Args:
        console: takes the story; nothing but errors is told there with `as_json`, whose document goes to stdout.
        quiet: only the table at the end.

    Raises:
        TidegateError: the demo could not begin (no data, no Java, a folder that is not its own).
    """
    data = flights.data_folder()
    find_java()
    folder = Folder(path=directory)
    story = Story(directory=directory.absolute())
    teller = Teller(console=console, silent=as_json, brief=quiet or as_json)
    teller.opening(directory, again=folder.prepare())
    play(folder, data, story, teller)
    if story.problem:
        teller.ended(story.problem)
    else:
        teller.table(story)
        teller.go_on(directory)
    if as_json:
        sys.stdout.write(json.dumps(story.to_dict(), indent=2, ensure_ascii=False) + "\n")
    return story.exit_code


def next_day(directory: Path, console: Console) -> None:
    """Lets one more day arrive in a demo's source, for those who go on with it."""
    folder = Folder(path=directory)
    folder.refuse_stranger()
    Teller(console=console).arrivals(airline.next_day(folder.database, flights.data_folder()))


def play(folder: Folder, data: Path, story: Story, teller: Teller, spark: SparkSession | None = None) -> None:
    """Plays it on the records in `data`, in the session that is given or one of its own."""
    with teller.waiting("writing the source database"):
        story.source_rows = airline.create(folder.database, data)
    teller.source(story.source_rows, folder.database)
    with Project.load(folder.path, spark=spark) as project:
        if not _first_load(project, folder, story, teller):
            return
        story.arrivals = airline.next_day(folder.database, data)
        teller.arrivals(story.arrivals)
        if not (_increment(project, folder, story, teller) and _prove(folder, story, teller)):
            return
        if not (_unchanged(folder, story, teller) and _full_reload(project, folder, story, teller)):
            return
        _prove_again(folder, story)


def _first_load(project: Project, folder: Folder, story: Story, teller: Teller) -> bool:
    why = "Everything is new. Rows are staged out of sight, compared with the source, and then published all at once."
    teller.heading("The first load", "tidegate run", folder.path, why=why)
    return _step(story, teller, "first load", "tidegate run", lambda: project.run().to_dict())


def _increment(project: Project, folder: Folder, story: Story, teller: Teller) -> bool:
    command = f"tidegate plan {' '.join(MOVING)}"
    why = "A plan only queries the source and the tables' metadata, so it is cheap enough to make before every run."
    teller.heading("What would move now?", command, folder.path, why=why)
    began = time.monotonic()
    story.plan = project.plan(*MOVING)
    story.problem = next((plan.error for plan in story.plan.streams if plan.error), None)
    if story.problem:
        return False
    teller.plan(story.plan, seconds=time.monotonic() - began)
    command = f"tidegate run {' '.join(MOVING)}"
    why = "Rows and position are one commit: after a crash nothing is missing and nothing is duplicated."
    teller.heading("Move only that", command, folder.path, why=why)
    return _step(story, teller, "one day of changes", command, lambda: project.run(*MOVING).to_dict())


def _prove(folder: Folder, story: Story, teller: Teller) -> bool:
    teller.heading("Is it right?", None, folder.path)
    with teller.waiting("reading both sides"):
        story.proofs = prove(folder.path.absolute(), folder.database, tuple(story.source_rows))
    teller.proofs(story.proofs)
    return not _differs(story)


def _prove_again(folder: Folder, story: Story) -> None:
    """A figure of the full reload is shown only if it, too, left the right rows."""
    story.proofs = prove(folder.path.absolute(), folder.database, tuple(story.source_rows))
    _differs(story)


def _differs(story: Story) -> bool:
    wrong = [proof.table for proof in story.proofs if not proof.equal]
    if wrong:
        error = VerifyFailed(f"source and table differ: {', '.join(wrong)}", hint="Please report this.")
        story.problem = Problem(code=error.code, message=error.message, hint=error.hint, exit_code=error.exit_code)
    return bool(wrong)


def _unchanged(folder: Folder, story: Story, teller: Teller) -> bool:
    """In a process of its own, as cron would start it: only there it shows that no Spark is needed."""
    command = f"tidegate run {' '.join(MOVING)}"
    why = "This time in its own process, as cron would start it. Most runs find nothing, so they must be cheap."
    teller.heading("And when nothing has changed?", command, folder.path, why=why)
    arguments = [sys.executable, "-m", "tidegate", "run", *MOVING, "--project", str(folder.path), "--json"]

    def other_process() -> dict[str, Any]:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603 - ourselves
        try:
            document: dict[str, Any] = json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise InternalError(f"{command} ended with {done.returncode} and printed no document") from error
        return document

    return _step(story, teller, "nothing changed", command, other_process)


def _full_reload(project: Project, folder: Folder, story: Story, teller: Teller) -> bool:
    command = f"tidegate run {' '.join(MOVING)} --full-refresh --yes"
    teller.heading("What a full refresh would cost", command, folder.path)
    return _step(story, teller, "full reload", command, lambda: project.run(*MOVING, full_refresh=True).to_dict())


def _step(story: Story, teller: Teller, name: str, command: str, work: Callable[[], Mapping[str, Any]]) -> bool:
    """Measures one command; False when a stream did not end well."""
    with teller.waiting(name):
        began = time.monotonic()
        document = work()
        seconds = time.monotonic() - began
    step = Step(name=name, command=command, seconds=seconds, outcomes=tuple(document.get("streams", ())))
    story.steps.append(step)
    errors = [outcome["error"] for outcome in (*step.outcomes, document) if outcome.get("error")]
    if errors:
        story.problem = Problem(**errors[0], exit_code=int(document["exit_code"]))
        return False
    teller.step(step)
    return True
