"""What the checksum strategy refuses, what fails alone, and what it does with tables that are laid out otherwise."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import expr

from support.misread import misread
from support.shops import texts
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine import partitions
from tidegate.engine.events import Event, Moment, Stage
from tidegate.errors import ConfigError

CREATE = "create table sales (id integer {}, day date, shop text, amount integer, weight double, price decimal(9,0))"
BY_DAY = {"method": "by_date", "column": "day", "period": "day"}


@pytest.fixture
def sales(tmp_path: Path) -> SqliteShop:
    """Three days of four rows, told apart by no index."""
    shop = SqliteShop(path=tmp_path / "sales.db")
    shop.sql(CREATE.format(""))
    rows = ", ".join(f"({n}, '2025-01-0{1 + n // 4}', '{'ab'[n % 2]}{n}', {n}, 0.5, null)" for n in range(12))
    shop.sql(f"insert into sales values {rows}")
    return shop


@pytest.fixture
def lake(tmp_path: Path, sales: SqliteShop) -> Workspace:
    return Workspace(folder=tmp_path)


def stream(strategy=BY_DAY, *, write="replace", key=("id",), **rest) -> dict:
    made = {
        "source": {"connection": "shop", "table": "sales"},
        "target": "lake.shop.sales",
        "strategy": {"kind": "checksum", **strategy},
        "write": write,
        **rest,
    }
    return made | ({"key": list(key)} if key else {})


def write(lake: Workspace, sales: SqliteShop, *arguments, **options) -> None:
    lake.write({"sales": stream(*arguments, **options)}, connections={"shop": {"url": sales.url}})


def run(lake: Workspace, spark=None, **options):
    return lake.run("sales", spark=spark, **options).streams[0]


def loaded(lake: Workspace) -> list[tuple]:
    return texts((row["id"], row["day"], row["shop"], row["amount"]) for row in lake.rows("shop.sales"))


def there(sales: SqliteShop) -> list[tuple]:
    return texts(sales.rows("select id, day, shop, amount from sales"))


# What the project file alone shows


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ({"method": "by_integer", "column": "id", "modulus": 0}, "modulus must be 1 or more"),
        ({"method": "by_integer", "column": "id"}, "needs modulus"),
        ({"method": "by_date", "column": "day", "period": "days"}, "day"),
        ({"method": "by_date", "column": "day", "period": "mounth"}, "month"),
        ({"method": "by_dates", "column": "day", "period": "day"}, "by_date"),
        ({**BY_DAY, "modulus": 7}, "has no modulus"),
        ({**BY_DAY, "lookback": "LAST_WEEK"}, "neither a day YYYYMMDD nor LAST_n_DAYS"),
        ({**BY_DAY, "lookback": "20251301"}, "neither a day"),
        ({"lookback": "LAST_7_DAYS"}, "needs method: by_date"),
        ({**BY_DAY, "lookbak": "LAST_7_DAYS"}, "lookback"),
    ],
)
def test_options_are_refused_where_they_stand(lake, sales, strategy, told):
    write(lake, sales, strategy)
    with pytest.raises(ConfigError) as refused:
        lake.run("sales")
    problem = refused.value
    assert told in f"{problem.message} {problem.hint}"
    assert "tidegate.yaml" in str(problem)
    assert problem.exit_code == 2
    assert not (lake.folder / "warehouse").exists()


# What the source shows, before Spark starts


@pytest.mark.parametrize(
    ("strategy", "code", "exit_code", "told"),
    [
        ({**BY_DAY, "column": "shop"}, "plan", 4, "not a date"),
        ({**BY_DAY, "column": "weight"}, "plan", 4, "no fingerprint covers"),
        ({**BY_DAY, "column": "nothing"}, "column_missing", 2, "no column 'nothing'; it has id, day"),
        ({**BY_DAY, "lookback": "99991231"}, "plan", 4, "is in the future"),
        ({**BY_DAY, "period": "hour"}, "plan", 4, "no hours"),
        ({"method": "by_integer", "column": "day", "modulus": 5}, "plan", 4, "not an integer"),
        ({"method": "by_integer", "column": "price", "modulus": 5}, "plan", 4, "no exact order in this database"),
        ({"method": "by_substr", "column": "id", "length": 1}, "plan", 4, "not a string"),
        ({**BY_DAY, "max_rows": 3}, "plan", 4, "partition 20250101 has 4 rows, more than max_rows: 3"),
        ({"max_rows": 11}, "plan", 4, "has 12 rows, more than max_rows: 11"),
    ],
)
def test_columns_and_sizes_are_refused_before_spark_starts(lake, sales, strategy, code, exit_code, told):
    write(lake, sales, strategy)
    report = lake.run("sales")
    outcome = report.streams[0]
    assert told in outcome.error.message
    assert outcome.error.code.startswith(code)
    assert report.exit_code == exit_code
    assert outcome.error.hint
    assert not outcome.spark_started
    assert not (lake.folder / "warehouse").exists()


# What a table shows


@pytest.mark.slow
@pytest.mark.spark
def test_a_user_s_layout_is_compared_by_key(lake, sales, spark):
    layout = {"partition_by": ["bucket(2, id)"]}
    write(lake, sales, layout=layout)
    run(lake, spark)
    sales.sql("update sales set amount = 100 where id = 5", "delete from sales where id = 0")
    outcome = run(lake, spark)
    assert (outcome.outcome, outcome.write) == (Result.LOADED, "merge_partitions")
    assert (outcome.rows_updated, outcome.rows_deleted, outcome.rows_inserted) == (1, 1, 0)
    assert loaded(lake) == there(sales)

    write(lake, sales, layout=layout, key=())
    sales.sql("update sales set amount = 200 where id = 5")
    outcome = run(lake, spark)
    assert (outcome.outcome, outcome.write, outcome.verified) == (Result.LOADED, "replace_files", True)
    assert loaded(lake) == there(sales)


@pytest.mark.spark
def test_prefixes_of_a_table_that_is_laid_out_by_the_whole_text(lake, sales, spark):
    layout = {"partition_by": ["shop"]}
    sales.sql("update sales set shop = null where id = 3")
    write(lake, sales, {"method": "by_substr", "column": "shop", "length": 1}, layout=layout)
    run(lake, spark)
    sales.sql("update sales set amount = 100 where id < 6")
    assert run(lake, spark).error is None
    assert loaded(lake) == there(sales)


@pytest.mark.spark
def test_a_column_that_the_table_does_not_have_is_refused(lake, sales, spark):
    write(lake, sales)
    run(lake, spark)
    sales.sql("alter table sales add column month date", "update sales set month = '2025-01-01'")
    write(lake, sales, {**BY_DAY, "column": "month", "period": "month"})
    before = lake.snapshots("shop.sales")
    refused = run(lake, spark)
    assert refused.error.exit_code == 4
    assert "has no column 'month'" in refused.error.message
    assert "--full-refresh" in refused.error.hint
    assert lake.snapshots("shop.sales") == before
    assert run(lake, spark, full_refresh=True).error is None
    assert loaded(lake) == there(sales)
    assert run(lake, spark).outcome is Result.UNCHANGED


# What fails alone


def twisted(monkeypatch, day: str) -> None:
    """Rows of one day change on their way."""

    def wrong(rows):
        _, when, _, amount, *_ = rows.columns
        return rows.withColumn(amount, expr(f"{amount} + int(CAST({when} AS date) = DATE '{day}')"))

    misread(monkeypatch, wrong)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("how", ["replace", "merge"])
def test_a_partition_whose_rows_are_wrong_fails_alone(lake, sales, spark, monkeypatch, how):
    write(lake, sales, write=how)
    run(lake, spark)
    sales.sql("update sales set amount = amount + 100")
    twisted(monkeypatch, "2025-01-02")
    report = lake.run("sales", spark=spark)
    outcome = report.streams[0]
    assert (outcome.outcome, outcome.error.code, report.exit_code) == (Result.FAILED, "verify_failed", 3)
    assert outcome.error.message.startswith("1 of 3 partitions were not loaded, the others were; partition 20250102:")
    assert (outcome.slices_changed, outcome.slices_total) == (2, 3)
    amounts = {row["id"]: row["amount"] for row in lake.rows("shop.sales")}
    assert amounts == {number: number + (0 if 4 <= number < 8 else 100) for number in range(12)}
    assert set(lake.table("shop.sales").metadata.refs) == {"main"}

    monkeypatch.undo()
    again = run(lake, spark)
    assert (again.slices_changed, again.error) == (1, None)
    assert loaded(lake) == there(sales)
    assert run(lake).outcome is Result.UNCHANGED


@pytest.mark.slow
@pytest.mark.spark
def test_two_rows_of_one_key_stop_their_partition_alone(lake, sales, spark):
    write(lake, sales, write="merge")
    run(lake, spark)
    sales.sql(
        "update sales set amount = amount + 100",
        "insert into sales values (5, '2025-01-02', 'twice', 0, 0, null)",
    )
    report = lake.run("sales", spark=spark)
    outcome = report.streams[0]
    assert (outcome.outcome, outcome.error.code, report.exit_code) == (Result.STOPPED, "duplicate_keys", 4)
    assert "partition 20250102" in outcome.error.message
    assert "twice" not in outcome.error.message
    amounts = {row["id"]: row["amount"] for row in lake.rows("shop.sales")}
    assert amounts == {number: number + (0 if 4 <= number < 8 else 100) for number in range(12)}
    sales.sql("delete from sales where shop = 'twice'")
    assert run(lake, spark).slices_changed == 1
    assert loaded(lake) == there(sales)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("before", [False, True], ids=["at the first load", "later"])
def test_a_key_in_two_partitions_is_told_in_every_run(lake, sales, spark, before):
    """Each of the two rows takes the place of the other one."""
    write(lake, sales, write="merge")
    if before:
        run(lake, spark)
    sales.sql("insert into sales values (5, '2025-01-03', 'twice', 0, 0, null)")
    for _ in range(3):
        outcome = run(lake, spark)
        assert (outcome.outcome, outcome.error.code) == (Result.STOPPED, "duplicate_keys"), outcome
    sales.sql("delete from sales where shop = 'twice'")
    assert run(lake, spark).error is None
    assert loaded(lake) == there(sales)


@pytest.mark.spark
def test_a_file_that_changes_before_it_is_verified_is_never_published(lake, sales, spark):
    write(lake, sales)
    run(lake, spark)
    before = loaded(lake)
    known = set(lake.folder.glob("warehouse/**/*.parquet"))
    sales.sql("update sales set amount = amount + 100 where id < 4")

    def damage(event: Event) -> None:
        if (event.stage, event.moment) == (Stage.VERIFY, Moment.START):
            for file in set(lake.folder.glob("warehouse/**/*.parquet")) - known:
                rows = pq.read_table(file)
                amounts = [0 for _ in rows["amount"]]
                index = rows.schema.get_field_index("amount")
                column = rows.schema.field("amount")
                pq.write_table(rows.set_column(index, column, [amounts]), file)
                (file.parent / f".{file.name}.crc").unlink(missing_ok=True)

    outcome = run(lake, spark, on_event=damage)
    assert outcome.outcome is Result.FAILED
    assert loaded(lake) == before
    assert set(lake.table("shop.sales").metadata.refs) == {"main"}
    assert run(lake, spark).error is None
    assert loaded(lake) == there(sales)


@pytest.mark.spark
def test_a_second_runner_is_held(lake, sales, spark):
    write(lake, sales)
    other = []

    def meanwhile(event: Event) -> None:
        if (event.stage, event.moment) == (Stage.WRITE, Moment.START) and not other:
            other.append(lake.run("sales", spark=spark))

    assert run(lake, spark, on_event=meanwhile).outcome is Result.LOADED
    assert (other[0].exit_code, other[0].streams[0].outcome) == (5, Result.HELD)
    assert loaded(lake) == there(sales)


# Several commits


@pytest.fixture
def small_groups(monkeypatch) -> None:
    """A commit holds no more than four rows."""
    monkeypatch.setattr(partitions, "GROUP_ROWS", 4)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("how", ["replace", "merge"])
def test_each_group_is_a_commit_of_its_own(lake, sales, spark, small_groups, how):
    write(lake, sales, write=how)
    first = run(lake, spark)
    assert (first.rows_read, first.slices_changed) == (12, 3)
    assert lake.snapshots("shop.sales") == 1 + 3, "the empty table, then a commit a group"
    sales.sql("update sales set amount = 0 where id in (1, 5)", "delete from sales where id >= 8")
    assert run(lake, spark).slices_changed == 3
    assert loaded(lake) == there(sales)
    assert run(lake).outcome is Result.UNCHANGED


@pytest.mark.spark
def test_a_full_refresh_in_several_commits_holds_every_row(lake, sales, spark, small_groups):
    write(lake, sales)
    run(lake, spark)
    assert run(lake, spark, full_refresh=True).error is None
    assert loaded(lake) == there(sales)


# Rows that move, and methods that change


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("how", ["replace", "merge"])
def test_a_row_that_moves_into_the_lookback_is_there_once(lake, sales, spark, how):
    write(lake, sales, write=how)
    run(lake, spark)
    sales.sql("update sales set day = '2025-01-03' where id = 0")
    outcome = run(lake, spark, options={"lookback": "20250103"})
    assert (outcome.error, outcome.slices_changed, outcome.write) == (None, 1, "merge_partitions")
    assert loaded(lake) == there(sales)
    assert run(lake, spark).error is None
    assert loaded(lake) == there(sales)


@pytest.mark.slow
@pytest.mark.spark
def test_a_row_that_moves_into_the_lookback_and_back_is_not_lost(lake, sales, spark):
    write(lake, sales)
    run(lake, spark)
    sales.sql("update sales set day = '2025-01-03' where id = 0")
    run(lake, spark, options={"lookback": "20250103"})
    sales.sql("update sales set day = '2025-01-01' where id = 0")
    run(lake, spark, options={"lookback": "20250103"})
    run(lake, spark)  # looks at every partition
    assert loaded(lake) == there(sales)


@pytest.mark.slow
@pytest.mark.spark
def test_a_row_that_comes_back_to_a_partition_that_failed_is_not_lost(lake, sales, spark, monkeypatch):
    write(lake, sales, write="merge")
    run(lake, spark)
    sales.sql("update sales set day = '2025-01-03' where id = 0")
    twisted(monkeypatch, "2025-01-01")
    assert run(lake, spark).slices_changed == 1
    monkeypatch.undo()
    sales.sql("update sales set day = '2025-01-01' where id = 0")
    run(lake, spark)
    assert loaded(lake) == there(sales)


@pytest.mark.slow
@pytest.mark.spark
def test_another_method_forgets_nothing_that_the_table_holds(lake, sales, spark):
    write(lake, sales, {"method": "by_substr", "column": "shop", "length": 1})
    run(lake, spark)
    write(lake, sales, {"method": "by_integer", "column": "id", "modulus": 4})
    sales.sql("delete from sales where id >= 8", "update sales set amount = 0 where id = 1")
    assert run(lake, spark).error is None
    assert loaded(lake) == there(sales)
    sales.sql("update sales set amount = 1 where id = 1")
    assert run(lake, spark).error is None
    assert loaded(lake) == there(sales)


@pytest.mark.spark
@pytest.mark.parametrize("remaining", ["", "where id >= 8"])
def test_a_lost_registry_loses_nothing(lake, sales, spark, remaining):
    write(lake, sales, deletes={"max_fraction": 1})  # the source may be emptied here
    run(lake, spark)
    lake.forget_registry()
    assert run(lake).outcome is Result.UNCHANGED, "the sum is the one that the position vouches for"
    lake.forget_registry()
    sales.sql(f"delete from sales {remaining.replace('where', 'where not')}")
    assert run(lake, spark).error is None
    assert loaded(lake) == there(sales)
    assert run(lake).outcome is Result.UNCHANGED
