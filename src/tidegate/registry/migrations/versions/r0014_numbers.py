"""The order in which the runs of a stream began, for clocks are set back and differ between machines."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Everything, in the caller's transaction; runs from before it are in the order of their times."""
    op.add_column("runs", sa.Column("number", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        sa.text(
            "UPDATE runs SET number = numbered.number FROM (SELECT run_id, row_number() OVER "
            "(PARTITION BY object_id ORDER BY started_ts, run_id) AS number FROM runs) AS numbered "
            "WHERE numbered.run_id = runs.run_id"
        )
    )
    op.drop_index("runs_by_outcome", "runs")
    op.create_index("runs_by_number", "runs", ["object_id", "number", "outcome", "run_id", "started_ts"])
    op.create_index("runs_by_outcome", "runs", ["object_id", "outcome", "number", "finished_ts"])
