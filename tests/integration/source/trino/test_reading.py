"""Trino as a source: groups, ranges, snapshots, and no bound that is not known."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from integration.source.trino.tables import source
from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest, Clock, SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Range
from tidegate.dialects.trino import Trino
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceUnavailable,
)
from tidegate.sources.database import Database
from tidegate.sources.database.source import list_tables, table_facts

AT = "CAST(NULL AS timestamp(3))"


def bucket_of(grouping: Grouping, row: tuple[object, ...]) -> str | None:
    """The model: what a row's partition begins with, from plain Python values (number, moment, text)."""
    number, moment, text = row
    match grouping:
        case Steps(width=width):
            return None if number is None else str(number // width * width)
        case Periods(period=period):
            length = {"year": 4, "quarter": 7, "month": 7, "hour": 13}.get(period, 10)
            return grouping.coarse(None if moment is None else moment.isoformat(" ")[:length])
        case Prefixes(length=length):
            return None if text is None else text[:length]
        case _:
            return ""


@pytest.mark.servers
@pytest.mark.parametrize(
    "grouping",
    [
        Whole(),
        Steps(column="n", width=10),
        Steps(column="n", width=2_000_000_000),
        *(Periods(column="at", period=period) for period in Period),
        Prefixes(column="s", length=2),
    ],
    ids=str,
)
def test_groups_are_those_of_the_model(trino_server, grouping: Grouping) -> None:
    moments = [datetime(1969, 12, 31, 23, 59), datetime(2024, 2, 29, 12), datetime(2025, 3, 9, 2, 30), None]  # noqa: DTZ001
    texts = ["", "a", "ab ", "ab", "äöü", "🚢🚢🚢", "~N", "a|b", None]
    numbers = [-2_147_483_648, -20, -11, -10, -1, 0, 9, 10, 2_147_483_647, None]
    model = [(number, moments[i % 4], texts[(i + j) % 9]) for i, number in enumerate(numbers) for j in range(9)]
    rows = [
        f"{'NULL' if n is None else n}, {AT if at is None else f'''timestamp '{at}' '''}, "
        f"{'NULL' if s is None else f'''{s!r}'''}"
        for n, at, s in model
    ]
    there = source(trino_server, trino_server.table("n integer, at timestamp(3), s varchar", *rows))
    expected: defaultdict[str | None, list[str]] = defaultdict(list)
    for row in model:
        n, at, s = row
        fields = [None if n is None else str(n), at and f"{at.isoformat(' ')}.000000", s]
        expected[bucket_of(grouping, row)].append(row_text(fields))
    with there.probe() as probe:
        asked = probe.statements.grouped(probe.statements.bucket(grouping), [Everything()])
        found: defaultdict[str | None, Fingerprint] = defaultdict(Fingerprint)
        for bucket, *sums in probe.session.rows(asked):
            found[grouping.coarse(bucket)] += Fingerprint.of_sums(sums)
        assert found == {bucket: Fingerprint.of_texts(part) for bucket, part in expected.items()}
        parts = probe.partitions(grouping)
        assert len(parts) == len(expected)
        for part, fingerprint in parts.items():
            assert probe.fingerprint(part) == fingerprint


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["timestamp(9)", "timestamp(12) with time zone"])
def test_a_row_lies_within_the_bound_made_from_it(trino_server, kind: str) -> None:
    zone = " UTC" if "zone" in kind else ""
    first, last = (f"timestamp '2025-01-01 00:00:0{second}.1234569{zone}'" for second in (1, 2))
    there = source(trino_server, trino_server.table(f"at {kind}", first, last, "NULL"))
    with there.probe() as probe:
        stats = probe.stats(Range(cursor=("at",), after=None, upto="2030-01-01 00:00:00.000000"))
        assert (stats.rows, stats.last) == (2, "2025-01-01 00:00:02.123456")
        rest = Range(cursor=("at",), after="2025-01-01 00:00:01.123456", upto=stats.last)
        assert (probe.stats(rest).rows, probe.fingerprint(rest).rows) == (1, 1)
        again = probe.stats(Range(cursor=("at",), after=stats.last, upto="2030-01-01 00:00:00.000000"))
        assert again.rows == 0


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.parametrize("slices", [1, 4])
@pytest.mark.parametrize(
    ("kind", "after", "upto"),
    [
        ("integer", "9", "19"),
        ("decimal(12,2)", "9.00", "19.00"),
        ("date", "2025-01-10", "2025-01-20"),
        ("timestamp(9)", "2025-01-10 00:00:00.000000", "2025-01-20 00:00:00.000000"),
        ("timestamp(3) with time zone", "2025-01-10 00:00:00.000000", "2025-01-20 00:00:00.000000"),
    ],
)
def test_ranges_are_read_once(trino_server, spark, kind: str, after: str, upto: str, slices: int) -> None:
    day = "date_add('day', i, date '2025-01-01')"
    value = f"CAST({'i' if kind.startswith(('int', 'dec')) else day} AS {kind})"
    trino_server.run("DROP TABLE IF EXISTS ranged", f"CREATE TABLE ranged (id bigint, x {kind})")
    trino_server.run(f"INSERT INTO ranged SELECT i, {value} FROM unnest(sequence(0, 99)) AS t(i)")
    trino_server.run("INSERT INTO ranged VALUES (-1, NULL)")
    there = source(trino_server, "ranged", slices=slices)
    part = Range(cursor=("x",), after=after, upto=upto, nulls=True)
    with there.probe() as probe:
        assert (probe.stats(part).rows, probe.stats(part).later) == (11, 80)
        rows = there.read(spark, probe, [part], probe.schema())
        # Spark does not know the type of a time with a zone, so one connection reads what lies in the range.
        assert rows.rdd.getNumPartitions() == (1 if "zone" in kind else slices)
        assert sorted(row["id"] for row in rows.collect()) == [-1, *range(10, 20)]


