"""Partitions that are the source's own: a table that PostgreSQL keeps in ranges of a column."""

import pytest

from support.shops import PostgresShop, texts
from support.workspace import Workspace
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SALES = (
    "create table sales (id bigint, day {kind}, amount int) partition by range (day)",
    "create table sales_old partition of sales for values from (minvalue) to ('2025-01-01')",
    "create table sales_jan partition of sales for values from ('2025-01-01') to ('2025-02-01') partition by list (id)",
    "create table sales_jan_all partition of sales_jan default",
    "create table sales_mar partition of sales for values from ('2025-03-01') to ('2025-04-01')",
    "create table sales_rest partition of sales default",
    "insert into sales select n, date '2024-12-30' + n / 10, n from generate_series(0, 999) n",
    "insert into sales values (-1, null, 1), (-2, '0001-01-01', 2)",
)


@pytest.fixture
def shop(pg_url) -> PostgresShop:
    return PostgresShop(url=pg_url)


@pytest.fixture
def workspace(tmp_path, shop) -> Workspace:
    return Workspace(folder=tmp_path)


def write(workspace, shop, **stream) -> None:
    made = {
        "source": {"connection": "shop", "table": "sales"},
        "target": "lake.shop.sales",
        "strategy": {"kind": "checksum", "method": "by_range"},
        "write": "replace",
    }
    workspace.write({"sales": made | stream}, connections={"shop": {"url": shop.url}})


def run(workspace, spark=None):
    (outcome,) = workspace.run("sales", spark=spark).streams
    assert outcome.error is None, outcome.error
    return outcome


def refused(workspace) -> str:
    (outcome,) = workspace.run("sales").streams
    assert outcome.error is not None
    assert not outcome.spark_started
    return f"{outcome.error.code}: {outcome.error.message}"


def kept(workspace) -> dict[str, int]:
    with workspace.project() as project:
        ledger = project.registry.ledger(project.streams("sales")[0].uid)
    return {label: entry.fingerprint.rows for label, entry in ledger.entries.items()}


def equal(workspace, shop) -> bool:
    there = shop.rows("select id, day, amount from sales")
    return texts(tuple(row.values()) for row in workspace.rows("shop.sales")) == texts(there)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["date", pytest.param("timestamptz", marks=pytest.mark.exhaustive)])
def test_what_differs_of_the_sources_own_ranges_is_loaded(workspace, shop, spark, kind):
    end = "" if kind == "date" else " 00:00:00.000000"
    shop.sql(*(each.format(kind=kind) for each in SALES))
    write(workspace, shop)
    assert run(workspace, spark).slices_changed == 6
    january, february, march, april = (f"2025-0{month}-01{end}" for month in (1, 2, 3, 4))
    assert kept(workspace) == {f"<{january}": 21, january: 310, february: 280, march: 310, april: 80, "~N": 1}
    assert equal(workspace, shop)

    shop.sql(
        "update sales set amount = 0 where id = 50",
        "update sales set day = '2025-03-02' where id = 330",  # from what no range was made for
        "delete from sales where day is null",
    )
    outcome = run(workspace, spark)
    assert (outcome.slices_changed, outcome.rows_read, outcome.verified) == (4, 310 + 279 + 311, True)
    assert equal(workspace, shop)

    # Another range: the same rows, cut otherwise, move nothing.
    shop.sql("alter table sales detach partition sales_rest", "delete from sales_rest where day >= '2025-04-01'")
    shop.sql("create table sales_apr partition of sales for values from ('2025-04-01') to ('2025-05-01')")
    shop.sql("alter table sales attach partition sales_rest default")
    shop.sql("insert into sales select n, date '2024-12-30' + n / 10, n from generate_series(920, 999) n")
    assert run(workspace, spark).rows_read == 0
    shop.sql("update sales set amount = 0 where id = 999")
    assert run(workspace, spark).rows_read == 80
    assert equal(workspace, shop)

    workspace.forget_registry()
    with workspace.project(spark) as project:
        (view,) = project.state.repair("sales")
    assert view.agree
    assert kept(workspace)[april] == 80
    outcome = run(workspace)
    assert (outcome.outcome, outcome.spark_started) == (Result.UNCHANGED, False)


@pytest.mark.slow
def test_ranges_of_numbers_by_key_into_a_table_laid_out_otherwise(workspace, shop, spark):
    shop.sql(
        "create table sales (id int primary key, day date, amount int) partition by range (id)",
        "create table sales_0 partition of sales for values from (-100) to (0)",
        "create table sales_1 partition of sales for values from (0) to (1000)",
        "insert into sales select n, null, n from generate_series(-100, 999) n",
    )
    write(workspace, shop, key=["id"], write="merge", layout={"partition_by": ["bucket(4, id)"]})
    assert run(workspace, spark).slices_changed == 2
    shop.sql("update sales set amount = 7 where id = -100", "delete from sales where id = -1")
    outcome = run(workspace, spark)
    assert (outcome.slices_changed, outcome.rows_read, outcome.rows_updated, outcome.rows_deleted) == (1, 99, 1, 1)
    assert equal(workspace, shop)


@pytest.mark.parametrize(
    ("partitioned", "reason"),
    [
        ("", "plan: sales is not a table that is partitioned by ranges of one column"),
        ("partition by list (id)", "is not a table that is partitioned by ranges of one column"),
        ("partition by hash (id)", "is not a table that is partitioned by ranges of one column"),
        ("partition by range (id, day)", "is not a table that is partitioned by ranges of one column"),
        ("partition by range ((id + 1))", "is not a table that is partitioned by ranges of one column"),
        ("partition by range (code)", "method by_range: code is text, not an integer, a date or a timestamp"),
    ],
)
def test_a_table_that_is_kept_otherwise_is_refused(workspace, shop, partitioned, reason):
    shop.sql(f"create table sales (id int, day date, code text) {partitioned}")
    write(workspace, shop)
    assert reason in refused(workspace)


def test_a_query_has_no_ranges(workspace, shop):
    write(workspace, shop, source={"connection": "shop", "query": "select * from sales"})
    found = workspace.cli("check", "--json")
    assert found.returncode == 2
    assert "postgresql query has none; use by_integer, by_date or by_substr" in found.stdout
