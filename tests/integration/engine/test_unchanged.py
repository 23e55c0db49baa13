"""Strategy `full` leaves a table alone only where it is proven to be what the source holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.lake import delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Event, Moment, Stage
from tidegate.engine.proof import Proven

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

COUNTRIES = {"source": {"connection": "shop", "table": "countries"}, "strategy": "full", "write": "replace"}
DELTA = {"lakes": {"lake": {"format": "delta"}}}


@pytest.fixture
def shop(tmp_path: Path) -> SqliteShop:
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table countries (id integer primary key, name text, area double)")
    shop.sql("insert into countries (id, name) values (1, 'Malta'), (2, 'Chad')")
    return shop


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(folder=tmp_path)


def write(workspace: Workspace, shop: SqliteShop, rest: Any = None, **stream: Any) -> None:
    source = {"connection": "shop", "query": "select id, name from countries"}
    countries = {**COUNTRIES, "source": source, "target": "lake.shop.countries", **stream}
    workspace.write({"countries": countries}, connections={"shop": {"url": shop.url}}, **(rest or {}))


def run(workspace: Workspace, spark: Any) -> Any:
    return workspace.run("countries", spark=spark).streams[0]


def planned(workspace: Workspace, spark: Any) -> Any:
    with workspace.project(spark) as project:
        return project.plan("countries").streams[0]


def names(workspace: Workspace) -> list[str]:
    return [row["name"] for row in workspace.rows("shop.countries")]


def test_an_unchanged_source_is_told_by_one_question_and_moves_nothing(
    workspace: Workspace, shop: SqliteShop, spark: Any
) -> None:
    write(workspace, shop)
    assert run(workspace, spark).outcome is Result.LOADED
    before = workspace.snapshots("shop.countries")
    with workspace.project() as project:  # no session is lent: a load would start one
        outcome = project.run("countries").streams[0]
    assert (outcome.outcome, outcome.spark_started) == (Result.UNCHANGED, False)
    assert workspace.snapshots("shop.countries") == before
    plan = planned(workspace, spark)
    told = "the fingerprint of the source is the loaded one, and the table is as the last load left it"
    assert (plan.outcome, plan.notes) == ("unchanged", (told,))
    shop.sql("update countries set name = 'Tchad' where id = 2")
    plan = planned(workspace, spark)
    assert plan.slices[0].reason == "every row is read: the fingerprint of the source is not the loaded one"
    assert run(workspace, spark).outcome is Result.LOADED
    assert names(workspace) == ["Malta", "Tchad"]
    assert run(workspace, spark).outcome is Result.UNCHANGED


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
def test_floats_are_compared_by_the_sources_own_answers(workspace: Workspace, shop: SqliteShop, spark: Any) -> None:
    write(workspace, shop, source=COUNTRIES["source"])
    shop.sql("update countries set area = 0.1 where id = 1")
    run(workspace, spark)
    before = workspace.snapshots("shop.countries")
    with workspace.project() as project:  # no session is lent
        assert project.run("countries").streams[0].outcome is Result.UNCHANGED
    assert workspace.snapshots("shop.countries") == before
    shop.sql("update countries set area = 0.10000000000000002 where id = 1")
    plan = planned(workspace, spark)
    assert plan.slices[0].reason == "every row is read: the source's own fingerprint is not the loaded one"
    loaded = run(workspace, spark)
    assert (loaded.outcome, loaded.notes) == (Result.LOADED, ("not covered by the fingerprint: area",))
    assert [row["area"] for row in workspace.rows("shop.countries")] == [0.10000000000000002, None]
    by_deleting(workspace)
    assert run(workspace, spark).outcome is Result.LOADED
    assert names(workspace) == ["Malta", "Chad"]


@pytest.mark.parametrize("write_", ["merge", "scd2"])
def test_smart_commits_nothing_for_floats_that_stand_still(
    workspace: Workspace, shop: SqliteShop, spark: Any, write_: str
) -> None:
    smart = {"kind": "smart", "partition_by": "id", "modulus": 10}
    write(workspace, shop, source=COUNTRIES["source"], strategy=smart, write=write_, key=["id"])
    shop.sql("update countries set area = 0.1 where id = 1")
    run(workspace, spark)
    before = workspace.snapshots("shop.countries")
    with workspace.project() as project:
        assert project.run("countries").streams[0].outcome is Result.UNCHANGED
    assert workspace.snapshots("shop.countries") == before
    shop.sql("update countries set area = 0.10000000000000002 where id = 1")
    assert run(workspace, spark).outcome is Result.LOADED
    found = [row["area"] for row in workspace.rows("shop.countries") if row.get("is_current", True)]
    assert sorted(found, key=str) == [0.10000000000000002, None]
    assert run(workspace, spark).outcome is Result.UNCHANGED


def by_writing(workspace: Workspace) -> None:
    rows = pa.table({"id": pa.array([9], pa.int64()), "name": ["Oz"]})
    table = workspace.table("shop.countries")
    table.append(rows.cast(table.schema().as_arrow()))


def by_deleting(workspace: Workspace) -> None:
    workspace.table("shop.countries").delete("id = 1")


def by_dropping_a_column(workspace: Workspace) -> None:
    with workspace.table("shop.countries").update_schema() as change:
        change.delete_column("name")


def by_partitioning(workspace: Workspace) -> None:
    with workspace.table("shop.countries").update_spec() as change:
        change.add_identity("id")


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (by_writing, "others have changed the table since the last load"),
        (by_deleting, "others have changed the table since the last load"),
        (by_dropping_a_column, "the table's columns are not those of the source"),
        (by_partitioning, "the table's partitioning has changed"),
    ],
)
def test_what_others_changed_is_made_up_for(
    workspace: Workspace, shop: SqliteShop, spark: Any, change: Any, reason: str
) -> None:
    write(workspace, shop)
    run(workspace, spark)
    change(workspace)
    assert planned(workspace, spark).slices[0].reason.endswith(f": {reason}")
    assert run(workspace, spark).outcome is Result.LOADED
    assert names(workspace) == ["Malta", "Chad"]
    assert run(workspace, spark).outcome is Result.UNCHANGED


def proven(workspace: Workspace) -> Proven:
    with workspace.project() as project:
        return project.proof("countries").streams[0].proven


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
@pytest.mark.parametrize("lake", [{}, DELTA])
def test_a_strategy_that_keeps_the_table_says_that_others_have_changed_it(
    workspace: Workspace, shop: SqliteShop, spark: Any, lake: Any
) -> None:
    write(
        workspace,
        shop,
        lake,
        strategy={"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 2},
        write="merge",
        key=["id"],
    )
    run(workspace, spark)
    with workspace.project(spark) as project:
        project.verify("countries", level="checksum")
    assert (run(workspace, spark).notes, proven(workspace)) == ((), Proven.EQUAL)
    if lake:
        location = str(workspace.folder / "warehouse" / "shop" / "countries")
        by_sql(workspace, spark, f"DELETE FROM delta.`{location}` WHERE id = 1")
    else:
        by_deleting(workspace)
    outcome = run(workspace, spark)
    said = "others have changed the table since its last load: `tidegate verify countries` compares it with its source"
    assert (outcome.outcome, outcome.notes, proven(workspace)) == (Result.UNCHANGED, (said,), Proven.CHANGED)
    shop.sql("insert into countries (id, name) values (3, 'Peru')")
    outcome = run(workspace, spark)
    assert (outcome.outcome, outcome.notes) == (Result.LOADED, (said,))
    with workspace.project(spark) as project:
        project.verify("countries", level="checksum")
    assert proven(workspace) is Proven.DIFFERENT


def test_compaction_and_expiry_change_no_row(workspace: Workspace, shop: SqliteShop, spark: Any) -> None:
    keep = {"maintenance": {"expire_after": "1s", "keep": 1}}
    write(workspace, shop, **keep)
    run(workspace, spark)
    maintained(workspace, spark)
    assert run(workspace, spark).outcome is Result.UNCHANGED
    by_writing(workspace)
    maintained(workspace, spark)  # which says the position again, on top of what others wrote
    assert run(workspace, spark).outcome is Result.LOADED
    assert names(workspace) == ["Malta", "Chad"]


def maintained(workspace: Workspace, spark: Any) -> None:
    with workspace.project(spark) as project:
        assert project.maintain("countries", force=True).streams[0].error is None


@pytest.mark.parametrize(
    "change",
    [
        {"key": ["id"], "write": "merge"},
        {"layout": {"partition_by": ["id"]}},
        {"checks": [{"not_null": "name"}]},
        {"verify": "counts"},
    ],
)
def test_changed_settings_are_loaded_once(workspace: Workspace, shop: SqliteShop, spark: Any, change: Any) -> None:
    write(workspace, shop)
    run(workspace, spark)
    write(workspace, shop, **change)
    assert planned(workspace, spark).slices[0].reason.endswith(": settings of the stream have changed")
    assert run(workspace, spark).outcome is Result.LOADED
    assert run(workspace, spark).outcome is Result.UNCHANGED


def by_sql(workspace: Workspace, spark: Any, statement: str) -> None:
    with workspace.project(spark) as project:
        project.sessions.load_session().sql(statement).collect()


def test_delta_tables_are_left_alone_only_when_the_last_load_was_proven(
    workspace: Workspace, shop: SqliteShop, spark: Any
) -> None:
    write(workspace, shop, DELTA)
    run(workspace, spark)
    assert run(workspace, spark).outcome is Result.UNCHANGED
    location = str(workspace.folder / "warehouse" / "shop" / "countries")
    by_sql(workspace, spark, f"DELETE FROM delta.`{location}` WHERE id = 1")
    assert run(workspace, spark).outcome is Result.LOADED
    assert sorted(row["id"] for row in delta_rows(location)) == [1, 2]
    by_sql(workspace, spark, f"OPTIMIZE delta.`{location}`")
    assert run(workspace, spark).outcome is Result.UNCHANGED
    workspace.forget_registry()
    assert run(workspace, spark).outcome is Result.LOADED, "nobody remembers whether it was verified"
    write(workspace, shop, DELTA, verify="none")
    run(workspace, spark)
    assert run(workspace, spark).outcome is Result.LOADED


WATERMARK = {"kind": "watermark", "column": "changed_at"}
KINDS: list[Any] = [
    (WATERMARK, "merge"),
    (WATERMARK, "append"),
    (WATERMARK, "scd2"),
    ({"kind": "sequence", "column": "id"}, "append"),
    ("full", "replace"),
    ("snapshot_diff", "merge"),
    ({"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 10}, "replace"),
    ({"kind": "smart", "column": "changed_at"}, "merge"),
]


def orders(workspace: Workspace, tmp_path: Path, strategy: Any, write: str, **rest: Any) -> SqliteShop:
    shop = SqliteShop(path=tmp_path / "orders.db")
    shop.sql(
        "create table orders (id integer primary key autoincrement, name text not null, "
        "changed_at timestamp not null, area text)"
    )
    stream = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": strategy,
        "write": write,
        "layout": {"partition_by": ["name"]},
    }
    if strategy == WATERMARK:
        stream["checks"] = [{"row_count": 1}]  # of a load that brings rows
    workspace.write({"orders": stream}, connections={"shop": {"url": shop.url}}, **rest)
    return shop


def ids(workspace: Workspace, spark: Any) -> list[int]:
    with workspace.project(spark) as project:
        (stream,) = project.streams("orders")
        rows = stream.format.read(project.sessions.load_session(), stream.target, None)
        assert "area" in rows.columns
        return sorted(row["id"] for row in rows.collect())


EMPTY = [
    pytest.param(strategy, write, rest, marks=pytest.mark.exhaustive if number > 1 and (rest or number % 2) else ())
    for number, (strategy, write) in enumerate(KINDS)
    for rest in ({}, DELTA)
]
"""Of every other kind on Iceberg, of two on Delta; the others only in the full sample."""


@pytest.mark.parametrize(("strategy", "write", "rest"), EMPTY)
def test_a_source_without_rows_gets_its_table_once(
    workspace: Workspace, tmp_path: Path, spark: Any, strategy: Any, write: str, rest: Any
) -> None:
    shop = orders(workspace, tmp_path, strategy, write, **rest)
    with workspace.project(spark) as project:
        plan = project.plan("orders").streams[0]
    assert (plan.outcome, plan.create) == ("changed", True)
    first = workspace.run("orders", spark=spark).streams[0]
    assert (first.outcome, first.rows_read, first.error) == (Result.LOADED, 0, None)
    assert ids(workspace, spark) == []
    with workspace.project() as project:  # no session is lent: a load would start one
        again = project.run("orders").streams[0]
    assert (again.outcome, again.spark_started) == (Result.UNCHANGED, False)
    shop.sql("insert into orders (name, changed_at) values ('a', '2025-01-01 00:00:00'), ('b', '2025-01-02 00:00:00')")
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.LOADED
    assert ids(workspace, spark) == [1, 2]
    shop.sql("insert into orders (name, changed_at) values ('c', '2025-01-03 00:00:00')")
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.LOADED
    assert ids(workspace, spark) == [1, 2, 3]
    if write != "append":
        with workspace.project(spark) as project:
            assert project.verify("orders").streams[0].equal or write == "scd2"


class Killed(BaseException):
    """Ends a run as Ctrl-C does."""


@pytest.mark.parametrize("rest", [{}, DELTA], ids=["iceberg", "delta"])
@pytest.mark.parametrize("moment", [Moment.START, Moment.PUBLISHED])
def test_a_crash_while_the_table_is_created_is_recovered(
    workspace: Workspace, tmp_path: Path, spark: Any, moment: Moment, rest: Any
) -> None:
    orders(workspace, tmp_path, WATERMARK, "merge", **rest)

    def end(event: Event) -> None:
        if (event.stage, event.moment) == (Stage.ADVANCE, moment):
            raise Killed

    with workspace.project(spark) as project, pytest.raises(Killed):
        project.run("orders", on_event=end)
    done = workspace.run("orders", spark=spark).streams[0]
    assert done.error is None
    assert ids(workspace, spark) == []
    assert workspace.run("orders", spark=spark).streams[0].outcome is Result.UNCHANGED
