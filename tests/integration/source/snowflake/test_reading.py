"""Snowflake as a source, on fakesnow by the real drivers: one state of a table, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.source.snowflake.tables import connection, source
from tidegate.core.bounds import BoundRequest, Clock, SequenceBound, TimeBound
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Connection
from tidegate.core.ports.hook import PublishedLoad
from tidegate.core.slices import Everything, Range
from tidegate.dialects.snowflake.address import SESSION
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    SchemaRefused,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
)
from tidegate.hooks.sql import Sql
from tidegate.sources.database import Database
from tidegate.sources.database.source import list_tables, table_facts

LOAD = PublishedLoad(
    project="p",
    stream="s",
    target="lake.a.b",
    load_id="l",
    version=None,
    published_at=datetime(2025, 1, 1, tzinfo=UTC),
    rows=None,
    verified=True,
)


@pytest.mark.spark
def test_every_answer_and_every_row_is_of_one_state(snowflake_server, spark) -> None:
    table = snowflake_server.table("id number(10,0), name varchar", "1, 'a'", "2, 'b'")
    with source(snowflake_server, table).probe() as probe:
        assert probe.count(Everything()) == 2
        assert probe.has_snapshot()
        snowflake_server.run(f"UPDATE {table} SET name = 'c' WHERE id = 2", f"INSERT INTO {table} VALUES (3, 'd')")
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts(["1|a", "2|b"])
        rows = source(snowflake_server, table).read(spark, probe, [Everything()], probe.schema()).collect()
        assert sorted(map(tuple, rows)) == [(1, "a"), (2, "b")]
        probe.verify_unchanged()
    with source(snowflake_server, table).probe() as probe:
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts(["1|a", "2|c", "3|d"])


@pytest.mark.spark
def test_both_drivers_ask_for_the_same_session(snowflake_server, spark) -> None:
    """Whatever an account sets, names and literals mean the same, and no result is cut short."""
    there = source(snowflake_server, snowflake_server.table("id number(10,0)", "1"))
    with there.probe() as probe:
        there.read(spark, probe, [Everything()], probe.schema()).collect()
    asked = {login["driver"]: login["asked"] for login in snowflake_server.logins()}
    assert set(asked) == {"PythonConnector", "JDBC"}
    for found in asked.values():
        assert {name: str(found[name]).lower() for name in SESSION} == {k: v.lower() for k, v in SESSION.items()}
    assert asked["JDBC"]["JDBC_QUERY_RESULT_FORMAT"] == "ARROW"


def test_a_table_that_is_replaced_meanwhile_stops(snowflake_server) -> None:
    table = snowflake_server.table("id number(10,0)", "1")
    with source(snowflake_server, table).probe() as probe:
        assert probe.count(Everything()) == 1
        snowflake_server.run(f"CREATE OR REPLACE TABLE {table} (id number(10,0))")
        with pytest.raises(SourceMoved, match="replaced meanwhile") as moved:
            probe.fingerprint(Everything())
    assert "DATA_RETENTION_TIME_IN_DAYS" in moved.value.hint


def test_a_table_without_a_history_is_refused_before_it_is_read(snowflake_server) -> None:
    table = snowflake_server.table("id number(10,0)", "1")
    snowflake_server.run(f"ALTER TABLE {table} SET DATA_RETENTION_TIME_IN_DAYS = 0")
    with source(snowflake_server, table).probe() as probe:
        with pytest.raises(SourceRefused, match=f"{table} keeps no history") as refused:
            probe.count(Everything())
        assert f"ALTER TABLE {table} SET DATA_RETENTION_TIME_IN_DAYS = 1" in refused.value.hint


def test_a_hybrid_table_is_held_by_its_answers(snowflake_server) -> None:
    """Of its states only those of a time can be read, not of a statement."""
    snowflake_server.run("CREATE HYBRID TABLE MIXED (id number(10,0))", "INSERT INTO MIXED VALUES (1)")
    with source(snowflake_server, "S.MIXED").probe() as probe:
        assert probe.count(Everything()) == 1
        assert not probe.has_snapshot()
        snowflake_server.run("INSERT INTO MIXED VALUES (2)")
        with pytest.raises(SourceMoved, match="was written to"):
            probe.verify_unchanged()


@pytest.mark.parametrize(
    ("password", "message", "hint"),
    [
        ("wrong", "refused the login", "Correct user and password"),
        ("nowhere", "has no such role", "GRANT ROLE"),
        ("outside", "accepts no login from this address", "network policy"),
    ],
)
def test_logins_that_are_refused(snowflake_server, password, message, hint) -> None:
    there = Connection(name="snow", url=snowflake_server.url.replace("s3cr3t", password))
    with pytest.raises(SourceRefused, match=message) as refused, Database(connection=there, table="x").probe():
        pass
    assert hint in refused.value.hint
    assert password not in f"{refused.value}"


@pytest.mark.parametrize("change", ["INSERT INTO {} VALUES (2, 'b')", None])
def test_a_query_is_held_by_its_answers(snowflake_server, change: str | None) -> None:
    table = snowflake_server.table("id number(10,0), name varchar", "1, 'a'")
    there = Database(connection=connection(snowflake_server), query=f"SELECT id, name FROM {table}")
    with there.probe() as probe:
        first = probe.fingerprint(Everything())
        assert not probe.has_snapshot()
        if change is None:
            probe.verify_unchanged()
            return
        snowflake_server.run(change.format(table))
        assert probe.fingerprint(Everything()) != first
        with pytest.raises(SourceMoved, match="was written to"):
            probe.verify_unchanged()


@pytest.mark.spark
@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize(
    ("kind", "value", "after", "upto"),
    [
        ("number(12,2)", "i", "9.00", "19.00"),
        ("date", "dateadd('day', i, '2025-01-01'::date)", "2025-01-10", "2025-01-20"),
        (
            "timestamp_ntz",
            "dateadd('day', i, '2025-01-01'::timestamp_ntz)",
            "2025-01-10 00:00:00.000000",
            "2025-01-20 00:00:00.000000",
        ),
    ],
)
def test_ranges_are_read_once(snowflake_server, spark, kind, value, after, upto, slices) -> None:
    table = snowflake_server.table(f"id number(10,0), x {kind}", "-1, NULL")
    numbers = ", ".join(f"({i})" for i in range(100))
    snowflake_server.run(f"INSERT INTO {table} SELECT i, {value} FROM (VALUES {numbers}) AS t(i)")
    there = source(snowflake_server, table, slices=slices)
    part = Range(cursor=("X",), after=after, upto=upto, nulls=True)
    with there.probe() as probe:
        assert (probe.stats(part).rows, probe.stats(part).later) == (11, 80)
        rows = there.read(spark, probe, [part], probe.schema())
        assert rows.rdd.getNumPartitions() == slices
        assert sorted(row["ID"] for row in rows.collect()) == [-1, *range(10, 20)]


@pytest.mark.spark
def test_odd_names(snowflake_server, spark) -> None:
    names = ["a.b", 'q"uote', "x y", "🚢", "${v}", "c0", "select"]
    declared = ", ".join('"' + name.replace('"', '""') + '" number(5,0)' for name in names)
    snowflake_server.run(f'CREATE TABLE "odd.na""me" ({declared})')
    snowflake_server.run(f'INSERT INTO "odd.na""me" VALUES ({", ".join(map(str, range(len(names))))})')
    there = source(snowflake_server, 'S."odd.na""me"')
    with there.probe() as probe:
        rows = there.read(spark, probe, [Range(cursor=("x y",), after="1", upto="2")], probe.schema())
        assert rows.columns == names
        assert [tuple(row) for row in rows.collect()] == [tuple(range(len(names)))]


def test_no_bound_is_known(snowflake_server) -> None:
    table = snowflake_server.table("id number(10,0), moment timestamp_ntz, tz timestamp_ltz, x varchar")
    there = source(snowflake_server, table)

    def edge(bound: BoundRequest) -> datetime:
        with there.probe(bound=bound) as probe:
            return datetime.fromisoformat(probe.edge().upto or "")

    with pytest.raises(EdgeUnknown, match="only the transactions of its own user") as unknown:
        edge(TimeBound(column="MOMENT"))
    assert "clock: application" in unknown.value.hint
    with pytest.raises(EdgeUnknown, match="in any order"):
        edge(SequenceBound(column="ID"))
    with pytest.raises(ConfigError, match="needs a date or a timestamp"):
        edge(TimeBound(column="X", clock=Clock.APPLICATION))
    with pytest.raises(ConfigError, match="no time zone"):
        edge(TimeBound(column="MOMENT", clock=Clock.APPLICATION))
    before, lag = datetime.now(UTC).replace(tzinfo=None), timedelta(minutes=5)
    utc, tokyo = (
        edge(TimeBound(column="MOMENT", clock=Clock.APPLICATION, lag=lag, time_zone=zone))
        for zone in ("UTC", "Asia/Tokyo")
    )
    assert timedelta(minutes=4) < before - utc < timedelta(minutes=6)
    assert timedelta(hours=9) <= tokyo - utc < timedelta(hours=9, minutes=1)


def test_what_init_asks(snowflake_server) -> None:
    table = snowflake_server.table("b number(10,0), a varchar, x variant, PRIMARY KEY (b, a)")
    there = connection(snowflake_server)
    assert list_tables(there, table) == [("S", table)]
    (facts,) = table_facts(there, f"S.{table}")
    assert [str(column.type) for column in facts.columns] == ["decimal(10,0)", "string"]
    assert (facts.unsupported, sorted(facts.primary_key), facts.rows) == ({"X": "VARIANT"}, ["A", "B"], 0)
    # A key that is declared is not enforced: loads have to look for duplicates.
    with source(snowflake_server, table, exclude=("X",)).probe() as probe:
        assert not probe.unique(["B", "A"])


def test_what_is_not_there_and_what_is_refused(snowflake_server) -> None:
    table = snowflake_server.table("id number(10,0), v variant", "1, parse_json('{\"a\": 1}')")
    with source(snowflake_server, f"S.{table}X").probe() as probe:
        with pytest.raises(ColumnMissing, match=f"did you mean 'S.{table}'") as missing:
            probe.schema()
        assert "s3cr3t" not in str(missing.value)
    with source(snowflake_server, table).probe() as probe:
        with pytest.raises(SchemaRefused, match="'V' \\(VARIANT\\)") as documents:
            probe.schema()
        assert "`source: {columns: {V: text}}`" in documents.value.hint
    with source(snowflake_server, table, columns={"V": "json"}).probe() as probe:
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts(['1|{"a":1}'])
    nobody = Connection(name="snow", url="snowflake://me:s3cr3t@127.0.0.1:1/db/s")
    with (
        pytest.raises(SourceUnavailable, match="cannot be reached") as gone,
        Database(connection=nobody, table="x").probe(),
    ):
        pass
    assert "s3cr3t" not in str(gone.value)


def test_a_hook_runs_a_statement(snowflake_server) -> None:
    table = snowflake_server.table("id number(10,0)")
    hook = Sql(sql=f"INSERT INTO {table} VALUES (7)", connection=connection(snowflake_server))
    hook.refuse()
    hook.run(LOAD, seconds=60, ended=bool)
    assert snowflake_server.run(f"SELECT id FROM {table}") == [(7,)]
