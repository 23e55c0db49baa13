"""Delta lakes from end to end: what a load leaves behind, read by delta-rs, when all goes well and when it does not."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from support.lake import delta_rows
from support.misread import misread, without_120
from support.shops import STREAMS, change, sqlite_shop, texts
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

LAKES = {"lake": {"format": "delta"}}
CONF = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture
def shop(tmp_path: Path) -> SqliteShop:
    return sqlite_shop(tmp_path)


@pytest.fixture
def workspace(tmp_path: Path, shop: SqliteShop) -> Workspace:
    return project(Workspace(folder=tmp_path), shop, STREAMS)


def project(workspace: Workspace, shop: SqliteShop, streams: dict, **lake) -> Workspace:
    lakes = {"lake": {"format": "delta", **lake}}
    workspace.write(streams, connections={"shop": {"url": shop.url}}, lakes=lakes, spark={"conf": CONF})
    return workspace


def table(workspace: Workspace, name: str = "orders") -> DeltaTable:
    return DeltaTable(str(place(workspace, name)))


def place(workspace: Workspace, name: str = "orders") -> Path:
    return workspace.folder / "warehouse" / "shop" / name


def rows(workspace: Workspace, name: str = "orders") -> list[tuple]:
    return texts(tuple(row.values())[:2] for row in delta_rows(str(place(workspace, name))))


def source(shop: SqliteShop, name: str = "orders") -> list[tuple]:
    return texts(row[:2] for row in shop.rows(f"select * from {name}"))


def sql(workspace: Workspace, spark, *statements: str) -> None:
    """Somebody else at work on the lake."""
    with workspace.project(spark) as opened:
        session = opened.sessions.load_session()
        for statement in statements:
            session.sql(statement)


def run(workspace: Workspace, spark, name: str = "orders", **options):
    return workspace.run(name, spark=spark, **options).streams[0]


def status(workspace: Workspace, spark, name: str = "orders"):
    with workspace.project(spark) as opened:
        return next(one for one in opened.status() if one.stream == name)


def loaded(workspace: Workspace, shop: SqliteShop, spark, sequence: int) -> None:
    """One run of all streams, each of which loads and is proven, by its own account and by delta-rs."""
    for stream in workspace.run(spark=spark).streams:
        name = stream.stream
        assert stream.error is None, stream.error
        assert (stream.outcome, stream.verified, stream.position["sequence"]) == (Result.LOADED, True, sequence)
        assert rows(workspace, name) == source(shop, name)
        with workspace.project() as opened:
            uid = opened.streams(name)[0].uid
        assert table(workspace, name).transaction_version(uid) == sequence, "the number that delta-rs reads"


def test_every_writer_loads_what_changed_once_and_a_lost_registry_comes_back(workspace, shop, spark):
    loaded(workspace, shop, spark, 1)
    change(shop, "sqlite")
    loaded(workspace, shop, spark, 2)
    versions = [table(workspace, name).version() for name in ("orders", "events")]
    workspace.forget_registry()
    again = workspace.run("orders", "events", spark=spark).streams
    assert [(stream.error, stream.outcome) for stream in again] == [(None, Result.UNCHANGED)] * 2
    assert [table(workspace, name).version() for name in ("orders", "events")] == versions
    known = status(workspace, spark)
    assert (known.sequence, known.verified, known.verified_through) == (2, True, known.loaded_through)
    shop.sql("update orders set amount = 'a', updated_at = '2025-03-01' where id = 3")
    assert run(workspace, spark).position["sequence"] == 3
    assert rows(workspace) == source(shop)


def test_a_load_that_does_not_verify_is_seen_and_nothing_goes_on_from_it(workspace, shop, spark, monkeypatch):
    assert run(workspace, spark).outcome is Result.LOADED
    before = status(workspace, spark)
    change(shop, "sqlite")
    misread(monkeypatch, without_120)
    failed = run(workspace, spark)
    assert (failed.outcome, failed.error.code, failed.error.exit_code) == (Result.FAILED, "verify_failed", 3)
    assert "the rows are visible" in failed.error.message
    assert "published" not in failed.error.message
    assert "tidegate verify orders --repair" in failed.error.hint
    after = status(workspace, spark)
    assert after.loaded_through > before.loaded_through
    assert after.verified_through == before.verified_through
    monkeypatch.undo()

    version = table(workspace).version()
    again = run(workspace, spark)
    assert (again.error.code, table(workspace).version()) == ("verify_failed", version), "nothing was built on it"
    assert "tidegate verify orders --repair" in again.error.hint

    with workspace.project(spark) as opened:
        mended = opened.verify("orders", repair=True).streams[0]
    assert (mended.error, mended.equal, mended.repaired_rows) == (None, True, 1)
    assert rows(workspace) == source(shop)
    assert run(workspace, spark).outcome is Result.UNCHANGED
    assert status(workspace, spark).verified_through == status(workspace, spark).loaded_through


def test_a_checksum_load_that_does_not_verify_is_measured_and_mended_by_the_next_run(
    workspace, shop, spark, monkeypatch
):
    strategy = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 100}
    orders = {**STREAMS["orders"], "strategy": strategy, "write": "replace"}
    project(workspace, shop, {"orders": orders})
    assert run(workspace, spark).slices_changed == 6
    change(shop, "sqlite")
    misread(monkeypatch, without_120)
    failed = run(workspace, spark)
    assert (failed.error.code, failed.error.exit_code) == ("verify_failed", 3)
    monkeypatch.undo()
    mended = run(workspace, spark)
    assert (mended.error, mended.slices_changed) == (None, 1), "only what differs"
    assert rows(workspace) == source(shop)
    assert run(workspace, None).outcome is Result.UNCHANGED

    # By key, in one commit that also deletes; of what no longer exists, too.
    project(workspace, shop, {"orders": {**orders, "write": "merge"}})
    shop.sql("delete from orders where id between 200 and 310", "update orders set amount = 'x' where id = 7")
    merged = run(workspace, spark)
    assert (merged.error, merged.rows_deleted, merged.rows_updated, merged.rows_inserted) == (None, 111, 1, 0)
    assert rows(workspace) == source(shop)


def test_two_runners_with_registries_of_their_own_land_once(workspace, shop, spark, tmp_path):
    run(workspace, spark)
    change(shop, "sqlite")
    done = []

    def other(event) -> None:
        if (event.stage, event.moment) != (Stage.WRITE, Moment.START) or done:
            return
        done.append(event)
        values = {"connections": {"shop": {"url": shop.url}}, "streams": STREAMS, "lakes": LAKES}
        from tidegate.api import Project

        elsewhere = {**values, "registry": f"sqlite:///{tmp_path / 'other.db'}"}
        with Project.from_dict(elsewhere, folder=workspace.folder, spark=spark) as theirs:
            assert theirs.run("orders").streams[0].outcome is Result.LOADED

    outcome = run(workspace, spark, on_event=other)
    assert done
    assert outcome.error is None or outcome.error.code == "position_moved"
    assert rows(workspace) == source(shop)
    assert run(workspace, spark).outcome is Result.UNCHANGED
    assert len(rows(workspace)) == 501


def test_a_restored_table_stops_until_it_is_taken_as_it_is_and_no_number_comes_twice(workspace, shop, spark):
    run(workspace, spark)
    change(shop, "sqlite")
    second = run(workspace, spark)
    sql(workspace, spark, f"RESTORE TABLE delta.`{place(workspace)}` TO VERSION AS OF {int(second.snapshot) - 1}")
    stopped = run(workspace, spark)
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == (Result.STOPPED, "position_moved", 4)
    with workspace.project(spark) as opened:
        opened.state.repair("orders")
    loaded = run(workspace, spark)
    assert (loaded.error, loaded.outcome, loaded.position["sequence"]) == (None, Result.LOADED, 3)
    assert rows(workspace) == source(shop)
    with workspace.project(spark) as opened:
        assert opened.state.rewind("orders", 1).table["sequence"] == 4
    assert run(workspace, spark).position["sequence"] == 5
    assert rows(workspace) == source(shop)


def test_a_table_of_somebody_else_is_adopted_and_one_made_again_is_not_the_same(workspace, shop, spark):
    sql(
        workspace,
        spark,
        f"CREATE TABLE delta.`{place(workspace)}` USING delta AS SELECT 1L AS id, 'a1' AS amount, "
        "timestamp_ntz'2025-01-01 00:00:00.000001' AS updated_at",
    )
    stopped = run(workspace, spark)
    assert (stopped.error.code, stopped.error.exit_code) == ("position_missing", 4)
    with workspace.project(spark) as opened:
        assert opened.state.adopt("orders").table["loaded_through"] == "2025-01-01 00:00:00.000001"
    assert run(workspace, spark).outcome is Result.LOADED
    assert rows(workspace) == source(shop)

    folder = place(workspace) / "_delta_log"
    for file in folder.glob("*.crc"):
        file.unlink()
    for file in folder.glob("*.json"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if "metaData" in line:
                line["metaData"]["id"] = "another"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again = run(workspace, spark)
    assert (again.error.code, again.error.exit_code) == ("position_moved", 4)
    assert "recreated" in again.error.message


def test_columns_come_and_widen_and_sparks_catalog_knows_the_table(workspace, shop, spark):
    project(workspace, shop, {"orders": STREAMS["orders"]}, catalog={"type": "spark"})
    run(workspace, spark)
    shop.sql(
        'alter table orders add column "a note" text',
        "insert into orders values (900, 'x', '2025-03-01 00:00:00.000001', 'n')",
    )
    assert run(workspace, spark).outcome is Result.LOADED
    found = {row["id"]: row for row in delta_rows(str(place(workspace)))}
    assert (found[900]["a note"], found[1]["a note"], len(found)) == ("n", None, 501)
    with workspace.project(spark) as opened:
        assert opened.sessions.load_session().table("spark_catalog.shop.orders").count() == 501
    sql(workspace, spark, "DROP TABLE spark_catalog.shop.orders", "DROP SCHEMA spark_catalog.shop")


@pytest.mark.parametrize("left", ["_delta_log", "_delta_log/_staged_commits"])
def test_a_first_load_that_was_killed_before_its_first_commit_is_done_again(workspace, shop, spark, left):
    (place(workspace) / left).mkdir(parents=True)  # which Delta takes for a table
    outcome = run(workspace, spark)
    assert outcome.outcome is Result.LOADED, outcome.error
    assert rows(workspace) == source(shop)


@pytest.mark.parametrize("what", ["_delta_log/notes", "_notes", "notes"])
def test_what_lies_in_the_place_of_a_table_is_named_and_stays(workspace, spark, what):
    there = place(workspace) / what
    there.parent.mkdir(parents=True)
    there.write_text("somebody's")
    error = run(workspace, spark).error
    assert error.code == "write"
    assert f"{place(workspace)} holds files but no Delta table" in error.message
    assert there.read_text() == "somebody's"
