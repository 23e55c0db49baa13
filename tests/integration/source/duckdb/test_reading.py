"""DuckDB as a source: the tg1 vectors, hard values on their way to Spark, groups and names."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.source import vectors
from integration.source.duckdb.files import run, source
from integration.source.groups import DAYS, NUMBERS, check_groups
from tidegate.core.batch import Latest
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Range
from tidegate.dialects.duckdb import Duckdb
from tidegate.dialects.spark import Spark
from tidegate.errors import ColumnMissing, ConfigError, SchemaRefused, SourceUnavailable
from tidegate.sources.database import Database
from tidegate.sources.database.source import table_facts

VECTORS = """
CREATE TABLE vectors (
  c0 bigint, c1 decimal(38,4), c2 boolean, c3 date, c4 timestamp, c5 timestamptz, c6 varchar, c7 uuid, c8 blob
)
"""


def vectors_source(file: Path) -> Database:
    rows = [
        [*row["values"][:-1], None if row["values"][-1] is None else bytes.fromhex(row["values"][-1])]
        for row in vectors.VECTORS["rows"]
    ]
    run(file, VECTORS, "INSERT INTO vectors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows=rows)
    return source(file, "vectors")


def test_casts(tmp_path: Path) -> None:
    vectors.check_casts(vectors_source(tmp_path / "shop.duckdb"))


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


def test_vectors(file: Path) -> None:
    with vectors_source(file).probe() as probe:
        assert probe.fingerprint(Everything()) == vectors.FINGERPRINT
        probe.session.rows("SET TimeZone = 'America/New_York'")
        assert probe.fingerprint(Everything()) == vectors.FINGERPRINT


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_vectors_to_spark(file: Path, spark_with_driver, zone: str) -> None:
    assert in_spark(vectors_source(file), spark_with_driver, zone) == (vectors.FINGERPRINT, sorted(vectors.TEXTS))


# Column: declaration, a value as DuckDB reads it, type in Spark, the same value as Spark writes it in UTC.
HARD = {
    "ut": ("utinyint", "255", "int", "255"),
    "ui": ("uinteger", "4294967295", "bigint", "4294967295"),
    "ub": ("ubigint", "18446744073709551615", "decimal(20,0)", "18446744073709551615"),
    "huge": ("hugeint", "-" + "9" * 38, "decimal(38,0)", "-" + "9" * 38),
    "uhuge": ("uhugeint", "9" * 38, "decimal(38,0)", "9" * 38),
    "wide": ("decimal(38,10)", "-0.00000000001", "decimal(38,10)", "0.0000000000"),
    "day": ("date", "'1582-10-10'", "date", "1582-10-10"),
    "first": ("timestamp", "'0001-01-01 00:00:00.000001'", "timestamp_ntz", "0001-01-01 00:00:00.000001"),
    "last": ("timestamp", "'9999-12-31 23:59:59.999999'", "timestamp_ntz", "9999-12-31 23:59:59.999999"),
    "gap": ("timestamp", "'2025-03-09 02:30:00.123456'", "timestamp_ntz", "2025-03-09 02:30:00.123456"),
    "seconds": ("timestamp_s", "'1969-12-31 23:59:59'", "timestamp_ntz", "1969-12-31 23:59:59"),
    "millis": ("timestamp_ms", "'2025-01-01 00:00:00.123'", "timestamp_ntz", "2025-01-01 00:00:00.123"),
    "nanos": ("timestamp_ns", "'1969-12-31 23:59:59.123456'", "timestamp_ntz", "1969-12-31 23:59:59.123456"),
    "old": ("timestamptz", "'1880-01-01 00:00:00+00'", "timestamp", "1880-01-01 00:00:00"),
    "utc_gap": ("timestamptz", "'2025-03-09 02:30:00.000001+00'", "timestamp", "2025-03-09 02:30:00.000001"),
    "clock": ("time", "'24:00:00'", "string", "24:00:00.000000"),
    "part": ("time", "'12:00:00.5'", "string", "12:00:00.500000"),
    "uid": ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "string", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "ship": ("varchar", "'🚢~|\\ ' || chr(10) || chr(0) || ' '", "string", "🚢~|\\ \n\0 "),
    "folded": ("varchar collate nocase", "'Ab'", "string", "Ab"),
    "mood": ("enum('ok','so so')", "'so so'", "string", "so so"),
    "js": ("json", """'{"b": 1,  "a":2}'""", "string", '{"b": 1,  "a":2}'),
    "real_one": ("float", "16777215", "float", "1.6777215E7"),
    "double_one": ("double", "0.1", "double", "0.1"),
    "ints": ("int[]", "[1,NULL,3]", "array<int>", "[1, null, 3]"),
    "texts": ("varchar[]", "['a\"b', 'ü|~', NULL, '']", "array<string>", '[a"b, ü|~, null, ]'),
    "flag": ("boolean", "true", "boolean", "true"),
    "blob_one": ("blob", "''::blob", "binary", ""),
}


@pytest.mark.spark
def test_hard_values_arrive_unchanged(file: Path, spark_with_driver) -> None:
    spark = spark_with_driver
    run(
        file,
        f"CREATE TABLE hard ({', '.join(f'{name} {kind}' for name, (kind, *_) in HARD.items())})",
        f"INSERT INTO hard VALUES ({', '.join(value for _, value, _, _ in HARD.values())})",
        f"INSERT INTO hard ({next(iter(HARD))}) VALUES (NULL)",
    )
    in_spark(source(file), spark, "America/New_York")
    in_spark(source(file, query="SELECT *, 'a''b' AS extra FROM hard -- the end"), spark, "UTC")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        with source(file).probe() as probe:
            kinds = {column.name: column.type.spark for column in probe.schema()}
            rows = source(file).read(spark, probe, [Everything()], probe.schema()).where("ut IS NOT NULL")
            shown = [
                f"lower(hex({name}))" if kind == "binary" else f"CAST({name} AS string)"
                for name, (_, _, kind, _) in HARD.items()
            ]
            found = tuple(rows.selectExpr(*shown).collect()[0])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert kinds == {name: each[2] for name, each in HARD.items()}
    assert found == tuple(text for _, _, _, text in HARD.values())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "'infinity'"),
        ("date", "'0044-03-15 (BC)'"),
        ("date", "'10000-01-01'"),
        ("timestamp", "'-infinity'"),
        ("timestamp_s", "'infinity'"),
        ("timestamp_ns", "'2025-01-01 00:00:00.123456789'"),
        ("timestamp_ns", "'infinity'"),
        ("timestamptz", "'infinity'"),
        ("timestamp", "'10000-01-01'"),
        ("hugeint", "1" + "0" * 38),
        ("uhugeint", "1" + "0" * 38),
    ],
)
def test_value_that_cannot_be_kept_ends_the_statement(file: Path, kind: str, value: str) -> None:
    run(file, f"CREATE TABLE hard (id int, x {kind})", f"INSERT INTO hard VALUES (1, NULL), (2, {value})")
    with source(file).probe() as probe:
        with pytest.raises(SchemaRefused, match="column 'x' holds a value") as refused:
            probe.fingerprint(Everything())
        assert value.strip("'") not in str(refused.value)
        reading = probe.statements.dialect.read(probe.statements.column("x")).sql
        with pytest.raises(SchemaRefused, match="column 'x' holds a value"):
            probe.session.rows(f"SELECT {reading} FROM hard")
        assert probe.fingerprint(Range(cursor=("id",), after=None, upto="1")) == Fingerprint.of_texts(["1|~N"])


@pytest.mark.parametrize(
    "kind", ["interval", "bit", "struct(a int)", "map(int, int)", "timetz", "int[][]", "timestamp[]", "union(n int)"]
)
def test_type_that_cannot_be_kept_is_refused_by_name(file: Path, kind: str) -> None:
    run(file, f"CREATE TABLE hard (id int, x {kind})")
    with source(file).probe() as probe, pytest.raises(SchemaRefused, match="'x' ") as refused:
        probe.schema()
    assert "columns: {x: text}" in refused.value.hint


CASES = ["a", "A", "ä", "Ä", "a ", "a\u0308", "ab", "AB", "", None, "~N", "a|b", "🚢x", "🚢y"]


def test_collations_join_nothing(file: Path) -> None:
    run(
        file,
        "CREATE TABLE hard (id int, code varchar COLLATE nocase, seen timestamp)",
        "INSERT INTO hard VALUES (?, ?, '2025-01-01')",
        rows=list(enumerate(CASES)),
    )
    with source(file).probe() as probe:
        bounds, known = probe.key_bounds(Everything(), "code"), {text for text in CASES if text is not None}
        assert bounds is not None
        assert set(bounds.values) == known
        assert (bounds.low, bounds.high) == (min(known), max(known))
        assert probe.count(Everything(), latest=Latest(key=("code",), order=("seen",))) == len(CASES)
        between = Range(cursor=("code",), after="A", upto="a")
        assert probe.count(between) == sum("A" < text <= "a" for text in known)


@pytest.mark.parametrize(
    ("grouping", "values", "kind"),
    [
        (Steps(column="x", width=1000), NUMBERS, "int"),
        (Steps(column="x", width=1000), [-128, 127, 0, None], "tinyint"),
        (Steps(column="x", width=1000), [0, 999, 1000, 2**64 - 1, None], "ubigint"),
        (Steps(column="x", width=1000), [*NUMBERS, 10**37], "hugeint"),
        (Steps(column="x", width=1000), NUMBERS, "decimal(12,0)"),
        *((Periods(column="x", period=period), DAYS, "date") for period in (Period.DAY, Period.WEEK, Period.QUARTER)),
        (Periods(column="x", period=Period.MONTH), DAYS, "timestamp"),
        (Prefixes(column="x", length=1), CASES, "varchar COLLATE nocase"),
        (Prefixes(column="x", length=2), CASES, "varchar COLLATE nocase"),
    ],
)
def test_groups_are_those_of_the_model(file: Path, grouping: Grouping, values: list, kind: str) -> None:
    run(
        file,
        f"CREATE TABLE hard (x {kind})",
        "INSERT INTO hard SELECT ?",
        rows=[(None if value is None else str(value),) for value in values],
    )
    with source(file).probe() as probe:
        check_groups(probe, grouping, values, moments=kind == "timestamp")


@pytest.mark.spark
def test_hostile_names_in_many_slices(file: Path, spark_with_driver) -> None:
    names = ["a.b", 'q"uote', "sel`ect", "x y", "${v}", "c0", "select", "%s"]
    quoted = ", ".join(f"{Duckdb().quote(name)} int" for name in names)
    run(
        file,
        f'CREATE TABLE "odd.na""me 🚢" ({quoted})',
        f'INSERT INTO "odd.na""me 🚢" SELECT {", ".join(f"i + {n}" for n in range(8))} FROM range(5000) r(i)',
    )
    there = source(file, 'main."odd.na""me 🚢"', slices=4)
    with there.probe() as probe:
        rows = there.read(spark_with_driver, probe, [Everything()], probe.schema())
        assert rows.columns == names
        assert rows.rdd.getNumPartitions() == 4
        assert sorted(map(tuple, rows.collect())) == [tuple(i + n for n in range(8)) for i in range(5000)]


def test_names_and_texts_never_become_syntax(file: Path) -> None:
    run(file, "CREATE TABLE hard (id int)")
    with source(file).probe() as probe:
        for text in ["it's", "\\", "\\' OR 1=1 -- ", '"', "a\0b", "🚢\n"]:
            assert probe.session.rows(f"SELECT {Duckdb().string(text)}") == [(text,)]


def test_keys_identity_and_facts(file: Path) -> None:
    run(file, "CREATE TABLE hard (a int PRIMARY KEY, b int UNIQUE, c int NOT NULL, d int NOT NULL, UNIQUE (c, d))")
    with source(file).probe() as probe:
        answers = {key: probe.unique(key.split()) for key in ("a", "b", "c", "c d", "a b", "")}
        assert answers == {"a": True, "b": False, "c": False, "c d": True, "a b": False, "": False}
        assert (probe.identity(), probe.clock()) == (f"duckdb:{file.stat().st_ino}:hard", 1)
    (facts,) = table_facts(Connection(name="c", url=f"duckdb:///{file}"), "main.*")
    assert (facts.primary_key, facts.indexes, facts.rows) == (("a",), (("b",), ("c", "d")), 0)


def test_a_copy_that_is_put_back_is_behind(file: Path) -> None:
    run(file, "CREATE TABLE t (id int)")
    copy = file.read_bytes()
    run(file, "INSERT INTO t VALUES (1)")
    with source(file, "t").probe() as probe:
        later = probe.clock()
    file.write_bytes(copy)
    with source(file, "t").probe() as probe:
        assert probe.clock() < later
        assert probe.count(Everything()) == 0


def test_no_file_no_database_no_table(file: Path) -> None:
    with pytest.raises(SourceUnavailable, match="does not exist"), source(file).probe():
        pass
    run(file, "CREATE TABLE hard (id int)")
    with source(file, "nowhere").probe() as probe, pytest.raises(ColumnMissing, match="nowhere"):
        probe.schema()
    with source(file, columns={"id": "bigint"}).probe() as probe, pytest.raises(ConfigError, match="exactly"):
        probe.schema()
    other = file.with_name("text.duckdb")
    other.write_text("no database at all\n" * 1000)
    with pytest.raises(SourceUnavailable, match=r"text\.duckdb"), source(other).probe():
        pass