@pytest.mark.servers
@pytest.mark.spark
def test_odd_names(trino_server, spark) -> None:
    names = ["a.b", 'q"uote', "x y", "🚢", "${v}", "c0", "select"]
    declared = ", ".join(f"{Trino().quote(name)} integer" for name in names)
    trino_server.run(f'CREATE TABLE "odd.na""me" ({declared})')
    trino_server.run(f'INSERT INTO "odd.na""me" VALUES ({", ".join(map(str, range(len(names))))})')
    there = source(trino_server, 'default."odd.na""me"')
    with there.probe() as probe:
        rows = there.read(spark, probe, [Range(cursor=("x y",), after="1", upto="2")], probe.schema())
        assert rows.columns == names
        assert [tuple(row) for row in rows.collect()] == [tuple(range(len(names)))]


@pytest.mark.servers
def test_latest_row_of_a_key(trino_server) -> None:
    there = source(trino_server, trino_server.table("id integer, v integer", "1, 1", "1, 2", "2, NULL"))
    latest = Latest(key=("id",), order=("v",))
    with there.probe() as probe:
        assert probe.count(Everything(), latest=latest) == 2
        assert probe.fingerprint(Everything(), latest=latest) == Fingerprint.of_texts(["1|2", "2|~N"])
        assert not probe.unique(["id"])


@pytest.mark.servers
def test_no_bound_is_known(trino_server) -> None:
    there = source(
        trino_server, trino_server.table("id bigint, at timestamp(6), tz timestamp(3) with time zone, x varchar")
    )

    def edge(bound: BoundRequest) -> SafeBound:
        with there.probe(bound=bound) as probe:
            return probe.edge()

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
    before = datetime.now(UTC)
    lag = timedelta(minutes=5)
    utc, tokyo = (
        datetime.fromisoformat(
            edge(TimeBound(column="at", clock=Clock.APPLICATION, lag=lag, time_zone=zone)).upto or ""
        )
        for zone in ("UTC", "Asia/Tokyo")
    )
    assert timedelta(minutes=4) < before.replace(tzinfo=None) - utc < timedelta(minutes=6)
    zoned = datetime.fromisoformat(edge(TimeBound(column="tz", clock=Clock.APPLICATION, lag=lag)).upto or "")
    assert timedelta(minutes=4) < before.replace(tzinfo=None) - zoned < timedelta(minutes=6)
    assert timedelta(hours=9) <= tokyo - utc < timedelta(hours=9, minutes=1)


