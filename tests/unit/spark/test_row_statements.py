"""Which row of a key counts, and how events sort, as the statements say that Spark runs: DuckDB answers them."""

from __future__ import annotations

import pytest

from support.duck_frame import DuckFrame, connect
from tidegate.core.batch import Latest
from tidegate.core.schema import BIGINT, TEXT, Column
from tidegate.envelopes import _operations
from tidegate.spark import dataframe_ops

COLUMNS = {"id": "int", "at": "int", "made": "int", "no": "int"}
BY_TIME = Latest(key=("id",), order=("at", "no"))
COALESCED = Latest(key=("id",), cursor=("at", "made"), order=("no",))


def frame(*rows):
    return DuckFrame.of(connect(), COLUMNS, *rows)


@pytest.mark.parametrize(
    ("rule", "rows", "last"),
    [
        (BY_TIME, [(1, 1, 0, 9), (1, 2, 0, 0), (1, 0, 0, 8)], (1, 2, 0, 0)),
        (BY_TIME, [(1, 1, 0, 7), (1, 1, 0, 9), (1, 1, 0, 8)], (1, 1, 0, 9)),
        (BY_TIME, [(1, None, 0, 9), (1, -5, 0, 0)], (1, -5, 0, 0)),
        (BY_TIME, [(1, 1, 0, None), (1, 1, 0, -5)], (1, 1, 0, -5)),
        (COALESCED, [(1, None, 3, 0), (1, 2, 9, 0)], (1, None, 3, 0)),
        (COALESCED, [(1, None, 3, 0), (1, 4, 1, 0)], (1, 4, 1, 0)),
    ],
    ids=["later", "by the next column", "no time", "no number", "by the fallback", "not by the fallback"],
)
def test_the_last_row_of_a_key_counts(rule, rows, last):
    other = (2, 0, 0, 0)
    for given in (rows, rows[::-1]):
        held = frame(*given, other)
        assert sorted(dataframe_ops.latest(held, rule).collect()) == [last, other]
        assert dataframe_ops.ties(held, rule) == 0


def test_rows_that_nothing_orders_are_counted_by_key():
    held = frame((1, 1, 0, 0), (1, 1, 1, 0), (2, 1, 0, 0), (2, 1, 0, 0), (3, 1, 1, 0), (3, 2, 2, 0))
    assert dataframe_ops.ties(held, BY_TIME) == 1


@pytest.mark.parametrize("kind", [BIGINT, TEXT])
def test_orders_of_events_sort_as_their_values(kind):
    column = Column(name="at", type=kind)
    texts = ["", "9", "10", "a"] if kind is TEXT else [0, 9, 10, 99, 100, 2**62]
    held = DuckFrame.of(connect(), {"at": "varchar" if kind is TEXT else "bigint"}, *([text] for text in texts))
    orders = held.selectExpr("`at`", f"{_operations.orders([column])} AS o").collect()
    assert [value for value, _ in sorted(orders, key=lambda row: row[1])] == sorted(texts)
