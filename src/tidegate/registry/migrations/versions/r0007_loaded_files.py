"""Adds the load that read each file."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """One column, in the caller's transaction; of files that were loaded before nobody knows."""
    op.add_column("files", sa.Column("loaded", sa.BigInteger))
