"""Delta lakes from end to end: what a load leaves behind, read by delta-rs, when all goes well and when it does not."""

from __future__ import annotations

import json
import shutil

import pytest
from deltalake import DeltaTable

from integration.engine.conftest import at, on_delta
from support.misread import misread
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), on_delta]

WATERMARK = {"kind": "watermark", "column": "at"}
BY_TEN = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 10}
CHANGE = (
    "update t set name = 'changed', at = '2025-02-01 00:00:00.000001' where id between 10 and 14",
    "insert into t values (31, 'new', '2025-02-01 00:00:00.000002')",
)


@pytest.fixture
def orders(bench):
    """Thirty rows."""
    bench.sql("create table t (id integer primary key, name text, at timestamp)")
    values = ", ".join(f"({n}, 'n{n}', '2025-01-01 00:00:00.0000{n:02}')" for n in range(1, 31))
    bench.sql(f"insert into t values {values}")
    bench.write(WATERMARK)
    return bench


def version(bench):
    return DeltaTable(str(bench.location)).version()


def status(bench):
    with bench.project() as project:
        return project.status()[0]


def is_equal(bench):
    assert bench.rows("id", "name") == bench.source("id, name")


def misread_12(monkeypatch):
    misread(monkeypatch, lambda rows: rows.where(f"{rows.columns[0]} <> 12"))


def test_what_changed_is_loaded_once_and_a_lost_registry_comes_back(orders):
    with orders.workspace.project() as project:
        uid = project.streams("t")[0].uid
    for sequence in (1, 2):
        assert orders.loaded().position["sequence"] == sequence
        assert DeltaTable(str(orders.location)).transaction_version(uid) == sequence, "the number that delta-rs reads"
        is_equal(orders)
        orders.sql(*CHANGE[: 2 - sequence])
    known = version(orders)
    orders.workspace.forget_registry()
    assert (orders.run().outcome, version(orders)) == (Result.UNCHANGED, known)
    found = status(orders)
    assert (found.sequence, found.verified, found.verified_through) == (2, True, found.loaded_through)


def test_a_load_that_does_not_verify_is_seen_and_nothing_goes_on_from_it(orders, monkeypatch):
    orders.loaded()
    before = status(orders)
    orders.sql(*CHANGE)
    misread_12(monkeypatch)
    code, message, hint = orders.refused()
    assert (code, "the rows are visible" in message, "published" in message) == ("verify_failed", True, False)
    assert "tidegate verify t --repair" in hint
    after = status(orders)
    assert after.loaded_through > before.loaded_through
    assert after.verified_through == before.verified_through
    monkeypatch.undo()
    known = version(orders)
    code, _, hint = orders.refused()
    assert (code, version(orders)) == ("verify_failed", known), "nothing was built on it"
    assert "tidegate verify t --repair" in hint
    mended = orders.verify(repair=True)
    assert (mended.error, mended.equal, mended.repaired_rows) == (None, True, 1)
    is_equal(orders)
    assert orders.run().outcome is Result.UNCHANGED
    assert status(orders).verified_through == status(orders).loaded_through


def test_a_checksum_load_that_does_not_verify_is_measured_and_mended_by_the_next_run(orders, monkeypatch):
    orders.write(BY_TEN, "replace")
    assert orders.loaded().slices_changed == 4
    orders.sql(*CHANGE)
    misread_12(monkeypatch)
    assert orders.refused()[0] == "verify_failed"
    monkeypatch.undo()
    assert orders.loaded().slices_changed == 1, "only what differs"
    is_equal(orders)
    orders.unchanged()
    # By key, in one commit that also deletes; of what no longer exists, too.
    orders.write(BY_TEN)
    orders.sql("delete from t where id between 15 and 31", "update t set name = 'x' where id = 7")
    merged = orders.loaded()
    assert (merged.rows_deleted, merged.rows_updated, merged.rows_inserted) == (17, 1, 0)
    is_equal(orders)


def test_two_runners_with_registries_of_their_own_land_once(orders):
    orders.loaded()
    orders.sql(*CHANGE)
    theirs = []

    def other():
        theirs.append(orders.run_of_somebody_else().outcome)

    outcome = orders.run(on_event=at(Stage.WRITE, Moment.START, other))
    assert theirs == [Result.LOADED]
    assert outcome.error is None or outcome.error.code == "position_moved"
    is_equal(orders)
    assert orders.run().outcome is Result.UNCHANGED


def test_a_restored_table_stops_until_it_is_taken_as_it_is_and_no_number_comes_twice(orders):
    orders.loaded()
    orders.sql(*CHANGE)
    second = orders.loaded()
    orders.by_hand(f"RESTORE TABLE {{table}} TO VERSION AS OF {int(second.snapshot) - 1}")
    stopped = orders.run()
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == (Result.STOPPED, "position_moved", 4)
    with orders.project() as project:
        project.state.repair("t")
    assert orders.loaded().position["sequence"] == 3
    is_equal(orders)
    with orders.project() as project:
        assert project.state.rewind("t", 1).table["sequence"] == 4
    assert orders.loaded().position["sequence"] == 5
    is_equal(orders)


def test_a_table_of_somebody_else_is_adopted_and_one_made_again_is_not_the_same(orders):
    first = "SELECT 1L AS id, 'n1' AS name, timestamp_ntz'2025-01-01 00:00:00.000001' AS at"
    orders.by_hand(f"CREATE TABLE {{table}} USING delta AS {first}")
    assert orders.refused()[0] == "position_missing"
    with orders.project() as project:
        assert project.state.adopt("t").table["loaded_through"] == "2025-01-01 00:00:00.000001"
    orders.loaded()
    is_equal(orders)
    log = orders.location / "_delta_log"
    for file in log.glob("*.crc"):
        file.unlink()
    for file in log.glob("*.json"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if "metaData" in line:
                line["metaData"]["id"] = "another"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, message, _ = orders.refused()
    assert (code, "recreated" in message) == ("position_moved", True)


def test_columns_come_and_sparks_catalog_knows_the_table(orders):
    orders.write(WATERMARK, lake={"catalog": {"type": "spark"}})
    orders.loaded()
    orders.sql('alter table t add column "a note" text')
    orders.sql("insert into t values (900, 'x', '2025-03-01 00:00:00.000001', 'n')")
    orders.loaded()
    found = dict(orders.rows("id", "a note"))
    assert (found[900], found[1], len(found)) == ("n", None, 31)
    with orders.project() as project:
        assert project.sessions.load_session().table("spark_catalog.out.t").count() == 31
    orders.by_hand("DROP TABLE spark_catalog.out.t", "DROP SCHEMA spark_catalog.out")


def test_what_lies_in_the_place_of_a_table_is_named_and_stays_but_what_a_killed_first_load_left(orders):
    for what in ("_delta_log/notes", "_notes", "notes"):
        there = orders.location / what
        there.parent.mkdir(parents=True)
        there.write_text("somebody's")
        code, message, _ = orders.refused()
        assert (code, f"{orders.location} holds files but no Delta table" in message) == ("write", True)
        assert there.read_text() == "somebody's"
        shutil.rmtree(orders.location)
    (orders.location / "_delta_log" / "_staged_commits").mkdir(parents=True)  # which Delta takes for a table
    orders.loaded()
    is_equal(orders)
