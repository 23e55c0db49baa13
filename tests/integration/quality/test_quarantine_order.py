"""What waits in the quarantine keeps its place in the order of its stream: newer rows replace it, older ones do not."""

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.slow,
    pytest.mark.parametrize("bench", ["iceberg", pytest.param("delta", marks=pytest.mark.exhaustive)], indirect=True),
]

BAD = {"expression": "amount >= 0", "on_fail": "quarantine"}
ANY = {"expression": "amount > -1000000", "on_fail": "quarantine"}


def counts(outcome) -> tuple:
    assert (outcome.error, outcome.verified) == (None, True)
    return outcome.rows_read, outcome.rows_superseded, outcome.rows_quarantined


@pytest.mark.parametrize(
    ("strategy", "write"),
    [
        ("full", "replace"),
        ("snapshot_diff", "replace"),
        ({"kind": "checksum", "method": "by_substr", "column": "status", "length": 1}, "replace"),
    ],
    ids=["full", "snapshot_diff", "checksum"],
)
def test_rows_that_are_all_bad_wait_once_however_often_they_are_read(bench, spark, strategy, write):
    bench.shop.sql("delete from orders", "insert into orders values (1, -1, 'a', '2025-01-01'), (2, -2, 'b', NULL)")
    bench.stream([BAD], key=None, strategy=strategy, write=write)
    assert counts(bench.run(spark))[2] == 2
    for number in range(2):
        bench.shop.sql(f"update orders set updated_at = '2025-02-0{number + 1}'")
        assert bench.run(spark).error is None
        assert bench.waiting == [-2, -1]
    assert bench.verified(spark)
    bench.stream([ANY], key=None, strategy=strategy, write=write)
    done = bench.replay(spark)
    assert (done.rows, done.superseded, done.waiting) == (2, 0, 0)
    assert bench.good == [(1, -1), (2, -2)]
    assert bench.verified(spark)


def test_a_row_read_later_counts_even_if_its_cursor_is_the_same(bench, spark):
    bench.stream([BAD], strategy={"kind": "watermark", "column": "updated_at", "lookback": "1d"})
    assert bench.run(spark).error is None
    # Within one tick of the clock: the same cursor, read again by the lookback.
    bench.shop.sql("update orders set amount = -7 where id = 1")
    assert bench.run(spark).rows_quarantined == 2
    assert bench.good == [(1, 10), (3, 30), (4, None)]
    bench.stream([ANY])
    done = bench.replay(spark)
    assert (done.rows, done.superseded) == (2, 0)
    assert bench.good == [(1, -7), (2, -5), (3, 30), (4, None)]
    assert bench.verified(spark)


@pytest.mark.parametrize("apply", ["hard", "soft"])
def test_a_row_that_is_gone_at_the_source_waits_no_more(bench, spark, apply):
    deletes = {"detect": "key_diff", "apply": apply, "max_fraction": 1}
    bench.stream([BAD], deletes=deletes)
    assert bench.run(spark).error is None
    bench.shop.sql("update orders set amount = -1, updated_at = '2025-01-02' where id in (1, 3)")
    assert bench.run(spark).rows_quarantined == 2
    assert bench.waiting == [-5, -1, -1]
    # One that the table has an older row of, and one that it never had.
    bench.shop.sql("delete from orders where id in (1, 2)")
    assert bench.run(spark).error is None
    assert bench.waiting == [-1]
    bench.stream([ANY], deletes=deletes)
    assert bench.replay(spark).rows == 1
    assert [(row["id"], row["amount"]) for row in bench.live] == [(3, -1), (4, None)]
    assert bench.verified(spark)


def test_the_source_may_lose_every_row_while_all_of_them_wait(bench, spark):
    deletes = {"detect": "key_diff", "max_fraction": 1}
    bench.stream([{"expression": "id < 0", "on_fail": "quarantine"}], deletes=deletes)
    assert bench.run(spark).rows_quarantined == 4
    bench.shop.sql("delete from orders where id < 4")
    assert bench.run(spark).error is None
    bench.stream([ANY], deletes=deletes)
    assert bench.replay(spark).rows == 1
    assert bench.good == [(4, None)]


def test_of_rows_of_one_key_the_stream_s_own_order_decides(bench, spark):
    bench.shop.sql(
        "create table moves (id integer, amount integer, place integer, updated_at timestamp)",
        # One cursor: the tie rule says which is later.
        "insert into moves values (1, 1, 1, '2025-01-01'), (1, -2, 2, '2025-01-01'), "
        "(2, -1, 1, '2025-01-01'), (2, 2, 2, '2025-01-01'), (3, -1, 1, '2025-01-01'), (3, -2, 2, '2025-01-01')",
    )
    more = {
        "source": {"connection": "shop", "table": "moves"},
        "write": {"kind": "merge", "order_by": ["place"]},
    }
    bench.stream([BAD], **more)
    assert counts(bench.run(spark)) == (6, 0, 4)
    assert (bench.good, bench.waiting) == ([(1, 1), (2, 2)], [-2, -2])
    bench.stream([ANY], **more)
    assert bench.replay(spark).rows == 2
    assert bench.good == [(1, -2), (2, 2), (3, -2)]


