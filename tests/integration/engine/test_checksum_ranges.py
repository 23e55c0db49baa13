"""Partitions that are the source's own: a table that PostgreSQL keeps in ranges of a column."""

import pytest

from support.shops import PostgresShop, texts
from tidegate.core.ids import Connection
from tidegate.errors import PlanError
from tidegate.sources.database import Database
from tidegate.strategies.checksum import Checksum, Method

SALES = (
    "create table t (id bigint, day date, amount int) partition by range (day)",
    "create table t_old partition of t for values from (minvalue) to ('2025-01-01')",
    "create table t_jan partition of t for values from ('2025-01-01') to ('2025-02-01') partition by list (id)",
    "create table t_jan_all partition of t_jan default",
    "create table t_mar partition of t for values from ('2025-03-01') to ('2025-04-01')",
    "create table t_rest partition of t default",
    "insert into t select n, date '2024-12-30' + n / 10, n from generate_series(0, 999) n",
    "insert into t values (-1, null, 1), (-2, '0001-01-01', 2)",
)


def kept(bench):
    with bench.workspace.project() as project:
        ledger = project.registry.ledger(project.streams("t")[0].uid)
    return {label: entry.fingerprint.rows for label, entry in ledger.entries.items()}


@pytest.mark.spark
@pytest.mark.postgres
def test_what_differs_of_the_sources_own_ranges_is_loaded(pg_bench):
    def moved():
        outcome = pg_bench.run()
        assert outcome.error is None, outcome.error
        assert texts(pg_bench.rows("id", "day", "amount")) == texts(pg_bench.source())
        return outcome.slices_changed, outcome.rows_read

    pg_bench.sql(*SALES)
    pg_bench.write({"kind": "checksum", "method": "by_range"}, "replace")
    assert moved() == (6, 1002)
    january, february, march, april = (f"2025-0{month}-01" for month in (1, 2, 3, 4))
    assert kept(pg_bench) == {f"<{january}": 21, january: 310, february: 280, march: 310, april: 80, "~N": 1}
    pg_bench.sql(
        "update t set amount = 0 where id = 50",
        "update t set day = '2025-03-02' where id = 330",  # from what no range was made for
        "delete from t where day is null",
    )
    assert moved() == (4, 310 + 279 + 311)

    # Another range: the same rows, cut otherwise, move nothing.
    pg_bench.sql(
        "alter table t detach partition t_rest",
        "delete from t_rest where day >= '2025-04-01'",
        "create table t_apr partition of t for values from ('2025-04-01') to ('2025-05-01')",
        "alter table t attach partition t_rest default",
        "insert into t select n, date '2024-12-30' + n / 10, n from generate_series(920, 999) n",
    )
    assert moved()[1] == 0
    pg_bench.sql("update t set amount = 0 where id = 999")
    assert moved()[1] == 80
    pg_bench.workspace.forget_registry()
    with pg_bench.project() as project:
        (view,) = project.state.repair("t")
    assert (view.agree, kept(pg_bench)[april]) == (True, 80)
    pg_bench.unchanged()


@pytest.mark.postgres
def test_a_table_that_is_kept_otherwise_has_no_ranges(pg_url):
    kinds = {
        "": "t0 is not a table that is partitioned by ranges of one column",
        "partition by list (id)": "is not a table that is partitioned by ranges of one column",
        "partition by hash (id)": "is not a table that is partitioned by ranges of one column",
        "partition by range (id, day)": "is not a table that is partitioned by ranges of one column",
        "partition by range ((id + 1))": "is not a table that is partitioned by ranges of one column",
        "partition by range (code)": "method by_range: code is text, not an integer, a date or a timestamp",
    }
    shop = PostgresShop(url=pg_url)
    shop.sql(*(f"create table t{n} (id int, day date, code text) {kind}" for n, kind in enumerate(kinds)))
    for number, reason in enumerate(kinds.values()):
        with (
            Database(connection=Connection(name="shop", url=pg_url), table=f"t{number}").probe() as probe,
            pytest.raises(PlanError, match=reason),
        ):
            Checksum(method=Method.BY_RANGE).detect(probe, None, None)
