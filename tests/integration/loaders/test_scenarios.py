"""The scenarios of the Delta loaders, row by row, and what lies beyond them."""

import os
import shutil
from pathlib import Path

import pytest

from tidegate.errors import DuplicateKeys, HistoryGone, TidegateError
from tidegate.loaders import DeltaCDFLoader, DeltaTimestampLoader
from tidegate.loaders._records import COLUMNS as RECORDED
from tidegate.loaders._records import LATER, Records

pytestmark = pytest.mark.spark

COLUMNS = "id_col bigint NOT NULL, partition_col string NOT NULL, value_col string"
FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def sql(bench, *texts):
    for text in texts:
        bench.spark.sql(text).collect()


def create(bench, source, columns=COLUMNS):
    sql(bench, f"CREATE TABLE delta.`{source}` ({columns}) USING delta {FEED}")


def metadata(bench, *columns):
    """The metadata table as Delta itself gives it."""
    rows = bench.spark.read.format("delta").load(bench.path("metadata")).orderBy("read_at").collect()
    return [tuple(row[column] for column in columns) for row in rows]


def versions(bench):
    return metadata(bench, "start_commit_ver", "end_commit_ver", "is_processed", "is_stale")


def times(bench):
    return metadata(bench, "last_read_timestamp", "is_processed", "is_stale")


def following(bench, source, goal):
    """A loader of the feed, new as in a process of its own."""
    return DeltaCDFLoader(bench.spark, source, bench.path("metadata"), "id_col", goal, target_format="delta")


def target(bench, path):
    """What delta-rs reads."""
    from deltalake import DeltaTable

    return sorted(tuple(row.values()) for row in DeltaTable(path).to_pyarrow_table().to_pylist())


def test_change_data_feed_fresh_unchanged_and_changed(bench):
    source, goal = bench.path("source"), bench.path("target")
    create(bench, source)
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (1, 'a', 'one'), (2, 'a', 'two')")

    # Case 1: create fresh Delta transaction
    assert following(bench, source, goal).load().records == 2
    assert versions(bench) == [(0, 1, True, False)]
    assert target(bench, goal) == [(1, "a", "one"), (2, "a", "two")]
    # Case 2: Delta load without changes
    assert following(bench, source, goal).load().records == 0
    assert versions(bench) == [(0, 1, True, False), (1, 1, True, False)]
    # Beyond: changed, moved to another key, deleted, deleted and back again
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (3, 'b', 'three'), (4, 'b', 'four')")
    sql(bench, f"UPDATE delta.`{source}` SET id_col = 5 WHERE id_col = 1")
    sql(bench, f"DELETE FROM delta.`{source}` WHERE id_col IN (2, 4)")
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (2, 'b', 'again')")
    result = following(bench, source, goal).load()
    assert (result.old_watermark, result.new_watermark) == ("1", "5")
    assert target(bench, goal) == [(2, "b", "again"), (3, "b", "three"), (5, "a", "one")]
    assert versions(bench)[2:] == [(1, 5, True, False)]


