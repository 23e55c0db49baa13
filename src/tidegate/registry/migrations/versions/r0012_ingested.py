"""The view of everything that was loaded, slice by slice."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Everything, in the caller's transaction."""
    sqlite = op.get_bind().dialect.name == "sqlite"
    seconds = (
        "(julianday(t.finish_ts) - julianday(t.start_ts)) * 86400.0"
        if sqlite
        else "extract(epoch FROM t.finish_ts - t.start_ts)"
    )
    rows, action = (
        f"json_extract(t.result_payload, '$.{name}')" if sqlite else f"(t.result_payload ->> '{name}')"
        for name in ("rows", "action")
    )
    op.execute(
        sa.text(
            "CREATE VIEW ingested_all AS SELECT t.task_id, t.run_id, o.object_name, o.source, o.target, t.task_type, "
            f"t.extract_group_id, {action} AS load_action, CAST({rows} AS bigint) AS row_count, t.start_ts, "
            f"t.finish_ts, {seconds} AS seconds "
            "FROM tasks t JOIN object_info o ON o.object_id = t.target_object_id "
            "WHERE t.status_cd = 'OK' AND t.task_type IN ('load', 'load_partition', 'repair')"
        )
    )
