"""Why the source no longer continues a position, kept until the stream is loaded as a whole.

Loaded by Alembic alone. Must never change once released.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """One column, in the caller's transaction."""
    op.add_column("positions", sa.Column("gone", sa.Text))
