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


@pytest.mark.parametrize("bench", ["delta"], indirect=True)
def test_a_change_that_comes_late_is_not_current(bench, spark):
    bench.shop.sql(
        "create table changes (n integer primary key autoincrement, id integer, amount integer, updated_at timestamp)",
        "insert into changes values (1, 1, 10, '2025-01-10')",
    )
    bench.stream(
        [{"unique": "amount"}],
        source={"connection": "shop", "table": "changes"},
        strategy={"kind": "sequence", "column": "n"},
        write={"kind": "scd2", "sequence_by": ["updated_at"]},
    )
    assert bench.run(spark).error is None
    bench.shop.sql("insert into changes values (2, 1, 20, '2025-01-05'), (3, 2, 20, '2025-01-11')")
    assert bench.run(spark).error is None, "20 was the amount of key 1 before, and is that of key 2 alone"
    bench.shop.sql("insert into changes values (4, 1, 30, '2025-01-06'), (5, 3, 10, '2025-01-11')")
    assert "1 row of the table has duplicate values in (amount)" in refused(bench.run(spark))


@pytest.mark.parametrize("bench", ["delta"], indirect=True)
def test_a_version_whose_next_one_waits_is_still_current(bench, spark):
    rules = [{"unique": "amount"}, {"expression": "coalesce(amount, 0) >= 0", "on_fail": "quarantine"}]
    bench.stream(rules, strategy="snapshot_diff", write="scd2")
    assert bench.run(spark).rows_quarantined == 1
    bench.shop.sql("update orders set amount = -1 where id = 1", "update orders set amount = 10 where id = 3")
    assert "1 row of the table has duplicate values in (amount)" in refused(bench.run(spark))
    bench.shop.sql("update orders set amount = 40 where id = 3")
    assert bench.run(spark).error is None
