"""A column that was renamed at a source that numbers its columns is the same column of the table, if so stated."""

from __future__ import annotations

import pytest

from integration.engine.conftest import on_both

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

WATERMARK = {"kind": "watermark", "column": "at"}


@on_both
def test_a_rename_is_seen_and_followed(pg_bench):
    pg_bench.sql(
        "create table t (id int primary key, name text, at timestamptz not null)",
        "insert into t values (1, 'a', '2025-01-01'), (2, 'b', '2025-01-02')",
    )
    pg_bench.write(WATERMARK, contract={"rename": "stop"})
    assert pg_bench.loaded().rows_read == 2
    pg_bench.sql(
        "alter table t rename column name to label",
        "alter table t add column other text",
        "insert into t values (3, 'c', '2025-01-03', 'x')",
    )
    code, message, _ = pg_bench.refused()
    assert (code, "label: rename (name to label)" in message) == ("schema_refused", True)
    pg_bench.write(WATERMARK, contract={"rename": "evolve"})
    with pg_bench.project() as project:
        told = [(change["kind"], change["column"]) for change in project.plan("t").streams[0].schema_changes]
    assert told == [("rename", "label"), ("add_column", "other")]
    assert pg_bench.loaded().rows_read == 1
    assert pg_bench.rows("id", "label", "other") == [(1, "a", None), (2, "b", None), (3, "c", "x")]
    assert pg_bench.verify(level="rows").equal
    with pg_bench.project() as project:
        assert project.plan("t").streams[0].schema_changes == ()
    # A load that stops has renamed the column before; the rename is taken back, or another one follows.
    pg_bench.write(WATERMARK, contract={"rename": "evolve"}, checks=[{"unique": "other"}])
    pg_bench.sql("alter table t rename column label to tag", "insert into t values (4, 'd', '2025-01-04', 'x')")
    assert pg_bench.refused()[0] == "check_failed"
    pg_bench.sql("alter table t rename column tag to label", "update t set other = 'y' where id = 4")
    pg_bench.workspace.forget_registry()
    pg_bench.loaded()
    rows = [(1, "a", None), (2, "b", None), (3, "c", "x"), (4, "d", "y")]
    assert pg_bench.rows("id", "label", "other") == rows
    # What a version had that is shown again, it goes on from.
    with pg_bench.project() as project:
        project.rollback("t", [version for version in project.versions("t") if version.load][-1].id)
    pg_bench.sql("alter table t rename column label to last")
    pg_bench.loaded()
    assert pg_bench.rows("id", "last", "other") == rows
    assert set(pg_bench.rows()[0]) == {"id", "last", "other", "at"}
    # A repair follows a rename, too.
    pg_bench.sql("alter table t rename column last to label", "update t set other = 'z' where id = 1")
    assert pg_bench.verify(level="rows").rows_different == 1
    assert pg_bench.verify(level="rows", repair=True).repaired_rows == 1
    assert pg_bench.rows("id", "label", "other") == [(1, "a", "z"), *rows[1:]]


@on_both
def test_a_replay_follows_names_and_leaves_values_alone_that_loads_leave_alone(pg_bench):
    """What the table calls its columns, and numbers otherwise, is not what the source calls them."""
    checks = [{"expression": "two <> 'bad'", "on_fail": "quarantine"}]
    pg_bench.sql(
        "create table t (gone int, id int primary key, one text, two text, secret text, at timestamptz not null)",
        "alter table t drop column gone",
        """insert into t values (1, 'a', 'b', 's1', '2025-01-01'), (2, '{"one":"c"', 'bad', 's2', '2025-01-02')""",
    )
    pg_bench.write(WATERMARK, checks=checks)
    pg_bench.loaded()
    pg_bench.sql(
        "alter table t rename id to nr",
        "alter table t rename one to first",
        "alter table t rename at to changed",
        "update t set two = 'bad', changed = '2025-01-03' where nr = 1",
        "insert into t values (3, 'd', 'e', 's3', '2025-01-03')",
    )
    source = {"connection": "shop", "table": "t", "exclude": ["secret"]}
    follows = {"key": ["nr"], "contract": {"rename": "evolve"}, "source": source}
    corrected = {"kind": "watermark", "column": "changed"}
    pg_bench.write(corrected, checks=checks, **follows)
    assert pg_bench.loaded().rows_read == 2
    assert pg_bench.verify(level="rows").equal
    pg_bench.write(corrected, **follows)
    with pg_bench.project() as project:
        assert project.quarantine("t").replay().rows == 2
    pg_bench.sql("alter table t rename first to one", "insert into t values (4, 'f', 'g', 's4', '2025-01-04')")
    pg_bench.loaded()
    assert pg_bench.rows("nr", "one", "two", "secret") == [
        (1, "a", "bad", "s1"),
        (2, '{"one":"c"', "bad", "s2"),
        (3, "d", "e", None),
        (4, "f", "g", None),
    ]
    assert set(pg_bench.rows()[0]) == {"nr", "one", "two", "secret", "changed"}


