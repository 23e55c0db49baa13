"""Hard values on their way from PostgreSQL to Spark: equal at the end, or a loud end."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from tidegate.core.batch import Latest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Connection
from tidegate.core.schema import TIMESTAMP, TIMESTAMPTZ, Column
from tidegate.core.slices import Everything, Range
from tidegate.dialects.postgresql import Postgresql
from tidegate.dialects.spark import Spark
from tidegate.errors import ColumnMissing, SchemaRefused, SourceUnavailable
from tidegate.sources.database import Database
from tidegate.sources.database.probe import DatabaseProbe
from tidegate.sources.shared.relation import of_table

pytestmark = pytest.mark.postgres

# Column: declaration, values as PostgreSQL reads them, type in Spark, the same values as Spark writes them in UTC.
HARD = {
    "si": ("smallint", "'-32768', '32767'", "int", ["-32768", "32767"]),
    "hundreds": ("numeric(5,-2)", "'12300', '-100'", "decimal(7,0)", ["-100", "12300"]),
    "tiny": ("numeric(3,5)", "'0.00123', '-0.00001'", "decimal(5,5)", ["-0.00001", "0.00123"]),
    "wide": ("numeric(38,10)", "'9999999999999999999999999999.9999999999'", "decimal(38,10)", None),
    "free": (
        "numeric",
        "'123456789012345678901234567890.123456789', 'NaN', '1e-20'",
        "string",
        ["0.00000000000000000001", "123456789012345678901234567890.123456789", "NaN"],
    ),
    "wider": ("numeric(40,2)", "'12345678901234567890123456789012345678.12'", "string", None),
    "price": ("price", "'99999999.99'", "decimal(10,2)", None),
    "mood": ("mood", "'so so'", "string", None),
    "day": ("date", "'0001-01-01', '1582-10-10', '9999-12-31'", "date", ["0001-01-01", "1582-10-10", "9999-12-31"]),
    "gap": ("timestamp", "'2025-03-09 02:30:00.123456'", "timestamp_ntz", ["2025-03-09 02:30:00.123456"]),
    "old": ("timestamptz", "'1880-01-01 00:00:00+00'", "timestamp", ["1880-01-01 00:00:00"]),
    "utc_gap": ("timestamptz", "'2025-03-09 02:30:00.000001+00'", "timestamp", ["2025-03-09 02:30:00.000001"]),
    "ends": (
        "timestamp",
        "'0001-01-01', '9999-12-31 23:59:59.999999'",
        "timestamp_ntz",
        ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"],
    ),
    "clock": ("time", "'24:00:00', '00:00:00.000001'", "string", ["00:00:00.000001", "24:00:00.000000"]),
    "padded": ("char(5)", "'ab'", "string", ["ab"]),
    "address": ("inet", "'10.0.0.1', '10.0.0.1/24'", "string", ["10.0.0.1", "10.0.0.1/24"]),
    "real": ("real", "'NaN', '3.4028235e38'", "float", ["3.4028235E38", "NaN"]),
    "double": ("double precision", "'-Infinity', '0.1'", "double", ["-Infinity", "0.1"]),
    "js": ("json", """'{"b": 1,  "a":2}'""", "string", ['{"b": 1,  "a":2}']),
    "jb": ("jsonb", """'{"b": 1,  "a":2}'""", "string", ['{"a": 2, "b": 1}']),
    "ints": ("int[]", "'{1,NULL,3}', '{}'", "array<int>", ["[1, null, 3]", "[]"]),
    "texts": ("text[]", """'{"a\\"b",ü|~,NULL,""}'""", "array<string>", ['[a"b, ü|~, null, ]']),
    "big": ("bigint[]", "'{9223372036854775807}'", "array<bigint>", ["[9223372036854775807]"]),
    "o": ("oid", "'4294967295'", "bigint", ["4294967295"]),
}
BAD = [
    ("timestamp", "infinity"),
    ("timestamp", "0001-01-01 BC"),
    ("timestamp", "10000-01-01"),
    ("timestamptz", "-infinity"),
    ("date", "infinity"),
    ("date", "0044-03-15 BC"),
    ("date", "10000-01-01"),
    ("numeric(5,2)", "NaN"),
    ("numeric", "1.23456"),
    ("numeric", "123456789.1"),
    ("numeric", "Infinity"),
    ("int[]", "{{1,2},{3,4}}"),
    ("int[]", "[0:1]={1,2}"),
]
REFUSED = ["interval", "money", "point", "int4range", "bit(3)", "xml", "tsvector", "timetz", "bytea[]", "timestamp[]"]


def run(url: str, *statements: str) -> None:
    """Statements of an administrator."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def source(url: str, table: str = "hard", **options) -> Database:
    """A source on that database."""
    return Database(connection=Connection(name="server", url=url), table=table, **options)