def test_change_data_feed_merge_with_deduplication(bench):
    # Case 3
    source, goal = bench.path("source"), bench.path("target")
    create(bench, source)
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (1, 'a', 'one'), (2, 'a', 'two')")
    sql(
        bench,
        f"MERGE INTO delta.`{source}` t USING (SELECT 2L id_col, 'a' partition_col, 'new' value_col) s "
        "ON t.id_col = s.id_col WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    loader = following(bench, source, goal)
    assert loader.load().records == 2
    assert versions(bench) == [(0, 2, True, False)]
    assert target(bench, goal) == [(1, "a", "one"), (2, "a", "new")]


def test_several_rows_of_one_key_are_refused_even_where_they_are_equal(bench):
    source, goal = bench.path("source"), bench.path("target")
    create(bench, source)

    def refused(*statements):
        sql(bench, *(statement.format(f"delta.`{source}`") for statement in statements))
        with pytest.raises(DuplicateKeys, match="several rows for each of 1 key"):
            following(bench, source, goal).load()

    insert = "INSERT INTO {{}} VALUES {}".format
    refused(insert("(1, 'a', 'one'), (7, 'a', 'same'), (7, 'a', 'same')"))  # in a first load
    sql(bench, f"DELETE FROM delta.`{source}` WHERE id_col = 7")
    following(bench, source, goal).load()
    assert target(bench, goal) == [(1, "a", "one")]
    refused(insert("(8, 'a', 'same'), (8, 'a', 'same')"))
    # One commit after the other; and as the keys of what one update made equal.
    refused("DELETE FROM {} WHERE id_col = 8", insert("(8, 'a', 'same')"), insert("(8, 'a', 'same')"))
    sql(bench, f"DELETE FROM delta.`{source}` WHERE id_col = 8")
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (2, 'a', 'one')")
    following(bench, source, goal).load()
    assert target(bench, goal) == [(1, "a", "one"), (2, "a", "one")]
    refused("UPDATE {} SET id_col = 3")


def test_reads_that_nobody_confirmed_become_stale_and_come_again(bench):
    # The rows of the CREATE commit itself are among them.
    source, noted = bench.path("source"), bench.path("metadata")
    sql(bench, f"CREATE TABLE delta.`{source}` USING delta {FEED} AS SELECT 1L AS id_col, 'one' AS value_col")
    loader = DeltaCDFLoader(bench.spark, source, noted, "id_col")
    assert [tuple(row) for row in loader.read_data().collect()] == [(1, "one", False)]
    assert versions(bench) == [(0, 0, False, False)]
    other = DeltaCDFLoader(bench.spark, source, noted, "id_col")
    assert [tuple(row) for row in other.read_data().collect()] == [(1, "one", False)]
    assert versions(bench) == [(0, 0, False, True), (0, 0, False, False)]
    other.confirm()
    assert versions(bench) == [(0, 0, False, True), (0, 0, True, False)]
    sql(bench, f"DELETE FROM delta.`{source}`")
    assert [(row["id_col"], row["__tidegate_gone"]) for row in loader.read_data().collect()] == [(1, True)]


def test_a_load_that_landed_and_was_never_confirmed_is_not_done_again(bench, monkeypatch):
    source, goal = bench.path("source"), bench.path("target")
    sql(bench, f"CREATE TABLE delta.`{source}` USING delta {FEED} AS SELECT 1L AS id_col, 'one' AS value_col")

    def killed(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as broken:
        broken.setattr(Records, "add", killed)
        with pytest.raises(TidegateError):
            following(bench, source, goal).load()
    assert versions(bench) == []
    assert following(bench, source, goal).load().records == 0
    assert versions(bench) == [(0, 0, True, False), (0, 0, True, False)]
    assert target(bench, goal) == [(1, "one")]
    # A source without its feed is told, and nothing is skipped.
    sql(bench, f"ALTER TABLE delta.`{source}` SET TBLPROPERTIES (delta.enableChangeDataFeed = false)")
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (2, 'two')")
    with pytest.raises(HistoryGone, match="has no change data"):
        following(bench, source, goal).load()


@pytest.fixture
def refused(bench):
    """Asserts that these loaders tell that their source is another table now."""

    def check(*loads):
        for load in loads:
            with pytest.raises(HistoryGone, match="it is a different table now"):
                load()

    return check


def test_a_source_that_was_made_again_at_its_path_is_not_followed(bench, refused):
    source, goal = bench.path("source"), bench.path("target")
    create(bench, source)
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (1, 'a', 'one')")
    # A metadata table of before, whose read did not note which table it was: it is believed once.
    known = {name: kind for name, kind in RECORDED.items() if name not in LATER}
    columns = ", ".join(f"{name} {kind}" for name, kind in known.items())
    sql(bench, f"CREATE TABLE delta.`{bench.path('metadata')}` ({columns}) USING delta")
    read = f"'{source}', 0, 1, NULL, true, false, 'before', current_timestamp()"
    sql(bench, f"INSERT INTO delta.`{bench.path('metadata')}` VALUES ({read})")
    reader = DeltaCDFLoader(bench.spark, source, bench.path("metadata"), "id_col")
    assert (reader.read_data().count(), following(bench, source, goal).load().records) == (0, 1)
    shutil.rmtree(source)
    create(bench, source)
    for number in (2, 3):  # at a lower version, at the same one, and beyond
        refused(following(bench, source, goal).load, reader.read_data)
        sql(bench, f"INSERT INTO delta.`{source}` VALUES ({number}, 'a', 'new')")
    refused(following(bench, source, goal).load)
    assert target(bench, goal) == [(1, "a", "one")]


def test_an_older_copy_of_a_source_that_is_written_to_again_is_not_followed(bench, refused):
    source, goal, copy = (bench.path(name) for name in ("source", "target", "copy"))
    create(bench, source)
    shutil.copytree(source, copy)
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (1, 'a', 'one')")
    assert following(bench, source, goal).load().records == 1
    assert following(bench, source, goal).load().records == 0
    shutil.rmtree(source)
    shutil.copytree(copy, source)
    for number in (2, 3):  # at the same version, and beyond
        sql(bench, f"INSERT INTO delta.`{source}` VALUES ({number}, 'a', 'new')")
        written = Path(source, "_delta_log", f"{1:020}.json")
        os.utime(written, (written.stat().st_mtime + 60,) * 2)
        bench.spark.sql("CLEAR CACHE")
        refused(following(bench, source, goal).load)
    assert target(bench, goal) == [(1, "a", "one")]


def test_a_source_of_times_that_was_made_again_at_its_path_is_not_followed(bench, refused):
    source, goal = bench.path("source"), bench.path("target")
    reader = DeltaTimestampLoader(bench.spark, source, bench.path("metadata"), "at")
    loader = DeltaTimestampLoader(bench.spark, source, bench.path("metadata"), "at", target=goal, target_format="delta")
    for id_col, at in ((1, "2025-01-02"), (2, "2025-01-01")):
        sql(bench, f"CREATE TABLE delta.`{source}` USING delta AS SELECT {id_col}L AS id_col, DATE'{at}' AS at")
        if id_col == 1:
            assert (loader.load().records, reader.read_data().count()) == (1, 1)
            reader.confirm()
            shutil.rmtree(source)
    refused(loader.load, reader.read_data)  # its row is older than what was loaded


def test_a_source_that_a_statement_replaced_is_followed_unless_it_was_made_again_before(bench, refused):
    source, goal = bench.path("source"), bench.path("target")
    reader = DeltaCDFLoader(bench.spark, source, bench.path("metadata"), "id_col")

    def replace(name):
        values = f"SELECT 1L AS id_col, 'a' AS partition_col, '{name}' AS value_col"
        sql(bench, f"CREATE OR REPLACE TABLE delta.`{source}` USING delta {FEED} AS {values}")

    for name in ("one", "two"):
        replace(name)
        assert following(bench, source, goal).load().records == 1
        assert target(bench, goal) == [(1, "a", name)]
    reader.read_data()
    reader.confirm()
    shutil.rmtree(source)
    replace("three")
    replace("four")
    refused(following(bench, source, goal).load, reader.read_data)


def test_sources_of_one_last_name_share_no_reads(bench):
    for folder, rows in (("one", 2), ("two", 3)):
        source = bench.path(f"{folder}/orders")
        sql(bench, f"CREATE TABLE delta.`{source}` USING delta {FEED} AS SELECT id AS id_col FROM range({rows})")
        reader = DeltaCDFLoader(bench.spark, source, bench.path("metadata"), "id_col")
        assert reader.read_data().count() == rows
        reader.confirm()
    assert metadata(bench, "table_identifier") == [(bench.path("one/orders"),), (bench.path("two/orders"),)]


def test_timestamps_fresh_and_unchanged(bench):
    source, goal = bench.path("source"), bench.path("target")
    create(bench, source, f"{COLUMNS}, at date")
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (1, 'a', 'x', DATE'2025-01-01'), (2, 'a', 'y', DATE'2025-01-02')")

    def loader():
        return DeltaTimestampLoader(
            bench.spark,
            source,
            bench.path("metadata"),
            "at",
            target=goal,
            target_format="delta",
            from_timestamp="2025-01-01",
        )

    # Case 1
    assert loader().load().records == 2
    assert times(bench) == [("2025-01-02", True, False)]
    # Case 2
    assert loader().load().records == 0
    assert times(bench) == [("2025-01-02", True, False)] * 2
    # Beyond: a row of the last day that comes later.
    sql(bench, f"INSERT INTO delta.`{source}` VALUES (3, 'a', 'z', DATE'2025-01-02'), (0, 'a', 'w', DATE'2024-12-31')")
    assert loader().load().records == 1
    assert [row[0] for row in target(bench, goal)] == [1, 2, 3]
