"""What is Snowflake's own, on fakesnow by the real drivers: its states by Time Travel, its sessions, its logins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from integration.source.places import Place, at
from support.lake import with_driver
from tidegate.core.bounds import BoundRequest, Clock, SequenceBound, TimeBound
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Connection
from tidegate.core.ports.hook import PublishedLoad
from tidegate.core.slices import Everything
from tidegate.dialects.snowflake import Snowflake
from tidegate.dialects.snowflake.address import SESSION
from tidegate.errors import ColumnMissing, ConfigError, EdgeUnknown, SourceMoved, SourceRefused
from tidegate.hooks.sql import Sql
from tidegate.sources.database import Database
from tidegate.sources.database.source import list_tables, table_facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.snowflake import SnowflakeServer


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
@at("snowflake")
def test_both_drivers_ask_for_the_same_session(
    place: Place, snowflake_server: SnowflakeServer, spark: SparkSession
) -> None:
    """Whatever an account sets, names and literals mean the same, and no result is cut short."""
    with_driver(spark, *Snowflake.jars)
    there = place.of("id number(10,0)", "1")
    with there.probe() as probe:
        there.read(spark, probe, [Everything()], probe.schema()).collect()
    asked = {login["driver"]: login["asked"] for login in snowflake_server.logins()}
    assert set(asked) == {"PythonConnector", "JDBC"}
    for found in asked.values():
        assert {name: str(found[name]).lower() for name in SESSION} == {k: v.lower() for k, v in SESSION.items()}
    assert asked["JDBC"]["JDBC_QUERY_RESULT_FORMAT"] == "ARROW"


@at("snowflake")
def test_a_table_that_is_replaced_meanwhile_stops(place: Place) -> None:
    there = place.of("id number(10,0)", "1")
    with there.probe() as probe:
        assert probe.count(Everything()) == 1
        place.run(f"CREATE OR REPLACE TABLE {there.table} (id number(10,0))")
        with pytest.raises(SourceMoved, match="replaced meanwhile") as moved:
            probe.fingerprint(Everything())
    assert "DATA_RETENTION_TIME_IN_DAYS" in moved.value.hint


@at("snowflake")
def test_a_table_without_a_history_is_refused_before_it_is_read(place: Place) -> None:
    there = place.of("id number(10,0)", "1")
    place.run(f"ALTER TABLE {there.table} SET DATA_RETENTION_TIME_IN_DAYS = 0")
    with there.probe() as probe:
        with pytest.raises(SourceRefused, match=f"{there.table} keeps no history") as refused:
            probe.count(Everything())
        assert f"ALTER TABLE {there.table} SET DATA_RETENTION_TIME_IN_DAYS = 1" in refused.value.hint


@at("snowflake")
def test_queries_and_hybrid_tables_are_held_by_their_answers(place: Place) -> None:
    """Of a hybrid table only the states of a time can be read, not of a statement."""
    table = place.table("id number(10,0)", "1")
    place.run("CREATE HYBRID TABLE MIXED (id number(10,0))", "INSERT INTO MIXED VALUES (1)")
    for there, written in ((place.source("S.MIXED"), "MIXED"), (place.source(query=f"SELECT id FROM {table}"), table)):
        with there.probe() as probe:
            first = probe.fingerprint(Everything())
            assert not probe.has_snapshot()
            probe.verify_unchanged()
            place.run(f"INSERT INTO {written} VALUES (2)")
            assert probe.fingerprint(Everything()) != first
            with pytest.raises(SourceMoved, match="was written to"):
                probe.verify_unchanged()


@at("snowflake")
@pytest.mark.parametrize(
    ("password", "message", "hint"),
    [
        ("wrong", "refused the login", "Correct user and password"),
        ("nowhere", "has no such role", "GRANT ROLE"),
        ("outside", "accepts no login from this address", "network policy"),
    ],
)
def test_logins_that_are_refused(place: Place, password: str, message: str, hint: str) -> None:
    there = Database(connection=Connection(name="snow", url=place.url.replace("s3cr3t", password)), table="x")
    with pytest.raises(SourceRefused, match=message) as refused, there.probe():
        pass
    assert hint in refused.value.hint
    assert password not in f"{refused.value}"


@at("snowflake")
def test_no_bound_is_known(place: Place) -> None:
    there = place.of("id number(10,0), moment timestamp_ntz, tz timestamp_ltz, x varchar")

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
    for zone, hours in (("UTC", 0), ("Asia/Tokyo", 9)):
        found = edge(TimeBound(column="MOMENT", clock=Clock.APPLICATION, lag=lag, time_zone=zone))
        assert timedelta(minutes=4) < before + timedelta(hours=hours) - found < timedelta(minutes=6)


@at("snowflake")
def test_what_init_asks(place: Place) -> None:
    table = place.table("b number(10,0), a varchar, x variant, PRIMARY KEY (b, a)")
    assert list_tables(place.connection, table) == [("S", table)]
    (facts,) = table_facts(place.connection, f"S.{table}")
    assert [str(column.type) for column in facts.columns] == ["decimal(10,0)", "string"]
    assert (facts.unsupported, sorted(facts.primary_key), facts.rows) == ({"X": "VARIANT"}, ["A", "B"], 0)
    # A key that is declared is not enforced: loads have to look for duplicates.
    with place.source(table, exclude=("X",)).probe() as probe:
        assert not probe.unique(["B", "A"])
    with place.source(f"S.{table}X").probe() as probe:
        with pytest.raises(ColumnMissing, match=f"did you mean 'S.{table}'") as missing:
            probe.schema()
        assert "s3cr3t" not in str(missing.value)


@at("snowflake")
def test_a_document_is_read_as_json(place: Place) -> None:
    there = place.of("id number(10,0), v variant", "1, parse_json('{\"a\": 1}')", columns={"V": "json"})
    with there.probe() as probe:
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts(['1|{"a":1}'])


@at("snowflake")
def test_a_hook_runs_a_statement(place: Place) -> None:
    table = place.table("id number(10,0)")
    hook = Sql(sql=f"INSERT INTO {table} VALUES (7)", connection=place.connection)
    hook.refuse()
    hook.run(LOAD, seconds=60, ended=bool)
    assert place.run(f"SELECT id FROM {table}") == [(7,)]
