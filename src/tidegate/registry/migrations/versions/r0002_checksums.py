"""Adds the partition ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """One table, in the caller's transaction."""
    op.create_table(
        "checksums",
        sa.Column("checksum_id", SERIAL, primary_key=True),
        sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), nullable=False),
        sa.Column("extract_group_id", sa.Text, nullable=False),
        sa.Column("checksum_method", sa.JSON(), nullable=False),
        sa.Column("source_filter", sa.Text),
        sa.Column("target_filter", sa.Text),
        sa.Column("partition_checksum", sa.Text, nullable=False),
        sa.Column("partition_row_count", sa.BigInteger, nullable=False),
        sa.Column("quick_checksum", sa.Text),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.UniqueConstraint("object_id", "extract_group_id", name="checksums_by_object"),
    )
