"""Snowflake's SQL on fakesnow: the text of every vector and its md5; its integer slices cannot run there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integration.source import vectors
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Period, Periods, Prefixes, Steps
from tidegate.core.schema import BIGINT, BINARY, BOOLEAN, DATE, TEXT, TIMESTAMP, TIMESTAMPTZ, UUID, Column, decimal
from tidegate.dialects.shared.buckets import bucket, field, row_of
from tidegate.dialects.snowflake import Snowflake

# fakesnow 0.12 asks DuckDB 2.0 for Arrow by a way that DuckDB calls slow.
pytestmark = pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result:UserWarning")

TABLE = """CREATE TABLE vectors ("c0" bigint, "c1" number(38,4), "c2" boolean, "c3" date, "c4" timestamp_ntz,
"c5" timestamp_tz, "c6" varchar, "c7" varchar, "c8" binary)"""
TYPES = (BIGINT, decimal(38, 4), BOOLEAN, DATE, TIMESTAMP, TIMESTAMPTZ, TEXT, UUID, BINARY)
COLUMNS = tuple(Column(name=f"c{place}", type=kind) for place, kind in enumerate(TYPES))


def literal(value: str | None, place: int) -> str:
    """A value of the vectors for their column."""
    if value is None:
        return "NULL"
    text = Snowflake().string(value)
    shapes = {0: value, 1: value, 4: f"{text}::timestamp_ntz", 5: f"{text}::timestamp_tz", 7: f"upper({text})"}
    return shapes.get(place, f"to_binary({text}, 'HEX')" if place == 8 else text)


def typed(sql: str) -> str:
    """The same with the type of the column said once more: without it fakesnow passes over the format of to_char."""
    assert 'to_char("c4",' in sql
    return sql.replace('to_char("c4",', 'to_char("c4"::timestamp_ntz,')


@pytest.fixture(scope="module")
def snowflake() -> Iterator[Any]:
    """A cursor on fakesnow, with the vectors in a table."""
    import fakesnow
    import snowflake.connector

    with fakesnow.patch():
        connection = snowflake.connector.connect(database="db", schema="s")
        cursor = connection.cursor()
        cursor.execute(TABLE)
        for row in vectors.VECTORS["rows"]:
            cursor.execute(f"INSERT INTO vectors SELECT {', '.join(map(literal, row['values'], range(9)))}")
        yield cursor
        connection.close()


def test_row_texts_and_their_md5(snowflake) -> None:
    dialect = Snowflake()
    text = typed(row_of(dialect, [field(dialect, column) for column in COLUMNS]))
    found = snowflake.execute(f"SELECT {text}, {dialect.digest(text)} FROM vectors").fetchall()
    assert sorted(found) == sorted((row["text"], row["md5"]) for row in vectors.VECTORS["rows"])
    quarters = [[int(md5[8 * k : 8 * k + 8], 16) for k in range(4)] for _, md5 in found]
    assert Fingerprint.of_sums([len(found), *map(sum, zip(*quarters, strict=True))]) == vectors.FINGERPRINT


def test_a_time_without_zone_stays_where_it_is() -> None:
    """`convert_timezone` would take it for a time of the session's zone."""
    text = row_of(Snowflake(), [field(Snowflake(), column) for column in COLUMNS])
    assert """coalesce(to_char("c4", 'YYYY-MM-DD HH24:MI:SS.FF6'), '~N')""" in text
    assert """convert_timezone('UTC', "c5")""" in text


@pytest.mark.parametrize(
    "by",
    [Steps(column="c0", width=4), Periods(column="c4", period=Period.MONTH), Prefixes(column="c6", length=2)],
    ids=["steps", "periods", "prefixes"],
)
def test_buckets(snowflake, by) -> None:
    (column,) = (column for column in COLUMNS if column.name == by.column)
    place = COLUMNS.index(column)
    found = snowflake.execute(f"SELECT {bucket(Snowflake(), by, column)} FROM vectors").fetchall()
    expected = []
    for row in vectors.VECTORS["rows"]:
        value, text = row["values"][place], row["text"].split("|")[place]
        match by:
            case Steps(width=width):
                expected.append(None if value is None else str(int(value) // width * width))
            case Periods():
                expected.append(None if value is None else text[:7])
            case _:
                expected.append(None if value is None else value[:2])
    assert sorted(by.coarse(one) or "" for (one,) in found) == sorted(one or "" for one in expected)


def test_the_integer_slices_cannot_run_there(snowflake) -> None:
    """Once they can, the fingerprint itself is to be compared here."""
    from snowflake.connector.errors import ProgrammingError

    made = Snowflake().fingerprint(["VECTORS"], list(COLUMNS))
    with pytest.raises(ProgrammingError, match="not implemented"):
        snowflake.execute(made)
