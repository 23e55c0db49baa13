"""A folder from load to load: files that come, change, go, are written just then, and a process that dies."""

from __future__ import annotations

import pytest

from integration.files.landing import good, idle, loaded, run, stream, write_csv
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_folder_from_first_file_to_last(workspace, landing, spark):
    """Added, touched, overwritten, gone, forgotten: rows carry their file's name."""
    named = {"source": {"file_name": "source_file"}, "strategy": {"kind": "files", "on_delete": "remove"}}
    workspace.write({"t": stream(f"{landing.name}/**/*.csv", **named)}, connections={})
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


def test_append_without_names_never_adds_a_row_twice(workspace, landing, spark):
    workspace.write({"t": stream(landing.name, source={"format": "csv"})}, connections={})
    write_csv(landing / "a.csv", (1, "one"))
    good(workspace, "t", spark)
    snapshots = workspace.snapshots("s.t")
    position = idle(workspace, "t").position
    write_csv(landing / "a.csv", (1, "eins"))
    for _ in range(2):
        outcome = run(workspace, "t", spark)
        assert (outcome.outcome, outcome.error.code, outcome.error.exit_code) == (Result.STOPPED, "plan", 4)
        assert "a.csv" in outcome.error.message
        assert "--full-refresh" in outcome.error.hint
    write_csv(landing / "a.csv", (1, "one"))
    assert idle(workspace, "t").position == position
    workspace.forget_registry()
    write_csv(landing / "b.csv", (2, "two"))
    assert "no record" in run(workspace, "t", spark).error.message
    assert workspace.snapshots("s.t") == snapshots
    good(workspace, "t", spark, full_refresh=True)
    assert loaded(workspace, "t", "id", "name") == [(1, "one"), (2, "two")]
    idle(workspace, "t")


def test_merge_takes_the_latest_file_of_a_key(workspace, landing, spark):
    merged = {"key": ["id"], "write": {"kind": "merge", "order_by": ["source_file"]}}
    named = {"file_name": "source_file"}
    on_delete = {"kind": "files", "on_delete": "remove"}
    workspace.write({"t": stream(f"{landing.name}/*.csv", source=named, strategy=on_delete, **merged)}, connections={})
    write_csv(landing / "1.csv", (1, "old"), (2, "two"), (3, "three"))
    write_csv(landing / "2.csv", (1, "new"))
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name") == [(1, "new"), (2, "two"), (3, "three")]
    write_csv(landing / "1.csv", (2, "zwei"), (4, "four"))
    write_csv(landing / "3.csv", (1, "newest"))
    changed = good(workspace, "t", spark)
    assert changed.write == "merge_partitions"
    assert loaded(workspace, "t", "id", "name") == [(1, "newest"), (2, "zwei"), (4, "four")]
    (landing / "1.csv").unlink()
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name") == [(1, "newest")]
    workspace.forget_registry()
    write_csv(landing / "4.csv", (5, "five"))
    before = good(workspace, "t", spark)
    assert before.rows_inserted == 1
    assert loaded(workspace, "t", "id", "name") == [(1, "newest"), (5, "five")]


@pytest.mark.parametrize(
    ("source", "option", "way"),
    [
        ({"file_name": "source_file"}, "--set on_delete=remove", {"options": {"on_delete": "remove"}}),
        ({}, "--full-refresh --yes", {"full_refresh": True}),
    ],
)
def test_what_verify_says_of_a_renamed_file_helps(workspace, landing, spark, source, option, way):
    """Its rows are kept, with nothing to compare them with, however often the stream runs."""
    workspace.write({"t": stream(f"{landing.name}/*.csv", source=source)}, connections={})
    write_csv(landing / "a.csv", (1, "one"))
    good(workspace, "t", spark)
    (landing / "a.csv").rename(landing / "b.csv")
    good(workspace, "t", spark)
    idle(workspace, "t")
    with workspace.project(spark) as project:
        stopped = project.verify("t").streams[0].error
    assert (stopped.code, "a.csv is missing" in stopped.message) == ("plan", True)
    assert f"`tidegate run t {option}`" in stopped.hint
    good(workspace, "t", spark, **way)
    assert loaded(workspace, "t", "id", "name") == [(1, "one")]
    with workspace.project(spark) as project:
        assert project.verify("t").streams[0].equal


