"""Tables of the registry: names, columns and types of the current schema.

The migrations create the same tables, and a test compares the two. Timestamps are time-zone-aware; there are no secrets
and no values of rows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

HEAD = "0014"
"""The newest migration of this version."""

VERSION_TABLE = "tidegate_version"
"""Where Alembic keeps the schema's version; a name of our own, for databases that others share."""


class UtcTime(TypeDecorator[datetime]):
    """Aware UTC times: `timestamptz` on PostgreSQL, on SQLite ISO 8601 text of one width, which sorts as time does."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Text on SQLite, which knows no time zones."""
        return dialect.type_descriptor(String(32) if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Refuses naive times: they are a bug of the caller."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("the registry accepts only time-zone-aware timestamps")
        utc = value.astimezone(UTC)
        return utc.isoformat(timespec="microseconds") if dialect.name == "sqlite" else utc

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Always aware, always UTC."""
        if value is None:
            return None
        parsed = datetime.fromisoformat(value) if dialect.name == "sqlite" else value
        return parsed.astimezone(UTC)


METADATA = MetaData()
SERIAL = BigInteger().with_variant(Integer, "sqlite")
"""SQLite gives automatic numbers to INTEGER only."""
DOCUMENT = JSON(none_as_null=True)


def _stream(name: str = "object_id", *, primary: bool = False) -> Column[int]:
    return Column(name, SERIAL, ForeignKey("object_info.object_id"), primary_key=primary, nullable=False)


object_info = Table(
    "object_info",
    METADATA,
    Column("object_id", SERIAL, primary_key=True),
    Column("uid", String(64), nullable=False, unique=True),
    Column("object_name", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("system_name", Text),
    Column("schema_name", Text),
    Column("source_object_name", Text),
    Column("checksum_method", DOCUMENT),
    Column("status_cd", String(16), nullable=False),
    Column("table_uuid", String(64)),
    Column("loaded_through", Text),
    Column("verified_through", Text),
    Column("verified_ts", UtcTime),
    Column("created_ts", UtcTime, nullable=False),
    Column("updated_ts", UtcTime, nullable=False),
)

positions = Table(
    "positions",
    METADATA,
    _stream(primary=True),
    Column("revision", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("load_id", String(64)),
    Column("position", Text),
    Column("snapshot", Text),
    Column("table_uuid", String(64)),
    Column("verified", Boolean),
    Column("gone", Text),
    Column("recorded_ts", UtcTime, nullable=False),
)

plans = Table(
    "plans",
    METADATA,
    Column("load_id", String(64), primary_key=True),
    _stream(),
    Column("run_id", String(64), nullable=False),
    Column("plan", DOCUMENT, nullable=False),
    Column("status_cd", String(16), nullable=False),
    Column("created_ts", UtcTime, nullable=False),
    Column("finished_ts", UtcTime),
    Index("plans_by_object", "object_id", "status_cd"),
    Index("plans_by_time", "object_id", "created_ts"),
)

runs = Table(
    "runs",
    METADATA,
    Column("run_id", String(64), primary_key=True),
    _stream(primary=True),
    Column("outcome", String(16), nullable=False),
    Column("started_ts", UtcTime, nullable=False),
    Column("finished_ts", UtcTime),
    Column("started_by", Text, nullable=False),
    Column("outcome_payload", DOCUMENT),
    Column("error", DOCUMENT),
    Column("row_count", BigInteger),
    Column("rows_read", BigInteger),
    Column("bytes_read", BigInteger),
    Column("seconds", Float),
    Column("number", BigInteger, nullable=False, server_default="0"),
    # All that lists of many streams ask of a run: rows are large, for they hold documents.
    Index(
        "runs_by_object",
        *("object_id", "started_ts", "outcome", "run_id", "row_count", "rows_read", "bytes_read", "seconds"),
    ),
    Index("runs_by_number", "object_id", "number", "outcome", "run_id", "started_ts"),
    Index("runs_by_outcome", "object_id", "outcome", "number", "finished_ts"),
)

run_logs = Table(
    "run_logs",
    METADATA,
    _stream(primary=True),
    Column("run_id", String(64), primary_key=True),
    Column("begun_ts", UtcTime, nullable=False),
    Column("lines", DOCUMENT, nullable=False),
    Column("left_out", Integer, nullable=False),
    Index("run_logs_by_time", "object_id", "begun_ts"),
)

run_totals = Table(
    "run_totals",
    METADATA,
    _stream(primary=True),
    Column("measure", String(32), primary_key=True),
    Column("label", String(64), primary_key=True),
    Column("value", Float(53), nullable=False),
)

incidents = Table(
    "incidents",
    METADATA,
    Column("rule", String(64), primary_key=True),
    Column("uid", String(64), primary_key=True),
    Column("stream", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("opened_ts", UtcTime, nullable=False),
    Column("told_ts", UtcTime, nullable=False),
)

notices = Table(
    "notices",
    METADATA,
    Column("notice_id", SERIAL, primary_key=True),
    Column("rule", String(64), nullable=False),
    Column("uid", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("channel", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("created_ts", UtcTime, nullable=False),
    Column("claimed_ts", UtcTime),
    Column("sent_ts", UtcTime),
    Column("attempts", Integer, nullable=False),
    Column("error", Text),
    Index("notices_unsent", "sent_ts", "notice_id"),
)

pauses = Table(
    "pauses",
    METADATA,
    _stream(primary=True),
    Column("paused_ts", UtcTime, nullable=False),
    Column("paused_by", Text, nullable=False),
)

acknowledgements = Table(
    "acknowledgements",
    METADATA,
    _stream(primary=True),
    Column("run_id", String(64), nullable=False),
    Column("acknowledged_ts", UtcTime, nullable=False),
    Column("acknowledged_by", Text, nullable=False),
)

hooks = Table(
    "hooks",
    METADATA,
    _stream(primary=True),
    Column("hook_id", String(64), primary_key=True),
    Column("label", Text, nullable=False),
    Column("load_id", String(64)),
    Column("done_ts", UtcTime),
    Column("failed_ts", UtcTime),
    Column("error", DOCUMENT),
)

tasks = Table(
    "tasks",
    METADATA,
    Column("task_id", SERIAL, primary_key=True),
    Column("task_type", String(64), nullable=False),
    Column("status_cd", String(16), nullable=False),
    Column("start_ts", UtcTime, nullable=False),
    Column("finish_ts", UtcTime),
    _stream("source_object_id"),
    _stream("target_object_id"),
    Column("extract_group_id", Text),
    Column("result_payload", DOCUMENT),
    Column("run_id", String(64)),
    Index("tasks_by_object", "target_object_id", "start_ts"),
    Index("tasks_by_kind", "target_object_id", "task_type", "task_id"),
    Index("tasks_by_status", "status_cd", "start_ts"),
    Index("tasks_by_group", "target_object_id", "task_type", "extract_group_id", "task_id"),
)

status_change_log = Table(
    "status_change_log",
    METADATA,
    Column("change_id", SERIAL, primary_key=True),
    _stream(),
    Column("extract_group_id", Text),
    Column("old_status", String(64), nullable=False),
    Column("new_status", String(64), nullable=False),
    Column("changed_ts", UtcTime, nullable=False),
    Column("changed_by", Text, nullable=False),
    Column("reason", Text),
    Index("changes_by_object", "object_id", "change_id"),
    Index("changes_by_group", "object_id", "extract_group_id", "change_id"),
)

leases = Table(
    "leases",
    METADATA,
    Column("uid", String(64), primary_key=True),
    Column("token", String(64), nullable=False),
    Column("owner", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("host_id", Text, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("process_start", Text, nullable=False),
    Column("acquired_ts", UtcTime, nullable=False),
    Column("renewed_ts", UtcTime, nullable=False),
    Column("expires_ts", UtcTime, nullable=False),
)

checksums = Table(
    "checksums",
    METADATA,
    Column("checksum_id", SERIAL, primary_key=True),
    _stream(),
    Column("extract_group_id", Text, nullable=False),
    Column("checksum_method", DOCUMENT, nullable=False),
    Column("source_filter", Text),
    Column("target_filter", Text),
    Column("partition_checksum", Text, nullable=False),
    Column("partition_row_count", BigInteger, nullable=False),
    Column("quick_checksum", Text),
    Column("created_ts", UtcTime, nullable=False),
    Column("updated_ts", UtcTime, nullable=False),
    UniqueConstraint("object_id", "extract_group_id", name="checksums_by_object"),
)

files = Table(
    "files",
    METADATA,
    Column("file_id", SERIAL, primary_key=True),
    _stream(),
    Column("path", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("tag", Text, nullable=False),
    Column("stamp", Text),
    Column("created_ts", UtcTime, nullable=False),
    Column("updated_ts", UtcTime, nullable=False),
    Column("loaded", BigInteger),
    UniqueConstraint("object_id", "path", name="files_by_object"),
)

backfills = Table(
    "backfills",
    METADATA,
    Column("backfill_id", SERIAL, primary_key=True),
    _stream(),
    Column("begin_value", Text, nullable=False),
    Column("end_value", Text, nullable=False),
    Column("parallel", Integer, nullable=False),
    Column("rate", BigInteger),
    Column("status_cd", String(16), nullable=False),
    Column("created_ts", UtcTime, nullable=False),
    Column("updated_ts", UtcTime, nullable=False),
    Index("backfills_by_object", "object_id", "status_cd"),
)

backfill_chunks = Table(
    "backfill_chunks",
    METADATA,
    Column("backfill_id", SERIAL, ForeignKey("backfills.backfill_id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("after_value", Text, nullable=False),
    Column("upto_value", Text, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("status_cd", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("error", Text),
    Column("updated_ts", UtcTime, nullable=False),
)

intervals = Table(
    "intervals",
    METADATA,
    Column("interval_id", SERIAL, primary_key=True),
    _stream(),
    Column("after_value", Text),
    Column("upto_value", Text, nullable=False),
    Column("state_cd", String(16), nullable=False),
    Column("row_count", BigInteger),
    Column("updated_ts", UtcTime, nullable=False),
    UniqueConstraint("object_id", "upto_value", name="intervals_by_object"),
)
