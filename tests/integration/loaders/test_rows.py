"""The rows of a load: exactly those, whatever came later, from every kind of target."""

import json
import shutil

import pytest

from support.lake import delta_rows
from tidegate.errors import HistoryGone
from tidegate.loaders import CDCLoader, DeltaCDFLoader, DeltaTimestampLoader, TimestampBasedLoader
from tidegate.loaders.job import main

pytestmark = pytest.mark.spark

ROWS = "id bigint, name string, modified_date timestamp_ntz"
EVENTS = "id bigint, name string, operation string, sequence_num bigint"


def told(result):
    rows = [tuple(row) for row in result.rows().select("id", "name").collect()]
    return sorted(rows, key=lambda row: (row[0], row[1] or ""))


def appended(bench, **made):
    """Three loads without a key, the second of equal rows, and one that finds nothing."""
    target, found = bench.path("rows"), []
    for day, rows in ((1, [(1, "a"), (1, "a"), (2, None)]), (2, [(1, "a"), (3, "c")]), (3, [(4, "d")]), (3, [])):
        if rows:
            bench.write("source", ROWS, *((*row, f"2025-01-0{day} 00:00:00") for row in rows))
        loader = TimestampBasedLoader(bench.spark, **made)
        # As on Databricks: the one column that tells of changes is followed.
        found.append(loader.load_incremental(bench.path("source"), target, bench.marks))
    return found


def merged(bench, target, **made):
    """Events of a key: inserts, then an update and a delete, then an update again."""
    found = []
    for events in (
        [(1, "a", "INSERT", 1), (2, "b", "INSERT", 2), (3, "c", "INSERT", 3)],
        [(1, "A", "UPDATE", 4), (2, None, "DELETE", 5), (4, "d", "INSERT", 6)],
        [(1, "AA", "UPDATE", 7)],
    ):
        bench.write("events", EVENTS, *events)
        found.append(CDCLoader(bench.spark, **made).process_cdc(bench.path("events"), target, bench.marks, "id"))
    return found


def check_appended(results):
    wanted = [[(1, "a"), (1, "a"), (2, None)], [(1, "a"), (3, "c")], [(4, "d")], []]
    assert [told(one) for one in results] == wanted
    assert [one.rows().count() for one in results] == [one.records - one.deleted for one in results] == [3, 2, 1, 0]
    assert results[3].rows().columns == ["id", "name", "modified_date"]


def check_merged(results):
    assert [told(one) for one in results] == [
        [(1, "a"), (2, "b"), (3, "c")],
        [(1, "A"), (4, "d")],
        [(1, "AA")],
    ]
    assert [one.records - one.deleted for one in results] == [3, 2, 1]


@pytest.mark.parametrize("kind", ["parquet", "csv", "delta"])
def test_rows_that_were_added(bench, kind):
    check_appended(appended(bench, target_format=kind))


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_rows_that_were_merged(bench, kind):
    check_merged(merged(bench, bench.path("customers"), target_format=kind))
    if kind == "delta":
        check_followed(bench, bench.path("customers"))


