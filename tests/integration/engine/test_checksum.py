"""Partitions found by checksum: what is moved, what fails alone, and what a table can look like meanwhile."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import expr

from integration.engine.conftest import at
from support.misread import misread
from support.shops import texts
from tidegate.core.outcome import Result
from tidegate.engine import partitions
from tidegate.engine.events import Moment, Stage
from tidegate.errors import ConfigError

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BY_DAY = {"kind": "checksum", "method": "by_date", "column": "day", "period": "day"}
BY_TWENTY = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 20}
ALL = {"20250101": 10, "20250102": 10, "20250103": 10, "20250104": 10, "~N": 1}


@pytest.fixture
def sales(bench):
    """Four days of ten rows each, and a row without a day."""
    rows = ", ".join(f"({number}, '2025-01-0{1 + number // 10}', {number})" for number in range(40))
    bench.sql(
        "create table t (id integer, day date, amount integer)",
        f"insert into t values {rows}",
        "insert into t values (99, null, 0)",
    )
    return bench


def equal(bench):
    return texts(bench.rows("id", "day", "amount")) == texts(bench.source())


def kept(bench):
    with bench.workspace.project() as project:
        ledger = project.registry.ledger(project.streams("t")[0].uid)
    return {label: entry.fingerprint.rows for label, entry in ledger.entries.items()}


def moved(bench):
    outcome = bench.loaded()
    assert equal(bench)
    return outcome.slices_changed, outcome.slices_total, outcome.rows_read


def test_partitions_through_their_life(sales):
    sales.write(BY_DAY, "replace")
    assert moved(sales) == (5, 5, 41)
    assert kept(sales) == ALL
    sales.unchanged()
    sales.sql(
        "insert into t values (900, '2025-01-05', 9), (901, '2025-01-02', 9)",  # a new day, and a late row
        "update t set amount = -1 where id = 5",
        "delete from t where day = '2025-01-04'",
        "update t set day = '2025-01-02' where id = 25",
    )
    before = sales.workspace.snapshots("out.t")
    assert moved(sales) == (5, 6, 32)
    assert sales.workspace.snapshots("out.t") == before + 1
    assert kept(sales) == {"20250101": 10, "20250102": 12, "20250103": 9, "20250105": 1, "~N": 1}
    sales.unchanged()

    # What Spark measures in the table is what the source is compared with.
    sales.workspace.forget_registry()
    sales.unchanged()
    sales.workspace.forget_registry()
    sales.sql("update t set amount = -2 where id = 15", "delete from t where id = 900")
    assert moved(sales) == (2, 5, 12)
    sales.write(BY_TWENTY)
    sales.sql("update t set amount = -3 where id = 25")
    assert moved(sales) == (1, 4, 10)
    assert kept(sales) == {"0": 20, "1": 10, "4": 1, "45": 1}
    sales.unchanged()


def test_a_repair_measures_by_the_method_that_the_project_names(sales):
    sales.write(BY_DAY, "replace")
    sales.loaded()

    def repair():
        with sales.project() as project:
            (view,) = project.state.repair("t")
        assert view.agree
        return view.table["sequence"]

    sales.workspace.forget_registry()
    assert (repair(), kept(sales)) == (1, ALL)
    with closing(sqlite3.connect(sales.folder / ".tidegate" / "registry.db")) as registry:
        filters = dict(registry.execute("select extract_group_id, source_filter from checksums").fetchall())
    assert len(sales.shop.rows(f"select * from t where {filters['20250102']}")) == 10
    # Rows that were changed behind the position are found, and the position vouches for what is there.
    sales.by_hand("delete from {table} where id = 12")
    sales.write(BY_TWENTY, "replace")
    assert (repair(), kept(sales)) == (2, {"0": 19, "1": 20, "4": 1})
    assert moved(sales) == (1, 3, 20)
    sales.unchanged()


def test_a_table_of_somebody_else_is_adopted_and_only_what_differs_is_moved(sales):
    sales.write(BY_DAY, "replace")
    (sales.folder / ".tidegate").mkdir()  # where the lake's catalog lies
    values = ", ".join(f"({n}, date'2025-01-0{1 + n // 10}', {n})" for n in range(40) if n != 22)
    sales.by_hand(
        "create namespace if not exists lake.out",
        "create table {table} (id bigint, day date, amount bigint) using iceberg",
        f"insert into {{table}} values {values}, (99, null, 0), (777, date'2024-12-31', 7)",
    )
    assert sales.refused()[0] == "position_missing"
    with sales.project() as project:
        with pytest.raises(ConfigError, match="no cursor"):
            project.state.adopt("t", "5")
        assert project.state.adopt("t").agree
    assert moved(sales) == (2, 6, 10), "a day with a row less, a day with a row too many"
    assert kept(sales) == ALL
    sales.unchanged()


def test_a_load_that_is_tried_again_finds_the_columns_that_the_first_try_added(sales):
    """A marked row that comes back looks like one that has moved, so the first try is given up once `note` is added."""
    sales.write(BY_TWENTY, deletes={"apply": "soft"})
    sales.loaded()
    sales.sql("delete from t where id = 15")
    sales.loaded()
    sales.sql("alter table t add column note text", "insert into t values (15, '2025-01-02', 1, 'back')")
    sales.loaded()
    sales.run()  # its position vouches for the partitions again
    sales.unchanged()
    assert [row[1:] for row in sales.rows("id", "note", "deleted_at") if row[0] == 15] == [("back", None)]


# What fails alone


def wrong_on(monkeypatch, day):
    """Rows of one day change on their way."""

    def wrong(rows):
        _, when, amount, *_ = rows.columns
        return rows.withColumn(amount, expr(f"{amount} + int(coalesce(CAST({when} AS date) = DATE '{day}', false))"))

    misread(monkeypatch, wrong)


def amounts(bench):
    return dict(bench.rows("id", "amount"))


def test_a_partition_whose_rows_are_wrong_or_ambiguous_fails_alone(sales, monkeypatch):
    sales.write(BY_DAY, "replace")
    sales.loaded()
    sales.sql("update t set amount = amount + 100")
    wrong_on(monkeypatch, "2025-01-02")
    report = sales.workspace.run("t", spark=sales.spark)
    (outcome,) = report.streams
    assert (outcome.outcome, outcome.error.code, report.exit_code) == (Result.FAILED, "verify_failed", 3)
    assert outcome.error.message.startswith("1 of 5 partitions were not loaded, the others were; partition 20250102:")
    assert (outcome.slices_changed, outcome.slices_total) == (4, 5)
    assert amounts(sales) == {n: n + 100 * (not 10 <= n < 20) for n in range(40)} | {99: 100}
    assert set(sales.workspace.table("out.t").metadata.refs) == {"main"}
    monkeypatch.undo()
    assert moved(sales) == (1, 5, 10)
    sales.unchanged()

    sales.write(BY_DAY)
    sales.sql("update t set amount = amount + 1", "insert into t values (15, '2025-01-02', 0)")
    code, message, _ = sales.refused()
    assert (code, "partition 20250102" in message) == ("duplicate_keys", True)
    assert amounts(sales) == {n: n + 101 - (10 <= n < 20) for n in range(40)} | {99: 101}
    # Of a key in two partitions each row takes the place of the other one: it is told in every run.
    sales.sql("update t set day = '2025-01-03' where amount = 0 and id = 15")
    assert [sales.refused()[0] for _ in range(2)] == ["duplicate_keys"] * 2
    sales.sql("delete from t where amount = 0 and id = 15")
    assert sales.run().error is None
    assert equal(sales)


def test_a_file_that_changes_before_it_is_verified_is_never_published(sales):
    sales.write(BY_DAY, "replace")
    sales.loaded()
    before, known = sales.rows(), set(sales.location.rglob("*.parquet"))
    sales.sql("update t set amount = amount + 100 where id < 4")

    def damage():
        for file in set(sales.location.rglob("*.parquet")) - known:
            rows = pq.read_table(file)
            index = rows.schema.get_field_index("amount")
            pq.write_table(rows.set_column(index, rows.schema.field("amount"), [[0] * len(rows)]), file)
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)

    assert sales.run(on_event=at(Stage.VERIFY, Moment.START, damage)).outcome is Result.FAILED
    assert sales.rows() == before
    assert set(sales.workspace.table("out.t").metadata.refs) == {"main"}
    assert moved(sales) == (1, 5, 10)


@pytest.mark.parametrize("write", ["replace", "merge"])
def test_each_group_is_a_commit_of_its_own_and_a_row_that_moves_into_the_lookback_is_there_once(
    sales, monkeypatch, write
):
    monkeypatch.setattr(partitions, "GROUP_ROWS", 10)
    sales.write(BY_DAY, write)
    assert moved(sales) == (5, 5, 41)
    assert sales.workspace.snapshots("out.t") == 1 + 5, "the empty table, then a commit a group"
    sales.sql("update t set amount = 0 where id in (1, 15)", "delete from t where id >= 30")
    assert moved(sales)[0] == 4
    sales.unchanged()
    sales.loaded(full_refresh=True)
    assert equal(sales)
    sales.sql("update t set day = '2025-01-03' where id = 0")
    outcome = sales.loaded(options={"lookback": "20250103"})
    assert (outcome.slices_changed, outcome.write) == (1, "merge_partitions")
    assert equal(sales)


def test_a_table_that_was_loaded_from_a_day_on_is_compared_from_there(sales):
    sales.write({**BY_DAY, "lookback": "20250103"}, "replace")
    assert sales.loaded().rows_read == 21
    found = sales.verify(level="rows")
    assert (found.error, found.equal, found.source_rows, found.target_rows) == (None, True, 21, 21)
    sales.sql("update t set id = 50 where id = 35", "insert into t values (0, '2025-01-01', 7)")
    sales.loaded()
    assert sales.verify(level="rows").equal
