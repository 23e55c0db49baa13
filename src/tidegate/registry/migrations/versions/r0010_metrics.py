"""Sums over the runs of a stream, which only grow, and the incidents that people were told of."""

import json
from collections import defaultdict
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
KINDS = ("read", "inserted", "updated", "deleted", "quarantined", "warned", "superseded")


def upgrade() -> None:
    """Everything, in the caller's transaction; runs that ended before count."""
    op.create_table(
        "run_totals",
        sa.Column("object_id", SERIAL, sa.ForeignKey("object_info.object_id"), primary_key=True, nullable=False),
        sa.Column("measure", sa.String(32), primary_key=True),
        sa.Column("label", sa.String(64), primary_key=True),
        sa.Column("value", sa.Float(53), nullable=False),
    )
    op.create_table(
        "incidents",
        sa.Column("rule", sa.String(64), primary_key=True),
        sa.Column("uid", sa.String(64), primary_key=True),
        sa.Column("stream", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("opened_ts", TIME, nullable=False),
        sa.Column("told_ts", TIME, nullable=False),
    )
    op.create_table(
        "notices",
        sa.Column("notice_id", SERIAL, primary_key=True),
        sa.Column("rule", sa.String(64), nullable=False),
        sa.Column("uid", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created_ts", TIME, nullable=False),
        sa.Column("claimed_ts", TIME),
        sa.Column("sent_ts", TIME),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
    )
    op.create_index("notices_unsent", "notices", ["sent_ts", "notice_id"])
    _count_earlier_runs(op.get_bind())


def _count_earlier_runs(connection: sa.Connection) -> None:
    sums: dict[tuple[int, str, str], float] = defaultdict(float)
    ended = "SELECT object_id, outcome, outcome_payload, error FROM runs WHERE outcome <> 'running'"
    for object_id, outcome, payload, error in connection.execute(sa.text(ended)):
        document = _document(payload)
        sums[object_id, "runs", outcome] += 1
        if code := _document(error).get("code"):
            sums[object_id, "failures", code] += 1
        for kind in KINDS:
            sums[object_id, "rows", kind] += document.get(f"rows_{kind}", 0)
        sums[object_id, "bytes", "read"] += document.get("bytes_read", 0)
        for stage, seconds in (document.get("seconds") or {}).items():
            sums[object_id, "seconds", stage] += seconds
    rows = [{"o": key[0], "m": key[1], "l": key[2][:64], "v": value} for key, value in sums.items() if value]
    if rows:
        into = "INSERT INTO run_totals (object_id, measure, label, value) VALUES (:o, :m, :l, :v)"
        connection.execute(sa.text(into), rows)


def _document(value: Any) -> dict[str, Any]:
    """A JSON column, which drivers give as text or as what it holds."""
    return (json.loads(value) if isinstance(value, str) else value) or {}
