"""The queries of the documents, asked of a registry that watched four real days."""

import json
import re
from pathlib import Path

import pytest
from sqlalchemy import text

from support.workspace import SqliteShop, Workspace
from unit.registry.behaviour_runs import queries

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

PAGE = (Path(__file__).parents[3] / "docs" / "registry.md").read_text()
STREAM = {
    "source": {"connection": "shop", "table": "transactions"},
    "target": "lake.shop.transactions",
    "key": ["id"],
    "strategy": {"kind": "checksum", "method": "by_date", "column": "day", "period": "day", "lookback": "20250102"},
    "write": "replace",
}


@pytest.fixture
def url(pg_url):
    return pg_url


@pytest.fixture
def ask(raw):
    """The rows of the query of the page that begins with this comment."""

    def ask(comment):
        titles = {
            re.sub(r"^\s*-- ", "", query.strip().splitlines()[0]): query
            for query in queries(PAGE, "sql", f"sql {raw.dialect.name}")
        }
        with raw.connect() as connection:
            return [row._mapping for row in connection.execute(text(titles[comment]))]

    return ask


@pytest.fixture
def shop(tmp_path):
    """Eight days of two rows; nothing keeps an id from standing twice."""
    shop = SqliteShop(path=tmp_path / "shop.db")
    rows = ", ".join(f"({number}, '2025-01-0{1 + number // 2}', 1)" for number in range(16))
    shop.sql("create table transactions (id integer not null, day date, amount integer)")
    shop.sql(f"insert into transactions values {rows}")
    return shop


def nothing_differs(workspace, run, ask, moved):
    """What is said of the partitions that are equal."""
    with workspace.project() as project:
        (equal,) = project.plan().streams
        assert (equal.outcome, {part.action for part in equal.slices}) == ("unchanged", {"SKIP"})
        assert [(part.slice, part.rows) for part in equal.slices] == [
            *((f"2025010{day}", 2) for day in range(2, 8)),
            ("20250108", 3),
            ("20250109", 1),
        ]
        (tasks,) = project.checksum_tasks("shop", ["transactions"]).streams
        assert (tasks.tasks, [task.rows for task in tasks.skipped]) == ((), [2] * 6 + [3, 1])
    assert run().outcome == "unchanged"
    with workspace.project() as project:
        (day,) = project.savings().days
        assert (day.stream, day.runs, day.partitions_loaded, day.partitions_skipped) == ("transactions", 3, 9, 6 + 8)
        assert (day.rows_loaded, day.rows_skipped) == (14 + 4, 12 + 16)
    ingested = ask("everything that was loaded, slice by slice")
    assert [(row.extract_group_id, row.load_action, row.row_count) for row in ingested[:2]] == moved[:2]
    assert len(ingested) == 9


def test_four_days(tmp_path, shop, url, raw, ask, spark):
    workspace = Workspace(folder=tmp_path)
    workspace.write({"transactions": STREAM}, connections={"shop": {"url": shop.url}}, registry=url)

    def run():
        return workspace.run("transactions", spark=spark).streams[0]

    first = run()
    assert (first.error, first.slices_changed) == (None, 7)
    partitions = ask("every partition of a stream: when it was loaded first, and when last")
    assert [(row.extract_group_id, row.partition_row_count) for row in partitions] == [
        (f"2025010{day}", 2) for day in range(2, 9)
    ]
    assert ask("partitions that were loaded again") == []
    assert ask("the condition of an alert: did a load fail in the last hour?")[0].failed in (0, False)

    shop.sql("insert into transactions values (16, '2025-01-08', 5), (17, '2025-01-09', 5)")
    assert run().error is None
    (again,) = ask("partitions that were loaded again")
    assert (again.extract_group_id, again.partition_row_count, again.days_since_first_load) == ("20250108", 3, 0)
    hour = ask("what the last hour did to a stream")
    moved = [(row.extract_group_id, row.load_action, row.rows_loaded) for row in hour if row.load_action]
    assert moved[:2] == [("20250109", "LOAD", 1), ("20250108", "RELOAD", 3)]
    assert {row.status_cd for row in hour} == {"OK"}
    assert [row.task_type for row in hour].count("get_checksums") == 2
    nothing_differs(workspace, run, ask, moved)

    shop.sql("insert into transactions values (8, '2025-01-05', 5), (20, '2025-01-10', 5)")
    assert run().error.code == "duplicate_keys"
    (failure,) = ask("failures that nothing has repaired yet")
    assert (failure.object_name, failure.extract_group_id) == ("transactions", "20250105")
    assert (failure.error_code, bool(failure.error_message)) == ("duplicate_keys", True)
    assert ask("the condition of an alert: did a load fail in the last hour?")[0].failed in (1, True)
    detail = ask("the state of a source table, partition by partition")
    assert {row.extract_group_id for row in detail if row.status_cd == "ERROR"} == {"20250105"}
    assert {row.partition_row_count for row in detail if row.extract_group_id == "20250105"} == {2}
    assert {row.load_action for row in detail if row.extract_group_id == "20250110"} == {"LOAD"}

    shop.sql("delete from transactions where id = 8 and amount = 5")
    assert run().error is None
    assert ask("failures that nothing has repaired yet") == []
    (total,) = ask("the whole, what runs, and what ran")
    assert tuple(total.values()) == ("OK", 1, 9, 17)
    durations = [row.duration_sec for row in ask("loads of partitions, the last ones first")]
    assert len(durations) >= 7 + 2 + 2
    assert all(0 <= seconds < 600 for seconds in durations)
    with raw.connect() as connection:
        origin = connection.execute(text("SELECT system_name, source_object_name FROM object_info")).one()
        method = connection.execute(text("SELECT checksum_method FROM object_info")).scalar()
        method = json.loads(method) if isinstance(method, str) else method
        assert method == {"type": "by_date", "column_name": "day", "period": "day", "lookback": "20250102"}
        steps = text("SELECT old_status, new_status FROM status_change_log WHERE extract_group_id = '20250108'")
        assert tuple(origin) == ("shop", "transactions")
        assert sorted(map(tuple, connection.execute(steps))) == sorted(
            [("NEW", "RUNNING"), ("RUNNING", "OK"), ("OK", "RUNNING"), ("RUNNING", "OK")]
        )
