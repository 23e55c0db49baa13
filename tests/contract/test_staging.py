"""What every lake owes a load, on each way to Spark and each kind of catalog: the same suite, real servers."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from support.lake import ROWS, UID, Lake, make_delta_lake, make_lake, put
from tidegate.core.plan import Mode, Prune
from tidegate.core.ports.format import Layout
from tidegate.core.schema import BIGINT, TEXT, ChangeKind, Column, Schema, SchemaChange
from tidegate.errors import CommitConflict, ConfigError, PositionMoved
from tidegate.formats.delta import Delta
from tidegate.formats.iceberg import Iceberg
from tidegate.spark import sql
from tidegate.spark.session import Sessions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

A, B, C = (1, "a", "2024-01-01T00:00:00"), (2, "b", "2024-01-02T00:00:00"), (3, "c", "2024-01-03T00:00:00")


def embedded(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark = request.getfixturevalue("spark")
    return make_lake(folder, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def delta(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark = request.getfixturevalue("spark")
    return make_delta_lake(folder, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def delta_connect(request: pytest.FixtureRequest, folder: Path) -> Lake:
    found: Lake = request.getfixturevalue("connect_delta_lake")
    return found


def connect(request: pytest.FixtureRequest, folder: Path) -> Lake:
    found: Lake = request.getfixturevalue("connect_lake")
    return found


def postgresql(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark, server = request.getfixturevalue("spark"), request.getfixturevalue("postgres")
    catalog = {"type": "postgresql", "uri": server.create_database()}
    return make_lake(
        folder, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session(), catalog=catalog
    )


def rest(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark, url = request.getfixturevalue("spark"), request.getfixturevalue("rest_catalog")
    lake = make_lake(
        folder,
        lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session(),
        catalog={"type": "rest", "uri": url},
        warehouse=None,
    )
    # One catalog serves all tests, so each has a namespace of its own.
    lake.namespace = (f"n{abs(hash(str(folder)))}",)
    return lake


def hive(request: pytest.FixtureRequest, folder: Path) -> Lake:
    spark, url = request.getfixturevalue("spark"), request.getfixturevalue("hive_metastore")
    lake = make_lake(
        folder,
        lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session(),
        catalog={"type": "hive", "uri": url},
    )
    lake.namespace = (f"n{abs(hash(str(folder)))}",)
    return lake


KINDS = [
    pytest.param(embedded, id="embedded"),
    pytest.param(delta, id="delta"),
    pytest.param(connect, id="connect", marks=pytest.mark.servers),
    pytest.param(delta_connect, id="delta-connect", marks=pytest.mark.servers),
    pytest.param(postgresql, id="postgresql", marks=pytest.mark.postgres),
    pytest.param(rest, id="rest", marks=pytest.mark.servers),
    pytest.param(hive, id="hive", marks=pytest.mark.servers),
]


@pytest.fixture(params=KINDS)
def any_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    made: Lake = request.param(request, tmp_path)
    return made


REFUSED = (CommitConflict, PositionMoved)
MODES = [Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE]


def test_a_load_is_seen_when_its_format_says_so_and_carries_its_position(any_lake: Lake) -> None:
    target = any_lake.table()
    before = any_lake.format.state(target, UID)
    assert (before.rows, before.position) == (0, None)

    plan = any_lake.plan(target, Mode.APPEND)
    staging = any_lake.format.stage(any_lake.session, target, plan)
    staging.append(any_lake.rows(A, B))
    staged = any_lake.format.state(target, UID)
    if any_lake.format.invisible:
        assert (staged.snapshot, staged.position, staged.branches) == (None, None, (plan.branch,))
        assert any_lake.oracle(target) == []
    else:
        assert (staged.position, staged.branches) == (plan.position, ())
        assert any_lake.ids(target) == [1, 2]
    assert sorted(row.id for row in staging.read().collect()) == [1, 2]
    assert sorted(row.id for row in staging.read_added().collect()) == [1, 2]

    receipt = staging.publish()
    after = any_lake.format.state(target, UID)
    assert (after.snapshot, after.rows, after.branches) == (receipt.snapshot, 2, ())
    assert (after.position, after.position_snapshot) == (plan.position, receipt.snapshot)
    assert any_lake.ids(target) == [1, 2]
    assert staging.receipt() == receipt, "still told after its branch is gone"


@pytest.mark.parametrize("mode", MODES)
def test_of_two_loads_on_one_base_the_second_is_refused(any_lake: Lake, mode: Mode) -> None:
    target = any_lake.table()
    any_lake.load(target, Mode.APPEND, A, B)
    first, second = (any_lake.plan(target, mode) for _ in range(2))
    stagings = [any_lake.format.stage(any_lake.session, target, plan) for plan in (first, second)]
    put(stagings[0], any_lake.rows((2, "first", None)), mode)
    if any_lake.format.invisible:
        put(stagings[1], any_lake.rows((2, "second", None)), mode)
    stagings[0].publish()
    seen, state = any_lake.oracle(target), any_lake.format.state(target, UID)

    with pytest.raises(REFUSED):
        put_or_publish(any_lake, stagings[1], mode, (2, "second", None))

    assert any_lake.oracle(target) == seen
    assert any_lake.format.state(target, UID).position == first.position
    assert any_lake.format.state(target, UID).snapshot == state.snapshot
    stagings[1].discard()
    assert any_lake.format.state(target, UID).branches == ()


@pytest.mark.parametrize("mode", MODES)
def test_of_two_first_loads_the_second_is_refused(any_lake: Lake, mode: Mode) -> None:
    target = any_lake.table()
    stagings = [any_lake.format.stage(any_lake.session, target, any_lake.plan(target, mode)) for _ in range(2)]
    for staging in stagings if any_lake.format.invisible else stagings[1:]:
        put(staging, any_lake.rows(A, B), mode)
    stagings[1].publish()
    with pytest.raises(REFUSED):
        put_or_publish(any_lake, stagings[0], mode, A, B)
    assert any_lake.ids(target) == [1, 2]


def test_a_first_load_does_not_build_on_rows_that_came_after_its_plan(any_lake: Lake) -> None:
    target = any_lake.table()
    plan = any_lake.plan(target, Mode.APPEND)
    any_lake.session.sql(f"INSERT INTO {any_lake.sql_name(target)} VALUES (9, 'foreign', NULL)")
    with pytest.raises(CommitConflict):
        any_lake.format.stage(any_lake.session, target, plan)
    assert any_lake.format.state(target, UID).branches == ()
    assert any_lake.ids(target) == [9]


def test_merge_updates_inserts_and_counts(any_lake: Lake) -> None:
    target = any_lake.table()
    any_lake.load(target, Mode.APPEND, A, B)
    for mode, changed in ((Mode.MERGE_ON_READ, "x"), (Mode.COPY_ON_WRITE, "y")):
        plan = any_lake.plan(target, mode)
        staging = any_lake.format.stage(any_lake.session, target, plan)
        prune = (Prune(column="id", type=BIGINT, low="2", high="10", values=("2", "3", "10")),)
        rows = any_lake.rows((2, changed, None), C, (10, changed, None))
        staging.merge(rows, prune=prune, skip_equal=True)
        keys = rows.select("id")
        assert {row.id for row in staging.read_keys(keys, prune=prune).collect()} == {2, 3, 10}
        receipt = staging.publish()
        # The second time row 3 is equal and left alone, 2 and 10 have changed.
        counted = (receipt.rows_inserted, receipt.rows_updated, receipt.rows_deleted)
        assert counted == ((2, 1, 0) if changed == "x" else (0, 2, 0))
        assert any_lake.oracle(target)[0]["name"] == "a"
        assert {row["id"]: row["name"] for row in any_lake.oracle(target)} == {1: "a", 2: changed, 3: "c", 10: changed}
        assert any_lake.format.state(target, UID).position == plan.position


@pytest.mark.parametrize("mode", MODES)
def test_no_rows_still_move_the_position(any_lake: Lake, mode: Mode) -> None:
    target = any_lake.table()
    any_lake.load(target, Mode.APPEND, A)
    plan = any_lake.plan(target, mode)
    staging = any_lake.format.stage(any_lake.session, target, plan)
    put(staging, any_lake.rows(B).where("id < 0"), mode)
    staging.publish()
    assert any_lake.format.state(target, UID).position == plan.position
    assert any_lake.ids(target) == ([] if mode is Mode.OVERWRITE else [1])


def test_the_position_is_found_behind_foreign_commits_and_compaction(any_lake: Lake) -> None:
    target = any_lake.table()
    plan = any_lake.load(target, Mode.APPEND, A)
    other = any_lake.load(target, Mode.MERGE_ON_READ, B, uid="f" * 16)
    any_lake.session.sql(f"INSERT INTO {any_lake.sql_name(target)} VALUES (9, 'foreign', NULL)")
    compact(any_lake, target)
    state = any_lake.format.state(target, UID)
    assert state.position == plan.position
    assert state.position_snapshot != state.snapshot
    assert any_lake.format.state(target, "f" * 16).position == other.position
    assert any_lake.format.state(target, "e" * 16).position is None
    assert any_lake.ids(target) == [1, 2, 9]


def test_the_session_keeps_nothing_of_a_merge(any_lake: Lake) -> None:
    target = any_lake.table()
    any_lake.load(target, Mode.APPEND, A)
    any_lake.load(target, Mode.MERGE_ON_READ, B)
    any_lake.session.sql(f"INSERT INTO {any_lake.sql_name(target)} VALUES (9, 'foreign', NULL)")
    state = any_lake.format.state(target, UID)
    assert state.position_snapshot != state.snapshot, "somebody else's commit carries the position"
    assert any_lake.session.sql("SHOW VIEWS").collect() == []


def test_keys_are_deleted_and_nothing_else(any_lake: Lake) -> None:
    target = any_lake.table()
    any_lake.load(target, Mode.APPEND, A, B, C)
    plan = any_lake.plan(target, Mode.MERGE_ON_READ)
    staging = any_lake.format.stage(any_lake.session, target, plan)
    keys = any_lake.session.sql("SELECT * FROM VALUES (2L), (3L), (9L) AS k(id)")
    staging.delete(keys, prune=(Prune(column="id", type=BIGINT, low="1", high="2", values=("1", "2")),))
    assert sorted(row.id for row in staging.read().collect()) == [1, 3], "not beyond the bound, though it is named"
    receipt = staging.publish()
    assert (receipt.rows_deleted, receipt.rows_inserted) == (1, 0)
    assert any_lake.ids(target) == [1, 3]
    assert any_lake.format.state(target, UID).position == plan.position


def test_columns_evolve_and_one_that_the_source_dropped_stays(any_lake: Lake) -> None:
    narrow = Schema(columns=(Column(name="id", type=BIGINT), Column(name="gone", type=TEXT)))
    target = any_lake.table(schema=narrow)
    any_lake.session.sql(f"INSERT INTO {any_lake.sql_name(target)} VALUES (1, 'kept')")
    wider = Schema(columns=(Column(name="id", type=BIGINT), Column(name="name", type=TEXT), ROWS.columns[2]))
    added = [
        SchemaChange(kind=ChangeKind.ADD_COLUMN, column=name, old=None, new=None) for name in ("name", "changed_at")
    ]
    any_lake.format.evolve(any_lake.session, target, added, wider)
    any_lake.load(target, Mode.APPEND, B)
    any_lake.load(target, Mode.MERGE_ON_READ, A, C)
    assert [(row["id"], row["gone"], row["name"]) for row in any_lake.oracle(target)] == [
        (1, "kept", "a"),
        (2, None, "b"),
        (3, None, "c"),
    ]


NASTY = 'ta`ble "select" it\'s. ../🐘'


def test_names_of_any_kind(any_lake: Lake) -> None:
    columns = (Column(name="order", type=BIGINT), Column(name="a.b `c` 'd'", type=TEXT), Column(name="🐘", type=TEXT))
    schema = Schema(columns=columns)
    target = any_lake.target(NASTY)
    layout = Layout(partition_by=("bucket(2, order)",), sort_by=("🐘",))
    if isinstance(any_lake.format, Iceberg) and any_lake.format._where.kind == "hive":
        with pytest.raises(ConfigError, match="of letters, digits and _"):
            any_lake.format.state(target, UID)
        target = any_lake.target()
    if isinstance(any_lake.format, Delta):  # which has neither
        layout = Layout(partition_by=("🐘",))
    any_lake.format.create(any_lake.session, target, schema, layout)
    for mode in MODES:
        plan = any_lake.plan(target, mode, columns=schema, key=("order",))
        staging = any_lake.format.stage(any_lake.session, target, plan)
        rows = any_lake.rows((1, "x", "y"), (2, "it's", None), schema=schema)
        put(staging, rows, mode)
        keys = rows.selectExpr("`order`")
        assert staging.read_keys(keys, prune=()).count() == 2 if mode is not Mode.APPEND else True
        staging.publish()
    assert any_lake.oracle(target) == [
        {"order": 1, "a.b `c` 'd'": "x", "🐘": "y"},
        {"order": 2, "a.b `c` 'd'": "it's", "🐘": None},
    ]


def test_two_runners_at_once_never_both_land(any_lake: Lake) -> None:
    target = any_lake.table()
    any_lake.load(target, Mode.APPEND, A)
    for round_ in range(3):
        plans = [any_lake.plan(target, Mode.APPEND) for _ in range(2)]
        stagings = [any_lake.format.stage(any_lake.session, target, plan) for plan in plans]
        row = (10 + round_, "new", None)
        for staging in stagings if any_lake.format.invisible else ():
            staging.append(any_lake.rows(row))
        start, results = threading.Barrier(2), {}

        def publish(
            index: int, staging: Any, start: Any = start, results: dict[int, bool] = results, row: Any = row
        ) -> None:
            start.wait()
            try:
                put_or_publish(any_lake, staging, Mode.APPEND, row)
                results[index] = True
            except REFUSED:
                results[index] = False

        threads = [threading.Thread(target=publish, args=pair) for pair in enumerate(stagings)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results.values()) == [False, True]
        winner = next(index for index, won in results.items() if won)
        assert any_lake.format.state(target, UID).position == plans[winner].position
    assert any_lake.ids(target) == [1, 10, 11, 12]


def test_a_change_of_the_table_that_moves_no_row_does_not_stop_a_load(any_lake: Lake) -> None:
    target = any_lake.table()
    plan = any_lake.plan(target, Mode.APPEND)
    staging = any_lake.format.stage(any_lake.session, target, plan)
    staging.append(any_lake.rows(A))
    any_lake.session.sql(f"ALTER TABLE {any_lake.sql_name(target)} SET TBLPROPERTIES ('comment.of' = 'somebody')")
    any_lake.session.sql(f"ALTER TABLE {any_lake.sql_name(target)} ADD COLUMN later string")
    staging.publish()
    assert any_lake.ids(target) == [1]


def test_branches_of_a_crash_are_told_and_dropped(any_lake: Lake) -> None:
    if not any_lake.format.invisible:
        pytest.skip("a format without branches leaves none behind")
    target = any_lake.table()
    any_lake.load(target, Mode.APPEND, A)
    plan = any_lake.plan(target, Mode.APPEND)
    any_lake.format.stage(any_lake.session, target, plan).append(any_lake.rows(B))
    state = any_lake.format.state(target, UID)
    assert state.branches == (plan.branch,)
    assert any_lake.format.state(target, "f" * 16).branches == (), "another stream's branches are its own"
    any_lake.format.drop_branches(any_lake.session, target, state.branches)
    assert any_lake.format.state(target, UID).branches == ()
    assert any_lake.ids(target) == [1]


def put_or_publish(lake: Lake, staging: Any, mode: Mode, *rows: Any) -> None:
    """The step that makes a load visible: of what was put already, or the write itself."""
    if not lake.format.invisible:
        put(staging, lake.rows(*rows), mode)
    staging.publish()


def compact(lake: Lake, target: Any) -> None:
    if isinstance(lake.format, Delta):
        lake.session.sql(f"OPTIMIZE {lake.sql_name(target)}").collect()
        return
    name = sql.string(sql.table(target))
    call = f"CALL {sql.quote(target.lake)}.system.rewrite_data_files"
    lake.session.sql(f"{call}(table => {name}, options => map('rewrite-all', 'true'))").collect()
