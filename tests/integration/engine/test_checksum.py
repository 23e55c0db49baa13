"""Partitions found by checksum: the story of two days, every method, and what a table can look like meanwhile."""

import pytest

from support.shops import texts
from tidegate.core.outcome import Result

pytestmark = pytest.mark.spark

CREATE = {
    "sqlite": "create table sales (id integer primary key, day date, shop text, amount integer)",
    "postgresql": "create table sales (id bigint primary key, day date, shop text, amount bigint)",
}
METHODS = {
    "whole_table": {},
    "by_integer": {"column": "id", "modulus": 100},
    "by_date": {"column": "day", "period": "day"},
    "by_substr": {"column": "shop", "length": 1},
}


def stream(method: str = "by_date", *, write="replace", key=("id",), **options) -> dict:
    made = {
        "source": {"connection": "shop", "table": "sales"},
        "target": "lake.shop.sales",
        "strategy": {"kind": "checksum", "method": method, **METHODS[method], **options},
        "write": write,
        "verify": "moved",
    }
    return made | ({"key": list(key)} if key else {})


@pytest.fixture
def sales(shop, engine):
    """Eight days of a hundred rows each, rows without a day, negative numbers."""
    shop.sql(CREATE[engine])
    rows = ", ".join(
        f"({number}, '2025-01-0{1 + number // 100}', '{'abc'[number % 3]}{number % 7}', {number * 3})"
        for number in range(800)
    )
    shop.sql(f"insert into sales values {rows}", "insert into sales values (-5, null, null, 1), (-105, null, '', 2)")
    return shop


def loaded(workspace) -> list[tuple]:
    return texts(tuple(row.values()) for row in workspace.rows("shop.sales"))


def there(shop) -> list[tuple]:
    return texts(shop.rows("select id, day, shop, amount from sales"))


def run(workspace, spark, **options):
    outcome = workspace.run("sales", spark=spark, **options).streams[0]
    assert outcome.error is None, outcome.error
    return outcome


def checksums(workspace) -> dict:
    with workspace.project() as project:
        ledger = project.registry.ledger(project.streams("sales")[0].uid)
    return {label: entry.fingerprint.rows for label, entry in ledger.entries.items()}


def test_two_days(workspace, sales, engine, spark):
    workspace.write({"sales": stream()}, connections={"shop": {"url": sales.url}})
    first = run(workspace, spark)
    assert (first.rows_read, first.slices_changed, first.slices_total, first.verified) == (802, 9, 9, True)
    assert loaded(workspace) == there(sales)
    assert checksums(workspace) == {**{f"2025010{day}": 100 for day in range(1, 9)}, "~N": 2}
    assert run(workspace, spark).outcome is Result.UNCHANGED

    sales.sql(
        "insert into sales values (900, '2025-01-09', 'z', 9)",  # a new day
        "insert into sales values (901, '2025-01-08', 'z', 9)",  # a late row
        "update sales set amount = 0 where id = 150",  # an old partition, changed in place
        "delete from sales where day = '2025-01-04'",  # a partition that vanishes
        "update sales set day = '2025-01-06' where id = 555",  # a row that stays where it is
        "update sales set day = '2025-01-01' where id = 777",  # a row that moves
    )
    before = workspace.snapshots("shop.sales")
    second = run(workspace, spark)
    assert loaded(workspace) == there(sales)
    assert workspace.snapshots("shop.sales") == before + 1
    assert second.slices_changed == 5
    assert second.slices_total == 10
    assert set(checksums(workspace)) == {*(f"2025010{day}" for day in (1, 2, 3, 5, 6, 7, 8, 9)), "~N"}
    assert run(workspace, spark).outcome is Result.UNCHANGED


# Each method by one writer; the other half belongs to the full sample.
CASES = [
    pytest.param(method, write, marks=() if (place + number) % 2 else pytest.mark.exhaustive)
    for place, method in enumerate(METHODS)
    for number, write in enumerate(("replace", "merge"))
]


@pytest.mark.parametrize(("method", "write"), CASES)
def test_every_method_ends_equal(workspace, sales, engine, spark, method, write):
    workspace.write({"sales": stream(method, write=write)}, connections={"shop": {"url": sales.url}})
    run(workspace, spark)
    assert loaded(workspace) == there(sales)
    sales.sql(
        "update sales set shop = 'q1' where id between 10 and 20",
        "update sales set day = null where id = 30",
        "update sales set id = -7 where id = 40",
        "delete from sales where id = -105",
        "insert into sales values (5000, '1999-12-31', 'new', 0)",
    )
    run(workspace, spark)
    assert loaded(workspace) == there(sales)
    assert run(workspace, spark).outcome is Result.UNCHANGED


def test_another_method_moves_only_what_differs(workspace, sales, engine, spark):
    connections = {"shop": {"url": sales.url}}
    workspace.write({"sales": stream("by_integer")}, connections=connections)
    run(workspace, spark)
    sales.sql("update sales set amount = -1 where id = 150")
    workspace.write({"sales": stream("by_date", write="merge")}, connections=connections)
    outcome = run(workspace, spark)
    assert (outcome.slices_changed, outcome.rows_read) == (1, 100)
    assert loaded(workspace) == there(sales)
    assert run(workspace, spark).outcome is Result.UNCHANGED


@pytest.mark.slow
def test_a_load_that_is_tried_again_finds_the_columns_that_the_first_try_added(workspace, sales, spark):
    """A marked row that comes back looks like one that has moved, so the first try is given up once `note` is added."""
    marking = stream("by_integer", write="merge") | {"deletes": {"apply": "soft"}}
    workspace.write({"sales": marking}, connections={"shop": {"url": sales.url}})
    run(workspace, spark)
    sales.sql("delete from sales where id = 150")
    run(workspace, spark)
    back = "insert into sales values (150, '2025-01-02', 'b', 1, 'back')"
    sales.sql("alter table sales add column note text", back)
    assert run(workspace, spark).verified
    run(workspace, spark)  # its position vouches for the partitions again
    assert run(workspace, spark).outcome is Result.UNCHANGED
    there = [row for row in workspace.rows("shop.sales") if row["id"] == 150]
    assert [(row["note"], row["deleted_at"]) for row in there] == [("back", None)]
