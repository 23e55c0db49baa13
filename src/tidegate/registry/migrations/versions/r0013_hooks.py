"""For which load each hook of a stream last succeeded."""

import sqlalchemy as sa
from alembic import op

from tidegate.registry.tables import DOCUMENT, SERIAL, UtcTime

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Everything, in the caller's transaction."""
    op.create_table(
        "hooks",
        sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), primary_key=True, nullable=False),
        sa.Column("hook_id", sa.String(64), primary_key=True),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("load_id", sa.String(64)),
        sa.Column("done_ts", UtcTime),
        sa.Column("failed_ts", UtcTime),
        sa.Column("error", DOCUMENT),
    )
