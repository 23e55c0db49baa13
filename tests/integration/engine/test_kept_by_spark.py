"""What Spark keeps of a source: nobody else's rows are taken for those of now, and a proof reads them again."""

from __future__ import annotations

import json
from functools import partial

import pytest

from integration.engine.conftest import at
from support.lake import QUICK
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.spark.caching import persisted, uncached

pytestmark = [pytest.mark.spark]

STREAMS = {"files": {"strategy": "files", "write": "merge"}, "cdc": {"strategy": "cdc", "write": "merge"}}
SOURCE = {
    "files": {"path": "events/*.json", "columns": {"id": "bigint", "name": "text"}},
    "cdc": {
        "path": "events/*.json",
        "columns": {"operation": "text", "at": "bigint", "id": "bigint", "name": "text"},
        "envelope": {"kind": "rows", "sequence": ["at"]},
    },
}


def written(path, name):
    """A file of the same size each time."""
    rows = [{"operation": "I", "at": number, "id": number, "name": f"{name}{number}"} for number in range(1, 6)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "events").mkdir()
    made = Workspace(folder=tmp_path)
    made.write(
        {
            f"{kind}_{number}": {"source": SOURCE[kind], "key": "id", "target": f"lake.s.{kind}_{number}", **options}
            for kind, options in STREAMS.items()
            for number in (1, 2)
        },
        connections={},
        spark={"conf": QUICK},
    )
    return made


def names(workspace, table):
    return {row["name"][0] for row in workspace.rows(f"s.{table}")}


@pytest.mark.parametrize(("kind", "stage"), [("files", Stage.CHECK), ("cdc", Stage.WRITE)])
def test_a_load_does_not_take_what_another_keeps_of_the_same_files(workspace, spark, kind, stage):
    """Spark thinks that two readings of one path are the same, whatever became of the file between them."""
    events = workspace.folder / "events" / "a.json"
    written(events, "a")
    seen = []

    def other():
        written(events, "b")
        seen.append(workspace.run(f"{kind}_2", spark=spark).streams[0])

    workspace.run(f"{kind}_1", spark=spark, on_event=at(stage, Moment.DONE, other))
    assert (seen[0].outcome, seen[0].error) == (Result.LOADED, None)
    assert names(workspace, f"{kind}_2") == {"b"}


def test_the_proof_of_events_reads_the_log_again(workspace, spark):
    """Not what Spark keeps of the batch: events that are others by now are told."""
    events = workspace.folder / "events" / "a.json"
    written(events, "a")
    change = at(Stage.CHECK, Moment.DONE, partial(written, events, "b"))
    outcome = workspace.run("cdc_1", spark=spark, on_event=change).streams[0]
    assert outcome.error is not None
    assert outcome.verified is not True


def test_what_is_kept_for_one_is_not_dropped_by_another(spark):
    one, other = persisted(spark.range(10)), persisted(spark.range(10))
    assert other.count() == 10
    one.unpersist()
    assert other.storageLevel.useMemory


def test_what_the_user_keeps_of_a_file_is_not_read_in_its_place(spark, tmp_path):
    for form in ("json", "csv", "text", "parquet", "orc"):
        path = tmp_path / form

        def read(reader, form=form, path=path):
            return reader.format(form).schema("value string").load(str(path))

        spark.sql("SELECT 'old' AS value").coalesce(1).write.format(form).save(str(path))
        kept = read(spark.read).cache()
        try:
            assert kept.first()[0] == "old"
            spark.sql("SELECT 'new' AS value").coalesce(1).write.format(form).save(f"{path}2")
            path.rename(tmp_path / f"was {form}")
            (tmp_path / f"{form}2").rename(path)
            assert (form, read(uncached(spark)).first()[0]) == (form, "new")
            assert kept.first()[0] == "old"
        finally:
            kept.unpersist()
