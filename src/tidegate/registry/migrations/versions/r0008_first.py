"""The first schema: streams, positions, plans, runs, tasks, partitions, files, intervals, backfills, leases, views."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = None

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
DOCUMENT = sa.JSON()
LOADS = "('load', 'load_partition')"


def upgrade() -> None:
    """Everything, in the caller's transaction."""
    _streams()
    _history()
    _parts()
    _backfills()
    _leases()
    for name, query in _views(op.get_bind().dialect.name).items():
        op.execute(sa.text(f"CREATE VIEW {name} AS {query}"))


def _stream(name: str = "object_id", *, primary: bool = False) -> "sa.Column[int]":
    return sa.Column(name, SERIAL, sa.ForeignKey("object_info.object_id"), primary_key=primary, nullable=False)


def _streams() -> None:
    op.create_table(
        "object_info",
        sa.Column("object_id", SERIAL, primary_key=True),
        sa.Column("uid", sa.String(64), nullable=False, unique=True),
        sa.Column("object_name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("status_cd", sa.String(16), nullable=False),
        sa.Column("table_uuid", sa.String(64)),
        sa.Column("loaded_through", sa.Text),
        sa.Column("verified_through", sa.Text),
        sa.Column("verified_ts", TIME),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.Column("system_name", sa.Text),
        sa.Column("schema_name", sa.Text),
        sa.Column("source_object_name", sa.Text),
        sa.Column("checksum_method", DOCUMENT),
    )
    op.create_table(
        "positions",
        _stream(primary=True),
        sa.Column("revision", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("load_id", sa.String(64)),
        sa.Column("position", sa.Text),
        sa.Column("snapshot", sa.Text),
        sa.Column("table_uuid", sa.String(64)),
        sa.Column("verified", sa.Boolean),
        sa.Column("recorded_ts", TIME, nullable=False),
        sa.Column("gone", sa.Text),
    )
    op.create_table(
        "plans",
        sa.Column("load_id", sa.String(64), primary_key=True),
        _stream(),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("plan", DOCUMENT, nullable=False),
        sa.Column("status_cd", sa.String(16), nullable=False),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("finished_ts", TIME),
    )
    op.create_index("plans_by_object", "plans", ["object_id", "status_cd"])


def _history() -> None:
    op.create_table(
        "runs",
        sa.Column("run_id", sa.String(64), primary_key=True),
        _stream(primary=True),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("started_ts", TIME, nullable=False),
        sa.Column("finished_ts", TIME),
        sa.Column("started_by", sa.Text, nullable=False),
        sa.Column("outcome_payload", DOCUMENT),
        sa.Column("error", DOCUMENT),
    )
    op.create_index("runs_by_object", "runs", ["object_id", "started_ts"])
    op.create_table(
        "tasks",
        sa.Column("task_id", SERIAL, primary_key=True),
        sa.Column("task_type", sa.String(64), nullable=False),
        sa.Column("status_cd", sa.String(16), nullable=False),
        sa.Column("start_ts", TIME, nullable=False),
        sa.Column("finish_ts", TIME),
        _stream("source_object_id"),
        _stream("target_object_id"),
        sa.Column("extract_group_id", sa.Text),
        sa.Column("result_payload", DOCUMENT),
        sa.Column("run_id", sa.String(64)),
    )
    op.create_index("tasks_by_object", "tasks", ["target_object_id", "start_ts"])
    op.create_index("tasks_by_status", "tasks", ["status_cd", "start_ts"])
    op.create_index("tasks_by_group", "tasks", ["target_object_id", "task_type", "extract_group_id", "task_id"])
    op.create_table(
        "status_change_log",
        sa.Column("change_id", SERIAL, primary_key=True),
        _stream(),
        sa.Column("extract_group_id", sa.Text),
        sa.Column("old_status", sa.String(64), nullable=False),
        sa.Column("new_status", sa.String(64), nullable=False),
        sa.Column("changed_ts", TIME, nullable=False),
        sa.Column("changed_by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
    )
    op.create_index("changes_by_object", "status_change_log", ["object_id", "change_id"])
    op.create_index("changes_by_group", "status_change_log", ["object_id", "extract_group_id", "change_id"])


def _parts() -> None:
    op.create_table(
        "checksums",
        sa.Column("checksum_id", SERIAL, primary_key=True),
        _stream(),
        sa.Column("extract_group_id", sa.Text, nullable=False),
        sa.Column("checksum_method", DOCUMENT, nullable=False),
        sa.Column("source_filter", sa.Text),
        sa.Column("target_filter", sa.Text),
        sa.Column("partition_checksum", sa.Text, nullable=False),
        sa.Column("partition_row_count", sa.BigInteger, nullable=False),
        sa.Column("quick_checksum", sa.Text),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.UniqueConstraint("object_id", "extract_group_id", name="checksums_by_object"),
    )
    op.create_table(
        "files",
        sa.Column("file_id", SERIAL, primary_key=True),
        _stream(),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.Column("stamp", sa.Text),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.Column("loaded", sa.BigInteger),
        sa.UniqueConstraint("object_id", "path", name="files_by_object"),
    )
    op.create_table(
        "intervals",
        sa.Column("interval_id", SERIAL, primary_key=True),
        _stream(),
        sa.Column("after_value", sa.Text),
        sa.Column("upto_value", sa.Text, nullable=False),
        sa.Column("state_cd", sa.String(16), nullable=False),
        sa.Column("row_count", sa.BigInteger),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.UniqueConstraint("object_id", "upto_value", name="intervals_by_object"),
    )


def _backfills() -> None:
    op.create_table(
        "backfills",
        sa.Column("backfill_id", SERIAL, primary_key=True),
        _stream(),
        sa.Column("begin_value", sa.Text, nullable=False),
        sa.Column("end_value", sa.Text, nullable=False),
        sa.Column("parallel", sa.Integer, nullable=False),
        sa.Column("rate", sa.BigInteger),
        sa.Column("status_cd", sa.String(16), nullable=False),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.Index("backfills_by_object", "object_id", "status_cd"),
    )
    op.create_table(
        "backfill_chunks",
        sa.Column("backfill_id", SERIAL, sa.ForeignKey("backfills.backfill_id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("after_value", sa.Text, nullable=False),
        sa.Column("upto_value", sa.Text, nullable=False),
        sa.Column("row_count", sa.BigInteger, nullable=False),
        sa.Column("status_cd", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("updated_ts", TIME, nullable=False),
    )


def _leases() -> None:
    op.create_table(
        "leases",
        sa.Column("uid", sa.String(64), primary_key=True),
        sa.Column("token", sa.String(64), nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("host_id", sa.Text, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("process_start", sa.Text, nullable=False),
        sa.Column("acquired_ts", TIME, nullable=False),
        sa.Column("renewed_ts", TIME, nullable=False),
        sa.Column("expires_ts", TIME, nullable=False),
    )


def _views(dialect: str) -> dict[str, str]:
    sqlite = dialect == "sqlite"
    day = "substr(t.start_ts, 1, 10)" if sqlite else "CAST(t.start_ts AT TIME ZONE 'UTC' AS date)"
    seconds = (
        "(julianday(t.finish_ts) - julianday(t.start_ts)) * 86400.0"
        if sqlite
        else "extract(epoch FROM t.finish_ts - t.start_ts)"
    )
    return {
        "tasks_active": "SELECT t.task_id, t.task_type, o.object_name, t.extract_group_id, t.start_ts, t.run_id "
        "FROM tasks t JOIN object_info o ON o.object_id = t.target_object_id WHERE t.status_cd = 'RUNNING'",
        "task_stats_by_date": f"SELECT {day} AS start_date, t.task_type, t.status_cd, count(*) AS task_count, "
        f"avg({seconds}) AS average_seconds, max({seconds}) AS longest_seconds "
        f"FROM tasks t GROUP BY {day}, t.task_type, t.status_cd",
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
    document = ", ".join(
        f"{_member(dialect, 't.result_payload', 'error', name)} AS error_{name}" for name in ("code", "message", "hint")
    )
    later = (
        "SELECT min(l.finish_ts) FROM tasks l WHERE l.target_object_id = t.target_object_id AND l.task_id > t.task_id "
        "AND l.status_cd = 'OK' AND l.task_type = t.task_type "
        "AND (t.task_type = 'load' OR l.extract_group_id = t.extract_group_id)"
    )
    return (
        "SELECT o.object_name, o.system_name AS source_system_name, o.source, o.target, t.task_type, "
        f"t.extract_group_id, t.start_ts, t.finish_ts AS failed_ts, {document}, t.run_id, t.task_id, "
        f"coalesce(({later}), ({_good_run('t.target_object_id', 't.start_ts')})) AS resolved_ts "
        "FROM tasks t JOIN object_info o ON o.object_id = t.target_object_id "
        f"WHERE t.status_cd = 'ERROR' AND t.task_type IN {LOADS} AND NOT EXISTS (SELECT 1 FROM tasks s "
        "WHERE s.target_object_id = t.target_object_id AND s.task_type = t.task_type "
        "AND s.extract_group_id = t.extract_group_id AND s.task_id > t.task_id AND s.run_id = t.run_id)"
    )


def _failed_runs(dialect: str) -> str:
    """The runs that failed before or beside a task of theirs."""
    document = ", ".join(_member(dialect, "r.error", name) for name in ("code", "message", "hint"))
    return (
        "SELECT o.object_name, o.system_name, o.source, o.target, 'run', NULL, r.started_ts, r.finished_ts, "
        f"{document}, r.run_id, NULL, ({_good_run('r.object_id', 'r.started_ts')}) "
        "FROM runs r JOIN object_info o ON o.object_id = r.object_id "
        "WHERE r.outcome IN ('failed', 'stopped', 'interrupted') AND NOT EXISTS ("
        "SELECT 1 FROM tasks f WHERE f.run_id = r.run_id "
        f"AND f.target_object_id = r.object_id AND f.status_cd = 'ERROR' AND f.task_type IN {LOADS})"
    )


def _good_run(object_id: str, after: str) -> str:
    return (
        f"SELECT min(g.finished_ts) FROM runs g WHERE g.object_id = {object_id} AND g.started_ts > {after} "
        "AND g.outcome IN ('loaded', 'unchanged')"
    )
