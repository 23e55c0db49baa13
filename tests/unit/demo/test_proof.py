"""The proof of the demo finds every difference, and reads both sides by itself."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate_demo.proof import prove

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("seen_at", pa.timestamp("us")),
        ("size", pa.float64()),
    ]
)
ROWS = [
    (1, "a|b~c", date(2013, 12, 1), datetime(2013, 12, 1, 5, 0, 0, 7), 0.1 + 0.2),  # noqa: DTZ001 - no zone in the table
    (2, None, None, None, None),
    (3, "", date(1582, 10, 10), datetime(1999, 1, 1), 2.5),  # noqa: DTZ001 - as above
]
SOURCE = [
    (1, "a|b~c", "2013-12-01", "2013-12-01 05:00:00.000007", 0.1 + 0.2),
    (2, None, None, None, None),
    (3, "", "1582-10-10", "1999-01-01 00:00:00.000000", 2.5),
]


@pytest.fixture
def sides(tmp_path):
    database = tmp_path / "source.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE things (id INTEGER, name TEXT, day DATE, seen_at TIMESTAMP, size REAL)")
        connection.executemany("INSERT INTO things VALUES (?, ?, ?, ?, ?)", SOURCE)
    (tmp_path / ".tidegate").mkdir()
    (tmp_path / "warehouse").mkdir()

    def fill(values):
        catalog = SqlCatalog(
            "lake", uri=f"sqlite:///{tmp_path}/.tidegate/catalog.db", warehouse=(tmp_path / "warehouse").as_uri()
        )
        catalog.create_namespace("air")
        table = catalog.create_table("air.things", SCHEMA)
        table.append(pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in values], SCHEMA))
        catalog.engine.dispose()
        return prove(tmp_path, database, ("things",))[0]

    return fill


def test_the_same_rows_are_equal_in_any_order(sides):
    proof = sides(list(reversed(ROWS)))
    assert proof.equal
    texts = ["1|a~1b~0c|2013-12-01|2013-12-01 05:00:00.000007|0.30000000000000004", "2|~N|~N|~N|~N"]
    texts.append(row_text(["3", "", "1582-10-10", "1999-01-01 00:00:00.000000", "2.5"]))
    assert proof.source == Fingerprint.of_texts(texts)


@pytest.mark.parametrize(
    "wrong",
    [
        ROWS[:2],
        [*ROWS, ROWS[0]],
        [*ROWS[:2], ROWS[1]],
        [(4, *ROWS[0][1:]), *ROWS[1:]],
        [(1, "a|b~c ", *ROWS[0][2:]), *ROWS[1:]],
        [(*ROWS[0][:4], 0.3), *ROWS[1:]],
        [ROWS[0], (2, "", None, None, None), ROWS[2]],
        [(*ROWS[0][:3], datetime(2013, 12, 1, 5, tzinfo=UTC).replace(tzinfo=None), ROWS[0][4]), *ROWS[1:]],
    ],
    ids=["lost", "twice", "twice for another", "key", "blank", "float", "null", "microseconds"],
)
def test_one_wrong_value_is_found(sides, wrong):
    assert not sides(wrong).equal
