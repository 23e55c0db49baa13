"""Values of MariaDB on their way to Spark: the tg1 vectors, hard values, collations, groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration.source import vectors
from integration.source.floats import check_own_fingerprints
from integration.source.groups import DAYS, NUMBERS, check_groups
from integration.source.mariadb.orders import source
from tidegate.core.batch import Latest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps
from tidegate.core.slices import Everything, Partition, Range
from tidegate.dialects.spark import Spark
from tidegate.errors import (
    SchemaRefused,
)
from tidegate.sources.database import Database

if TYPE_CHECKING:
    from support.mariadb import MariadbServer

pytest_plugins = ["support.mariadb"]
VECTORS = """
CREATE TABLE vectors (
  c0 bigint, c1 decimal(38,4), c2 tinyint(1), c3 date, c4 datetime(6), c5 datetime(6), c6 text, c7 uuid, c8 blob
)
"""


def vectors_source(server: MariadbServer, database: str) -> Database:
    rows = []
    for row in vectors.VECTORS["rows"]:
        c0, c1, c2, c3, c4, _, c6, c7, c8 = row["values"]
        utc = row["text"].split("|")[5]
        flag = None if c2 is None else int(c2 == "True")
        binary = None if c8 is None else bytes.fromhex(c8)
        rows.append([c0, c1, flag, c3, c4, None if utc == "~N" else utc, c6, c7, binary])
    server.run(VECTORS, database=database)
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO vectors VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", rows)
    return source(server.url(database), "vectors", columns={"c2": "boolean"})


def in_spark(there: Database, spark, zone: str) -> tuple[Fingerprint, list[str]]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with there.probe() as probe:
            columns = probe.schema().columns
            rows = there.read(spark, probe, [Everything()], probe.schema())
            rows.createOrReplaceTempView("read")
            sums = spark.sql(Spark().fingerprint("read", columns)).collect()[0]
            texts = [row[0] for row in spark.sql(f"SELECT {Spark().row(columns)} FROM read").collect()]
            assert probe.fingerprint(Everything()) == Fingerprint.of_sums(list(sums))
            probe.verify_unchanged()
            return Fingerprint.of_sums(list(sums)), sorted(texts)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_vectors(mariadb: MariadbServer, maria_database: str) -> None:
    with vectors_source(mariadb, maria_database).probe() as probe:
        assert probe.fingerprint(Everything()) == vectors.FINGERPRINT
        where = [Partition(column="c0", label=str(n), low=str(n), high=str(n + 1)) for n in range(1, 13)]
        for part, row in zip(where, vectors.VECTORS["rows"], strict=True):
            if row["values"][0] == part.low:
                assert probe.fingerprint(part) == Fingerprint.of_texts([row["text"]])


def test_casts(mariadb: MariadbServer, maria_database: str) -> None:
    vectors.check_casts(vectors_source(mariadb, maria_database))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_vectors_to_spark(mariadb: MariadbServer, maria_database: str, spark_with_driver, zone: str) -> None:
    found = in_spark(vectors_source(mariadb, maria_database), spark_with_driver, zone)
    assert found == (vectors.FINGERPRINT, sorted(vectors.TEXTS))


# Column: declaration, values as MariaDB reads them, type in Spark, the same values as Spark writes them in UTC.
HARD = {
    "ti": ("tinyint", "-128", "int", "-128"),
    "flag": ("tinyint(1)", "2", "int", "2"),
    "bit_one": ("bit(1)", "b'1'", "boolean", "true"),
    "filled": ("int(5) unsigned zerofill", "42", "bigint", "42"),
    "ub": ("bigint unsigned", "18446744073709551615", "decimal(20,0)", "18446744073709551615"),
    "wide": ("decimal(38,10)", "-0.00000000001", "decimal(38,10)", "0.0000000000"),
    "wider": ("decimal(65,2)", "12345678901234567890123456789012345678.12", "string", None),
    "small": ("decimal(5,5)", "-0.00001", "decimal(5,5)", "-0.00001"),
    "day": ("date", "'1582-10-10'", "date", "1582-10-10"),
    "first": ("datetime(6)", "'0001-01-01 00:00:00.000001'", "timestamp_ntz", "0001-01-01 00:00:00.000001"),
    "last": ("datetime(6)", "'9999-12-31 23:59:59.999999'", "timestamp_ntz", "9999-12-31 23:59:59.999999"),
    "gap": ("datetime(6)", "'2025-03-09 02:30:00.123456'", "timestamp_ntz", "2025-03-09 02:30:00.123456"),
    "utc_gap": ("timestamp(6) null", "'2025-03-09 02:30:00.000001'", "timestamp", "2025-03-09 02:30:00.000001"),
    "clock": ("time(6)", "'-838:59:59.5'", "string", "-838:59:59.500000"),
    "yr": ("year", "1901", "int", "1901"),
    "real_one": ("float", "16777215", "float", "1.6777215E7"),
    "double_one": ("double", "0.1", "double", "0.1"),
    "padded": ("char(5)", "'ab'", "string", "ab"),
    "blanks": ("varchar(9)", "'ab  '", "string", "ab  "),
    "old": ("varchar(9) character set latin1", "'ü€'", "string", "ü€"),
    "cyrillic": ("varchar(9) character set cp1251", "'Жы?'", "string", "Жы?"),
    "ship": ("text", "'🚢~|\\\\\\n'", "string", "🚢~|\\\n"),
    "mood": ("enum('ok','so so')", "'so so'", "string", "so so"),
    "marks": ("set('a','b')", "'b,a'", "string", "a,b"),
    "js": ("json", """'{"b": 1,  "a":2}'""", "string", '{"b": 1,  "a":2}'),
    "uid": ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "string", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "address": ("inet6", "'::1'", "string", "::1"),
    "fixed": ("binary(3)", "x'00ff'", "binary", "00ff00"),
    "blob_one": ("blob", "x''", "binary", ""),
}
BAD = [
    ("date", "'0000-00-00'", {}),
    ("date", "'2025-00-10'", {}),
    ("datetime(6)", "'0000-00-00 00:00:00'", {}),
    ("timestamp null", "'0000-00-00 00:00:00'", {}),
    ("date", "'2025-02-31'", {}),
    ("tinyint(1)", "2", {"x": "boolean"}),
    ("decimal(65,3)", "1.234", {"x": "decimal(12,2)"}),
    ("varchar(9) character set cp1251", "x'98'", {}),
]


def test_hard_values_have_their_types(mariadb: MariadbServer, maria_database: str, maria_url: str) -> None:
    mariadb.run(
        f"CREATE TABLE hard ({', '.join(f'{n} {kind}' for n, (kind, *_) in HARD.items())})", database=maria_database
    )
    with source(maria_url).probe() as probe:
        assert {column.name: column.type.spark for column in probe.schema()} == {n: each[2] for n, each in HARD.items()}


@pytest.mark.spark
def test_hard_values_arrive_unchanged(
    mariadb: MariadbServer, maria_database: str, maria_url: str, spark_with_driver
) -> None:
    spark = spark_with_driver
    mariadb.run(
        f"CREATE TABLE hard ({', '.join(f'{name} {kind}' for name, (kind, *_) in HARD.items())})",
        "SET time_zone = '+00:00'",
        f"INSERT INTO hard VALUES ({', '.join(value for _, value, _, _ in HARD.values())})",
        f"INSERT INTO hard ({next(iter(HARD))}) VALUES (NULL)",
        database=maria_database,
    )
    in_spark(source(maria_url), spark, "America/New_York")
    in_spark(source(maria_url, query="SELECT *, 'a''b' AS extra FROM hard -- the end"), spark, "UTC")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        with source(maria_url).probe() as probe:
            rows = source(maria_url).read(spark, probe, [Everything()], probe.schema()).where("ti IS NOT NULL")
            shown = [
                f"lower(hex({name}))" if kind == "binary" else f"CAST({name} AS string)"
                for name, (_, _, kind, _) in HARD.items()
            ]
            found = tuple(rows.selectExpr(*shown).collect()[0])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found == tuple(value if text is None else text for _, value, _, text in HARD.values())


@pytest.mark.parametrize(("kind", "value", "columns"), BAD)
def test_value_that_cannot_be_kept_ends_the_statement(
    mariadb: MariadbServer, maria_database: str, maria_url: str, kind: str, value: str, columns: dict
) -> None:
    mariadb.run(
        f"CREATE TABLE hard (id int PRIMARY KEY, x {kind})",
        "INSERT INTO hard VALUES (1, NULL)",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        f"INSERT INTO hard VALUES (2, {value})",
        database=maria_database,
    )
    with source(maria_url, columns=columns).probe() as probe:
        with pytest.raises(SchemaRefused, match="column 'x' holds a value") as refused:
            probe.fingerprint(Everything())
        assert value.strip("'") not in str(refused.value)
        reading = probe.statements.dialect.read(probe.statements.column("x")).sql
        with pytest.raises(SchemaRefused, match="column 'x' holds a value"):
            probe.session.rows(f"SELECT {reading} FROM hard")
        one = Range(cursor=("id",), after=None, upto="1")
        assert probe.fingerprint(one) == Fingerprint.of_texts(["1|~N"])


@pytest.mark.parametrize("kind", ["geometry", "bit(9)", "point"])
def test_type_that_cannot_be_kept_is_refused_by_name(
    mariadb: MariadbServer, maria_database: str, maria_url: str, kind: str
) -> None:
    mariadb.run(f"CREATE TABLE hard (id int, x {kind})", database=maria_database)
    with source(maria_url).probe() as probe, pytest.raises(SchemaRefused, match="'x' ") as refused:
        probe.schema()
    assert "columns: {x: text}" in refused.value.hint


def test_row_beyond_the_packet_is_no_silent_null(mariadb: MariadbServer, maria_database: str, maria_url: str) -> None:
    """CONCAT gives NULL above max_allowed_packet, and two different rows would have one fingerprint."""
    mariadb.run(
        "CREATE TABLE hard (a longtext, b longtext)",
        "INSERT INTO hard VALUES (repeat('a', 9000000), repeat('b', 9000000))",
        database=maria_database,
    )
    with source(maria_url).probe() as probe, pytest.raises(SchemaRefused, match="max_allowed_packet"):
        probe.fingerprint(Everything())


CASES = ["a", "A", "ä", "Ä", "a ", "a\u0308", "ab", "AB", "", None, "~N", "a|b", "🚢x", "🚢y"]


def test_collations_join_nothing(mariadb: MariadbServer, maria_database: str, maria_url: str) -> None:
    mariadb.run(
        "CREATE TABLE hard (id int, code varchar(20) COLLATE utf8mb4_general_ci, at datetime(6))",
        database=maria_database,
    )
    with mariadb.connect(maria_database) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO hard VALUES (%s, %s, '2025-01-01')", list(enumerate(CASES)))
    with source(maria_url).probe() as probe:
        bounds = probe.key_bounds(Everything(), "code")
        known = {text for text in CASES if text is not None}
        assert bounds is not None
        assert set(bounds.values) == known
        assert (bounds.low, bounds.high) == (min(known), max(known))
        # One row a key: none is superseded by another that only a collation calls equal.
        assert probe.count(Everything(), latest=Latest(key=("code",), order=("at",))) == len(CASES)
        between = Range(cursor=("code",), after="A", upto="a")
        assert probe.count(between) == sum("A" < text <= "a" for text in known)


@pytest.mark.parametrize(
    ("grouping", "values", "kind"),
    [
        (Steps(column="x", width=1000), NUMBERS, "int"),
        (Steps(column="x", width=1000), [0, 999, 1000, 2**64 - 1, None], "bigint unsigned"),
        (Steps(column="x", width=1000), NUMBERS, "decimal(12,0)"),
        *((Periods(column="x", period=period), DAYS, "date") for period in (Period.DAY, Period.WEEK, Period.QUARTER)),
        (Periods(column="x", period=Period.MONTH), DAYS, "datetime(6)"),
        (Prefixes(column="x", length=1), CASES, "varchar(20) COLLATE utf8mb4_general_ci"),
        (Prefixes(column="x", length=2), CASES, "varchar(20) COLLATE utf8mb4_general_ci"),
    ],
)
def test_groups_are_those_of_the_model(
    mariadb: MariadbServer, maria_database: str, maria_url: str, grouping: Grouping, values: list, kind: str
) -> None:
    mariadb.run(f"CREATE TABLE hard (x {kind})", database=maria_database)
    with mariadb.connect(maria_database) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO hard VALUES (%s)", [(value,) for value in values])
    with source(maria_url).probe() as probe:
        check_groups(probe, grouping, values, moments=kind.startswith("datetime"))


def test_own_fingerprints_see_every_change_of_a_float(mariadb: MariadbServer, maria_database: str) -> None:
    def put(column: str, value: float | None) -> None:
        mariadb.run(f"UPDATE t SET {column} = {'NULL' if value is None else repr(value)}", database=maria_database)

    mariadb.run("CREATE TABLE t (id int PRIMARY KEY, d double, s float)", database=maria_database)
    mariadb.run("INSERT INTO t VALUES (1, 1, 1)", database=maria_database)
    check_own_fingerprints(source(mariadb.url(maria_database), "t"), put)