@pytest.mark.servers
@pytest.mark.parametrize("change", ["INSERT INTO {} VALUES (2, 'b')", None])
def test_table_without_snapshots_is_held_by_its_answers(trino_server, change: str | None) -> None:
    table = trino_server.table("id integer, name varchar", "1, 'a'")
    with source(trino_server, table).probe() as probe:
        probe.verify_unchanged()
        probe.stats(Everything())
        first = probe.fingerprint(Everything())
        if change is None:
            probe.verify_unchanged()
            assert not probe.has_snapshot()
            return
        trino_server.run(change.format(table))
        assert probe.fingerprint(Everything()) != first
        with pytest.raises(SourceMoved, match=table):
            probe.verify_unchanged()


@pytest.mark.servers
def test_iceberg_table_is_held_by_its_snapshot(trino_server) -> None:
    trino_server.run(
        "CREATE SCHEMA iceberg.shop", "CREATE TABLE iceberg.shop.orders (id bigint NOT NULL, name varchar)"
    )
    trino_server.run("INSERT INTO iceberg.shop.orders VALUES (1, 'a'), (2, 'b')")
    there = source(trino_server, "shop.orders", catalog="iceberg", schema="shop")
    with there.probe() as probe:
        assert [column.nullable for column in probe.schema()] == [False, True]
        assert probe.count(Everything()) == 2
        probe.verify_unchanged()
        # As many rows as before: no count tells.
        trino_server.run("UPDATE iceberg.shop.orders SET name = 'c' WHERE id = 2")
        with pytest.raises(SourceMoved, match=r"shop\.orders"):
            probe.verify_unchanged()
        assert probe.identity() == f"trino:127.0.0.1:{trino_server.port}/iceberg/shop.orders"
    with there.probe() as probe:
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts(["1|a", "2|c"])
        probe.verify_unchanged()
    trino_server.run("DROP TABLE iceberg.shop.orders", "DROP SCHEMA iceberg.shop")


@pytest.mark.servers
def test_what_init_asks(trino_server) -> None:
    table = trino_server.table("id integer NOT NULL, x map(integer,integer)")
    there = Connection(name="tree", url=trino_server.url())
    assert list_tables(there, table) == [("default", table)]
    (facts,) = table_facts(there, f"default.{table}")
    assert [(column.name, column.nullable) for column in facts.columns] == [("id", False)]
    assert set(facts.unsupported) == {"x"}
    assert (facts.primary_key, facts.indexes, facts.rows) == ((), (), 0)


@pytest.mark.servers
def test_what_is_not_there_and_what_is_refused(trino_server) -> None:
    with source(trino_server, "nowhere").probe() as probe, pytest.raises(ColumnMissing, match="nowhere"):
        probe.schema()
    table = trino_server.table("id integer, amount decimal(12,2)", "7, 0.00")
    unknown = source(trino_server, table, columns={"nope": "text"})
    with unknown.probe() as probe, pytest.raises(ConfigError, match="no column 'nope'"):
        probe.schema()
    narrower = source(trino_server, table, columns={"amount": "decimal(10,2)"})
    with narrower.probe() as probe, pytest.raises(SchemaRefused, match="cannot be read as"):
        probe.schema()
    with source(trino_server, table, columns={"amount": "decimal(12,2)"}).probe() as probe:
        assert probe.count(Everything()) == 1
    there = Connection(name="tree", url=trino_server.url())
    wrong = Database(connection=there, query="SELECT nope(1) AS x")
    with wrong.probe() as probe, pytest.raises(ConfigError, match="nope"):
        probe.schema()
    with Database(connection=there, query=f"SELECT 4711 / (id - 7) AS x FROM {table}").probe() as probe:
        with pytest.raises(SourceError, match="DIVISION_BY_ZERO") as refused:
            probe.fingerprint(Everything())
        assert not refused.value.retryable
    nobody = Database(connection=Connection(name="tree", url="trino://me@127.0.0.1:1/memory"), table="x")
    with pytest.raises(SourceUnavailable, match="cannot be reached: connection refused"), nobody.probe():
        pass
