"""What a registry remembers of partitions is believed only as far as the table's own position vouches for it."""

import shutil
import sqlite3

import pytest

from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.errors import ConfigError, LeaseHeld

pytestmark = pytest.mark.spark

STREAM = {
    "source": {"connection": "shop", "table": "sales"},
    "target": "lake.shop.sales",
    "key": ["id"],
    "strategy": {"kind": "checksum", "method": "by_date", "column": "day", "period": "day"},
    "write": "replace",
}


@pytest.fixture
def shop(tmp_path) -> SqliteShop:
    """Four days of ten rows each, and a row without a day."""
    shop = SqliteShop(path=tmp_path / "shop.db")
    rows = ", ".join(f"({number}, '2025-01-0{1 + number // 10}', {number})" for number in range(40))
    shop.sql(
        "create table sales (id integer primary key, day date, amount integer)",
        f"insert into sales values {rows}",
        "insert into sales values (99, null, 0)",
    )
    return shop


@pytest.fixture
def workspace(tmp_path, shop) -> Workspace:
    workspace = Workspace(folder=tmp_path)
    configure(workspace, shop)
    return workspace


@pytest.fixture
def loaded(workspace, shop, spark) -> Workspace:
    """Loaded twice, so that the registry has a past."""
    run(workspace, spark)
    shutil.copy(registry_file(workspace), workspace.folder / "older.db")
    shop.sql("update sales set amount = -1 where id = 5")
    assert run(workspace, spark).slices_changed == 1
    return workspace


def configure(workspace, shop, **strategy):
    stream = STREAM | {"strategy": strategy or STREAM["strategy"]}
    workspace.write({"sales": stream}, connections={"shop": {"url": shop.url}})


def registry_file(workspace):
    return workspace.folder / ".tidegate" / "registry.db"


def restore_older(workspace):
    workspace.forget_registry()
    shutil.copy(workspace.folder / "older.db", registry_file(workspace))


def run(workspace, spark=None):
    outcome = workspace.run("sales", spark=spark).streams[0]
    assert outcome.error is None, outcome.error
    return outcome


def repair(workspace, spark):
    with workspace.project(spark) as project:
        (view,) = project.state.repair("sales")
    assert view.agree
    return view


def equal(workspace, shop) -> bool:
    """Both sides, as readers that are not Tidegate see them."""
    there = shop.rows("select id, cast(day as text), amount from sales order by id")
    mine = [(row["id"], row["day"] and str(row["day"]), row["amount"]) for row in workspace.rows("shop.sales")]
    return sorted(mine, key=lambda row: row[0]) == there


def asked(workspace, query) -> list[tuple]:
    with sqlite3.connect(registry_file(workspace)) as connection:
        return connection.execute(query).fetchall()


def kept(workspace) -> dict[str, int]:
    return dict(asked(workspace, "select extract_group_id, partition_row_count from checksums"))


def sequence(workspace) -> int:
    with workspace.project() as project:
        return project.state.show("sales").table["sequence"]


def by_hand(workspace, spark, *statements) -> None:
    """What somebody who is not Tidegate does to the lake."""
    with workspace.project(spark) as project:
        session = project.sessions.load_session()
        for statement in statements:
            session.sql(statement)
        project.sessions.release(session)


ALL = {"20250101": 10, "20250102": 10, "20250103": 10, "20250104": 10, "~N": 1}


def test_without_a_registry_an_unchanged_source_is_unchanged(loaded, no_spark):
    loaded.forget_registry()
    outcome = run(loaded)
    assert outcome.outcome is Result.UNCHANGED
    assert not outcome.spark_started


def test_without_a_registry_only_what_changed_is_moved(loaded, shop, spark):
    loaded.forget_registry()
    shop.sql("update sales set amount = -2 where id = 15", "delete from sales where id >= 30 and id < 40")
    outcome = run(loaded, spark)
    assert (outcome.slices_changed, outcome.slices_total) == (2, 5)
    assert outcome.rows_read == 10
    assert equal(loaded, shop)
    assert asked(loaded, "select task_type, count(*) from tasks group by 1 order by 1") == [
        ("get_checksums", 1),
        ("load_partition", 2),
        ("measure_partition", 1),
    ]
    payloads = "select json_extract(result_payload, '$.rows_affected'), json_extract(result_payload, '$.action')"
    moved = asked(loaded, f"{payloads} from tasks where task_type = 'load_partition' order by extract_group_id")
    assert moved == [(10, "RELOAD"), (0, "DELETE")]
    assert kept(loaded) == {label: rows for label, rows in ALL.items() if label != "20250104"}


def test_an_older_registry_is_not_believed(loaded, shop, spark):
    shop.sql("update sales set amount = 5 where id = 5")  # as it was when the older registry was copied
    restore_older(loaded)
    outcome = run(loaded, spark)
    assert (outcome.outcome, outcome.slices_changed) == (Result.LOADED, 1)
    assert equal(loaded, shop)


def test_an_older_registry_and_an_unchanged_source(loaded, shop, no_spark):
    restore_older(loaded)
    assert run(loaded).outcome is Result.UNCHANGED
    assert equal(loaded, shop)


