"""Rows grouped into partitions: SQLite's answer against a model in plain Python, PostgreSQL's SQL as reviewed."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import CHARACTERS, Grouping, Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Relation
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    DATE,
    INT,
    JSON,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Column,
    Schema,
    Type,
    array,
    decimal,
)
from tidegate.core.slices import Everything, Partition, Slice
from tidegate.dialects.postgresql import Postgresql
from tidegate.dialects.shared import own_hashes
from tidegate.dialects.shared.buckets import GroupExpression
from tidegate.dialects.shared.statements import Statements
from tidegate.dialects.spark import Spark
from tidegate.dialects.sqlite import Sqlite
from tidegate.errors import SchemaRefused

GOLDEN = Path(__file__).parents[2] / "golden" / "dialects" / "postgresql_grouped.json"
LEAST, GREATEST = -(2**63), 2**63 - 1
NUMBERS = [None, 0, 1, -1, 999, 1000, -999, -1000, -1001, LEAST, LEAST + 1, LEAST + 807, LEAST + 808, GREATEST]
NUMBERS += [GREATEST - 807, 2**31 - 1, -(2**31)]
DAYS = [None, "0001-01-01", "0001-12-31", "1582-10-10", "1969-12-31", "2024-02-29", "2024-12-30", "2025-01-01"]
DAYS += ["2025-01-05", "2025-01-06", "2025-03-31", "2025-04-01", "9999-12-26", "9999-12-27", "9999-12-31"]
MOMENTS = [day and f"{day} {clock}" for day in DAYS for clock in ("00:00:00.000000", "23:59:59.999999")]
CODES = [
    None,
    "",
    "~",
    "~0",
    "~N",
    "a",
    "ab",
    "abc",
    "AB",
    "a|b",
    "a'b",
    "a\\b",
    "ä",
    "a\u0308",
    "🚲🚲🚲",
    " ab",
    "ab ",
]
CODES += ["%", "_", "a%", "\ufeffa", "a\nb", '"', "${x}", "ﬁ"]


def model(grouping: Grouping, column: Column | None, values: list) -> dict[Slice, list]:
    """The rows of each partition, by what a partition is."""
    found: defaultdict[Slice, list] = defaultdict(list)
    for value in values:
        match grouping:
            case Steps(width=width) if value is not None:
                bucket = str(value // width * width)
            case Periods(period=period) if value is not None:
                bucket = grouping.coarse(value[: CHARACTERS[period]])
            case Prefixes(length=length) if value is not None:
                bucket = value[:length]
            case Whole():
                bucket = ""
            case _:
                bucket = None
        found[grouping.part(bucket, column)].append(value)
    return found


def fingerprint(values: list) -> Fingerprint:
    return Fingerprint.of_texts(row_text([None if value is None else str(value)]) for value in values)


@contextmanager
def asked(tmp_path: Path, kind: Type, values: list, affinity: str = "") -> Iterator[tuple]:
    """A table of one column, its statements, and a session that answers."""
    file = tmp_path / "t.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"CREATE TABLE t (c {affinity})")
        connection.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    dialect = Sqlite()
    column = Column(name="c", type=kind)
    relation = Relation(sql='"t"', label="t", parts=("t",))
    session = dialect.open(Connection(name="x", url=f"sqlite:///{file}"))
    try:
        yield column, Statements(dialect=dialect, relation=relation, schema=Schema(columns=(column,))), session
    finally:
        session.close()


CASES = [
    *((Steps(column="c", width=width), BIGINT, NUMBERS) for width in (1, 2, 7, 1000, 2**31, 2**62, GREATEST)),
    *((Steps(column="c", width=width), INT, [None, -(2**31), -1, 0, 999, 2**31 - 1]) for width in (1, 1000, GREATEST)),
    *((Periods(column="c", period=period), DATE, DAYS) for period in Period if period is not Period.HOUR),
    *((Periods(column="c", period=period), TIMESTAMP, MOMENTS) for period in Period),
    *((Prefixes(column="c", length=length), TEXT, CODES) for length in (1, 2, 3, 100)),
    (Whole(), TEXT, CODES),
    (Whole(), TEXT, []),
]


@pytest.mark.parametrize(("grouping", "kind", "values"), CASES, ids=lambda value: str(value)[:60])
def test_sqlite_groups_as_the_model_does(grouping: Grouping, kind: Type, values: list, tmp_path: Path) -> None:
    with asked(tmp_path, kind, values * 2) as (column, statements, session):
        by = statements.bucket(grouping)
        wanted = model(grouping, column, values * 2)
        found: defaultdict[Slice, Fingerprint] = defaultdict(Fingerprint)
        for bucket, *sums in session.rows(statements.grouped(by, (Everything(),))):
            found[grouping.part(grouping.coarse(bucket), column)] += Fingerprint.of_sums(sums)
        assert found == {part: fingerprint(rows) for part, rows in wanted.items()}
        for part, rows in wanted.items():
            condition = statements.condition(part)
            there = session.rows(f'SELECT count(*) FROM "t" WHERE {condition}')
            assert there == [(len(rows),)], part.label
        some = tuple(list(wanted)[::2])
        alone: defaultdict[Slice, Fingerprint] = defaultdict(Fingerprint)
        for bucket, *sums in session.rows(statements.grouped(by, some)):
            alone[grouping.part(grouping.coarse(bucket), column)] += Fingerprint.of_sums(sums)
        assert alone == {part: found[part] for part in some}
        assert session.rows(statements.grouped(by, ())) == []
        assert statements.quick_hashes(by, (Everything(),)) is None


def test_texts_are_told_apart_by_every_character(tmp_path: Path) -> None:
    """Neither case, nor accents, nor blanks, nor what LIKE would take for a pattern make two prefixes one."""
    with asked(tmp_path, TEXT, CODES, "TEXT COLLATE NOCASE") as (column, statements, session):
        grouping = Prefixes(column="c", length=2)
        wanted = model(grouping, column, CODES)
        for part, rows in wanted.items():
            ((count,),) = session.rows(f'SELECT count(*) FROM "t" WHERE {statements.condition(part)}')
            assert count == len(rows), part.label


def test_a_value_of_another_type_is_named_by_its_column(tmp_path: Path) -> None:
    with asked(tmp_path, DATE, ["2025-01-01", "no day"]) as (_, statements, session):
        by = statements.bucket(Periods(column="c", period=Period.DAY))
        with pytest.raises(SchemaRefused, match="column 'c'") as refused:
            session.rows(statements.grouped(by, (Everything(),)))
        assert "no day" not in str(refused.value)


TYPES: dict[str, tuple[Type, str]] = {
    "an_int": (INT, "int4"),
    "a_bigint": (BIGINT, "int8"),
    "a_decimal": (decimal(12, 0), "numeric(12,0)"),
    "a_date": (DATE, "date"),
    "a_time": (TIME, "time"),
    "a_timestamp": (TIMESTAMP, "timestamp"),
    "a_timestamptz": (TIMESTAMPTZ, "timestamptz"),
    "a_text": (TEXT, "text"),
    "a_char": (TEXT, "character(4)"),
    "a_uuid": (UUID, "uuid"),
    "a_binary": (BINARY, "bytea"),
    "a_json": (JSON, "json"),
    "an_array": (array(INT), "int4[]"),
}
SCHEMA = Schema(columns=tuple(Column(name=name, type=kind, native=native) for name, (kind, native) in TYPES.items()))
GROUPINGS: dict[str, Grouping] = {
    "whole": Whole(),
    **{f"steps of {name}": Steps(column=name, width=1000) for name in ("an_int", "a_bigint", "a_decimal")},
    **{
        f"{period} of {name}": Periods(column=name, period=period)
        for name, period in [
            ("a_date", Period.DAY),
            ("a_date", Period.WEEK),
            ("a_timestamp", Period.HOUR),
            ("a_timestamptz", Period.MONTH),
            ("a_timestamptz", Period.YEAR),
        ]
    },
    **{f"prefix of {name}": Prefixes(column=name, length=2) for name in ("a_text", "a_char", "a_uuid", "a_json")},
}
BUCKETS = {
    Steps: ("0", "-1000", "2147483000", "-2147484000", None),
    Periods: ("2025-01-06", "9999-12-27", None),
    Prefixes: ("ab", "a", "", "it's", "back\\slash", None),
    Whole: ("",),
}


def _coarse(grouping: Grouping, bucket: str | None) -> str | None:
    cut = bucket[: CHARACTERS[grouping.period]] if bucket and isinstance(grouping, Periods) else bucket
    return grouping.coarse(cut)


def sql_of(statements: Statements) -> dict[str, str]:
    """Buckets of every kind, one grouped statement, the quick hash, and the condition of hard partitions."""
    found: dict[str, str] = {}
    spark = Spark()
    for name, grouping in GROUPINGS.items():
        by = statements.bucket(grouping)
        found[f"{name}: bucket"] = by.name(by.value)
        column = SCHEMA.find(grouping.column) if grouping.column else None
        for bucket in BUCKETS[type(grouping)]:
            fine = f"{bucket} 23" if bucket and isinstance(grouping, Periods) else bucket
            part = grouping.part(_coarse(grouping, fine), column)
            found[f"{name}: {part.label}"] = statements.condition(part)
            found[f"{name}: {part.label} in the table"] = spark.among([part], SCHEMA)
    days = Periods(column="a_date", period=Period.DAY)
    parts: list[Slice] = [days.part("2025-01-01", SCHEMA.find("a_date")), Partition(column="a_date", label="~N")]
    wide = Steps(column="a_bigint", width=1000)
    for end in (LEAST, GREATEST):
        found[f"the step of {end}"] = statements.condition(wide.part(str(end // 1000 * 1000), SCHEMA.find("a_bigint")))
    found["grouped"] = statements.grouped(GroupExpression(value="1"), [Everything()], "ctid < '(1,0)'")
    found["quick hashes"] = statements.quick_hashes(GroupExpression(value="1"), parts, "ctid < '(1,0)'") or ""
    found["its own hash"] = own_hashes.of_columns(statements, ["a_text", "a_bigint"], "ctid < '(1,0)'") or ""
    found["nothing"] = statements.among([])
    return found


def test_postgresql_and_spark_are_asked_what_was_reviewed() -> None:
    """TIDEGATE_GOLDEN=write writes the file anew; then look at the difference."""
    relation = Relation(sql='"t"', label="t", parts=("t",))
    found = sql_of(Statements(dialect=Postgresql(), relation=relation, schema=SCHEMA))
    if os.environ.get("TIDEGATE_GOLDEN") == "write":
        GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    assert found == json.loads(GOLDEN.read_text())
