"""What a checksum run would have to do, asked without Spark."""

import pytest

from support.workspace import SqliteShop, Workspace
from tidegate.errors import ConfigError

BY_DAY = {"kind": "checksum", "method": "by_date", "column": "day", "period": "day"}


def stream(table, **strategy):
    return {
        "source": {"connection": "shop", "table": table},
        "target": f"lake.shop.{table.split('.')[-1]}",
        "key": ["id"],
        "strategy": BY_DAY | strategy,
        "write": "replace",
    }


@pytest.fixture
def shop(tmp_path) -> SqliteShop:
    shop = SqliteShop(path=tmp_path / "shop.db")
    for table in ("sales", "returns"):
        shop.sql(
            f"create table {table} (id integer primary key, day date, amount integer)",
            f"insert into {table} values (1, '2025-01-01', 1), (2, '2025-01-01', 1), (3, '2025-01-02', 1)",
        )
    return shop


@pytest.fixture
def write(tmp_path, shop):
    def write(**streams):
        workspace = Workspace(folder=tmp_path)
        other = {"kind": "watermark", "column": "day"}
        streams = streams or {"sales": stream("sales"), "returns": stream("main.returns"), "late": stream("sales")}
        if "late" in streams:
            streams["late"] |= {"strategy": other, "write": "merge", "target": "lake.shop.late"}
        workspace.write(streams, connections={"shop": {"url": shop.url}, "elsewhere": {"url": "postgresql://h:1/d"}})
        return workspace

    return write


@pytest.fixture
def project(write, no_spark):
    with write().project() as project:
        yield project


def told(found):
    return [
        (one.stream, [(task.extract_group_id, task.action, task.rows) for task in one.tasks]) for one in found.streams
    ]


def due_to(found):
    return {reason: count for reason, count in found.to_dict()["tasks_not_inserted_due_to"].items() if count}


DAYS = [("20250101", "LOAD", 2), ("20250102", "LOAD", 1)]


def test_every_partition_of_every_checksum_stream(project):
    found = project.checksum_tasks("shop", force=True)
    assert told(found) == [("sales", DAYS), ("returns", DAYS)]
    assert (found.tasks_generated, found.tasks_inserted, due_to(found)) == (4, 4, {})
    assert {(task.stream, task.task_type, task.status_cd) for task in project.tasks()} == {
        ("sales", "get_checksums", "OK"),
        ("returns", "get_checksums", "OK"),
    }
    assert project.tasks("sales")[0].result_payload == {"tasks_generated": 2, "tasks_inserted": 2}


def test_identifiers_narrow_to_streams(project):
    for identifiers, streams in (
        (["returns"], ["returns"]),
        ("sales", ["sales"]),
        ({"main": ["returns"]}, ["returns"]),
        ({"main": ["sales", "returns"]}, ["sales", "returns"]),
        ({"main": []}, ["sales", "returns"]),
        ({"other": []}, ["sales"]),  # a table without a schema is in whichever there is
    ):
        found = project.checksum_tasks("shop", identifiers, validate_only=True)
        assert (identifiers, [one.stream for one in found.streams]) == (identifiers, streams)


def test_names_that_are_unknown(project):
    for system, identifiers, message in (
        ("shpo", ["sales"], "did you mean 'shop'"),
        ("shop", ["slaes"], "did you mean 'sales'"),
        ("shop", ["late"], "watermark"),
        ("shop", {"main": ["slaes"]}, "main.slaes"),
        ("elsewhere", ["sales"], "not a stream of that connection"),
        ("shop", None, "without identifiers"),
        ("shop", [], "without identifiers"),
        ("shop", {}, "without identifiers"),
    ):
        with pytest.raises(ConfigError, match=message):
            project.checksum_tasks(system, identifiers, validate_only=True)


def test_validate_only_writes_nothing(project):
    found = project.checksum_tasks("shop", ["sales"], validate_only=True)
    assert (found.tasks_generated, found.tasks_inserted, due_to(found)) == (2, 0, {"validate_only": 2})
    assert project.tasks() == []
    assert [each.status for each in project.status() if each.last_run_id or each.status != "NEW"] == []


def test_a_task_that_is_open_blocks(project):
    uid = project.streams("sales")[0].uid
    project.registry.register(uid=uid, name="sales", source="shop: sales", target="t")
    number = project.registry.start_task(uid, "load_partition", extract_group_id="20250101")
    found = project.checksum_tasks("shop", force=True)
    assert (found.tasks_inserted, due_to(found)) == (2, {"existing_tasks": 2})
    assert "load_partition" in found.streams[0].tasks[0].reason
    assert [task.task_id for task in project.tasks("sales")] == [number]


def test_a_runner_at_work_blocks(project):
    uid = project.streams("sales")[0].uid
    project.registry.register(uid=uid, name="sales", source="shop: sales", target="t")
    with project.registry.lease(uid):
        assert due_to(project.checksum_tasks("shop", ["sales"])) == {"existing_tasks": 2}
    assert project.checksum_tasks("shop", ["sales"]).tasks_inserted == 2


def test_a_partition_that_is_too_large_blocks_its_stream(write):
    """As a run does, which refuses the stream."""
    with write(sales=stream("sales", max_rows=1)).project() as project:
        found = project.checksum_tasks("shop", ["sales"])
        assert (found.tasks_generated, found.tasks_inserted) == (2, 0)
        assert due_to(found) == {"max_partition_exceeded": 2}
        assert "20250101 has 2 rows" in found.streams[0].tasks[0].reason
        assert project.plan("sales").streams[0].error.code == "plan"


@pytest.mark.parametrize(
    "strategy", [{"column": "dya"}, {"method": "by_integer", "column": "day", "modulus": 7, "period": None}]
)
def test_a_column_that_cuts_nothing_blocks(write, strategy):
    made = stream("sales", **strategy)
    made["strategy"] = {name: value for name, value in made["strategy"].items() if value is not None}
    with write(sales=made).project() as project:
        found = project.checksum_tasks("shop", ["sales"])
        assert (found.tasks_generated, due_to(found)) == (1, {"unprofiled_columns": 1})
        assert found.streams[0].error is None


def test_a_source_that_cannot_be_asked_is_told_by_its_stream(write, shop):
    with write().project() as project:
        project.streams()
        shop.path.unlink()
        shop.path.mkdir()
        found = project.checksum_tasks("shop", force=True)
        assert found.tasks_generated == 0
        assert {one.error.code for one in found.streams} == {"source_unavailable"}
        assert project.tasks("sales")[0].status_cd == "ERROR"
        found.to_dict()
