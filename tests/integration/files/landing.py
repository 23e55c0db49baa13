"""Streams of files, what a load of them must end as, and files as somebody else writes them."""

from __future__ import annotations

import csv
from pathlib import Path

from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result

NAMED = {"strategy": "files", "write": "append"}


def stream(path: str, table: str = "t", **changes) -> dict:
    source = {"path": path, **changes.pop("source", {})}
    return {"source": source, "target": f"lake.s.{table}", **NAMED, **changes}


def run(workspace: Workspace, name: str, spark, **options) -> Outcome:
    return workspace.run(name, spark=spark, **options).streams[0]


def good(workspace: Workspace, name: str, spark, **options) -> Outcome:
    outcome = run(workspace, name, spark, **options)
    assert outcome.error is None, outcome.error
    assert outcome.verified is (True if outcome.outcome is Result.LOADED else None)
    return outcome


def idle(workspace: Workspace, name: str) -> Outcome:
    """A run that must end without Spark."""
    outcome = run(workspace, name, None)
    assert (outcome.outcome, outcome.spark_started, outcome.error) == (Result.UNCHANGED, False, None)
    return outcome


def write_csv(path: Path, *rows: tuple, header=("id", "name")) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def loaded(workspace: Workspace, table: str, *names: str) -> list[tuple]:
    return sorted((tuple(row[name] for name in names) for row in workspace.rows(f"s.{table}")), key=str)
