"""What Spark reads wrongly is never verified, because files are verified by another reader."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql.readwriter import DataFrameReader

from integration.files.landing import loaded, run, stream

pytestmark = pytest.mark.spark

RFC = b'id,name\n1,"say ""hi"""\n2,"C:\\dir\\"\n3,"a""b"\n4,x\n'
RIGHT = [(1, 'say "hi"'), (2, "C:\\dir\\"), (3, 'a"b'), (4, "x")]
STATED = {"id": "bigint", "name": "text"}
FORMATS = ("csv", "json", "parquet", "orc", "avro")


@pytest.fixture
def wrong(monkeypatch):
    """Makes Spark read files with another option, or lose rows of them."""

    def apply(*, where: str = "true", **options: str) -> None:
        load = DataFrameReader.load

        def misread(self, *args, **kwargs):
            found = load(self.options(**options), *args, **kwargs)
            # JSON is loaded as lines of text.
            return found.where(
                where if "id" in found.columns else where.replace("id <>", "get_json_object(value, '$.id') <>")
            )

        monkeypatch.setattr(DataFrameReader, "load", misread)

    yield apply
    monkeypatch.undo()


def keyed(path: str, **changes) -> dict:
    changes = {"source": {"columns": STATED}, "write": "merge", "key": ["id"], "strategy": "full", **changes}
    return stream(path, **changes)


def rows_in(folder: Path, form: str, spark) -> None:
    table = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})
    match form:
        case "csv":
            (folder / "1.csv").write_text("id,name\n1,a\n2,b\n3,c\n")
        case "json":
            (folder / "1.json").write_text("\n".join(map(json.dumps, table.to_pylist())))
        case "parquet":
            parquet.write_table(table, folder / "1.parquet")
        case "orc":
            orc.write_table(table, folder / "1.orc")
        case "avro":
            frame = spark.createDataFrame([(1, "a"), (2, "b"), (3, "c")], "id bigint, name string").coalesce(1)
            frame.write.format("avro").mode("overwrite").save(str(folder))


def test_rows_that_spark_loses_are_missed_in_every_format(workspace, landing, spark, wrong):
    streams = {}
    for form in FORMATS:
        (landing / form).mkdir()
        rows_in(landing / form, form, spark)
        source = {"format": form, "columns": STATED}
        streams[form] = keyed(f"{landing.name}/{form}", table=form, source=source, verify="counts")
    workspace.write(streams)
    wrong(where="id <> 2")
    errors = {each.stream: each.error for each in workspace.run(spark=spark).streams}
    assert {form: error and error.code for form, error in errors.items()} == dict.fromkeys(FORMATS, "verify_failed")
    for form, error in errors.items():
        assert re.search(rf"Spark reads 2 rows from \S+\.{form}, and the reader that verifies reads 3", error.message)
        assert "report" in error.hint


def test_loads_verify_and_repair_ask_the_second_reader(workspace, landing, spark, monkeypatch, wrong):
    """With a wrong option no load passes; one that was not verified is found wrong at every level, and repaired."""
    (landing / "a.csv").write_bytes(RFC)
    wrong(comment="2")
    for level in ("counts", "moved", "none"):
        workspace.write({"t": keyed(f"{landing.name}/*.csv", verify=level)})
        error = run(workspace, "t", spark).error
        assert (error and error.code) == (None if level == "none" else "verify_failed"), level
        assert error is None or "Spark reads 3 rows from a.csv, and the reader that verifies reads 4" in error.message
        assert (workspace.rows("s.t") == []) is (level != "none")
    assert loaded(workspace, "t", "id", "name") != RIGHT
    with workspace.project(spark) as project:
        for level in ("counts", "checksum", "rows"):
            found = project.verify("t", level=level).streams[0]
            assert (found.equal, found.source_rows, found.target_rows) == (False, 4, 3), level
        assert project.verify("t", repair=True).streams[0].error.code == "verify_failed"
        monkeypatch.undo()
        mended = project.verify("t", repair=True).streams[0]
    assert mended.error is None, mended.error
    assert loaded(workspace, "t", "id", "name") == RIGHT
