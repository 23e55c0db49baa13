"""What each step leaves of a table, done by the format alone: rows, as an independent reader sees them, positions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from support.lake import QUICK, Lake, make_delta_lake, make_lake
from tidegate.core.plan import Mode
from tidegate.core.policies.maintenance import Maintenance, Step, Upkeep
from tidegate.core.ports.format import Layout
from tidegate.formats.delta import Delta
from tidegate.spark.session import Sessions
from tidegate.testing.contracts.lake import UID

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

OTHER = "f" * 16


@pytest.fixture(params=["iceberg", "delta"])
def lake(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> Lake:
    make: Any = make_lake if request.param == "iceberg" else make_delta_lake

    def session(made: Any) -> Any:
        found = Sessions(borrowed=spark, lakes=[made.spark_conf()]).load_session()
        for name, value in QUICK.items():
            found.conf.set(name, value)
        return found

    found: Lake = make(tmp_path, session)
    return found


def row(number: int, name: str) -> tuple[int, str, None]:
    return number, name, None


def upkeep(target: Any, *, force: bool = True, partition_by: tuple[str, ...] = (), **rules: Any) -> Upkeep:
    return Upkeep(
        target=target,
        uid=UID,
        rules=Maintenance(**{"expire_after": timedelta(0), "keep": 1, **rules}),
        now=datetime.now(UTC) + timedelta(milliseconds=1),
        partition_by=partition_by,
        force=force,
    )


def maintain(lake: Lake, asked: Upkeep) -> dict[Step, str]:
    done: dict[Step, str] = {}
    for need in lake.format.survey(asked):
        session = lake.session.newSession()
        for name in ("spark.sql.session.timeZone", "spark.sql.caseSensitive", "spark.sql.ansi.enabled"):
            session.conf.set(name, lake.session.conf.get(name))
        for name, value in lake.format.spark_conf().items():
            if name != "spark.sql.extensions":
                session.conf.set(name, value)
        done[need.step] = lake.format.maintain(session, replace(asked, now=datetime.now(UTC)), need.step)
    return done


@pytest.mark.slow
@pytest.mark.parametrize(("lake", "version"), [("iceberg", 2), ("iceberg", 3), ("delta", None)], indirect=["lake"])
def test_deletes_leave_their_files_and_every_position_stays(lake: Lake, version: int | None) -> None:
    # Versions of the format are Iceberg's; Delta leaves files as they are only if the table has deletion vectors.
    layout = Layout(format_version=version) if version else Layout(deletion_vectors=True)
    target = lake.table(layout=layout)
    theirs = lake.load(target, Mode.APPEND, *(row(n, "a") for n in range(20)), uid=OTHER)
    mine = [lake.load(target, Mode.MERGE_ON_READ, row(n, f"b{n}"), row(100 + n, "new")) for n in range(2)]
    before = lake.oracle(target)
    assert len(before) == 22
    crashed = lake.plan(target, Mode.APPEND)
    if not isinstance(lake.format, Delta):
        lake.format.stage(lake.session, target, crashed).append(lake.rows(row(7, "never seen")))

    done = maintain(lake, upkeep(target))
    assert done.keys() >= {Step.COMPACT, Step.DELETES, Step.EXPIRE}
    assert lake.oracle(target) == before
    state = lake.format.state(target, UID)
    assert (state.position, state.branches) == (mine[-1].position, ())
    assert lake.format.state(target, OTHER).position == theirs.position
    assert state.rows == 22, "no delete is left that would make the number an estimate"
    assert [each.load for each in lake.format.versions(target, UID) if each.current] == [2]
    lake.load(target, Mode.MERGE_ON_READ, row(0, "c"))
    assert len(lake.oracle(target)) == 22
    assert lake.format.state(target, UID).position.sequence == 3  # type: ignore[union-attr]


def test_below_its_thresholds_a_table_is_left_alone(lake: Lake) -> None:
    target = lake.table()
    for number in range(2):
        lake.load(target, Mode.APPEND, row(number, "a"))
    asked = upkeep(target, force=False, expire_after=timedelta(days=7), keep=20)
    assert lake.format.survey(replace(asked, looked_at=asked.now)) == ()


@pytest.mark.slow
def test_an_old_position_is_carried_on(lake: Lake) -> None:
    """Nobody loads for long, others write: the commit that carries the position would be forgotten."""
    target = lake.table()
    mine = lake.load(target, Mode.APPEND, row(1, "a"))
    carrier = lake.format.state(target, UID).position_snapshot
    lake.session.sql(f"INSERT INTO {lake.sql_name(target)} VALUES (2, 'foreign', NULL)")
    done = maintain(lake, upkeep(target))
    step = Step.POSITION if isinstance(lake.format, Delta) else Step.EXPIRE
    assert "re-stamped" in done[step]
    state = lake.format.state(target, UID)
    assert (state.position, state.last_sequence) == (mine.position, 1 if isinstance(lake.format, Delta) else 0)
    assert state.position_snapshot != carrier
    lake.load(target, Mode.APPEND, row(3, "b"))
    assert lake.ids(target) == [1, 2, 3]


def test_without_being_carried_on_it_would_be_lost(spark: Any, tmp_path: Path) -> None:
    """Why there is a commit without rows: `expire_snapshots` takes the position with its snapshot."""
    lake = make_lake(tmp_path, lambda made: Sessions(borrowed=spark, lakes=[made.spark_conf()]).load_session())
    target = lake.table()
    lake.load(target, Mode.APPEND, row(1, "a"))
    lake.session.sql(f"INSERT INTO {lake.sql_name(target)} VALUES (2, 'foreign', NULL)")
    lake.session.sql(
        f"CALL {target.lake}.system.expire_snapshots(table => '{'.'.join((*target.namespace, target.table))}', "
        "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )
    assert lake.format.state(target, UID).position is None
    assert lake.ids(target) == [1, 2]


def test_partitions_change_for_new_rows_on_iceberg(spark: Any, tmp_path: Path) -> None:
    lake = make_lake(tmp_path, lambda made: Sessions(borrowed=spark, lakes=[made.spark_conf()]).load_session())
    target = lake.table()
    lake.load(target, Mode.APPEND, row(1, "a"), row(2, "b"))
    asked = upkeep(target, force=False, partition_by=("bucket(2, id)",), expire_after=timedelta(days=1))
    assert lake.format.layout_differs(target, asked.partition_by)
    assert Step.LAYOUT in maintain(lake, asked)
    assert lake.format.layout_differs(target, asked.partition_by) is None
    lake.load(target, Mode.MERGE_ON_READ, row(1, "changed"), row(3, "c"))
    assert {each["id"]: each["name"] for each in lake.oracle(target)} == {1: "changed", 2: "b", 3: "c"}


def test_side_tables_are_found_by_their_names(lake: Lake) -> None:
    target = lake.table(name="orders")
    sides = [lake.table(name=f"orders__tidegate_{name}") for name in ("quarantine", "seen")]
    lake.table(name="ordersx_tidegate_other")
    lake.table(name="orders2")
    assert lake.format.side_tables(target) == tuple(sides)
    assert lake.format.side_tables(lake.target("absent")) == ()