@pytest.mark.spark
def test_hard_values_arrive_unchanged(pg_url: str, spark) -> None:
    run(pg_url, "CREATE DOMAIN price AS numeric(10,2)", "CREATE TYPE mood AS ENUM ('ok', 'so so')")
    run(pg_url, f"CREATE TABLE hard ({', '.join(f'{name} {kind}' for name, (kind, *_) in HARD.items())})")
    for name, (_, values, _, _) in HARD.items():
        run(pg_url, *(f"INSERT INTO hard ({name}) VALUES ({value})" for value in values.split(", '")[:1]))
        for value in values.split(", '")[1:]:
            run(pg_url, f"INSERT INTO hard ({name}) VALUES ('{value})")
    zone = spark.conf.get("spark.sql.session.timeZone")
    with source(pg_url).probe() as probe:
        columns = probe.schema().columns
        rows = source(pg_url).read(spark, probe, [Everything()], probe.schema())
        try:
            for spark_zone in ("America/New_York", "UTC"):
                spark.conf.set("spark.sql.session.timeZone", spark_zone)
                rows.createOrReplaceTempView("hard")
                sums = spark.sql(Spark().fingerprint("hard", columns)).collect()[0]
                assert Fingerprint.of_sums(list(sums)) == probe.fingerprint(Everything())
            for name, (_, values, kind, texts) in HARD.items():
                assert rows.schema[name].dataType.simpleString() == kind
                found = rows.where(f"`{name}` IS NOT NULL").selectExpr(f"CAST(`{name}` AS string)").collect()
                assert sorted(row[0] for row in found) == sorted(texts or [values.strip("'")])
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "value"), BAD)
def test_value_that_does_not_fit_ends_the_read(pg_url: str, spark, kind: str, value: str) -> None:
    run(pg_url, f"CREATE TABLE hard (x {kind})", f"INSERT INTO hard VALUES ('{value}')")
    there = source(pg_url, columns={"x": "decimal(12,4)"} if kind == "numeric" else {})
    with there.probe() as probe:
        rows = there.read(spark, probe, [Everything()], probe.schema())
        with pytest.raises(Exception, match="tidegate: column 'x' holds a value"):
            rows.collect()
    if not kind.endswith("[]"):
        with there.probe() as probe, pytest.raises(SchemaRefused, match="column 'x'") as refused:
            probe.fingerprint(Everything())
        assert value not in str(refused.value)


@pytest.mark.spark
def test_rows_are_read_in_the_probes_snapshot_by_many_slices(pg_url: str, spark) -> None:
    run(pg_url, "CREATE TABLE hard (id int PRIMARY KEY, at timestamptz)")
    run(pg_url, "INSERT INTO hard SELECT i, now() - interval '1 day' FROM generate_series(1, 20000) i")
    there = source(pg_url, slices=7)
    with there.probe() as probe:
        before = probe.fingerprint(Everything())
        run(pg_url, "DELETE FROM hard WHERE id % 2 = 0", "INSERT INTO hard SELECT -i FROM generate_series(1, 500) i")
        rows = there.read(spark, probe, [Everything()], probe.schema())
        assert rows.rdd.getNumPartitions() == 7
        assert sorted(row[0] for row in rows.select("id").collect()) == list(range(1, 20001))
        assert probe.fingerprint(Everything()) == before


