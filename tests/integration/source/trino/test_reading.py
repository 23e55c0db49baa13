"""What is Trino's own: no bound is known, tables of Iceberg are held by their snapshot, hooks refresh a view."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.source.places import Place, at
from tidegate.core.bounds import BoundRequest, Clock, SequenceBound, TimeBound
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Connection
from tidegate.core.ports.hook import PublishedLoad
from tidegate.core.slices import Everything, Range
from tidegate.errors import ConfigError, EdgeUnknown, SourceError, SourceMoved, TidegateError
from tidegate.hooks.sql import Sql
from tidegate.sources.database import Database
from tidegate.sources.database.source import list_tables, table_facts

pytestmark = pytest.mark.timeout(600)

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


@at("trino")
def test_a_row_lies_within_the_bound_made_from_it(place: Place) -> None:
    """Also where the database keeps more digits than the bound has."""
    for kind in ("timestamp(9)", "timestamp(12) with time zone"):
        zone = " UTC" if "zone" in kind else ""
        first, last = (f"timestamp '2025-01-01 00:00:0{second}.1234569{zone}'" for second in (1, 2))
        with place.of(f"at {kind}", first, last, "NULL").probe() as probe:
            stats = probe.stats(Range(cursor=("at",), after=None, upto="2030-01-01 00:00:00.000000"))
            assert (stats.rows, stats.last) == (2, "2025-01-01 00:00:02.123456")
            rest = Range(cursor=("at",), after="2025-01-01 00:00:01.123456", upto=stats.last)
            assert (probe.stats(rest).rows, probe.fingerprint(rest).rows) == (1, 1)
            again = probe.stats(Range(cursor=("at",), after=stats.last, upto="2030-01-01 00:00:00.000000"))
            assert again.rows == 0


@at("trino")
def test_no_bound_is_known(place: Place) -> None:
    there = place.of("id bigint, at timestamp(6), tz timestamp(3) with time zone, x varchar")

    def edge(bound: BoundRequest) -> datetime:
        with there.probe(bound=bound) as probe:
            return datetime.fromisoformat(probe.edge().upto or "")

    with pytest.raises(EdgeUnknown, match="does not show") as unknown:
        edge(TimeBound(column="at"))
    assert "clock: application" in unknown.value.hint
    assert "kind: full" in unknown.value.hint
    with pytest.raises(EdgeUnknown, match="still being written"):
        edge(SequenceBound(column="id"))
    with pytest.raises(ConfigError, match="needs a date or a timestamp"):
        edge(TimeBound(column="x", clock=Clock.APPLICATION))
    with pytest.raises(ConfigError, match="no time zone") as zoneless:
        edge(TimeBound(column="at", clock=Clock.APPLICATION))
    assert "time_zone" in zoneless.value.hint
    before, lag = datetime.now(UTC).replace(tzinfo=None), timedelta(minutes=5)
    asked = [("at", "UTC", 0), ("tz", None, 0), ("at", "Asia/Tokyo", 9)]
    for column, zone, hours in asked:
        found = edge(TimeBound(column=column, clock=Clock.APPLICATION, lag=lag, time_zone=zone))
        assert timedelta(minutes=4) < before + timedelta(hours=hours) - found < timedelta(minutes=6)


@at("trino")
def test_a_table_without_snapshots_is_held_by_its_answers(place: Place) -> None:
    there = place.of("id integer, name varchar", "1, 'a'")
    with there.probe() as probe:
        probe.stats(Everything())
        first = probe.fingerprint(Everything())
        probe.verify_unchanged()
        assert not probe.has_snapshot()
        place.run(f"INSERT INTO {there.table} VALUES (2, 'b')")
        assert probe.fingerprint(Everything()) != first
        with pytest.raises(SourceMoved, match=there.table):
            probe.verify_unchanged()


@at("trino")
def test_an_iceberg_table_is_held_by_its_snapshot(place: Place) -> None:
    place.run("CREATE SCHEMA iceberg.shop", "CREATE TABLE iceberg.shop.orders (id bigint NOT NULL, name varchar)")
    place.run("INSERT INTO iceberg.shop.orders VALUES (1, 'a'), (2, 'b')")
    url = place.url.replace("memory/default", "iceberg/shop")
    there = Database(connection=Connection(name="tree", url=url), table="shop.orders")
    with there.probe() as probe:
        assert [column.nullable for column in probe.schema()] == [False, True]
        assert probe.count(Everything()) == 2
        probe.verify_unchanged()
        place.run("UPDATE iceberg.shop.orders SET name = 'c' WHERE id = 2")  # as many rows as before: no count tells
        with pytest.raises(SourceMoved, match=r"shop\.orders"):
            probe.verify_unchanged()
        assert probe.identity() == f"trino:{url.partition('@')[2]}.orders"
    with there.probe() as probe:
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts(["1|a", "2|c"])
        probe.verify_unchanged()
    place.run("DROP TABLE iceberg.shop.orders", "DROP SCHEMA iceberg.shop")


@at("trino")
def test_what_init_asks(place: Place) -> None:
    table = place.table("id integer NOT NULL, x map(integer,integer)")
    assert list_tables(place.connection, table) == [("default", table)]
    (facts,) = table_facts(place.connection, f"default.{table}")
    assert [(column.name, column.nullable) for column in facts.columns] == [("id", False)]
    assert (set(facts.unsupported), facts.primary_key, facts.indexes, facts.rows) == ({"x"}, (), (), 0)


@at("trino")
def test_what_trino_rejects(place: Place) -> None:
    with place.source(query="SELECT nope(1) AS x").probe() as probe, pytest.raises(ConfigError, match="nope"):
        probe.schema()
    table = place.table("id integer", "7")
    with place.source(query=f"SELECT 4711 / (id - 7) AS x FROM {table}").probe() as probe:
        with pytest.raises(SourceError, match="DIVISION_BY_ZERO") as refused:
            probe.fingerprint(Everything())
        assert not refused.value.retryable


def hook(place: Place, statement: str) -> Sql:
    return Sql(sql=statement, connection=place.connection)


@at("trino")
def test_a_hook_refreshes_a_materialized_view(place: Place) -> None:
    place.run("CREATE SCHEMA iceberg.views", "CREATE TABLE iceberg.views.t (id bigint)")
    place.run("INSERT INTO iceberg.views.t VALUES 1, 2")
    # Within the grace period Trino shows what was kept, although the table has gone on.
    place.run(
        "CREATE MATERIALIZED VIEW iceberg.views.counted GRACE PERIOD INTERVAL '1' DAY "
        "AS SELECT count(*) AS n FROM iceberg.views.t"
    )
    refresh = hook(place, "REFRESH MATERIALIZED VIEW iceberg.views.counted")
    refresh.refuse()
    refresh.run(LOAD, seconds=60, ended=bool)
    place.run("INSERT INTO iceberg.views.t VALUES 3")
    shown = "SELECT n FROM iceberg.views.counted"
    assert [row[0] for row in place.run(shown)] == [2]
    refresh.run(LOAD, seconds=60, ended=bool)
    assert [row[0] for row in place.run(shown)] == [3]


@at("trino")
def test_a_statement_of_a_hook_that_fails_or_takes_too_long_is_an_error(place: Place) -> None:
    with pytest.raises(TidegateError, match="nowhere"):
        hook(place, "REFRESH MATERIALIZED VIEW iceberg.nowhere.x").run(LOAD, seconds=60, ended=bool)
    numbers = ", ".join(f"UNNEST(sequence(1, 10000)) {name}(n)" for name in "abc")
    with pytest.raises(TidegateError, match="EXCEEDED_TIME_LIMIT"):
        hook(place, f"SELECT sum(a.n * b.n + c.n) FROM {numbers}").run(LOAD, seconds=2, ended=bool)
