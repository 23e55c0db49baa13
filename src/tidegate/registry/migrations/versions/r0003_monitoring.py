"""Adds columns and views for monitoring: sources of streams, their partitions, and failures."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

LOADS = "('load', 'load_partition')"


def upgrade() -> None:
    """Columns, an index and views, in the caller's transaction."""
    for name in ("system_name", "schema_name", "source_object_name"):
        op.add_column("object_info", sa.Column(name, sa.Text))
    op.add_column("object_info", sa.Column("checksum_method", sa.JSON()))
    op.create_index("changes_by_group", "status_change_log", ["object_id", "extract_group_id", "change_id"])
    op.create_index("tasks_by_group", "tasks", ["target_object_id", "task_type", "extract_group_id", "task_id"])
    for name in ("status_results_detail", "status_results_total"):
        op.execute(sa.text(f"DROP VIEW {name}"))
    for name, query in _views(op.get_bind().dialect.name).items():
        op.execute(sa.text(f"CREATE VIEW {name} AS {query}"))


def _views(dialect: str) -> dict[str, str]:
    return {
        "status_results_total": _total(),
        "status_results_detail": _detail(dialect),
        "alerts_failed_loads": f"{_failed_tasks(dialect)} UNION ALL {_failed_runs(dialect)}",
    }


def _member(dialect: str, document: str, *path: str) -> str:
    """The text of a member of a JSON document."""
    if dialect == "sqlite":
        return f"json_extract({document}, '$.{'.'.join(path)}')"
    inner = "".join(f" -> '{name}'" for name in path[:-1])
    return f"({document}{inner} ->> '{path[-1]}')"


def _total() -> str:
    return (
        "SELECT o.status_cd, count(*) AS stream_count, "
        "CAST(coalesce(sum(c.partition_count), 0) AS bigint) AS partition_count, "
        "CAST(coalesce(sum(c.row_count), 0) AS bigint) AS row_count FROM object_info o LEFT JOIN ("
        "SELECT object_id, count(*) AS partition_count, sum(partition_row_count) AS row_count "
        "FROM checksums GROUP BY object_id) c ON c.object_id = o.object_id GROUP BY o.status_cd"
    )


def _detail(dialect: str) -> str:
    rows = _member(dialect, "t.result_payload", "rows")
    action = _member(dialect, "t.result_payload", "action")
    return (
        "SELECT o.object_name, o.system_name AS source_system_name, o.schema_name AS source_schema_name, "
        "o.source_object_name, o.source, o.target, t.extract_group_id, t.task_type, t.status_cd, t.start_ts, "
        f"t.finish_ts, CAST({rows} AS bigint) AS row_count, {action} AS load_action, c.partition_row_count, "
        "c.partition_checksum, c.created_ts AS first_loaded_ts, c.updated_ts AS last_loaded_ts "
        "FROM tasks t JOIN object_info o ON o.object_id = t.target_object_id "
        "LEFT JOIN checksums c ON c.object_id = t.target_object_id AND c.extract_group_id = t.extract_group_id "
        "WHERE t.task_id IN (SELECT max(task_id) FROM tasks "
        "GROUP BY target_object_id, extract_group_id, task_type)"
    )


def _failed_tasks(dialect: str) -> str:
    """The slices whose last attempt in a run failed: those of one commit are tried again, each alone."""
    told = ", ".join(
        # Earlier versions kept the error as the whole payload of a task that a crash left.
        f"coalesce({_member(dialect, 't.result_payload', 'error', name)}, "
        f"{_member(dialect, 't.result_payload', name)}) AS error_{name}"
        for name in ("code", "message", "hint")
    )
    later = (
        "SELECT min(l.finish_ts) FROM tasks l WHERE l.target_object_id = t.target_object_id AND l.task_id > t.task_id "
        "AND l.status_cd = 'OK' AND l.task_type = t.task_type "
        "AND (t.task_type = 'load' OR l.extract_group_id = t.extract_group_id)"
    )
    return (
        "SELECT o.object_name, o.system_name AS source_system_name, o.source, o.target, t.task_type, "
        f"t.extract_group_id, t.start_ts, t.finish_ts AS failed_ts, {told}, t.run_id, t.task_id, "
        f"coalesce(({later}), ({_good_run('t.target_object_id', 't.start_ts')})) AS resolved_ts "
        "FROM tasks t JOIN object_info o ON o.object_id = t.target_object_id "
        f"WHERE t.status_cd = 'ERROR' AND t.task_type IN {LOADS} AND NOT EXISTS (SELECT 1 FROM tasks s "
        "WHERE s.target_object_id = t.target_object_id AND s.task_type = t.task_type "
        "AND s.extract_group_id = t.extract_group_id AND s.task_id > t.task_id AND s.run_id = t.run_id)"
    )


def _failed_runs(dialect: str) -> str:
    """The runs that failed before or beside a task of theirs."""
    told = ", ".join(_member(dialect, "r.error", name) for name in ("code", "message", "hint"))
    return (
        "SELECT o.object_name, o.system_name, o.source, o.target, 'run', NULL, r.started_ts, r.finished_ts, "
        f"{told}, r.run_id, NULL, ({_good_run('r.object_id', 'r.started_ts')}) "
        "FROM runs r JOIN object_info o ON o.object_id = r.object_id "
        "WHERE r.outcome IN ('failed', 'stopped') AND NOT EXISTS (SELECT 1 FROM tasks f WHERE f.run_id = r.run_id "
        f"AND f.target_object_id = r.object_id AND f.status_cd = 'ERROR' AND f.task_type IN {LOADS})"
    )


def _good_run(object_id: str, after: str) -> str:
    return (
        f"SELECT min(g.finished_ts) FROM runs g WHERE g.object_id = {object_id} AND g.started_ts > {after} "
        "AND g.outcome IN ('loaded', 'unchanged')"
    )