@pytest.mark.spark
@pytest.mark.parametrize("slices", [1, 5])
def test_range_with_null_cursor_is_read_once(pg_url: str, spark, slices: int) -> None:
    run(pg_url, "CREATE TABLE hard (id int, at timestamp)")
    run(
        pg_url,
        "INSERT INTO hard SELECT i, timestamp '2025-01-01' + i % 100 * interval '1 s' FROM generate_series(1, 1000) i",
    )
    run(pg_url, "INSERT INTO hard SELECT -i FROM generate_series(1, 10) i", "ANALYZE hard")
    there = source(pg_url, slices=slices)
    part = Range(cursor=("at",), after="2025-01-01 00:00:09.000000", upto="2025-01-01 00:00:19.000000", nulls=True)
    with there.probe() as probe:
        assert probe.stats(part).rows == 110
        assert probe.stats(part).later == 800
        rows = there.read(spark, probe, [part], probe.schema()).collect()
    assert len(rows) == len({row["id"] for row in rows}) == 110


@pytest.mark.spark
def test_odd_names(pg_url: str, spark) -> None:
    names = ["a.b", 'q"uote', "sel`ect", "🚢", "x y", "${v}", "c0", "select", "%s"]
    columns = ", ".join('"' + name.replace('"', '""') + '" int' for name in names)
    run(pg_url, f'CREATE TABLE "odd.na""me 🚢" ({columns})')
    run(pg_url, f'INSERT INTO "odd.na""me 🚢" VALUES ({", ".join(map(str, range(9)))})')
    there = source(pg_url, table='public."odd.na""me 🚢"', slices=3)
    part = Range(cursor=("x y", 'q"uote'), after="3", upto="4")
    with there.probe() as probe:
        rows = there.read(spark, probe, [part], probe.schema())
        assert rows.columns == names
        assert [tuple(row) for row in rows.collect()] == [tuple(range(9))]


@pytest.mark.parametrize("kind", REFUSED)
def test_type_that_cannot_be_kept_is_refused_by_name(pg_url: str, kind: str) -> None:
    run(pg_url, f"CREATE TABLE hard (id int, x {kind})")
    with source(pg_url).probe() as probe, pytest.raises(SchemaRefused, match="'x' "):
        probe.schema()


def test_unreachable_refused_missing(pg_url: str) -> None:
    there = pg_url.replace("postgres@", "nobody:s3cr3t@")
    with pytest.raises(SourceUnavailable, match="refused the login") as refused, source(there).probe():
        pass
    assert "s3cr3t" not in f"{refused.value}{refused.value.hint}{refused.value.context}"
    with pytest.raises(SourceUnavailable, match="cannot be reached"), source("postgresql://a:b@127.0.0.1:1/x").probe():
        pass
    with pytest.raises(SourceUnavailable, match="no such database"), source(pg_url + "_not").probe():
        pass
    with source(pg_url, table="nowhere").probe() as probe, pytest.raises(ColumnMissing, match="nowhere"):
        probe.schema()
    run(pg_url, "CREATE TABLE hard (id int)")
    with source(pg_url).probe() as probe, pytest.raises(ColumnMissing, match="no column 'x'"):
        probe.fingerprint(Range(cursor=("x",), after=None, upto="1"))


def test_connection_that_is_cut_may_be_tried_again(pg_url: str) -> None:
    run(pg_url, "CREATE TABLE hard (id int)")
    with source(pg_url).probe() as probe:
        ((pid,),) = probe.session.rows("SELECT pg_backend_pid()")
        run(pg_url, f"SELECT pg_terminate_backend({pid})")
        with pytest.raises(SourceUnavailable) as cut:
            probe.count(Everything())
        assert cut.value.retryable


def test_truncate_waits_for_the_probe(pg_url: str) -> None:
    """No snapshot survives TRUNCATE: without the lock the rows would be gone."""
    run(pg_url, "CREATE TABLE hard (id int)", "INSERT INTO hard VALUES (1)")
    with source(pg_url).probe() as probe:
        probe.session.hold(of_table(Postgresql(), "hard"))
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(pg_url, "SET lock_timeout = '100ms'", "TRUNCATE hard")
        assert probe.count(Everything()) == 1


