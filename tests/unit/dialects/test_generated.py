"""The SQL that is written for engines elsewhere: golden texts, words of each engine, and that a parser knows it all."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import sqlglot

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets
from tidegate.core.grouping import Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    JSON,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Column,
    Schema,
    array,
    decimal,
)
from tidegate.core.slices import Everything, Keys, Partition, Range
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.shared import generated
from tidegate.dialects.shared.statements import Statements
from tidegate.dialects.snowflake import Snowflake
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.teradata import Teradata
from tidegate.dialects.trino import Trino
from tidegate.errors import ConfigError, InternalError
from tidegate.sources.database.source import dialect_of

GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
ELSEWHERE = (Teradata(), Snowflake(), Oracle(), SqlServer())
NATIVES = {
    "trino": {
        "a_char": "char(5)",
        "a_timestamp": "timestamp(6)",
        "a_timestamptz": "timestamp(3) with time zone",
        "a_fine_timestamp": "timestamp(9)",
        "a_fine_timestamptz": "timestamp(12) with time zone",
        "a_time": "time(6)",
        "a_fine_time": "time(9)",
    },
    "teradata": {"a_char": "CHAR(5)", "a_declared": "VARCHAR(20) CHARACTER SET UNICODE"},
    "snowflake": {"a_timestamp": "TIMESTAMP_NTZ(9)", "a_timestamptz": "TIMESTAMP_LTZ(9)"},
    "oracle": {
        "a_char": "CHAR(5)",
        "a_fine_uuid": "RAW(16)",
        "a_timestamp": "DATE",
        "a_fine_timestamp": "TIMESTAMP(9)",
        "a_timestamptz": "TIMESTAMP(6) WITH TIME ZONE",
        "a_fine_timestamptz": "TIMESTAMP(9) WITH TIME ZONE",
        "a_national": "NVARCHAR2",
        "a_number": "NUMBER",
        "a_stated_bigint": "NUMBER stated",
        "a_stated_decimal": "NUMBER stated",
        "a_stated_boolean": "NUMBER(1,0) stated",
        "a_stated_date": "DATE stated",
    },
    "sqlserver": {
        "a_char": "nchar(5)",
        "a_timestamp": "datetime2(7)",
        "a_fine_timestamp": "datetime",
        "a_timestamptz": "datetimeoffset(3)",
        "a_row_version": "timestamp",
    },
}
TYPES = {
    "a_int": INT,
    "a_bigint": BIGINT,
    "a_row_version": BIGINT,
    "a_national": TEXT,
    "a_declared": TEXT,
    "a_number": TEXT,
    "a_stated_bigint": BIGINT,
    "a_stated_decimal": decimal(12, 4),
    "a_stated_boolean": BOOLEAN,
    "a_stated_date": DATE,
    "a_decimal": decimal(12, 4),
    "a_whole_decimal": decimal(38, 0),
    "a_small_decimal": decimal(38, 38),
    "a_boolean": BOOLEAN,
    "a_date": DATE,
    "a_time": TIME,
    "a_fine_time": TIME,
    "a_timestamp": TIMESTAMP,
    "a_fine_timestamp": TIMESTAMP,
    "a_timestamptz": TIMESTAMPTZ,
    "a_fine_timestamptz": TIMESTAMPTZ,
    "a_text": TEXT,
    "a_char": TEXT,
    "a_uuid": UUID,
    "a_fine_uuid": UUID,
    "a_binary": BINARY,
    "a_json": JSON,
}
# Types that only engines have which say so.
OF_FEW = re.compile(r"a_(fine_|stated_|row_version|national|number|declared)")
# Oracle has no time of day.
WITHOUT = {"oracle": {"a_time", "a_fine_time"}}
NOTHING = re.compile(r"(?!)")
# Row limits, orders of NULL, tuples, stars beside columns, names of subqueries, values that are truths.
SUBQUERIES = "hashed|cursors|buckets|ranked|ranged|reading|touched|retained"
LACKING = {
    "oracle": re.compile(rf"\b(LIMIT|TOP|true|false)\b|\*,|\bAS ({SUBQUERIES})\b", re.IGNORECASE),
    "sqlserver": re.compile(
        r"\b(LIMIT|NULLS|FETCH|true|false|substr|mod)\b|\|\||, [^()]*\) IN \(SELECT", re.IGNORECASE
    ),
    "teradata": re.compile(r"\b(LIMIT|FETCH|ntile|true|false|replace|coalesce\(NULL)\b|\*,|%", re.IGNORECASE),
}
GROUPINGS = {
    "whole": Whole(),
    "steps": Steps(column="a_bigint", width=1000),
    "steps of decimals": Steps(column="a_whole_decimal", width=1000),
    **{f"by {period}": Periods(column="a_timestamptz", period=period) for period in Period},
    "by day of dates": Periods(column="a_date", period=Period.DAY),
    "prefixes": Prefixes(column="a_text", length=2),
}
PARTS = (
    Partition(column="a_bigint", label="0", low="0", high="1000"),
    Partition(column="a_timestamp", label="2025", low="2025-01-01 00:00:00.000000", high="2026-01-01 00:00:00.000000"),
    Partition(column="a_text", label="it's", prefix="it's", length=4),
    Partition(column="a_bigint", label="~N"),
)
LITERALS = {
    "bigint": (BIGINT, "-7"),
    "decimal": (decimal(12, 4), "-0.0001"),
    "date": (DATE, "2025-01-02"),
    "time": (TIME, "03:04:05.000001"),
    "timestamp": (TIMESTAMP, "2025-01-02 03:04:05.000001"),
    "timestamptz": (TIMESTAMPTZ, "2025-01-02 03:04:05.000001"),
    "text": (TEXT, "it's \\ ü"),
    "uuid": (UUID, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
}


def columns(kind: str) -> tuple[Column, ...]:
    """One column of each type, as the dialect of that kind declares it."""
    natives, without = NATIVES[kind], WITHOUT.get(kind, set())
    fine = {name for name in TYPES if OF_FEW.match(name) and name not in natives}
    return tuple(
        Column(name=name, type=of, native=natives.get(name)) for name, of in TYPES.items() if name not in without | fine
    )


def generated_sql(dialect) -> dict[str, str]:
    """Text of every type, conditions, literals and fingerprints."""
    made = columns(dialect.kind)
    table = ("shop", 'or"ders' if dialect.kind != "oracle" else "or]ders")
    found = {f"{column.name} text": dialect.text(dialect.quote(column.name), column) for column in made}
    found |= {f"{column.name} compared": dialect.comparable(dialect.quote(column.name), column) for column in made}
    without = {"time"} if dialect.kind == "oracle" else set()
    found |= {
        f"{name} literal": dialect.literal(kind, text) for name, (kind, text) in LITERALS.items() if name not in without
    }
    found |= keys_sql(dialect, made)
    if dialect.connects:
        found |= asked_sql(dialect, made)
    if dialect.kind == "trino":
        return found
    few = [column for column in made if column.name in {"a_bigint", "a_timestamp", "a_text", "a_timestamptz"}]
    few += [column for column in made if column.name in {"a_date", "a_whole_decimal"}]
    found["fingerprint"] = dialect.fingerprint(table, made)
    found["fingerprint of one column"] = dialect.fingerprint(table, [Column(name="a_text", type=TEXT)])
    for name, by in GROUPINGS.items():
        found[f"fingerprint {name}"] = dialect.fingerprint(table, few, by=by)
    for place, part in enumerate(PARTS):
        found[f"fingerprint of part {place}"] = dialect.fingerprint(table, few, parts=[part])
    found["fingerprint of parts"] = dialect.fingerprint(table, few, by=GROUPINGS["steps"], parts=[PARTS[0], PARTS[3]])
    return found


def keys_sql(dialect, made: tuple[Column, ...]) -> dict[str, str]:
    """How rows are found by a key of every type, and by two columns together."""
    asked = generated.statements(dialect, ("t",), made)
    texts = {"a_boolean": "1", "a_binary": "00ff", "a_json": "[]", "a_fine_uuid": LITERALS["uuid"][1]}
    texts |= {f"a_{name}": text for name, (_, text) in LITERALS.items()}
    there = [column.name for column in made if column.name in texts]
    found = {f"{name} key": asked.condition(Keys(columns=(name,), values=((texts[name],),))) for name in there}
    both = ("a_uuid", "a_bigint")
    return {**found, "key of two": asked.condition(Keys(columns=both, values=((texts["a_uuid"], "1"), ("", "2"))))}


def asked_sql(dialect, made: tuple[Column, ...]) -> dict[str, str]:
    """What is asked of a source, and what Spark reads of it."""
    asked = Statements(dialect=dialect, relation=dialect.relation("t"), schema=Schema(columns=made))
    found = {}
    for column in made:
        reading = dialect.read(column)
        found[f"{column.name} read as {reading.wire_format}"] = reading.sql
    cursor = "a_fine_timestamp" if asked.schema.find("a_fine_timestamp") else "a_timestamp"
    part = Range(cursor=(cursor,), after="2025-01-01 00:00:00.000000", upto="2025-01-02 00:00:00.000000")
    both = Range(cursor=("a_bigint",), after=None, upto="7", nulls=True)
    latest = Latest(key=("a_bigint",), order=("a_timestamp", "a_text"))
    touched = Latest(key=("a_bigint", "a_uuid"), order=("a_timestamp",), cursor=("a_timestamp",), touched=(part,))
    one, buckets = ("a_bigint",), Buckets(count=16, keys=True)
    few = Buckets(count=16, keys=True, among=4, within=("1", "3"))
    ranged = Buckets(count=1, keys=True, width=64, within=("0", "64", "1024"))
    for name, by in GROUPINGS.items():
        found[f"asked {name}"] = asked.grouped(asked.bucket(by), [Everything()])
    for place, each in enumerate(PARTS):
        found[f"count of part {place}"] = asked.count(each, None)
    return {
        **found,
        "count latest": asked.count(part, latest),
        "count latest of the touched": asked.count(part, touched),
        "stats": asked.stats(part),
        "stats with null": asked.stats(both),
        "asked fingerprint": asked.fingerprint(part, None),
        "fingerprint latest": asked.fingerprint(both, latest),
        "digests": asked.digests(one, part, asked.within(one, few), latest=latest),
        "keys": asked.digests(("a_text", "a_uuid"), Everything(), "1 = 1", keys=True),
        "spread by number": asked.spread_of(one, buckets, "1 = 1"),
        "spread by text": asked.spread_of(("a_uuid",), buckets, "1 = 1"),
        "spread without a key": asked.spread_of((), Buckets(count=16), "1 = 1"),
        "ranges of a key": asked.spread_of(one, ranged, asked.within(one, ranged)),
        "key bounds": asked.key_bounds(part, "a_bigint"),
        "values": asked.values(part, "a_bigint", 10),
        "borders": asked.borders(part, 3),
        "greatest": asked.greatest("a_timestamp"),
        "newest": asked.newest("a_timestamp", one, None, "2025-01-02 00:00:00.000000", 20),
        "below": asked.below("a_timestamp", one, {("7",): "2025-01-01 00:00:00.000000"}),
        "reading": f"SELECT * FROM {asked.reading([f'c{place}' for place in range(len(made))], [])}",
    }


@pytest.mark.parametrize("dialect", [Trino(), *ELSEWHERE], ids=lambda dialect: dialect.kind)
def test_sql_is_the_one_that_was_reviewed(dialect) -> None:
    """Set TIDEGATE_GOLDEN=write to rewrite the files, then review the difference."""
    file, found = GOLDEN / f"{dialect.kind}.json", generated_sql(dialect)
    if os.environ.get("TIDEGATE_GOLDEN") == "write":
        file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(file.read_text())


@pytest.mark.parametrize("dialect", [Trino(), *ELSEWHERE], ids=lambda dialect: dialect.kind)
def test_a_parser_of_the_engine_knows_every_statement(dialect) -> None:
    for text in generated_sql(dialect).values():
        sql = text if text.startswith("SELECT ") else f"SELECT {text} AS x FROM t"
        (statement,) = sqlglot.parse(sql, read=dialect.sqlglot)
        assert isinstance(statement, sqlglot.exp.Select)


@pytest.mark.parametrize("dialect", ELSEWHERE, ids=lambda dialect: dialect.kind)
def test_no_statement_has_words_that_the_engine_lacks(dialect) -> None:
    """Of these the parsers know more than the engines."""
    for text in generated_sql(dialect).values():
        code = re.sub(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\[(?:[^\]]|\]\])*\]", "x", text)
        found = LACKING.get(dialect.kind, NOTHING).search(code)
        assert found is None, f"{found and found[0]} in {text}"


def test_a_dialect_that_no_rows_are_read_through() -> None:
    with pytest.raises(ConfigError, match=r"connection 'old': rows cannot be read from spark") as refused:
        dialect_of(Connection(name="old", url="spark://me:secret@h/db"))
    assert "docs/concepts/fingerprint-sql.md" in refused.value.hint
    assert "secret" not in f"{refused.value}{refused.value.hint}"
    assert (Path(__file__).parents[3] / "docs" / "concepts" / "fingerprint-sql.md").is_file()


@pytest.mark.parametrize("dialect", [Trino(), *ELSEWHERE], ids=lambda dialect: dialect.kind)
@pytest.mark.parametrize("kind", [DOUBLE, array(INT)], ids=str)
def test_what_has_no_common_text_is_not_covered(dialect, kind) -> None:
    with pytest.raises(InternalError, match="no canonical text"):
        dialect.text("x", Column(name="x", type=kind))
    if dialect.kind != "trino":
        one = [Column(name="id", type=BIGINT)]
        assert dialect.fingerprint(("t",), [*one, Column(name="x", type=kind)]) == dialect.fingerprint(("t",), one)


@pytest.mark.parametrize("dialect", [Trino(), *ELSEWHERE], ids=lambda dialect: dialect.kind)
def test_names_and_texts_never_become_syntax(dialect) -> None:
    hostile = "a\"]'; DROP TABLE t; --"
    if dialect.kind == "oracle":
        with pytest.raises(ConfigError, match="double quote"):
            dialect.quote(hostile)
        hostile = hostile.replace('"', "")
    value = dialect.literal(TEXT, hostile)
    name = dialect.quote(hostile)
    (statement,) = sqlglot.parse(f"SELECT {name} FROM t WHERE {name} = {value}", read=dialect.sqlglot)
    assert {found.name for found in statement.find_all(sqlglot.exp.Column)} == {hostile}
    literals = {found.name for found in statement.find_all(sqlglot.exp.Literal, sqlglot.exp.National)}
    assert literals - {"NLS_SORT=BINARY", "1", "\t"} == {hostile}


def test_words_that_stand_in_a_name_stay() -> None:
    name = "coalesce(replace(replace( ) AS hashed"
    text = [Column(name=name, type=TEXT)]
    assert Teradata().fingerprint((name,), text).count(f'"{name}"') == 2
    assert Teradata().fingerprint((name,), text).count("oreplace(") == 2
    oracle = Oracle().fingerprint((name,), text)
    assert oracle.count(f'"{name}"') == 2
    assert oracle.endswith(") hashed")
    assert " AS hashed" not in oracle.replace(name, "")


def test_what_has_no_safe_default_must_be_written() -> None:
    class Incomplete(Dialect):
        kind = "incomplete"

    with pytest.raises(TypeError, match="abstract methods as_text, comparable, digest"):
        Incomplete()


def test_sums_of_several_parts_need_a_grouping() -> None:
    with pytest.raises(ConfigError, match="several parts"):
        Snowflake().fingerprint(("t",), [Column(name="a_bigint", type=BIGINT)], parts=[PARTS[0], PARTS[3]])


@pytest.mark.parametrize(("scale", "whole"), [(0, 38), (4, 34), (37, 1), (38, 1)])
def test_format_of_a_decimal_has_room_for_every_digit(scale: int, whole: int) -> None:
    digits, _, behind = generated.mask(scale).removeprefix("FM").partition(".")
    assert (len(digits), len(behind)) == (whole, scale)
    assert digits.endswith("0")
    assert not set(behind) - {"0"}
