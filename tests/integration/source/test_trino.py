"""Trino as a source: the same fingerprints, the same values in Spark, no bound that is not known."""

from __future__ import annotations

import builtins
import sys
from collections import defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from integration.source import vectors
from integration.source.test_vectors import in_source, in_spark
from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest, Clock, SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Range
from tidegate.dialects.spark import Spark
from tidegate.dialects.trino import Trino
from tidegate.dialects.trino.address import address_of
from tidegate.dialects.trino.errors import translate, unreachable
from tidegate.dialects.trino.types import column_of
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    EnvironmentMissing,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
)
from tidegate.sources.database import Database
from tidegate.sources.database.source import list_tables, table_facts
from tidegate.spark import jars

pytest_plugins = ("support.trino",)

VECTORS = """c0 bigint, c1 decimal(38,4), c2 boolean, c3 date, c4 timestamp(6), c5 timestamp(6) with time zone,
c6 varchar, c7 uuid, c8 varbinary"""
# Column: type, values as Trino reads them, type in Spark, the same values as Spark writes them in UTC.
HARD = {
    "ti": ("tinyint", "-128", "int", "-128"),
    "si": ("smallint", "32767", "int", "32767"),
    "wide": (
        "decimal(38,10)",
        "decimal '-9999999999999999999999999999.9999999999'",
        "decimal(38,10)",
        "-9999999999999999999999999999.9999999999",
    ),
    "small": ("decimal(3,3)", "decimal '-0.001'", "decimal(3,3)", "-0.001"),
    "day": ("date", "date '1582-10-10'", "date", "1582-10-10"),
    "first": ("date", "date '0001-01-01'", "date", "0001-01-01"),
    "seconds": ("timestamp(0)", "timestamp '2025-03-09 02:30:00'", "timestamp_ntz", "2025-03-09 02:30:00"),
    "nanos": (
        "timestamp(9)",
        "timestamp '2025-12-31 23:59:59.999999999'",
        "timestamp_ntz",
        "2025-12-31 23:59:59.999999",
    ),
    "picos": (
        "timestamp(12)",
        "timestamp '0001-01-01 00:00:00.000000999999'",
        "timestamp_ntz",
        "0001-01-01 00:00:00",
    ),
    "zoned": (
        "timestamp(3) with time zone",
        "timestamp '2025-03-30 02:30:00.123 Asia/Kathmandu'",
        "timestamp",
        "2025-03-29 20:45:00.123",
    ),
    "old": ("timestamp(9) with time zone", "timestamp '1880-01-01 00:00:00.0000019 UTC'", "timestamp", None),
    "last": (
        "timestamp(12) with time zone",
        "timestamp '9999-12-31 23:59:59.999999999999 UTC'",
        "timestamp",
        "9999-12-31 23:59:59.999999",
    ),
    "clock": ("time(9)", "time '23:59:59.999999999'", "string", "23:59:59.999999"),
    "padded": ("char(5)", "'a b'", "string", "a b"),
    "blanks": ("varchar(5)", "'a  '", "string", "a  "),
    "text": ("varchar", "U&'a|~N''\\\\ \\+01F6A2a\\0308'", "string", "a|~N'\\ 🚢a\u0308"),
    "address": ("ipaddress", "ipaddress '10.0.0.1'", "string", "10.0.0.1"),
    "js": ("json", """json '{"b":1,  "a":"|"}'""", "string", '{"a":"|","b":1}'),
    "re": ("real", "real '3.4028235e38'", "float", "3.4028235E38"),
    "inf": ("double", "-infinity()", "double", "-Infinity"),
    "ints": ("array(integer)", "array[1, null, 3]", "array<int>", "[1, null, 3]"),
    "bigs": ("array(bigint)", "array[9223372036854775807]", "array<bigint>", "[9223372036854775807]"),
    "texts": ("array(varchar)", """array['a"b', 'ü|~', null, '']""", "array<string>", '[a"b, ü|~, null, ]'),
    "flags": ("array(boolean)", "array[]", "array<boolean>", "[]"),
}
HARD["old"] = (*HARD["old"][:3], "1880-01-01 00:00:00.000001")
BAD = [
    ("date", "date '-0044-03-15'"),
    ("date", "date '10000-01-01'"),
    ("timestamp(3)", "timestamp '0000-12-31 23:59:59'"),
    ("timestamp(9)", "timestamp '10000-01-01 00:00:00'"),
    ("timestamp(6) with time zone", "timestamp '10000-01-01 00:00:00 UTC'"),
]
REFUSED = ["interval day to second", "map(integer,integer)", "row(x integer)", "time(3) with time zone", "array(date)"]
AT = "CAST(NULL AS timestamp(3))"


