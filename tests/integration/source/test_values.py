"""Values of each database: the tg1 vectors, what certifications have no column for, and values that nothing keeps.

That the extremes of every type arrive is what `tidegate certify` finds on the same databases.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import md5
from typing import TYPE_CHECKING, Any

import pytest

from integration.source import vectors
from integration.source.places import Place, at
from support.lake import with_driver
from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import Whole
from tidegate.core.schema import DOUBLE, REAL, TEXT, Column
from tidegate.core.slices import Everything, Keys, Range
from tidegate.dialects.snowflake import Snowflake
from tidegate.dialects.spark import Spark
from tidegate.errors import SchemaRefused
from tidegate.spark import dataframe_ops

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Types that a certification has no column of: declaration, a value as SQL, type in Spark, the canonical text.
RARE = {
    "duckdb": [
        ("timestamp_s", "'1969-12-31 23:59:59'", "timestamp_ntz", "1969-12-31 23:59:59.000000"),
        ("timestamp_ms", "'2025-01-01 00:00:00.123'", "timestamp_ntz", "2025-01-01 00:00:00.123000"),
        ("timestamp_ns", "'1969-12-31 23:59:59.123456'", "timestamp_ntz", "1969-12-31 23:59:59.123456"),
        ("timestamptz", "'1880-01-01 00:00:00+00'", "timestamp", "1880-01-01 00:00:00.000000"),
        ("time", "'24:00:00'", "string", "24:00:00.000000"),
        ("varchar collate nocase", "'Ab' || chr(0)", "string", "Ab\0"),
        ("json", """'{"b": 1,  "a":2}'""", "string", '{"b": 1,  "a":2}'),
    ],
    "mariadb": [
        # The server's own zone is -05:00.
        ("tinyint(1)", "2", "int", "2"),
        ("int(5) unsigned zerofill", "42", "bigint", "42"),
        ("timestamp(6) null", "'2025-03-09 02:30:00.000001'", "timestamp", "2025-03-09 07:30:00.000001"),
        ("varchar(9)", "'ab  '", "string", "ab  "),
        ("varchar(9) character set cp1251", "'Жы?'", "string", "Жы?"),
    ],
    "postgresql": [
        ("numeric(5,-2)", "'12300'", "decimal(7,0)", "12300"),
        ("numeric(3,5)", "'-0.00001'", "decimal(5,5)", "-0.00001"),
        ("numeric(40,2)", "'12345678901234567890123456789012345678.12'", "string", f"{'1234567890' * 3}12345678.12"),
        ("timestamptz", "'1880-01-01 00:00:00+00'", "timestamp", "1880-01-01 00:00:00.000000"),
        ("timestamp", "'2025-03-09 02:30:00.123456'", "timestamp_ntz", "2025-03-09 02:30:00.123456"),
    ],
    "trino": [
        ("timestamp(0)", "timestamp '2025-03-09 02:30:00'", "timestamp_ntz", "2025-03-09 02:30:00.000000"),
        (
            "timestamp(12)",
            "timestamp '0001-01-01 00:00:00.000000999999'",
            "timestamp_ntz",
            "0001-01-01 00:00:00.000000",
        ),
        (
            "timestamp(3) with time zone",
            "timestamp '2025-03-30 02:30:00.123 Asia/Kathmandu'",
            "timestamp",
            "2025-03-29 20:45:00.123000",
        ),
        (
            "timestamp(9) with time zone",
            "timestamp '1880-01-01 00:00:00.0000019 UTC'",
            "timestamp",
            "1880-01-01 00:00:00.000001",
        ),
        ("time(9)", "time '23:59:59.999999999'", "string", "23:59:59.999999"),
        ("ipaddress", "ipaddress '10.0.0.1'", "string", "10.0.0.1"),
        ("json", """json '{"b":1,  "a":2}'""", "string", '{"a":2,"b":1}'),
    ],
}
# Declaration, a value as SQL, and the type that the project states.
BAD: dict[str, list[tuple[str, str, str | None]]] = {
    "duckdb": [
        *(("date", value, None) for value in ("'infinity'", "'0044-03-15 (BC)'", "'10000-01-01'")),
        ("timestamp", "'-infinity'", None),
        ("timestamp", "'10000-01-01'", None),
        ("timestamp_s", "'infinity'", None),
        ("timestamp_ns", "'2025-01-01 00:00:00.123456789'", None),
        ("timestamp_ns", "'infinity'", None),
        ("timestamptz", "'infinity'", None),
        ("hugeint", "1" + "0" * 38, None),
        ("uhugeint", "1" + "0" * 38, None),
    ],
    "mariadb": [
        *(("date", value, None) for value in ("'0000-00-00'", "'2025-00-10'", "'2025-02-31'")),
        ("datetime(6)", "'0000-00-00 00:00:00'", None),
        ("timestamp null", "'0000-00-00 00:00:00'", None),
        ("tinyint(1)", "2", "boolean"),
        ("decimal(65,3)", "1.234", "decimal(12,2)"),
        ("varchar(9) character set cp1251", "x'98'", None),
    ],
    "postgresql": [
        *(("timestamp", value, None) for value in ("'infinity'", "'0001-01-01 BC'", "'10000-01-01'")),
        ("timestamptz", "'-infinity'", None),
        *(("date", value, None) for value in ("'infinity'", "'0044-03-15 BC'", "'10000-01-01'")),
        ("numeric(5,2)", "'NaN'", None),
        *(("numeric", value, "decimal(12,4)") for value in ("1.23456", "123456789.1", "'Infinity'")),
        ("int[]", "'{{1,2},{3,4}}'", None),
        ("int[]", "'[0:1]={1,2}'", None),
    ],
    "trino": [
        ("date", "date '-0044-03-15'", None),
        ("timestamp(3)", "timestamp '0000-12-31 23:59:59'", None),
        ("timestamp(9)", "timestamp '10000-01-01 00:00:00'", None),
        ("timestamp(6) with time zone", "timestamp '10000-01-01 00:00:00 UTC'", None),
    ],
    "snowflake": [("number(38,0)", "2147483648", "int")],
}
# Types that no table of the lake keeps.
REFUSED = {
    "duckdb": [
        *("interval", "bit", "struct(a int)", "map(int, int)", "timetz", "int[][]", "timestamp[]", "union(n int)")
    ],
    "mariadb": ["geometry", "bit(9)", "point"],
    "postgresql": [
        *("interval", "money", "point", "int4range", "bit(3)", "xml", "tsvector", "timetz", "bytea[]", "timestamp[]")
    ],
    "snowflake": ["variant", "array"],
    "trino": [
        *("interval day to second", "map(integer,integer)", "row(x integer)", "time(3) with time zone", "array(date)")
    ],
}
# Whatever a session is set to.
SET = {
    "duckdb": "SET TimeZone = 'America/New_York'",
    "postgresql": "SET timezone = 'America/New_York'; SET datestyle = 'SQL, DMY'",
}
CASES = ["a", "A", "ä", "Ä", "a ", "a\u0308", "ab", "AB", "", None, "~N", "a|b", "a\\b", "🚢x", "🚢y"]
HOSTILE = ["it's", "\\", "\\' OR 1=1 -- ", '"', "`", "🚢\n", "a\0b"]
ANY_CASE = {
    "duckdb": "varchar COLLATE nocase",
    "mariadb": "varchar(20) COLLATE utf8mb4_general_ci",
    "postgresql": "text COLLATE any_case",
    "sqlite": "text COLLATE nocase",
}
DOUBLES = [1.0, 0.1, 0.3, 1e15, 123456789012345.68, 1e300, 2.2250738585072014e-308, 5e-324, 2.0**53]
SINGLES = [1.0, 0.5, 16777215.0, 3.4028234663852886e38, 1.401298464324817e-45]


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in another zone than UTC, with every driver."""
    with_driver(spark, *Snowflake.jars)
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def in_spark(source: Any, spark: SparkSession) -> tuple[Fingerprint, list[str]]:
    """The fingerprint and the texts of the rows that arrive, in the types of their columns."""
    with source.probe() as probe:
        columns = probe.schema().columns
        rows = source.read(spark, probe, [Everything()], probe.schema())
        assert rows.dtypes == [(column.name, column.type.spark) for column in columns]
        rows.createOrReplaceTempView("arrived")
        sums = spark.sql(Spark().fingerprint("arrived", columns)).collect()[0]
        texts = [row[0] for row in spark.sql(f"SELECT {Spark().row(columns)} FROM arrived").collect()]
        return Fingerprint.of_sums(list(sums)), sorted(texts)


