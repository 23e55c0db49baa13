"""Changes of a lake table into a history: the sequence dates them, also one that goes back, and loads stay verified."""

from __future__ import annotations

from datetime import datetime

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def day(value):
    return value.day if isinstance(value, datetime) and value.year == 2024 else value and "load"


def test_a_change_that_is_dated_back_lands_in_its_place(lake_of, tmp_path):
    write = {"kind": "scd2", "sequence_by": ["at"]}
    source = {"delta": "tables/people"}
    stream = {"source": source, "target": "lake.out.people", "key": ["id"], "strategy": "table_changes", "write": write}
    lake = lake_of({"people": stream})
    lake.session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    name = f"delta.`{tmp_path / 'tables' / 'people'}`"
    at = "timestamp_ntz '2024-01-{:02} 00:00:00'".format
    lake.sql(
        f"CREATE TABLE {name} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT id, "
        f"concat('n', id) AS name, {at(10)} AS at FROM range(1, 4)"
    )
    assert lake.loaded("people").verified

    def versions():
        rows = sorted(lake.workspace.rows("out.people"), key=lambda row: (row["id"], row["valid_from"]))
        return [(row["id"], row["name"], day(row["valid_from"]), day(row["valid_to"])) for row in rows]

    lake.sql(
        f"UPDATE {name} SET name = 'back', at = {at(5)} WHERE id = 1",
        f"DELETE FROM {name} WHERE id = 2",
        f"UPDATE {name} SET name = 'on', at = {at(12)} WHERE id = 3",
    )
    assert lake.loaded("people").verified
    after = [(1, "back", 5, 10), (1, "n1", 10, None), (2, "n2", 10, "load"), (3, "n3", 10, 12), (3, "on", 12, None)]
    assert versions() == after
    lake.sql(
        f"INSERT INTO {name} VALUES (2, 'again', {at(15)})",
        f"UPDATE {name} SET name = 'more', at = {at(16)} WHERE id = 3",
    )
    assert lake.loaded("people").verified, "one late change does not stop the loads after it"
    assert versions()[2:] == [
        (2, "n2", 10, 15),
        (2, "again", 15, None),
        (3, "n3", 10, 12),
        (3, "on", 12, 16),
        (3, "more", 16, None),
    ]


def test_rows_that_came_beside_deletes_follow_each_other_by_commit(lake_of):
    """Iceberg scans no changes of a version with rows that are deleted beside their files, whenever they were."""
    write = {"kind": "scd2", "sequence_by": ["at"]}
    source = {"iceberg": "lake.src.people"}
    stream = {"source": source, "target": "lake.out.people", "key": ["id"], "strategy": "table_changes", "write": write}
    lake = lake_of({"people": stream})
    at = "timestamp_ntz '2024-01-{:02} 00:00:00'".format
    lake.sql(
        "CREATE TABLE lake.src.people USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', "
        f"'format-version' = '2') AS SELECT /*+ COALESCE(1) */ id, concat('n', id) AS name, {at(10)} AS at "
        "FROM range(1, 5)",
        "DELETE FROM lake.src.people WHERE id = 2",
    )
    assert lake.loaded("people").verified
    lake.sql(
        f"INSERT INTO lake.src.people VALUES (2, 'again', {at(15)}), (7, 'first', {at(11)})",
        f"INSERT INTO lake.src.people VALUES (8, 'new', {at(9)})",
        "CALL lake.system.rewrite_data_files(table => 'src.people', options => map('rewrite-all', 'true'))",
        f"INSERT INTO lake.src.people VALUES (9, 'last', {at(12)})",
    )
    appended = lake.loaded("people")
    assert (appended.effect, appended.rows_read, appended.verified) == ("apply", 4, True)
    rows = sorted(lake.workspace.rows("out.people"), key=lambda row: row["id"])
    found = [(row["id"], row["name"], day(row["valid_from"]), day(row["valid_to"])) for row in rows]
    assert found == [
        (1, "n1", 10, None),
        (2, "again", 15, None),
        (3, "n3", 10, None),
        (4, "n4", 10, None),
        (7, "first", 11, None),
        (8, "new", 9, None),
        (9, "last", 12, None),
    ]
    lake.sql("DELETE FROM lake.src.people WHERE id = 3", f"INSERT INTO lake.src.people VALUES (10, 'x', {at(20)})")
    compared = lake.loaded("people")
    assert (compared.effect, compared.verified) == ("mirror", True), "what was deleted is found by a comparison"
    assert lake.run("people").outcome == "unchanged"