@pytest.fixture
def spark(spark):
    """The session of all tests, with Trino's driver."""
    (driver,) = jars.resolve(Trino.jars)
    spark.sql(f"ADD JAR '{driver}'")
    return spark


def source(server, table: str, *, catalog: str = "memory", schema: str = "default", **options) -> Database:
    """A source on that server."""
    return Database(connection=Connection(name="tree", url=server.url(catalog, schema)), table=table, **options)


def literal(value: str | None, column: int) -> str:
    """A value of the vectors for their column."""
    if value is None:
        return "NULL"
    text = value.replace("'", "''")
    texts = ("bigint '{}'", "decimal '{}'", "{}", "date '{}'", "timestamp '{}'", "from_iso8601_timestamp_nanos('{}')")
    return (*texts, "'{}'", "uuid '{}'", "x'{}'")[column].format(text.replace("T", " ") if column == 4 else text)


def vectors_source(server) -> Database:
    """The vectors in a table."""
    rows = [
        ", ".join(literal(value, column) for column, value in enumerate(row["values"]))
        for row in vectors.VECTORS["rows"]
    ]
    return source(server, server.table(VECTORS, *rows))


@pytest.mark.servers
def test_vectors(trino_server) -> None:
    assert in_source(vectors_source(trino_server)) == vectors.FINGERPRINT


@pytest.mark.servers
def test_casts(trino_server) -> None:
    vectors.check_casts(vectors_source(trino_server))


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_vectors_to_spark(trino_server, spark, zone: str) -> None:
    assert in_spark(vectors_source(trino_server), spark, zone) == (vectors.FINGERPRINT, sorted(vectors.TEXTS))


@pytest.mark.servers
@pytest.mark.spark
def test_hard_values_arrive_unchanged(trino_server, spark) -> None:
    names = ", ".join(f"{name} {kind}" for name, (kind, *_) in HARD.items())
    nothing = ", ".join("NULL" for _ in HARD)
    there = source(trino_server, trino_server.table(names, ", ".join(value for _, value, *_ in HARD.values()), nothing))
    zone = spark.conf.get("spark.sql.session.timeZone")
    with there.probe() as probe:
        columns = probe.schema().columns
        assert set(probe.schema().not_covered) == {"re", "inf", "ints", "bigs", "texts", "flags"}
        rows = there.read(spark, probe, [Everything()], probe.schema())
        try:
            for spark_zone in ("America/New_York", "UTC"):
                spark.conf.set("spark.sql.session.timeZone", spark_zone)
                rows.createOrReplaceTempView("hard")
                sums = spark.sql(Spark().fingerprint("hard", columns)).collect()[0]
                assert Fingerprint.of_sums(list(sums)) == probe.fingerprint(Everything())
            for name, (_, _, kind, text) in HARD.items():
                assert rows.schema[name].dataType.simpleString() == kind
                found = rows.where(f"`{name}` IS NOT NULL").selectExpr(f"CAST(`{name}` AS string)").collect()
                assert [row[0] for row in found] == [text], name
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.parametrize(("kind", "value"), BAD)
def test_year_that_no_lake_keeps_ends_the_load(trino_server, spark, kind: str, value: str) -> None:
    there = source(trino_server, trino_server.table(f"x {kind}", value, "NULL"))
    with there.probe() as probe:
        with pytest.raises(SchemaRefused, match="column 'x' holds a value") as refused:
            probe.fingerprint(Everything())
        assert value.split("'")[1] not in str(refused.value)
        rows = there.read(spark, probe, [Everything()], probe.schema())
        with pytest.raises(Exception, match="tidegate: column 'x' holds a value"):
            rows.collect()