@at("sqlite", "duckdb", "mariadb", "postgresql", "snowflake", "trino")
def test_the_vectors_have_their_fingerprint(place: Place) -> None:
    with vectors.source(place).probe() as probe:
        if place.kind in SET:
            probe.session.rows(SET[place.kind])
        assert probe.fingerprint(Everything()) == vectors.FINGERPRINT


@pytest.mark.spark
@at("sqlite", "duckdb", "mariadb", "postgresql", "snowflake", "trino")
def test_values_arrive_unchanged(place: Place, new_york: SparkSession) -> None:
    assert in_spark(vectors.source(place), new_york) == (vectors.FINGERPRINT, sorted(vectors.TEXTS))
    if place.kind not in RARE:
        return
    kinds, values, types, texts = zip(*RARE[place.kind], strict=True)
    there = place.of(", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds)), ", ".join(values))
    with there.probe() as probe:
        assert tuple(column.type.spark for column in probe.schema()) == types
        expected = row_text(texts)
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts([expected])
    assert in_spark(there, new_york) == (Fingerprint.of_texts([expected]), [expected])


@at("sqlite", "duckdb", "mariadb", "postgresql", "trino")
def test_values_that_are_cast_have_the_text_of_their_new_type(place: Place) -> None:
    there = vectors.source(place)
    for types, texts in vectors.CASTS:
        with vectors.cast(there, types).probe() as probe:
            held = {column.name: column.type.stored for column in probe.schema() if column.name in types}
            assert held == types
            assert probe.fingerprint(Everything()) == Fingerprint.of_texts(texts)


@pytest.mark.spark
@at("sqlite")
def test_values_that_are_cast_arrive_so(place: Place, new_york: SparkSession) -> None:
    there = vectors.source(place)
    for types, texts in vectors.CASTS:
        found = in_spark(vectors.cast(there, types), new_york)
        assert found == (Fingerprint.of_texts(texts), sorted(texts))


@at("duckdb", "mariadb", "postgresql", "snowflake", "trino")
def test_a_value_that_cannot_be_kept_ends_the_statement(place: Place) -> None:
    """The statement that Spark reads by as well as the fingerprint's."""
    kinds, values, stated = zip(*BAD[place.kind], strict=True)
    names = [f"{'X' if place.kind == 'snowflake' else 'x'}{number}" for number in range(len(kinds))]
    columns = {name: kind for name, kind in zip(names, stated, strict=True) if kind}
    there = place.of(", ".join(map(" ".join, zip(names, kinds, strict=True))), columns=columns)
    loose = ["SET sql_mode = 'ALLOW_INVALID_DATES'"] if place.kind == "mariadb" else []
    place.run(*loose, f"INSERT INTO {there.table} SELECT {', '.join(values)}")
    with ExitStack() as opened:
        probe = opened.enter_context(there.probe())
        for name, kind, value in zip(names, kinds, values, strict=True):
            column = probe.statements.column(name)
            asked = [place.dialect.read(column).sql]
            asked += [place.dialect.text(place.dialect.quote(name), column)] if column.type.covered else []
            for sql in asked:
                if place.kind == "postgresql":  # where nothing else is answered after an error
                    probe = opened.enter_context(there.probe())
                with pytest.raises(SchemaRefused, match=f"column '{name}' holds a value") as refused:
                    pytest.fail(f"{kind}: {probe.session.rows(f'SELECT {sql} FROM {there.table}')}")
                assert value.strip("'") not in str(refused.value)


@at("duckdb", "mariadb", "postgresql", "snowflake", "trino")
def test_types_that_cannot_be_kept_are_refused_by_name(place: Place) -> None:
    kinds = REFUSED[place.kind]
    if place.kind == "trino":  # whose tables in memory keep none of them
        columns = ", ".join(f"CAST(NULL AS {kind}) AS x{number}" for number, kind in enumerate(kinds))
        there = place.source(query=f"SELECT {columns}")
    else:
        there = place.of(", ".join(f"x{number} {kind}" for number, kind in enumerate(kinds)))
    with there.probe() as probe, pytest.raises(SchemaRefused) as refused:
        probe.schema()
    names = [f"{'X' if place.kind == 'snowflake' else 'x'}{number}" for number in range(len(kinds))]
    assert [name for name in names if f"'{name}' (" not in refused.value.message] == []
    assert place.kind == "trino" or f"{names[0]}: text" in refused.value.hint


@at("sqlite", "duckdb", "mariadb", "postgresql")
def test_a_collation_makes_no_two_texts_one(place: Place) -> None:
    if place.kind == "postgresql":
        options = "provider = icu, locale = 'und-u-ks-level2', deterministic = false"
        place.run(f"CREATE COLLATION any_case ({options})")
    quoted = ["NULL" if text is None else place.dialect.string(text) for text in CASES]
    rows = [f"{number}, {text}, '2025-01-01 00:00:00'" for number, text in enumerate(quoted)]
    there = place.of(f"id int, code {ANY_CASE[place.kind]}, seen timestamp", *rows)
    known = {text for text in CASES if text is not None}
    with there.probe() as probe:
        texts = [row_text([str(number), text, "2025-01-01 00:00:00.000000"]) for number, text in enumerate(CASES)]
        assert place.kind == "mariadb" or probe.fingerprint(Everything()) == Fingerprint.of_texts(texts)
        bounds = probe.key_bounds(Everything(), "code")
        assert (bounds.low, bounds.high, set(bounds.values)) == (min(known), max(known), known)
        assert {row.key for row in probe.digests(Everything(), ("code",), Buckets(count=1))} == {
            (text,) for text in CASES
        }
        assert probe.count(Everything(), latest=Latest(key=("code",), order=("seen",))) == len(CASES)
        assert probe.count(Range(cursor=("code",), after="A", upto="a")) == sum("A" < text <= "a" for text in known)
        assert [probe.count(Keys(columns=("code",), values=((text,),))) for text in ("AB", "aB")] == [1, 0]


@at("sqlite", "duckdb", "mariadb", "postgresql")
def test_no_text_becomes_syntax(place: Place) -> None:
    place.run("CREATE TABLE t (id int)")
    with place.source("t").probe() as probe:
        probe.schema()
        for text in HOSTILE[:-1] if place.kind in ("postgresql", "sqlite") else HOSTILE:
            sql = place.dialect.string(text)
            sql = f"CAST({sql} AS BINARY)" if place.kind == "mariadb" else sql
            assert probe.session.rows(f"SELECT {sql}") == [(text,)]


@at("sqlite", "duckdb", "mariadb", "postgresql")
def test_any_change_of_a_float_is_seen(place: Place) -> None:
    """However small; 0.0 and -0.0 are one value, as in every comparison of SQL."""
    numbers = [each for value in DOUBLES for each in (value, math.nextafter(value, math.inf))] + [-1.0]
    numbers += [each for value in SINGLES for each in (value, after(value))]
    special = ["'-Infinity'", "'Infinity'", "'NaN'"] if place.kind == "postgresql" else []
    double, single = {"sqlite": ("double", "real"), "postgresql": ("double precision", "real")}.get(
        place.kind, ("double", "float")
    )
    rows = [f"{value!r}, NULL" for value in numbers[: -2 * len(SINGLES)]] + [f"{value}, NULL" for value in special]
    rows += [f"NULL, {value!r}" for value in numbers[-2 * len(SINGLES) :]]
    there = place.of(f"d {double}, s {single}", *rows)
    with there.probe() as probe:
        texts = [place.dialect.own_text(name, probe.statements.column(name)) for name in ("d", "s")]
        for text, name in zip(texts, ("d", "s"), strict=True):
            found = probe.session.rows(f"SELECT {name}, {text} FROM {there.table} WHERE {name} IS NOT NULL")
            assert len({own for _, own in found}) == len(found), found
    sums = []
    for value in ("0", "NULL", "-0e0"):
        place.run(f"UPDATE {there.table} SET d = {value}, s = {value}")
        with there.probe() as probe:
            sums.append(probe.own_fingerprint())
    assert (sums[0] == sums[2], len({*sums})) == (True, 2)


def after(value: float) -> float:
    """The next number in single precision; below the greatest one the one before it."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    (found,) = struct.unpack("<f", struct.pack("<I", bits + (1 if value < 1e38 else -1)))
    return float(found)


@pytest.mark.postgres
@at("postgresql")
def test_postgresqls_own_hash_has_one_zero_and_no_array(place: Place) -> None:
    place.run("CREATE TABLE t (id int PRIMARY KEY, d double precision)", "INSERT INTO t VALUES (1, 0.0)")
    found: list[str] = []
    for value in ("0", "'-0'", "5e-324"):
        place.run(f"UPDATE t SET d = {value}")
        with place.source("t").probe() as probe:
            found += (probe.quick_hashes(Whole()) or {}).values()
    assert found[0] == found[1] != found[2]
    with place.source(query="SELECT id, d, '{1}'::int[] AS n FROM t").probe() as probe:
        assert probe.own_fingerprint() is None, "an array has no exact text"


@pytest.mark.spark
def test_spark_has_one_zero_and_one_nan(spark: SparkSession) -> None:
    """As rows are compared: by their hash (strategy snapshot_diff), and value by value where a table is merged."""
    for kind, native in ((DOUBLE, "double"), (REAL, "float")):
        columns = [Column(name="k", type=TEXT), Column(name="v", type=kind)]
        rows = f"SELECT 'a' AS k, CAST(v AS {native}) AS v FROM VALUES ('0'), ('-0'), ('NaN'), ('1e-45') AS t(v)"
        hashes = [row[0] for row in spark.sql(f"SELECT {Spark().row_hash(columns)} FROM ({rows})").collect()]
        assert (hashes[0] == hashes[1], len(set(hashes))) == (True, 3)
        (alike,) = spark.sql(f"SELECT CAST('0' AS {native}) <=> CAST('-0' AS {native})").collect()
        assert alike[0] is True


@pytest.mark.spark
@pytest.mark.parametrize("compiled", ["true", "false"])
def test_spark_reads_every_digest_as_four_numbers(spark: SparkSession, compiled: str) -> None:
    """Each row is a bucket of its own, so that no sum hides a number that is wrong."""
    texts = [f"{number}" for number in range(20_000)]
    rows = spark.createDataFrame([(text,) for text in texts], "name string")
    spark.conf.set("spark.sql.codegen.wholeStage", compiled)
    try:
        found = dataframe_ops.partitions(rows, by="name", steps=Spark().steps([Column(name="name", type=TEXT)]))
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    digests = {text: md5(text.encode()).hexdigest() for text in texts}
    assert found == {
        text: Fingerprint(rows=1, **{f"s{k}": int(digest[8 * k : 8 * k + 8], 16) for k in range(4)})
        for text, digest in digests.items()
    }


@at("mariadb")
def test_a_row_beyond_the_packet_is_no_silent_null(place: Place) -> None:
    """CONCAT gives NULL above max_allowed_packet, and two different rows would have one fingerprint."""
    there = place.of("a longtext, b longtext", "repeat('a', 9000000), repeat('b', 9000000)")
    with there.probe() as probe, pytest.raises(SchemaRefused, match="max_allowed_packet"):
        probe.fingerprint(Everything())


@at("trino")
def test_a_table_of_more_columns_than_one_expression_takes(place: Place) -> None:
    cases = [
        ("varchar", "'~|'", "~|"),
        ("timestamp(9)", "timestamp '2025-01-01 00:00:00.123456789'", "2025-01-01 00:00:00.123456"),
    ]
    for kind, value, text in cases:
        columns = ", ".join(f"c{number} {kind}" for number in range(301))
        with place.of(columns, ", ".join([value] * 301), ", ".join(["NULL"] * 301)).probe() as probe:
            expected = Fingerprint.of_texts([row_text([text] * 301), row_text([None] * 301)])
            assert probe.fingerprint(Everything()) == expected


@at("postgresql")
def test_what_postgresql_refuses_first_is_what_people_read(place: Place) -> None:
    """Later statements of a transaction that has failed are refused for that alone, which says nothing."""
    with place.of("id integer PRIMARY KEY, at date", "1, 'infinity'").probe() as probe:
        with pytest.raises(SchemaRefused, match="column 'at' holds a value that does not fit date") as first:
            probe.fingerprint(Everything())
        for ask in (lambda: probe.count(Everything()), lambda: probe.stats(Keys(columns=("id",), values=(("1",),)))):
            with pytest.raises(SchemaRefused) as later:
                ask()
            assert (later.value.message, later.value.hint) == (first.value.message, first.value.hint)


@at("postgresql")
def test_the_quick_way_to_microseconds_is_exact(place: Place) -> None:
    """Against PostgreSQL's own binary form: the ends of the quick stretch, and a random microsecond in each hour."""
    for kind in ("timestamp", "timestamptz"):
        place.run(
            f"CREATE TABLE {kind}s (at {kind})",
            f"INSERT INTO {kind}s SELECT hour + random() * interval '1 hour' "
            f"FROM generate_series({kind} '1905-12-30', {kind} '2035-01-03', '1 hour') AS hour",
            f"INSERT INTO {kind}s SELECT edge + tick * interval '1 microsecond' "
            f"FROM generate_series(-2000, 2000) AS tick, "
            f"unnest(ARRAY[{kind} '1906-01-01', {kind} '1970-01-01', {kind} '2035-01-01']) AS edge",
        )
        with place.source(f"{kind}s").probe() as probe:
            quick = place.dialect.read(probe.statements.column("at")).sql
            exact = f"('x' || encode({kind}_send(at), 'hex'))::bit(64)::bigint + 946684800000000"
            assert probe.session.rows(f"SELECT at FROM {kind}s WHERE {quick} <> {exact} LIMIT 3") == []
