"""The first schema: streams, positions, plans, runs, tasks, status changes, leases and four views."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
DOCUMENT = sa.JSON()


def upgrade() -> None:
    """Everything, in the caller's transaction."""
    _streams()
    _history()
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
        "status_results_detail": "SELECT o.object_name, o.source, o.target, t.extract_group_id, t.task_type, "
        "t.status_cd, t.start_ts, t.finish_ts FROM tasks t JOIN object_info o ON o.object_id = t.target_object_id "
        "WHERE t.task_id IN (SELECT max(task_id) FROM tasks "
        "GROUP BY target_object_id, extract_group_id, task_type)",
        "status_results_total": "SELECT status_cd, count(*) AS stream_count FROM object_info GROUP BY status_cd",
    }
