"""Adds the interval ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")


def upgrade() -> None:
    """One table, in the caller's transaction; of streams that were loaded before, all that is known is how far."""
    op.create_table(
        "intervals",
        sa.Column("interval_id", SERIAL, primary_key=True),
        sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), nullable=False),
        sa.Column("after_value", sa.Text),
        sa.Column("upto_value", sa.Text, nullable=False),
        sa.Column("state_cd", sa.String(16), nullable=False),
        sa.Column("row_count", sa.BigInteger),
        sa.Column("updated_ts", TIME, nullable=False),
        sa.UniqueConstraint("object_id", "upto_value", name="intervals_by_object"),
    )
    state = "CASE WHEN verified_through = loaded_through THEN 'done' ELSE 'unverified' END"
    op.execute(
        "INSERT INTO intervals (object_id, upto_value, state_cd, updated_ts) "
        f"SELECT object_id, loaded_through, {state}, updated_ts FROM object_info WHERE loaded_through IS NOT NULL"
    )