def check_followed(bench, source):
    """Another table follows the one that was merged into."""
    bench.spark.sql(f"ALTER TABLE delta.`{source}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    feed = DeltaCDFLoader(bench.spark, source, bench.path("loads"), "id", bench.path("mart"), target_format="delta")
    first, nothing = feed.load(), feed.load()
    assert (told(first), told(nothing)) == ([(1, "AA"), (3, "c"), (4, "d")], [])


def test_a_target_that_was_made_again_does_not_pass_its_rows_off_as_those_of_the_load(bench):
    first, *_ = merged(bench, bench.path("customers"), target_format="delta")
    for folder in ("customers", "events", "watermarks"):
        shutil.rmtree(bench.path(folder))
    again, *_ = merged(bench, bench.path("customers"), target_format="delta")
    with pytest.raises(HistoryGone, match="no longer has the history"):
        first.rows()
    assert told(again) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_folder_keeps_the_rows_of_its_last_loads_only(bench):
    first, *_ = merged(bench, bench.path("customers"), target_format="parquet")
    bench.write("events", EVENTS, (9, "z", "INSERT", 8))
    loader = CDCLoader(bench.spark)
    last = loader.process_cdc(bench.path("events"), bench.path("customers"), bench.marks, "id")
    assert told(last) == [(9, "z")]
    with pytest.raises(HistoryGone, match="no longer has the history"):
        first.rows()
    # What is kept beside the target is no row of it.
    assert sorted(row["id"] for row in loader.read(bench.path("customers")).collect()) == [1, 3, 4, 9]
    assert bench.spark.read.parquet(bench.path("customers")).count() == 4


def test_a_job_makes_one_load_and_prints_it(bench, capsys):
    source = bench.write("source", ROWS, (1, "a", "2025-01-01 00:00:00"), (2, "b", "2025-01-02 00:00:00"))
    paths = ["--source-path", source, "--target-path", bench.path("target"), "--watermark-path", bench.marks]
    for records, rows in ((2, []), (1, [(3, "c", "2025-01-02 00:00:00")]), (0, [])):
        if rows:
            bench.write("source", ROWS, *rows)
        assert main(["timestamp", *paths, "--lookback", "1d"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["records"], told["new_watermark"]) == (records, "2025-01-02 00:00:00.000000")
    assert main(["timestamp", *paths, "--timestamp-column", "gone"]) == 2
    assert "error[" in capsys.readouterr().err


def test_a_row_with_a_time_to_come_waits_and_hides_none_that_comes_meanwhile(bench, caplog):
    source = bench.write("source", ROWS, (1, "a", "2025-01-01 00:00:00"), (2, "b", "2099-01-01 00:00:00"))
    bench.write("feed", ROWS, (1, "a", "2025-01-01 00:00:00"), (2, "b", "2099-01-01 00:00:00"), kind="delta")
    follower = DeltaTimestampLoader(
        bench.spark, bench.path("feed"), bench.path("loads"), "modified_date", target=bench.path("mart")
    )
    loader = TimestampBasedLoader(bench.spark)
    for row, records in (([], 1), ([(3, "c", "2025-01-02 00:00:00")], 1), ([], 0)):
        for name, kind in (("source", "parquet"), ("feed", "delta")) if row else ():
            bench.write(name, ROWS, *row, kind=kind)
        results = [loader.load_incremental(source, bench.path("target"), bench.marks), follower.load()]
        assert [one.records for one in results] == [records, records]
    assert bench.watermarks() == {"target": "2025-01-02 00:00:00.000000"}
    for where in ("target", "mart"):
        assert bench.rows(loader, bench.path(where), "id") == [(1,), (3,)]
    assert "the cursor of 1 row is ahead of the clock" in caplog.text


def test_a_loader_of_delta_tables_is_a_job(bench, capsys):
    source, target = bench.path("feed"), bench.path("mart")
    feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    bench.spark.sql(f"CREATE TABLE delta.`{source}` (id bigint, at timestamp_ntz) USING delta {feed}")
    paths = ["--source", source, "--metadata", bench.path("loads"), "--primary-key", "id", "--target"]
    rows = "VALUES (1, TIMESTAMP_NTZ '2025-01-01 00:00:00'), (2, TIMESTAMP_NTZ '2025-01-02 00:00:00')"
    for records, change in (
        (2, f"INSERT INTO delta.`{source}` {rows}"),
        (1, f"DELETE FROM delta.`{source}` WHERE id = 1"),
    ):
        bench.spark.sql(change)
        assert main(["delta-cdf", *paths, target, "--target-format", "delta"]) == 0
        assert json.loads(capsys.readouterr().out)["records"] == records
    assert [row["id"] for row in delta_rows(target)] == [2]
    assert main(["delta-timestamp", *paths, bench.path("other"), "--timestamp-column", "at"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 1
    assert main(["delta-cdf", "--source", bench.path("nowhere"), *paths[2:], target]) != 0
    assert "error[" in capsys.readouterr().err
