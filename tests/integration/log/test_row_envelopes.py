"""Rows of change tables and of AWS DMS as events: their order, and which of them nobody may guess."""

from __future__ import annotations

from datetime import datetime

import pytest

from tidegate.core.log import ORIGIN, RAW, REFUSED
from tidegate.core.schema import INT, TEXT, TIMESTAMP, Column, Schema
from tidegate.envelopes.dms import Dms
from tidegate.envelopes.sqlserver_cdc import MOVED, SqlserverCdc
from tidegate.spark.dataframe_ops import DELETED, ORDER

pytestmark = pytest.mark.spark


def events(spark, envelope, types, rows):
    """What the envelope makes of rows of these columns, by the events' order."""
    columns = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in types.items()))
    ddl = ", ".join(f"`{name}` {kind.spark}" for name, kind in types.items())
    read = spark.createDataFrame(rows, ddl)
    for name in (REFUSED, ORIGIN, RAW):
        read = read.selectExpr("*", f"CAST(NULL AS string) AS {name}")
    return envelope.events(read, columns, envelope.schema(columns)).orderBy(ORDER).collect()


def change(operation, lsn, within, key, code):
    return (operation, f"0x{lsn:020X}", f"0x{within:020X}", key, code)


@pytest.mark.parametrize("key", [("id",), ("id", "code")])
def test_an_update_that_changes_the_key_of_the_stream_is_refused(spark, key):
    types = {"__$operation": INT, "__$start_lsn": TEXT, "__$seqval": TEXT, "id": INT, "code": TEXT}
    rows = [
        *(change(2, 1, number, number, "a") for number in (1, 2, 3, 4)),
        change(3, 2, 1, 1, "a"), change(4, 2, 1, 1, "a"),
        change(3, 2, 2, 2, "a"), change(4, 2, 2, 9, "a"),
        change(1, 3, 1, 3, "a"), change(2, 3, 1, 8, "a"),
        change(4, 4, 1, 4, "a"),
    ]  # fmt: skip
    found = events(spark, SqlserverCdc().keyed_by(key), types, rows)
    assert [(row["id"], row[DELETED], row[REFUSED]) for row in found] == [
        *((number, False, None) for number in (1, 2, 3, 4, 1)),
        (9, False, MOVED),
        (3, True, None),
        (8, False, None),
        (4, False, None),
    ]
    code = [change(2, 1, 1, 1, "a"), change(3, 2, 1, 1, "a"), change(4, 2, 1, 1, "b")]
    (came, moved) = events(spark, SqlserverCdc().keyed_by(("code",)), types, code)
    assert (came[REFUSED], moved[REFUSED]) == (None, MOVED)


def test_a_row_of_the_full_load_of_dms_is_older_than_any_change(spark):
    """It has the time of its transfer, a change that of its commit."""
    rows = [
        ("U", 1, "2025-01-01 10:05:00.000001"),
        ("D", 2, "2025-01-01 10:06:00"),
        ("I", 4, "2025-01-01 10:05:00"),
        (None, 1, "2025-01-01 10:10:00"),
        (None, 2, "2025-01-01 10:20:00"),
        ("X", 3, "2025-01-01 10:30:00"),
        ("U", 5, None),
    ]
    rows = [(op, key, at and datetime.fromisoformat(at)) for op, key, at in rows]
    found = events(spark, Dms(sequence=("at",)), {"Op": TEXT, "id": INT, "at": TIMESTAMP}, rows)
    words = "its operation is not one of INSERT, UPDATE, DELETE, TRUNCATE or their first letters"
    assert [(row["id"], row[DELETED], row[REFUSED]) for row in found] == [
        (5, False, "it has no order"),
        (1, False, None),
        (2, False, None),
        (4, False, None),
        (1, False, None),
        (2, True, None),
        (3, False, words),
    ]
