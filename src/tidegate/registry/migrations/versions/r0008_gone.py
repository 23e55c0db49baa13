"""Adds the reason why a source no longer continues a position, kept until a full refresh."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """One column, in the caller's transaction."""
    op.add_column("positions", sa.Column("gone", sa.Text))
