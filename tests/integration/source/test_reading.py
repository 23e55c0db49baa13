"""What a database is asked beside its values: names, keys, identity, one state of a table, and what it refuses."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg
import pymysql
import pytest

from integration.source.places import Place, at
from support.lake import with_driver
from tidegate.core.batch import Latest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Range
from tidegate.dialects.snowflake import Snowflake
from tidegate.errors import ColumnMissing, ConfigError, SchemaRefused, SourceMoved, SourceUnavailable
from tidegate.sources.database import Database
from tidegate.sources.database.source import dialect_of, table_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NAMES = ["a.b", 'q"uote', "sel`ect", "x DESC NULLS LAST", "x y", "${v}", "c0", "select", "%s", "b\\n", "w?t", "🚢"]
CUT = ("duckdb", "postgresql")
"""Where a table without a key is read in several parts: by the places of its rows."""
NOBODY = {
    "mariadb": "mariadb://a:s3cr3t@127.0.0.1:1/x",
    "postgresql": "postgresql://a:s3cr3t@127.0.0.1:1/x",
    "snowflake": "snowflake://me:s3cr3t@127.0.0.1:1/db/s",
    "trino": "trino://me@127.0.0.1:1/memory",
}


@pytest.mark.spark
@at("duckdb", "mariadb", "postgresql", "snowflake", "trino")
def test_hostile_names_in_many_slices(place: Place, spark: SparkSession) -> None:
    with_driver(spark, *Snowflake.jars)
    names = [name for name in NAMES if place.kind != "mariadb" or name != "🚢"]  # which has no such names
    names = [name.lower() for name in names] if place.kind == "trino" else names  # which keeps no other ones
    quoted = [place.dialect.quote(name) for name in names]
    table = {"mariadb": "odd.na`me", "trino": "odd.name"}.get(place.kind, 'odd.na"me')
    rows = [tuple(10 * row + column for column in range(len(names))) for row in range(50)]
    values = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
    place.run(
        f"CREATE TABLE {place.dialect.quote(table)} ({', '.join(f'{name} int' for name in quoted)})",
        f"INSERT INTO {place.dialect.quote(table)} VALUES {values}",
    )
    there = place.source('"' + table.replace('"', '""') + '"', slices=3)
    part = Range(cursor=("x y",), after="4", upto="474")
    with there.probe() as probe:
        latest = Latest(key=("a.b",), order=(names[3], "b\\n"))
        assert probe.count(part, latest=latest) == 47
        found = there.read(spark, probe, [part], probe.schema())
        assert (found.columns, found.rdd.getNumPartitions()) == (names, 3 if place.kind in CUT else 1)
        assert sorted(map(tuple, found.collect())) == rows[1:48]


@pytest.mark.spark
@at("postgresql")
def test_an_operator_with_a_question_mark_is_no_parameter_of_the_driver(place: Place, spark: SparkSession) -> None:
    docs = """(1, '{"a": 1}'), (2, '{"b": 1}'), (3, '{"?": 1}')"""
    place.run("CREATE TABLE d (id int PRIMARY KEY, doc jsonb)", f"INSERT INTO d VALUES {docs}")
    texts = "'it''s ?' AS t, $$?$$ AS u, E'\\'?' AS v -- what?\n"
    for condition, wanted in (("doc ? 'a'", [1]), ("doc ?| array['a', '?']", [1, 3]), ("NOT doc ?& '{a}'", [2, 3])):
        there = place.source(query=f"SELECT id, {texts} FROM d WHERE {condition}")
        with there.probe() as probe:
            rows = there.read(spark, probe, [Everything()], probe.schema()).sort("id").collect()
        assert list(map(tuple, rows)) == [(number, "it's ?", "?", "'?") for number in wanted]


@pytest.mark.spark
@at("postgresql", "snowflake")
def test_rows_are_read_in_the_probes_snapshot(place: Place, spark: SparkSession) -> None:
    """Every answer and every slice is of one state, whatever is written meanwhile."""
    with_driver(spark, *Snowflake.jars)
    name = (lambda text: text.upper()) if place.kind == "snowflake" else str
    there = place.of("id int, x int", "0, NULL", slices=3)
    numbers = ", ".join(f"({number}, {number})" for number in range(1, 200))
    place.run(f"INSERT INTO {there.table} SELECT * FROM (VALUES {numbers}) AS t(i, j)")
    part = Range(cursor=(name("x"),), after="9", upto="109", nulls=True)
    with there.probe() as probe:
        before = probe.fingerprint(Everything())
        place.run(f"DELETE FROM {there.table} WHERE id > 50", f"INSERT INTO {there.table} VALUES (-1, 12)")
        assert (probe.stats(part).rows, probe.stats(part).later) == (101, 90)
        rows = there.read(spark, probe, [part], probe.schema())
        assert rows.rdd.getNumPartitions() == (3 if place.kind in CUT else 1)
        assert sorted(int(row[0]) for row in rows.collect()) == [0, *range(10, 110)]
        assert probe.fingerprint(Everything()) == before
        assert probe.has_snapshot()
        probe.verify_unchanged()
    with there.probe() as probe:
        assert probe.count(Everything()) == 52


@at("postgresql")
def test_rows_are_as_wide_as_they_are_read_however_they_are_stored(place: Place) -> None:
    """PostgreSQL compresses long values and puts them aside; an ordinary table has no tree of partitions."""
    place.run(
        "CREATE TABLE narrow AS SELECT n, md5(n::text) AS note FROM generate_series(1, 5000) n",
        "CREATE TABLE parts (n int, note text) PARTITION BY RANGE (n)",
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (9000)",
        "INSERT INTO parts SELECT * FROM narrow",
        "ANALYZE narrow, parts",
        "CREATE TABLE wide AS SELECT n, repeat(md5(n::text), 32768) AS doc FROM generate_series(1, 3) n",
    )
    widths = {}
    for table in ("narrow", "parts", "wide"):
        with place.source(table).probe() as probe:
            widths[table] = probe.row_bytes
    assert all(40 < widths[table] < 100 for table in ("narrow", "parts"))
    assert 2**20 < widths["wide"] < 2**20 + 100
    assert {facts.rows for facts in table_facts(place.connection, "public.n*")} == {5000}


@at("duckdb", "mariadb", "postgresql")
def test_keys_identity_and_clock(place: Place) -> None:
    """A key is unique only where the database says so, and its columns are never NULL."""
    columns = "a int PRIMARY KEY, b int UNIQUE, c int NOT NULL, d int NOT NULL, UNIQUE (c, d)"
    place.run(f"CREATE TABLE t ({columns})", "CREATE TABLE other (id int)")
    if place.kind == "postgresql":
        place.run("CREATE UNIQUE INDEX ON t (c) WHERE c > 0", "CREATE UNIQUE INDEX ON t (abs(d))")
    with place.source("t").probe() as probe:
        answers = {key: probe.unique(key.split()) for key in ("a", "b", "c", "d", "c d", "a c", "a b", "")}
        first, began = probe.identity(), probe.clock()
        assert place.kind == "duckdb" or probe.session.row_bytes(probe._relation) > 0
    assert [key for key, unique in answers.items() if unique] == ["a", "c d", "a c"]
    commit = ["SET synchronous_commit = on"] if place.kind == "postgresql" else []
    place.run(*commit, "INSERT INTO t VALUES (1, 1, 1, 1)")
    with place.source("t").probe() as probe:
        assert probe.identity() == first
        assert probe.clock() > began
    with place.source("other").probe() as probe:
        assert probe.identity() != first
    pattern = {"mariadb": f"{place.url.rpartition('/')[2]}.t", "duckdb": "main.t", "postgresql": "public.t"}
    (facts,) = table_facts(place.connection, pattern[place.kind])
    assert (facts.primary_key, facts.columns.names) == (("a",), ("a", "b", "c", "d"))
    assert {("b",), ("c", "d")} <= {*facts.indexes}


@at("postgresql")
def test_a_table_that_was_made_anew_is_another_one(place: Place) -> None:
    found = []
    for _ in range(2):
        place.run("DROP TABLE IF EXISTS t", "CREATE TABLE t (id int)")
        with place.source("t").probe() as probe:
            found.append(probe.identity())
    assert found[0] != found[1]


@at("duckdb", "mariadb", "postgresql", "snowflake", "trino")
def test_what_is_not_there_and_what_is_refused(place: Place) -> None:
    name = "AMOUNT" if place.kind == "snowflake" else "amount"
    there = place.of("id int, amount decimal(12,2)")
    with place.source("nowhere").probe() as probe, pytest.raises(ColumnMissing, match="nowhere"):
        probe.schema()
    with there.probe() as probe, pytest.raises(ColumnMissing, match="no column 'nope'"):
        probe.fingerprint(Range(cursor=("nope",), after=None, upto="1"))
    for columns, error in (({"nope": "text"}, ConfigError), ({name: "date"}, (SchemaRefused, ConfigError))):
        with place.source(there.table, columns=columns).probe() as probe, pytest.raises(error):
            probe.schema()
    if place.kind in NOBODY:
        nobody = Database(connection=Connection(name="shop", url=NOBODY[place.kind]), table="x")
        with pytest.raises(SourceUnavailable, match="cannot be reached") as gone, nobody.probe():
            pass
        assert "s3cr3t" not in f"{gone.value}{gone.value.hint}"
    if place.kind in ("mariadb", "postgresql"):
        absent = Database(connection=Connection(name="shop", url=place.url + "_not"), table="x")
        with pytest.raises(SourceUnavailable, match="no such database"), absent.probe():
            pass


@at("postgresql")
def test_a_login_that_is_refused_is_not_shown(place: Place) -> None:
    url = place.url.replace("postgres@", "nobody:s3cr3t@")
    there = Database(connection=Connection(name="shop", url=url), table="x")
    with pytest.raises(SourceUnavailable, match="refused the login") as refused, there.probe():
        pass
    assert "s3cr3t" not in f"{refused.value}{refused.value.hint}{refused.value.context}"


@at("mariadb", "postgresql")
def test_connection_that_is_cut_may_be_tried_again(place: Place) -> None:
    with place.of("id int").probe() as probe:
        if place.kind == "mariadb":
            place.run(f"KILL {probe.session.thread}")
        else:
            ((pid,),) = probe.session.rows("SELECT pg_backend_pid()")
            place.run(f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(SourceUnavailable) as cut:
            probe.count(Everything())
        assert cut.value.retryable


@at("mariadb", "postgresql")
def test_nobody_alters_a_table_that_is_read(place: Place) -> None:
    """No snapshot survives TRUNCATE: without the lock the rows would be gone."""
    there = place.of("id int", "1")
    with there.probe() as probe:
        probe.schema()
        if place.kind == "mariadb":
            with pytest.raises(pymysql.err.OperationalError, match="1205"):
                place.run("SET lock_wait_timeout = 1", f"ALTER TABLE {there.table} ADD COLUMN more int")
        else:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                place.run("SET lock_timeout = '100ms'", f"TRUNCATE {there.table}")
        assert probe.count(Everything()) == 1


@at("postgresql")
def test_bytes_and_bounds(place: Place) -> None:
    rows = ("1, 'b', '2025-01-01+00', true", "2, 'Z', NULL, false", "10, NULL, NULL, NULL")
    with place.of("id int, code text, at timestamptz, flag bool", *rows).probe() as probe:
        bounds = {name: probe.key_bounds(Everything(), name) for name in ("id", "code", "at", "flag")}
        midnight = datetime(2025, 1, 1, tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        assert {name: found and (found.low, found.high) for name, found in bounds.items()} == {
            "id": ("1", "10"),
            "code": ("Z", "b"),
            "at": (midnight, midnight),
            "flag": None,
        }
        assert set(bounds["id"].values) == {"1", "2", "10"}
        assert probe.key_bounds(Range(cursor=("id",), after="10", upto="11"), "id") is None


@at("postgresql")
def test_the_rows_of_a_slice_are_counted_once_in_a_snapshot(place: Place) -> None:
    there, asked = place.of("id int", "1", "1", "2"), []
    with there.probe() as probe:
        rows = probe.session.rows
        probe.session.rows = lambda sql: asked.append(sql) or rows(sql)
        assert probe.stats(Everything()).rows == 3
        once = len(asked)
        place.run(f"INSERT INTO {there.table} VALUES (3)")
        assert (probe.count(Everything()), len(asked)) == (3, once)
        assert probe.count(Everything(), latest=Latest(key=("id",), order=("id",))) == 2
        assert probe.count(Range(cursor=("id",), after="1", upto="9")) == 1


@at("mariadb")
def test_borders_split_a_range_evenly(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_90")
    part = Range(cursor=("id",), after="0", upto="90")
    with place.source("t").probe() as probe:
        assert probe.session.rows(probe.statements.borders(part, 3)) == [("30",), ("60",), ("90",)]
        assert probe.session.estimate(probe._relation, probe.condition(part)) > 0
    same = dialect_of(Connection(name="c", url=place.url.replace("mariadb:", "mysql:")))
    assert same.kind == "mariadb"


@at("mariadb")
def test_a_change_while_mariadb_is_read_is_noticed(place: Place) -> None:
    """A quiet table is not asked again, and rows beyond the slice that was asked for change nothing."""
    there = place.of("id bigint AUTO_INCREMENT PRIMARY KEY, name text", "1, 'row'")
    quiet_since = time.time()
    with there.probe() as probe:
        probe.fingerprint(Range(cursor=("id",), after=None, upto="1"))
        place.run(f"INSERT INTO {there.table} VALUES (2, 'later')")
        probe.verify_unchanged()
    while time.time() < quiet_since + 1.1:  # the server tells changes by whole seconds
        time.sleep(0.1)
    with there.probe() as probe:
        assert not probe.has_snapshot()
        first, asked = probe.fingerprint(Everything()), []
        ask = probe.session.outside_rows
        probe.session.outside_rows = lambda sql: asked.append(sql) or ask(sql)
        probe.verify_unchanged()
        assert [sql for sql in asked if "MD5" in sql] == []
        place.run(f"UPDATE {there.table} SET name = 'another'")
        assert probe.fingerprint(Everything()) == first
        with pytest.raises(SourceMoved):
            probe.verify_unchanged()


@at("duckdb")
def test_a_copy_of_a_file_that_is_put_back_is_behind(place: Place, tmp_path) -> None:
    file = tmp_path / "shop.duckdb"
    place.run("CREATE TABLE t (id int)")
    copy = file.read_bytes()
    place.run("INSERT INTO t VALUES (1)")
    with place.source("t").probe() as probe:
        later = probe.clock()
    file.write_bytes(copy)
    with place.source("t").probe() as probe:
        assert probe.clock() < later
        assert probe.fingerprint(Everything()) == Fingerprint()


@at("duckdb")
def test_a_file_that_is_no_database(place: Place, tmp_path) -> None:
    with pytest.raises(SourceUnavailable, match="does not exist"), place.source("t").probe():
        pass
    (tmp_path / "shop.duckdb").write_text("no database at all\n" * 1000)
    with pytest.raises(SourceUnavailable, match=r"shop\.duckdb"), place.source("t").probe():
        pass
