"""Adds the loaded files of streams."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """One table, in the caller's transaction."""
    op.create_table(
        "files",
        sa.Column("file_id", SERIAL, primary_key=True),
        sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("tag", sa.Text, nullable=False),
        sa.Column("stamp", sa.Text),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.UniqueConstraint("object_id", "path", name="files_by_object"),
    )
