"""SIGKILL while files are loaded, at a boundary of a stage: no file is lost and none is read twice."""

import pytest
from deltalake import DeltaTable

from support.kills import kill_at
from support.lake import delta_rows
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

# Where what a kill leaves differs most; every boundary is played in memory by `test_in_process`.
CASES = [
    ("iceberg", Stage.WRITE, Moment.DONE),
    ("iceberg", Stage.ADVANCE, Moment.PUBLISHED),
    ("delta", Stage.WRITE, Moment.DONE),
    ("delta", Stage.VERIFY, Moment.DONE),
]


def put(workspace: Workspace, name: str, *rows: tuple[int, str]) -> None:
    text = "".join(f"{number},{word}\n" for number, word in rows)
    (workspace.folder / "in" / name).write_text(f"id,name\n{text}", encoding="utf-8")


def rows_of(workspace: Workspace, lake: str) -> list[tuple]:
    """With multiplicity: nothing but the manifest keeps a file from being appended twice."""
    found = delta_rows(where(workspace)) if lake == "delta" else workspace.rows("s.t")
    return sorted((row["id"], row["name"], row["file"]) for row in found)


def where(workspace: Workspace) -> str:
    return str(workspace.folder / "warehouse" / "s" / "t")


def commits(workspace: Workspace, lake: str) -> int:
    return DeltaTable(where(workspace)).version() if lake == "delta" else workspace.snapshots("s.t")


@pytest.mark.spark
@pytest.mark.parametrize(("lake", "stage", "moment"), CASES, ids=str)
def test_kill_while_files_are_loaded(tmp_path, spark, lake, stage, moment):
    workspace = Workspace(folder=tmp_path)
    (tmp_path / "in").mkdir()
    source = {"path": "in/*.csv", "columns": {"id": "bigint", "name": "text"}, "file_name": "file"}
    strategy = {"kind": "files", "on_delete": "remove"}
    stream = {"source": source, "target": "lake.s.t", "strategy": strategy, "write": "append"}
    workspace.write({"t": stream}, connections={}, lakes={"lake": {"format": lake}})
    put(workspace, "a.csv", (1, "one"), (2, "two"))
    put(workspace, "b.csv", (3, "three"))
    put(workspace, "c.csv", (4, "four"))
    assert workspace.run("t", spark=spark).streams[0].outcome is Result.LOADED
    # One comes, one has other rows, one is gone, and one stays.
    put(workspace, "d.csv", (5, "five"), (5, "five"))
    put(workspace, "b.csv", (3, "drei"), (6, "sechs"))
    (tmp_path / "in" / "c.csv").unlink()
    kill_at(workspace, "t", stage, moment)
    after = [(1, "one", "a.csv"), (2, "two", "a.csv"), (3, "drei", "b.csv")]
    after += [(5, "five", "d.csv"), (5, "five", "d.csv"), (6, "sechs", "b.csv")]
    outcome = workspace.run("t", spark=spark).streams[0]
    assert outcome.error is None, outcome.error
    assert (outcome.position["sequence"], rows_of(workspace, lake)) == (2, after)
    made = commits(workspace, lake)
    again = workspace.run("t").streams[0]
    assert (again.outcome, again.spark_started, commits(workspace, lake)) == (Result.UNCHANGED, False, made)