def test_key_is_unique_only_where_the_database_says_so(pg_url: str) -> None:
    run(
        pg_url,
        "CREATE TABLE hard (a int PRIMARY KEY, b int UNIQUE, c int NOT NULL, d int NOT NULL, e int NOT NULL)",
        "CREATE UNIQUE INDEX ON hard (c) WHERE c > 0",
        "CREATE UNIQUE INDEX ON hard (abs(d))",
        "CREATE UNIQUE INDEX ON hard (d, e)",
    )
    with source(pg_url).probe() as probe:
        answers = {key: probe.unique(key.split()) for key in ("a", "b", "c", "d", "d e", "a c", "a b", "")}
    assert answers == {"a": True, "b": False, "c": False, "d": False, "d e": True, "a c": True, "a b": False, "": False}


def test_identity_and_clock(pg_url: str) -> None:
    run(pg_url, "CREATE TABLE hard (id int)")
    with source(pg_url).probe() as probe:
        first, began = probe.identity(), probe.clock()
    run(pg_url, "SET synchronous_commit = on", "INSERT INTO hard VALUES (1)")
    with source(pg_url).probe() as probe:
        assert probe.identity() == first
        assert began is not None
        assert (probe.clock() or 0) > began
    run(pg_url, "DROP TABLE hard", "CREATE TABLE hard (id int)")
    with source(pg_url).probe() as probe:
        assert probe.identity() != first


def test_bytes_and_bounds(pg_url: str) -> None:
    run(pg_url, "CREATE TABLE hard (id int, code text, at timestamptz, flag bool)")
    run(
        pg_url, "INSERT INTO hard VALUES (1, 'b', '2025-01-01+00', true), (2, 'Z', NULL, false), (10, NULL, NULL, NULL)"
    )
    with source(pg_url).probe() as probe:
        bounds = {name: probe.key_bounds(Everything(), name) for name in ("id", "code", "at", "flag")}
        assert bounds["flag"] is None
        assert bounds["id"] is not None
        assert (bounds["id"].low, bounds["id"].high) == ("1", "10")
        assert set(bounds["id"].values) == {"1", "2", "10"}
        assert bounds["code"] is not None
        assert (bounds["code"].low, bounds["code"].high) == ("Z", "b")
        assert bounds["at"] is not None
        assert bounds["at"].low == datetime(2025, 1, 1, tzinfo=UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        assert probe.key_bounds(Range(cursor=("id",), after="10", upto="11"), "id") is None


def test_the_rows_of_a_slice_are_counted_once_in_a_snapshot(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(pg_url, "CREATE TABLE hard (id int)", "INSERT INTO hard VALUES (1), (1), (2)")
    asked: list[str] = []
    with source(pg_url).probe() as probe:
        assert isinstance(probe, DatabaseProbe)
        rows = probe.session.rows
        monkeypatch.setattr(probe.session, "rows", lambda sql: asked.append(sql) or rows(sql))
        assert probe.stats(Everything()).rows == 3
        once = len(asked)
        run(pg_url, "INSERT INTO hard VALUES (3)")
        assert probe.count(Everything()) == 3
        assert len(asked) == once
        assert probe.count(Everything(), latest=Latest(key=("id",), order=("id",))) == 2
        assert probe.count(Range(cursor=("id",), after="1", upto="9")) == 1


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz"])
def test_the_quick_way_to_microseconds_is_exact(pg_url: str, kind: str) -> None:
    """Against PostgreSQL's own binary form: the ends of the quick stretch, and a random microsecond in each hour."""
    column = Column(name="at", type=TIMESTAMPTZ if kind == "timestamptz" else TIMESTAMP)
    micros = f"('x' || encode({kind}_send(at), 'hex'))::bit(64)::bigint + 946684800000000"
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE t (at {kind})")
        connection.execute(
            "INSERT INTO t SELECT hour + random() * interval '1 hour' "
            f"FROM generate_series({kind} '1905-12-30', {kind} '2035-01-03', '1 hour') AS hour"
        )
        connection.execute(
            f"INSERT INTO t SELECT edge + tick * interval '1 microsecond' FROM generate_series(-2000, 2000) AS tick, "
            f"unnest(ARRAY[{kind} '1906-01-01', {kind} '1970-01-01', {kind} '2035-01-01']) AS edge"
        )
        wrong = connection.execute(
            f"SELECT count(*) FROM t WHERE {Postgresql().read(column).sql} <> {micros}"
        ).fetchone()
    assert wrong == (0,)