@pytest.mark.parametrize("write", [{"write": "append"}, {"write": "merge", "key": ["id"]}])
def test_a_folder_that_lost_every_file_does_not_empty_the_table_unasked(workspace, landing, spark, write):
    """Such as one that is not mounted."""
    removing = {"source": {"file_name": "source_file"}, "strategy": {"kind": "files", "on_delete": "remove"}}
    workspace.write({"t": stream(f"{landing.name}/*.csv", **removing, **write)}, connections={})
    write_csv(landing / "1.csv", (1, "one"))
    write_csv(landing / "2.csv", (2, "two"))
    good(workspace, "t", spark)
    (landing / "1.csv").unlink()
    good(workspace, "t", spark)
    (landing / "2.csv").unlink()
    stopped = run(workspace, "t", spark)
    assert stopped.error is not None
    assert stopped.error.code == "delete_fuse"
    assert loaded(workspace, "t", "id", "name") == [(2, "two")]
    good(workspace, "t", spark, allow_deletes=True)
    assert loaded(workspace, "t", "id", "name") == []


def test_a_file_that_is_written_while_it_is_read_is_not_published(workspace, landing, spark):
    workspace.write({"t": stream(f"{landing.name}/*.csv", source={"file_name": "source_file"})}, connections={})
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


def test_a_crash_behind_the_commit_loads_no_file_twice(workspace, landing, spark):
    workspace.write({"t": stream(f"{landing.name}/*.csv")}, connections={})
    write_csv(landing / "a.csv", (1, "one"))
    good(workspace, "t", spark)
    write_csv(landing / "b.csv", (2, "two"))
    with pytest.raises(Crash):
        run(workspace, "t", spark, on_event=crash_at((Stage.ADVANCE, Moment.PUBLISHED)))
    idle(workspace, "t")
    write_csv(landing / "c.csv", (3, "three"))
    with pytest.raises(Crash):
        run(workspace, "t", spark, on_event=crash_at((Stage.ADVANCE, Moment.START)))
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id") == [(1,), (2,), (3,)]
    idle(workspace, "t")


def test_every_other_strategy_reads_all_files_as_one_table(workspace, landing, spark):
    days = {"format": "csv", "columns": {"day": "date"}}
    by_day = {"kind": "checksum", "method": "by_date", "column": "day", "period": "day"}
    workspace.write(
        {
            "full": stream(landing.name, "full", source=days, strategy="full", write="replace"),
            "sums": stream(landing.name, "sums", source=days, strategy=by_day, write="replace"),
            "mark": stream(
                landing.name,
                "mark",
                source=days,
                strategy={"kind": "watermark", "column": "id_at", "lookback": "0s"},
                write="merge",
                key=["id"],
            ),
        },
        connections={},
    )
    header = ("id", "id_at")
    for day in (1, 2):
        (landing / f"day=2025-01-0{day}").mkdir()
        write_csv(landing / f"day=2025-01-0{day}" / "a.csv", (day, f"2025-01-0{day} 00:00:00"), header=header)
    for name in ("full", "sums", "mark"):
        good(workspace, name, spark)
    write_csv(
        landing / "day=2025-01-02" / "a.csv", (2, "2025-01-02 00:00:00"), (3, "2025-01-03 00:00:00"), header=header
    )
    assert (good(workspace, "sums", spark).rows_read, good(workspace, "mark", spark).rows_read) == (2, 1)
    with workspace.project(spark) as project:
        different = project.verify("full", level="rows").streams[0]
        assert (different.equal, different.rows_different) == (False, 1)
        assert [project.verify(name, level="rows").streams[0].equal for name in ("sums", "mark")] == [True, True]
