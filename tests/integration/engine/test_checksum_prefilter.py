"""The quick hash of a real PostgreSQL: over every type, at every silent change, and what a run saves by it."""

import psycopg
import pytest

from support.shops import PostgresShop
from tidegate.core.grouping import Periods, Whole
from tidegate.core.ids import Connection
from tidegate.core.slices import Partition
from tidegate.sources.database import Database

pytestmark = pytest.mark.postgres

# Type, a value, and one that differs from it in as little as the type allows.
TYPES = {
    "smallint": ("1::smallint", "2::smallint"),
    "integer": ("1", "-1"),
    "bigint": ("9223372036854775807", "9223372036854775806"),
    "numeric(20,4)": ("1.0000", "1.0001"),
    "numeric(38,0)": ("99999999999999999999999999999999999999", "99999999999999999999999999999999999998"),
    "numeric(12,2)": ("-1.50", "1.50"),
    "numeric(12,4)": ("0.0001", "-0.0001"),
    "int8": ("-1", "4294967295"),
    "bigint ": ("1", "4294967296"),
    "boolean": ("true", "false"),
    "date": ("'2025-01-01'", "'2025-01-02'"),
    "time": ("'10:00:00.000001'", "'10:00:00.000002'"),
    "timestamp": ("'2025-01-01 00:00:00.000001'", "'2025-01-01 00:00:00.000002'"),
    "timestamptz": ("'2025-01-01 00:00:00+00'", "'2025-01-01 00:00:00+01'"),
    # Pairs of which the halves of 64 bits are one number when they are joined by xor.
    "time ": ("'00:00:00'", "'01:11:34.967297'"),
    "timestamp ": ("'2000-01-01 00:00:00'", "'2000-01-01 01:11:34.967297'"),
    "timestamp  ": ("'1972-11-22 12:00:00'", "'2016-03-27 02:00:00'"),
    "timestamptz ": ("'1972-11-22 12:00:00+00'", "'2016-03-27 02:00:00+00'"),
    "text": ("'a'", "'A'"),
    "varchar(10)": ("''", "' '"),
    "char(4)": ("'ab'", "' ab'"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'"),
    "bytea": ("'\\x00ff'", "'\\x00fe'"),
    "json": ("""'{"a": 1, "b": 2}'""", """'{"b": 2, "a": 1}'"""),
    "jsonb": ("""'{"a": 1}'""", """'{"a": 2}'"""),
    "integer[]": ("'{1,2}'", "'{2,1}'"),
    "text[]": ("'{a,NULL}'", "'{a,\"NULL\"}'"),
    "double precision": ("0.1", "0.1000000000000001"),
    "real": ("0.5", "0.25"),
    "inet": ("'10.0.0.1'", "'10.0.0.2'"),
}


@pytest.fixture
def shop(pg_url) -> PostgresShop:
    return PostgresShop(url=pg_url)


def quick(shop: PostgresShop, grouping=None) -> dict[str, str]:
    """The quick hash of each partition, by label."""
    with Database(connection=Connection(name="shop", url=shop.url), table="t").probe() as probe:
        found = probe.quick_hashes(grouping or Whole())
        assert found is not None
        return {part.label: value for part, value in found.items()}


def test_a_change_of_any_type_is_seen_and_so_are_rows_that_trade_values(shop):
    columns = {f"c{number}": (kind, *pair) for number, (kind, pair) in enumerate(TYPES.items())}
    listed = ", ".join(f"{name} {kind}" for name, (kind, *_) in columns.items())
    first, second = (", ".join(values[side] for values in columns.values()) for side in (1, 2))
    shop.sql(f"create table t (id int, {listed})", f"insert into t values (1, {first}), (2, {second})")
    start = quick(shop)
    assert quick(shop) == start
    unseen = []
    for name, (kind, one, other) in columns.items():
        hashes = [start]
        for value in (f"{other}::{kind}", "null", f"case id when 1 then {other}::{kind} else {one}::{kind} end"):
            shop.sql(f"update t set {name} = {value}")
            hashes.append(quick(shop))
        unseen += [kind] if len({str(each) for each in hashes}) < 4 else []
        shop.sql(f"update t set {name} = case id when 1 then {one}::{kind} else {other}::{kind} end")
        assert quick(shop) == start
    assert unseen == []


def test_a_collation_that_calls_texts_equal_hides_nothing(shop):
    try:
        shop.sql("create collation blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
    except psycopg.Error:
        pytest.skip("this server is built without ICU")
    shop.sql("create table t (id int, v text collate blind)", "insert into t values (1, 'Ä'), (2, 'b')")
    before = quick(shop)
    shop.sql("update t set v = 'a' where id = 1")
    assert shop.rows("select count(*) from t where v = 'Ä'") == [(1,)], "the collation is as blind as it should be"
    assert quick(shop) != before


def test_numbers_that_are_equal_are_equal_however_they_are_written(shop):
    shop.sql("create table t (id int, v numeric(20,4))", "insert into t values (1, 1.5), (2, 2)")
    before = quick(shop)
    shop.sql("update t set v = 1.5000 where id = 1", "update t set v = 2.0 where id = 2")
    assert quick(shop) == before


def test_duplicates_and_partitions_count(shop):
    shop.sql("create table t (v text, d date)", "insert into t values ('a', '2025-01-01'), ('a', '2025-01-01')")
    by_day = Periods(column="d", period="day")
    before = quick(shop, by_day)
    assert set(before) == {"20250101"}
    shop.sql("insert into t values ('a', '2025-01-01'), ('a', '2025-01-01')")
    assert quick(shop, by_day)["20250101"] != before["20250101"], "an even number of equal rows cancels nothing"
    shop.sql("insert into t values ('a', null)")
    assert set(quick(shop, by_day)) == {"20250101", "~N"}


def test_a_new_column_makes_every_hash_another(shop):
    shop.sql("create table t (id int)", "insert into t values (1)")
    before = quick(shop)
    shop.sql("alter table t add column v text")
    assert quick(shop) != before


def test_only_what_the_lookback_reaches_is_hashed(shop):
    shop.sql("create table t (d date)", "insert into t values ('2025-01-01'), ('2025-01-02'), (null)")
    with Database(connection=Connection(name="shop", url=shop.url), table="t").probe() as probe:
        fence = Partition(column="d", label="from", low="2025-01-02")
        found = probe.quick_hashes(Periods(column="d", period="day"), since=fence)
        assert found is not None
        assert {part.label for part in found} == {"20250102", "~N"}


# A whole load


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """How many partitions were fingerprinted by the source, one number a question."""
    from tidegate.sources.database.probe import DatabaseProbe

    found: list[int] = []
    whole = DatabaseProbe.partitions

    def partitions(self, *arguments, **named):
        answer = whole(self, *arguments, **named)
        found.append(len(answer))
        return answer

    monkeypatch.setattr(DatabaseProbe, "partitions", partitions)
    return found


@pytest.mark.spark
def test_a_silent_update_is_found_and_the_rest_is_not_looked_at(pg_bench, asked):
    def write(**options):
        by_day = {"kind": "checksum", "method": "by_date", "column": "d", "period": "day", **options}
        pg_bench.write(by_day, "replace")

    pg_bench.sql(
        "create table t (id bigint primary key, d date, v text, at timestamp default '2025-01-01')",
        "insert into t select n, date '2025-01-01' + n / 10, 'v' || n from generate_series(0, 39) n",
    )
    write()
    assert pg_bench.loaded().slices_changed == 4
    write(prefilter=True)
    pg_bench.run()
    assert asked == [4, 4], "one that is switched on later helps from the next run on"
    pg_bench.unchanged()
    assert asked == [4, 4], "no fingerprint was asked for"
    pg_bench.sql("update t set v = 'w15' where id = 15")  # neither the number of rows nor the latest timestamp
    outcome = pg_bench.loaded()
    assert (outcome.slices_changed, outcome.slices_total, asked) == (1, 4, [4, 4, 1])
    assert pg_bench.rows("id", "d", "v") == pg_bench.source("id, d, v")
    pg_bench.unchanged()