def test_partitions_and_a_history_are_those_of_the_same_columns(pg_bench):
    pg_bench.sql(
        "create table t (no int primary key, v text, w text)",
        "insert into t select n, 'v', 'w' from generate_series(1, 30) n",
    )
    history = {"kind": "scd2", "track_history": ["v"]}
    pg_bench.write({"kind": "checksum", "method": "by_integer", "column": "no", "modulus": 10}, history, key=["no"])
    pg_bench.loaded()
    pg_bench.sql(
        "alter table t rename no to nr", "alter table t rename v to name", "update t set name = 'new' where nr = 12"
    )
    pg_bench.write(
        {"kind": "checksum", "method": "by_integer", "column": "nr", "modulus": 10},
        {**history, "track_history": ["name"]},
        key=["nr"],
        contract={"rename": "evolve"},
    )
    pg_bench.loaded()
    versions = [row for row in pg_bench.rows("nr", "name", "is_current") if row[1] == "new" or not row[2]]
    assert versions == [(12, "new", True), (12, "v", False)]
    assert len(pg_bench.rows()) == 31
    # A recreated table has other columns, whatever their numbers are: names tell which they are.
    pg_bench.sql(
        "drop table t",
        "create table t (w text, city text, nr int primary key, name text)",
        "insert into t select 'w', 'c', n, 'v' from generate_series(1, 30) n",
    )
    pg_bench.loaded()
    of_twelve = [row for row in pg_bench.rows("nr", "name", "city", "is_current") if row[0] == 12]
    assert of_twelve == [(12, "new", None, False), (12, "v", "c", True), (12, "v", None, False)]


@on_both
def test_a_source_that_takes_back_a_wider_type_goes_on_where_a_load_had_stopped(pg_bench):
    pg_bench.sql(
        "create table t (id int primary key, v int, code int, at timestamptz not null)",
        "insert into t values (1, 1, 1, '2025-01-01')",
    )
    pg_bench.write(WATERMARK, checks=[{"unique": "code"}])
    pg_bench.loaded()
    pg_bench.sql("alter table t alter v type bigint", "insert into t values (2, 2, 1, '2025-01-02')")
    assert pg_bench.refused()[0] == "check_failed"
    pg_bench.sql("alter table t alter v type int", "update t set code = 2 where id = 2")
    pg_bench.loaded()
    pg_bench.sql("alter table t add column w int", "insert into t values (3, 3, 3, '2025-01-03', 5)")
    pg_bench.loaded()
    assert pg_bench.verify(level="rows").equal
    if pg_bench.form == "iceberg":  # delta-rs reads no table of which a type was widened
        assert pg_bench.rows("id", "v", "w") == [(1, 1, None), (2, 2, None), (3, 3, 5)]


@on_both
def test_a_load_keeps_what_it_does_not_write_of_rows_that_wait(pg_bench):
    bad = [{"expression": "amt >= 0", "on_fail": "quarantine"}]
    by_id = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 10}
    strategy = by_id if pg_bench.form == "delta" else "snapshot_diff"
    excluded = {"connection": "shop", "table": "t", "exclude": ["secret"]}
    pg_bench.sql(
        "create table t (id int primary key, gone text, secret text, amt int)",
        "insert into t select n, 'g' || n, 's' || n, case when n < 6 then n else -n end from generate_series(1, 7) n",
    )
    pg_bench.write(strategy, checks=bad)
    pg_bench.loaded()
    pg_bench.sql("alter table t drop column gone", "update t set amt = -amt where id in (2, 3, 4)")
    pg_bench.write(strategy, checks=[*bad, {"unique": "amt"}], source=excluded)
    pg_bench.loaded()
    pg_bench.sql("delete from t where id in (3, 5)", "update t set amt = id where id in (4, 6)")
    pg_bench.loaded()
    kept = [(1, "g1", "s1", 1), (2, "g2", "s2", 2), (4, "g4", "s4", 4), (6, "g6", "s6", 6)]
    assert pg_bench.rows("id", "gone", "secret", "amt") == kept
    report = pg_bench.verify(level="rows")
    assert (report.equal, report.rows_quarantined) == (True, 2)
    pg_bench.write(strategy, source=excluded)
    with pg_bench.project() as project:
        assert project.quarantine("t").replay().rows == 2
    replayed = [kept[0], (2, "g2", "s2", -2), *kept[2:], (7, "g7", "s7", -7)]
    assert pg_bench.rows("id", "gone", "secret", "amt") == replayed
