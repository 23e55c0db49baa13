"""Values of Trino: the same fingerprints, and the same values in Spark."""

from __future__ import annotations

import pytest

from integration.source import vectors
from integration.source.test_vectors import in_source, in_spark
from integration.source.trino.tables import source
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything
from tidegate.dialects.spark import Spark
from tidegate.errors import (
    SchemaRefused,
)
from tidegate.sources.database import Database

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
    with there.probe() as probe, pytest.raises(SchemaRefused, match=r"no column type of a lake table .*: 'x' \("):
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
