"""Files that get another path after they were loaded."""

from __future__ import annotations

import pytest

from integration.files.landing import good, idle, loaded, run, stream, write_csv

pytestmark = pytest.mark.spark


def test_rows_of_a_moved_file_are_loaded_once(workspace, landing, spark):
    keep = {"strategy": {"kind": "files", "on_move": "keep"}}
    workspace.write({"t": stream(f"{landing.name}/**/*.csv", **keep)})
    write_csv(landing / "a.csv", (1, "one"))
    good(workspace, "t", spark)
    (landing / "old").mkdir()
    (landing / "a.csv").rename(landing / "old" / "b.csv")
    assert good(workspace, "t", spark).rows_read == 0
    idle(workspace, "t")
    (landing / "old" / "b.csv").rename(landing / "c.csv")
    write_csv(landing / "new.csv", (2, "two"))
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name") == [(1, "one"), (2, "two")]
    with workspace.project(spark) as project:
        assert project.verify("t").streams[0].equal is True
    write_csv(landing / "c.csv", (1, "other"))
    assert run(workspace, "t", spark).error.code == "plan"
