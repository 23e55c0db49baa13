"""What pages of a thousand streams ask is answered by an index, and the log of a run is kept."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
LISTED = ["object_id", "started_ts", "outcome", "run_id", "row_count", "rows_read", "bytes_read", "seconds"]
ROWS_READ = {
    "sqlite": "json_extract(outcome_payload, '$.rows_read')",
    "postgresql": "CAST(outcome_payload ->> 'rows_read' AS bigint)",
}


def upgrade() -> None:
    """Everything, in the caller's transaction; of runs before it there is no log."""
    op.add_column("runs", sa.Column("rows_read", sa.BigInteger))
    op.execute(f"UPDATE runs SET rows_read = {ROWS_READ[op.get_bind().dialect.name]} WHERE outcome_payload IS NOT NULL")
    op.drop_index("runs_by_object", "runs")
    op.create_index("runs_by_object", "runs", LISTED)
    op.create_index("plans_by_time", "plans", ["object_id", "created_ts"])
    op.create_index("tasks_by_kind", "tasks", ["target_object_id", "task_type", "task_id"])
    op.create_table(
        "run_logs",
        sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), primary_key=True, nullable=False),
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("begun_ts", TIME, nullable=False),
        sa.Column("lines", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("left_out", sa.Integer, nullable=False),
    )
    op.create_index("run_logs_by_time", "run_logs", ["object_id", "begun_ts"])