@pytest.mark.servers
@pytest.mark.parametrize("kind", REFUSED)
def test_type_that_cannot_be_kept_is_refused_by_name(trino_server, kind: str) -> None:
    there = Database(
        connection=Connection(name="tree", url=trino_server.url()), query=f"SELECT CAST(NULL AS {kind}) AS x"
    )
    with there.probe() as probe, pytest.raises(SchemaRefused, match="column 'x'"):
        probe.schema()


@pytest.mark.servers
def test_duplicates_and_borders_of_fields_count(trino_server) -> None:
    def fingerprint(*rows: str) -> Fingerprint:
        return in_source(source(trino_server, trino_server.table("a varchar, b varchar", *rows)))

    assert fingerprint("'a', 'x'", "'a', 'x'", "'c', 'x'") != fingerprint("'b', 'x'", "'b', 'x'", "'c', 'x'")
    assert fingerprint("'a|b', 'c'") != fingerprint("'a', 'b|c'")
    assert len({fingerprint(f"{value}, ''") for value in ("NULL", "''", "'~N'", "'~0N'")}) == 4
    assert fingerprint("NULL, ''", "'ü', '~'") == Fingerprint.of_texts([row_text([None, ""]), row_text(["ü", "~"])])
    assert fingerprint() == Fingerprint()


@pytest.mark.servers
@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("varchar", "'~|'", "~|"),
        ("timestamp(9)", "timestamp '2025-01-01 00:00:00.123456789'", "2025-01-01 00:00:00.123456"),
    ],
)
def test_a_table_of_more_columns_than_one_expression_takes(trino_server, kind: str, value: str, text: str) -> None:
    columns = ", ".join(f"c{place} {kind}" for place in range(301))
    there = source(trino_server, trino_server.table(columns, ", ".join([value] * 301), ", ".join(["NULL"] * 301)))
    assert in_source(there) == Fingerprint.of_texts([row_text([text] * 301), row_text([None] * 301)])


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
        pytest.param(
            "timestamp(3) with time zone",
            "2025-01-10 00:00:00.000000",
            "2025-01-20 00:00:00.000000",
            # Why `safe_time_bound` refuses such a column: once it is read, the refusal can go.
            marks=pytest.mark.xfail(reason="Spark knows no TIMESTAMP_WITH_TIMEZONE of a driver", strict=True),
        ),
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
        assert rows.rdd.getNumPartitions() == (1 if slices == 1 else slices)
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
    with pytest.raises(ConfigError, match="has a time zone") as zoned:
        edge(TimeBound(column="tz", clock=Clock.APPLICATION, time_zone="UTC"))
    assert "CAST(tz AT TIME ZONE 'UTC' AS timestamp(6)) AS tz_utc" in zoned.value.hint
    before = datetime.now(UTC)
    lag = timedelta(minutes=5)
    utc, tokyo = (
        datetime.fromisoformat(
            edge(TimeBound(column="at", clock=Clock.APPLICATION, lag=lag, time_zone=zone)).upto or ""
        )
        for zone in ("UTC", "Asia/Tokyo")
    )
    assert timedelta(minutes=4) < before.replace(tzinfo=None) - utc < timedelta(minutes=6)
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


