"""Streams that people paused, errors that they have seen, and the numbers that lists of runs show."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Everything, in the caller's transaction; of runs before it the numbers stay unknown."""
    op.create_table(
        "pauses",
        _stream(),
        sa.Column("paused_ts", TIME, nullable=False),
        sa.Column("paused_by", sa.Text, nullable=False),
    )
    op.create_table(
        "acknowledgements",
        _stream(),
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("acknowledged_ts", TIME, nullable=False),
        sa.Column("acknowledged_by", sa.Text, nullable=False),
    )
    op.add_column("runs", sa.Column("row_count", sa.BigInteger))
    op.add_column("runs", sa.Column("bytes_read", sa.BigInteger))
    op.add_column("runs", sa.Column("seconds", sa.Float))
    op.create_index("runs_by_outcome", "runs", ["object_id", "outcome", "finished_ts"])


def _stream() -> "sa.Column[int]":
    return sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), primary_key=True, nullable=False)