def test_a_repair_brings_the_partitions_back_and_leaves_the_table_alone(loaded, shop, spark, request):
    loaded.forget_registry()
    before = loaded.snapshots("shop.sales")
    repair(loaded, spark)
    assert kept(loaded) == ALL
    assert loaded.snapshots("shop.sales") == before
    filters = dict(asked(loaded, "select extract_group_id, source_filter from checksums"))
    assert len(shop.rows(f"select * from sales where {filters['20250102']}")) == 10
    shop.sql("update sales set amount = -3 where id = 35")
    assert run(loaded, spark).slices_changed == 1
    assert asked(loaded, "select count(*) from tasks where task_type = 'measure_partition'") == [(1,)]
    assert equal(loaded, shop)
    request.getfixturevalue("no_spark")
    assert run(loaded).outcome is Result.UNCHANGED


def test_a_repair_after_a_registry_that_says_something_else(loaded, shop, spark):
    with sqlite3.connect(registry_file(loaded)) as connection:
        connection.execute("update checksums set partition_checksum = 'nonsense' where extract_group_id = '20250101'")
    connection.close()
    repair(loaded, spark)
    shop.sql("update sales set amount = -3 where id = 35")
    assert run(loaded, spark).slices_changed == 1
    assert equal(loaded, shop)


def test_rows_changed_behind_the_position_are_found_by_a_repair(loaded, shop, spark, request):
    by_hand(loaded, spark, "delete from lake.shop.sales where id = 12")
    before = sequence(loaded)
    repair(loaded, spark)
    assert sequence(loaded) == before + 1
    assert kept(loaded) == {**ALL, "20250102": 9}
    outcome = run(loaded, spark)
    assert (outcome.slices_changed, outcome.rows_read) == (1, 10)
    assert equal(loaded, shop)
    request.getfixturevalue("no_spark")
    assert run(loaded).outcome is Result.UNCHANGED


def test_a_repair_measures_by_the_method_that_the_project_names(loaded, shop, spark, request):
    configure(loaded, shop, kind="checksum", method="by_integer", column="id", modulus=20)
    repair(loaded, spark)
    assert kept(loaded) == {"0": 20, "1": 20, "4": 1}
    shop.sql("update sales set amount = -3 where id = 35")
    assert run(loaded, spark).rows_read == 20
    assert equal(loaded, shop)
    request.getfixturevalue("no_spark")
    assert run(loaded).outcome is Result.UNCHANGED


def test_another_method_leaves_no_partition_of_the_old_one(loaded, shop, spark):
    """A month whose days were loaded before must not be taken for one of them that vanished."""
    configure(loaded, shop, kind="checksum", method="by_date", column="day", period="month")
    shop.sql("update sales set amount = -3 where id = 35")
    run(loaded, spark)
    assert equal(loaded, shop)
    assert kept(loaded) == {"202501": 40, "~N": 1}
    run(loaded, spark)
    assert equal(loaded, shop)
    assert run(loaded, spark).outcome is Result.UNCHANGED


def test_a_repair_waits_for_nobody(loaded, spark):
    with loaded.project() as other, other.registry.lease(other.streams("sales")[0].uid), pytest.raises(LeaseHeld):
        repair(loaded, spark)


def test_a_rewound_position_vouches_for_nothing(loaded, shop, spark):
    """The table keeps the later rows, so equal to the earlier sum is not equal to the table."""
    with loaded.project(spark) as project:
        project.state.rewind("sales", 1)
    shop.sql("update sales set amount = 5 where id = 5")  # as it was at load 1
    outcome = run(loaded, spark)
    assert (outcome.outcome, outcome.slices_changed) == (Result.LOADED, 1)
    assert equal(loaded, shop)


def test_a_table_of_somebody_else_is_adopted_and_only_what_differs_is_moved(workspace, shop, spark, request):
    registry_file(workspace).parent.mkdir()  # where the lake's own catalog lies too
    row = "'(' || id || ', cast(' || quote(day) || ' as date), ' || amount || ')'"
    values = ", ".join(text for (text,) in shop.rows(f"select {row} from sales where id <> 22"))
    by_hand(
        workspace,
        spark,
        "create namespace if not exists lake.shop",
        "create table lake.shop.sales (id bigint, day date, amount bigint) using iceberg",
        f"insert into lake.shop.sales values {values}, (777, date'2024-12-31', 7)",
    )
    assert workspace.run("sales", spark=spark).streams[0].error.code == "position_missing"
    with workspace.project(spark) as project:
        with pytest.raises(ConfigError, match="no cursor"):
            project.state.adopt("sales", "5")
        assert project.state.adopt("sales").agree
    outcome = run(workspace, spark)
    assert (outcome.slices_changed, outcome.rows_read) == (2, 10)  # a day with a row less, a day with a row too many
    assert equal(workspace, shop)
    assert kept(workspace) == ALL
    request.getfixturevalue("no_spark")
    assert run(workspace).outcome is Result.UNCHANGED