def test_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tidegate.dialects.trino.session", raising=False)
    found = builtins.__import__

    def without(name: str, *rest):
        if name.split(".", maxsplit=1)[0] == "trino":
            raise ModuleNotFoundError(f"No module named {name!r}")
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentMissing) as missing:
        Trino().open(Connection(name="tree", url="trino://me@127.0.0.1:1/memory"))
    assert "the extra `trino`: `" in missing.value.hint


@pytest.mark.parametrize(
    ("url", "port", "ssl", "properties"),
    [
        ("trino://me@h/cat", 8080, False, {}),
        ("trino://me@h:443/cat/s", 443, True, {"SSL": "true"}),
        ("trino://me:p%40ss@h/cat/s", 443, True, {"SSL": "true", "password": "p@ss"}),
        ("trino://me@h:8443/cat?ssl=true&verify=false", 8443, True, {"SSL": "true", "SSLVerification": "NONE"}),
        ("trino://me@h/cat?ssl=true&verify=/ca.pem", 443, True, {"SSL": "true", "SSLTrustStorePath": "/ca.pem"}),
        ("trino://me@[::1]:8080/cat?ssl=false", 8080, False, {}),
    ],
)
def test_url(url: str, port: int, ssl: bool, properties: dict[str, str]) -> None:
    found = address_of(Connection(name="tree", url=url))
    assert (found.port, found.ssl, found.catalog) == (port, ssl, "cat")
    jdbc = found.jdbc()
    fixed = {"driver": "io.trino.jdbc.TrinoDriver", "user": "me", "source": "tidegate"}
    assert jdbc.properties == {**fixed, **properties}
    host = "[::1]" if "::1" in url else "h"
    assert jdbc.url == f"jdbc:trino://{host}:{port}/cat{'/s' if found.schema else ''}"
    assert "p@ss" not in f"{found}{jdbc.url}"


@pytest.mark.parametrize(
    "url",
    [
        "trino://h/cat",
        "trino://me@h",
        "trino://me@h/a/b/c",
        "trino:///cat",
        "trino://me:secret@h:x/cat",
        "trino://me:secret@h/cat?ssl=false",
        "trino://me:secret@h/cat?tls=true",
        "trino://me:secret@h/cat?ssl=perhaps",
    ],
)
def test_url_that_says_too_little_or_too_much(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        address_of(Connection(name="tree", url=url))
    assert "secret" not in f"{refused.value}{refused.value.hint}"
    assert refused.value.__cause__ is None


def test_errors_name_no_value() -> None:
    from trino.exceptions import HttpError, TrinoConnectionError, TrinoUserError

    value = "Cannot cast 'hunter2' to INT"
    cast = TrinoUserError({"errorName": "INVALID_CAST_ARGUMENT", "errorType": "USER_ERROR", "message": value})
    assert str(translate("tree", cast)) == "connection 'tree': Trino rejected the statement with INVALID_CAST_ARGUMENT"
    full = TrinoUserError({"errorName": "QUERY_QUEUE_FULL", "errorType": "INSUFFICIENT_RESOURCES", "message": "x"})
    assert translate("tree", full).retryable
    denied = TrinoUserError({"errorName": "PERMISSION_DENIED", "errorType": "USER_ERROR", "message": "Cannot select"})
    assert "SELECT" in translate("tree", denied).hint
    assert isinstance(unreachable("tree", "h:1", HttpError("error 401: b'Unauthorized'")), SourceRefused)
    gone = unreachable("tree", "h:1", TrinoConnectionError("failed to resolve host"))
    assert gone.retryable
    # A port is no status.
    refused = unreachable("tree", "h:40123", TrinoConnectionError("port=40123): connection refused, error 40123"))
    assert refused.retryable
    assert "h:40123 cannot be reached: connection refused" in str(refused)


def test_type_that_is_known_is_exact() -> None:
    column = column_of("x", ("timestamp(9) with time zone", True), None)
    assert not isinstance(column, str)
    assert (column.type.spark, column.native) == ("timestamp", "timestamp(9) with time zone")
