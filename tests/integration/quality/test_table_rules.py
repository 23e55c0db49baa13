"""Rules of the whole table judge the rows that the load leaves, also where they are asked before the write."""

from __future__ import annotations

import pytest

from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def refused(outcome) -> str:
    assert (outcome.outcome, outcome.error.code) == (Result.STOPPED, "check_failed")
    return outcome.error.message


@pytest.mark.parametrize("bench", ["delta"], indirect=True)
def test_keys_that_a_load_deletes_are_not_counted(bench, spark):
    deletes = {"detect": "key_diff", "max_fraction": 1}
    bench.stream([{"row_count": {"min": 3, "of": "table"}}], deletes=deletes)
    assert bench.run(spark).error is None
    bench.shop.sql("delete from orders where id in (1, 2)")
    assert "has 2 rows" in refused(bench.run(spark))
    bench.shop.sql("insert into orders values (5, 50, 'paid', '2025-01-05')")
    assert bench.run(spark).error is None
    assert [row[0] for row in bench.good] == [3, 4, 5]
