"""Adds backfills and their chunks."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """Two tables, in the caller's transaction."""
    op.create_table(
        "backfills",
        sa.Column("backfill_id", SERIAL, primary_key=True),
        sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), nullable=False),
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
