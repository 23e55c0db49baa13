"""Which load read each file.

Loaded by Alembic alone. Must never change once released.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """One column, in the caller's transaction; of files that were loaded before nobody knows."""
    op.add_column("files", sa.Column("loaded", sa.BigInteger))
