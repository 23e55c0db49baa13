"""What is made of a query's times before and after a compaction, and which tables a connection can be asked about."""

from types import SimpleNamespace

import pytest

from tidegate.cli.commands.maintain import _query_text
from tidegate.core.ids import Connection, Target
from tidegate.engine.maintenance.measured import Measurement, QueryTime, _digest, compared, refused
from tidegate.errors import VerifyFailed

TARGET = Target(lake="lake", namespace=("shop",), table="orders")
TREE = Connection(name="tree", url="trino://tester@127.0.0.1:8080/lake")
STREAM = SimpleNamespace(name="orders", policies=SimpleNamespace(measured_by=TREE))


def side(seconds, *rows):
    return Measurement(seconds=seconds, answer=_digest(list(rows)))


def test_times_are_compared_where_the_answers_are_equal_in_any_order():
    found = compared(STREAM, TARGET, side(2.0, [1, "a"], [2, None]), side(0.5, (2, None), (1, "a")))
    assert (found, found.improvement) == (QueryTime(before=2.0, after=0.5, engine="tree"), 75)
    assert _query_text(found) == "the measured query took 2.00 s before and 0.50 s after, 75 % less (tree)"
    assert _query_text(QueryTime(before=1.0, after=1.5)).endswith("after, 50 % more (spark)")


@pytest.mark.parametrize("rows", [[(1, "a")], [(1, "a"), (2, "None")], [(1, "a"), (2, None), (2, None)], []])
def test_another_answer_is_an_error(rows):
    with pytest.raises(VerifyFailed, match=r"over lake\.shop\.orders gives another answer") as caught:
        compared(STREAM, TARGET, side(2.0, (1, "a"), (2, None)), side(0.5, *rows))
    assert "tidegate verify orders" in caught.value.hint


def test_a_connection_measures_tables_that_its_engine_reads():
    assert refused(TARGET.parts, TREE) is None
    assert "lake.a.b.orders has another name" in refused(("lake", "a", "b", "orders"), TREE)
    assert "reads the lake's tables" in refused(TARGET.parts, Connection(name="shop", url="sqlite:///shop.db"))
