"""The calls that people have in their scripts, with the import line changed and nothing else."""

import pytest
from pyarrow import parquet

from tidegate.errors import DuplicateKeys
from tidegate.loaders import CDCLoader, DeltaDiffLoader, IncrementalLoader, SequenceBasedLoader, TimestampBasedLoader
from tidegate.loaders._selftest import SelfTest

pytestmark = pytest.mark.spark

EVENTS = "id bigint, name string, age int, operation string, sequence_num bigint"


def test_the_self_test_passes_and_notices_what_is_wrong(bench):
    told = []
    test = SelfTest(bench.spark, str(bench.folder), told.append)
    assert test.run(), told
    assert [line.split(":")[0] for line in told] == [
        "ok      timestamps",
        "ok      change events",
        "ok      differences",
        "ok      sequences",
    ]
    # The same folder again: everything is there already, so nothing is as a first load would leave it.
    test.sequences()
    assert told[-1].startswith("FAILED  sequences")


def test_the_calls_of_scripts(bench):
    spark = bench.spark
    source = bench.write(
        "source", "id bigint, modified_date timestamp", (1, "2024-01-15 10:30:00"), (2, "2024-01-15 10:30:00.000001")
    )
    paths = {"source_path": source, "target_path": bench.path("target"), "watermark_path": bench.marks}

    result = TimestampBasedLoader(spark).load_incremental(timestamp_column="modified_date", **paths)
    assert (result.table_name, result.records, result.duration.total_seconds() > 0) == ("target", 2, True)
    assert result.new_watermark.endswith(":30:00.000001")
    events = bench.write("cdc_stream", EVENTS, (1, "a", 1, "INSERT", 1), (2, "b", 2, "insert", 2))
    result = CDCLoader(spark).process_cdc(
        cdc_source_path=events,
        target_path=bench.path("customers"),
        watermark_path=bench.marks,
        primary_key="id",
        table_name="customers",
    )
    assert (result.records, result.new_watermark) == (2, "2")
    result = SequenceBasedLoader(spark).load_incremental(
        source_path=bench.write("logs", "sequence_id bigint", (1,), (3,)),
        target_path=bench.path("logs_target"),
        watermark_path=bench.marks,
        sequence_column="sequence_id",
        table_name="logs",
    )
    assert (result.records, result.gaps) == (2, 1)
    store = spark.read.parquet(bench.marks)
    assert store.columns == ["table_name", "watermark_value", "last_updated"]
    assert bench.watermarks().items() >= {"customers": "2", "logs": "3"}.items()
    changes = DeltaDiffLoader(spark).detect_changes(
        source_path=source,
        target_path=bench.path("diff_target"),
        snapshot_path=bench.path("snapshots"),
        primary_key=["id"],
        table_name="my_table",
    )
    assert {kind: rows.count() for kind, rows in changes.items()} == {"inserts": 2, "updates": 0, "deletes": 0}
    assert spark.read.parquet(bench.path("target")).count() == 2, "a plain reader finds the files, too"


def test_an_extract_that_lacked_a_column_does_not_keep_old_values_of_it(bench):
    wide, target = "id bigint, note string, v bigint", bench.path("target")

    def detect(ddl, *rows):
        source = bench.write("extract", ddl, *rows, mode="overwrite")
        changes = DeltaDiffLoader(bench.spark).detect_changes(source, target, bench.path("snapshots"), "id")
        return {kind: sorted(row["id"] for row in found.collect()) for kind, found in changes.items()}

    detect(wide, (1, "a", 5), (2, "b", 6))
    detect("id bigint, note string", (1, "A"), (2, "b"))
    assert detect(wide, (1, "A", None), (2, "b", 6))["updates"] == [1, 2]
    # Spelled in another case it is the same column.
    assert detect("id bigint, NOTE string, V bigint", (1, "A", None), (2, "b", 7))["updates"] == [2]
    rows = parquet.read_table(target, columns=["id", "note", "v"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(1, "A", None), (2, "b", 7)]


def test_equal_rows_of_an_extract_are_one_and_a_wider_key_is_refused(bench):
    ddl, target = "region string, id bigint", bench.path("target")
    source = bench.write("extract", ddl, ("a", 1), ("a", 1), ("b", 2), mode="overwrite")

    def detect(key):
        changes = DeltaDiffLoader(bench.spark).detect_changes(source, target, bench.path("snapshots"), key)
        return [sorted(row["id"] for row in found.collect()) for found in changes.values()]

    assert [detect(["region", "id"]) for _ in range(2)] == [[[1, 2], [], []], [[], [], []]]
    bench.write("extract", ddl, ("c", 1))
    assert detect(["region", "id"]) == [[1], [], []]
    # The target has two rows of 1, and the source one.
    bench.write("extract", ddl, ("a", 1), ("b", 2), mode="overwrite")
    with pytest.raises(DuplicateKeys, match=r"the target has several rows for each of 1 key \(id\)"):
        detect("id")
    rows = parquet.read_table(target, columns=["region", "id"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("a", 1), ("b", 2), ("c", 1)]


class CustomLoader(IncrementalLoader):
    """Files that arrived, whatever is in them; the script's own method is there, too."""

    def custom_watermark_logic(self):
        return "batch"

    def select(self, rows, watermark):
        return rows if watermark is None else rows.where(f"{self.custom_watermark_logic()} > {watermark}")

    def watermark(self, rows, watermark):
        (row,) = rows.selectExpr("CAST(max(batch) AS string)").collect()
        return row[0] or watermark


def test_a_watermark_of_ones_own(bench):
    source = bench.write("source", "batch bigint, id bigint", (1, 1), (1, 1), (2, 2))
    loader = CustomLoader(bench.spark)
    assert loader.load(source, bench.path("target"), bench.marks).new_watermark == "2"
    bench.write("source", "batch bigint, id bigint", (3, 3), (1, 4))
    result = loader.load(source, bench.path("target"), bench.marks)
    assert (result.records, result.old_watermark, result.new_watermark) == (1, "2", "3")
    assert bench.rows(loader, bench.path("target")) == [(1, 1), (1, 1), (2, 2), (3, 3)]


def test_a_watermark_of_ones_own_with_a_key_loads_one_row_of_each(bench):
    loader, target = CustomLoader(bench.spark), bench.path("target")
    source = bench.write("source", "batch bigint, id bigint", (1, 1), (1, 1), (1, 2))
    assert loader.load(source, target, bench.marks, primary_key="id").records == 2
    bench.write("source", "batch bigint, id bigint", (2, 3), (3, 3))
    with pytest.raises(DuplicateKeys, match=r"1 key .id. has several rows and other values"):
        loader.load(source, target, bench.marks, primary_key="id")
    assert sorted(parquet.read_table(target, columns=["id"]).column("id").to_pylist()) == [1, 2]