def test_rows_that_nothing_orders_stop_a_load_whether_they_are_good_or_bad(bench, spark):
    bench.shop.sql(
        "create table moves (id integer, amount integer, updated_at timestamp)",
        "insert into moves values (1, 1, '2025-01-01'), (1, -2, '2025-01-01')",
    )
    bench.stream([BAD], source={"connection": "shop", "table": "moves"})
    assert bench.run(spark).error.code == "duplicate_keys"


def test_every_version_that_waits_takes_its_place_in_a_history(bench, spark):
    bench.stream([BAD], write="scd2")
    assert bench.run(spark).error is None
    for day, amount in enumerate([-11, 12, -13, 14], start=2):
        bench.shop.sql(f"update orders set amount = {amount}, updated_at = '2025-01-0{day}' where id = 1")
        assert bench.run(spark).error is None
        assert bench.verified(spark)
    bench.shop.sql("update orders set amount = -15, updated_at = '2025-01-06' where id = 1")
    assert bench.run(spark).error is None
    assert bench.verified(spark)
    assert bench.waiting == [-15, -13, -11, -5]
    bench.stream([ANY], write="scd2")
    done = bench.replay(spark)
    assert (done.rows, done.superseded, done.waiting) == (4, 0, 0)
    versions = sorted((str(row["valid_from"])[:10], row["amount"]) for row in bench.rows("orders") if row["id"] == 1)
    days = [f"2025-01-0{day}" for day in range(1, 7)]
    assert versions == list(zip(days, [10, -11, 12, -13, 14, -15], strict=True))
    ends = sorted(str(row["valid_to"])[:10] for row in bench.rows("orders") if row["id"] == 1)
    assert ends == [*days[1:], "None"]
    assert bench.verified(spark)


def test_versions_of_whole_snapshots_are_dated_by_the_load_that_read_them(bench, spark):
    strategy = "full" if bench.format == "iceberg" else "snapshot_diff"
    bench.stream([BAD], write="scd2", strategy=strategy)
    steps = [
        (),
        ("update orders set amount = -11 where id = 1",),
        ("update orders set amount = 12 where id = 1",),
        ("delete from orders where id in (2, 3)",),
        ("update orders set amount = -13 where id = 1",),
        ("update orders set amount = 44 where id = 4",),
    ]
    wait = [[-5], [-11, -5], [-11, -5], [-11, -5], [-13, -11, -5], [-13, -11, -5]]
    for step, expected in zip(steps, wait, strict=True):
        bench.shop.sql(*step)
        outcome = bench.run(spark)
        assert (outcome.error, outcome.verified) == (None, True)
        assert bench.waiting == expected
        assert bench.verified(spark)
    bench.stream([ANY], write="scd2", strategy=strategy)
    done = bench.replay(spark)
    assert (done.rows, done.waiting) == (3, 0)
    found = sorted(bench.rows("orders"), key=lambda row: (row["id"], row["valid_from"]))
    assert [(row["id"], row["amount"], row["is_current"]) for row in found] == [
        (1, 10, False),
        (1, -11, False),
        (1, 12, False),
        (1, -13, True),
        (2, -5, False),
        (3, 30, False),
        (4, None, False),
        (4, 44, True),
    ]
    assert [row["valid_to"] for row in found[:3]] == [row["valid_from"] for row in found[1:4]]
    assert found[4]["valid_to"] == found[5]["valid_to"], "they went in one load"
    assert found[4]["valid_from"] == found[0]["valid_from"] == found[5]["valid_from"], "they came in one load"
    assert bench.verified(spark)


def test_a_value_that_went_back_is_current_after_the_one_between_is_replayed(bench, spark):
    bench.stream([BAD], write="scd2", strategy="snapshot_diff")
    for amount in (10, -11, 10):
        bench.shop.sql(f"update orders set amount = {amount} where id = 1")
        assert counts(bench.run(spark))[2] == (2 if amount < 0 else 1)
    assert bench.waiting == [-11, -5]
    assert bench.verified(spark)
    bench.stream([ANY], write="scd2", strategy="snapshot_diff")
    assert bench.replay(spark).waiting == 0
    found = sorted((row for row in bench.rows("orders") if row["id"] == 1), key=lambda row: row["valid_from"])
    assert [(row["amount"], row["is_current"]) for row in found] == [(10, False), (-11, False), (10, True)]
    assert [row["valid_to"] for row in found[:2]] == [row["valid_from"] for row in found[1:]]
    assert bench.verified(spark)
