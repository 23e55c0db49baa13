"""A folder from load to load: files that come, change, go, and are written just then."""

from __future__ import annotations

import pytest

from integration.files.landing import good, idle, loaded, run, stream, write_csv
from tidegate.engine.events import Moment, Stage

pytestmark = pytest.mark.spark


def test_a_folder_from_first_file_to_last(workspace, landing, spark):
    """Added, touched, overwritten, gone, forgotten: rows carry their file's name."""
    named = {"source": {"file_name": "source_file"}, "strategy": {"kind": "files", "on_delete": "remove"}}
    workspace.write({"t": stream(f"{landing.name}/**/*.csv", **named)})
    idle(workspace, "t")
    write_csv(landing / "a.csv", (1, "one"), (2, "two"))
    (landing / "day=2025-01-01").mkdir()
    write_csv(landing / "day=2025-01-01" / "b é+%.csv", (3, "three"))
    write_csv(landing / "_hidden.csv", (9, "no"))
    write_csv(landing / "later.csv.part", (9, "no"))
    first = good(workspace, "t", spark)
    assert first.rows_inserted == 3
    assert any("later.csv.part" in note for note in first.notes)
    b = "day=2025-01-01/b é+%.csv"
    columns = ("id", "name", "day", "source_file")
    kept = [(1, "one", None, "a.csv"), (2, "two", None, "a.csv"), (3, "three", "2025-01-01", b)]
    assert loaded(workspace, "t", *columns) == kept
    (landing / "a.csv").touch()
    idle(workspace, "t")

    (landing / "a.csv").write_text("name,id\neins,1\n")  # another content, the columns in another order
    write_csv(landing / "c.csv", (4, "four"))
    second = good(workspace, "t", spark)
    assert (second.write, second.rows_inserted, second.rows_deleted) == ("replace_files", 2, 2)
    assert loaded(workspace, "t", *columns) == [(1, "eins", None, "a.csv"), kept[2], (4, "four", None, "c.csv")]

    (landing / "c.csv").unlink()
    third = good(workspace, "t", spark)
    assert (third.rows_inserted, third.rows_deleted) == (0, 1)
    assert loaded(workspace, "t", *columns) == [(1, "eins", None, "a.csv"), kept[2]]

    workspace.forget_registry()
    idle(workspace, "t")
    idle(workspace, "t")
    workspace.forget_registry()
    write_csv(landing / "d.csv", (5, "five"))
    again = good(workspace, "t", spark)
    assert (again.rows_inserted, again.rows_deleted) == (3, 2)
    assert loaded(workspace, "t", *columns) == [(1, "eins", None, "a.csv"), kept[2], (5, "five", None, "d.csv")]
    idle(workspace, "t")


def test_what_verify_says_of_a_renamed_file_helps(workspace, landing, spark):
    """Its rows are kept, with nothing to compare them with, however often the stream runs."""
    ways = {
        "named": ({"file_name": "source_file"}, "--set on_delete=remove", {"options": {"on_delete": "remove"}}),
        "plain": ({}, "--full-refresh --yes", {"full_refresh": True}),
    }
    workspace.write({name: stream(f"{landing.name}/*.csv", name, source=way[0]) for name, way in ways.items()})
    write_csv(landing / "a.csv", (1, "one"))
    for name in ways:
        good(workspace, name, spark)
    (landing / "a.csv").rename(landing / "b.csv")
    for name, (_, option, way) in ways.items():
        good(workspace, name, spark)
        with workspace.project(spark) as project:
            stopped = project.verify(name).streams[0].error
        assert (stopped.code, "a.csv is missing" in stopped.message) == ("plan", True)
        assert f"`tidegate run {name} {option}`" in stopped.hint
        good(workspace, name, spark, **way)
        assert loaded(workspace, name, "id", "name") == [(1, "one")]


def test_a_folder_that_lost_every_file_does_not_empty_the_table_unasked(workspace, landing, spark):
    """Such as one that is not mounted."""
    removing = {"source": {"file_name": "source_file"}, "strategy": {"kind": "files", "on_delete": "remove"}}
    merged = {"write": "merge", "key": ["id"]}
    streams = {"t": removing, "merged": {**removing, **merged}}
    workspace.write({name: stream(f"{landing.name}/*.csv", name, **more) for name, more in streams.items()})
    write_csv(landing / "1.csv", (1, "one"))
    for name in streams:
        good(workspace, name, spark)
    (landing / "1.csv").unlink()
    for name in streams:
        stopped = run(workspace, name, spark)
        assert stopped.error is not None
        assert stopped.error.code == "delete_fuse"
        assert loaded(workspace, name, "id", "name") == [(1, "one")]
        good(workspace, name, spark, allow_deletes=True)
        assert loaded(workspace, name, "id", "name") == []


def test_a_file_that_is_written_while_it_is_read_is_not_published(workspace, landing, spark):
    workspace.write({"t": stream(f"{landing.name}/*.csv", source={"file_name": "source_file"})})
    write_csv(landing / "a.csv", (1, "one"))
    writes = iter([(2, "two")])

    def meanwhile(event):
        if (event.stage, event.moment) == (Stage.READ, Moment.START):
            for row in writes:
                write_csv(landing / "a.csv", (1, "one"), row)

    outcome = good(workspace, "t", spark, on_event=meanwhile)  # tried again, when nobody writes any more
    assert outcome.rows_inserted == 2
    assert idle(workspace, "t").position["sequence"] == 1
    assert loaded(workspace, "t", "id", "name") == [(1, "one"), (2, "two")]
