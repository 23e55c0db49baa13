"""A capture instance as the project names it, and what it must capture so that no change is lost in silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.ports.dialect import Relation
from tidegate.core.schema import Column, Schema
from tidegate.core.yaml_text import listed
from tidegate.dialects.sqlserver import change_capture as cdc
from tidegate.dialects.sqlserver.catalog import unicode
from tidegate.dialects.sqlserver.change_capture import Instance
from tidegate.dialects.sqlserver.session import SqlServerSession
from tidegate.errors import ConfigError, SchemaRefused
from tidegate.sources.change_log.capture.sqlserver import SqlServerLogOptions, check_server
from tidegate.sources.change_log.stated import Stated

SPOOL = "spool"
COMMAND = "__$command_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions(SqlServerLogOptions):
    """What a log in change tables is, as the project says; see `ChangeLog`."""

    instance: str

    @classmethod
    def of(cls, stated: Stated) -> CaptureOptions:
        """Raises ConfigError: the connection is to another kind of database."""
        check_server(stated.connection, "change data capture")
        return cls(
            connection=stated.connection,
            instance=stated.name,
            table=stated.table,
            key=stated.stream_key,
            folder=stated.folder,
        )

    @property
    def place(self) -> Path:
        """Where its events wait for Spark."""
        return self.folder / ".tidegate" / SPOOL / f"capture-{self.instance}"


def find(session: SqlServerSession, options: CaptureOptions) -> Instance | None:
    """The instance; None where the table is not captured at all.

    Raises:
        ConfigError: it is captured, but by no instance of that name that this user may read.
    """
    relation = options.relation
    tracked = cdc.tracked(session, relation)
    if not (tracked.database and tracked.table):
        return None
    known = cdc.instances(session, *parts(session, relation))
    found = next((each for each in known if each.name == options.instance), None)
    if found is None:
        others = ", ".join(each.name for each in known) or "none"
        raise ConfigError(
            f"{relation.label} has no capture instance {options.instance!r} that this login may read (it may read "
            f"{others})",
            hint=f"Correct `capture_instance:`; or let an administrator run `GRANT SELECT ON {relation.sql} TO "
            f"{session.user}`, and `ALTER ROLE … ADD MEMBER {session.user}` for the role of the instance.",
        )
    return found


def not_captured(session: SqlServerSession, options: CaptureOptions) -> ConfigError:
    """That a table is not captured, with the statements that start it."""
    relation = options.relation
    schema, table = parts(session, relation)
    database = "" if cdc.tracked(session, relation).database else "EXEC sys.sp_cdc_enable_db; "
    return ConfigError(
        f"the changes of {relation.label} are not captured",
        hint=f"Let the owner of the database run `{database}EXEC sys.sp_cdc_enable_table @source_schema = "
        f"{unicode(schema)}, @source_name = {unicode(table)}, @role_name = NULL, @capture_instance = "
        f"{unicode(options.instance)}`, then run again.",
    )


def parts(session: SqlServerSession, relation: Relation) -> tuple[str, str]:
    """Schema and name, also of a table that was named without its schema."""
    if len(relation.parts) == 1:
        return session.schema_of(relation) or "dbo", relation.parts[0]
    schema, table = relation.parts
    return schema, table


def check_columns(session: SqlServerSession, options: CaptureOptions, instance: Instance, columns: Schema) -> None:
    """Refuses columns whose changes the instance does not have as the table has them.

    Raises:
        SchemaRefused: such a column.
        ConfigError: the instance does not tell in which order a transaction made its changes, or which row.
        SourceError: this user may not read its change table.
    """
    captured = cdc.captured(session, instance)
    if COMMAND not in captured:
        raise ConfigError(
            f"{instance.label} has no column {COMMAND}, by which the changes of a transaction are ordered: it was made "
            "by an older server",
            hint="Create a second capture instance, name it in `capture_instance:`, then run `tidegate resync STREAM`.",
        )
    large = [name for name in options.key if (column := columns.find(name)) and cdc.large(column)]
    if large:
        raise ConfigError(f"the key column {large[0]} is too large to be captured with every change")
    _refuse(
        options,
        [column for column in columns if column.name not in captured],
        f"{instance.label} does not capture",
        "Create a second capture instance that has them, name it in `capture_instance:` and run `tidegate resync "
        "STREAM`; or leave them out with `source: {{exclude: {names}}}`.",
    )
    _refuse(
        options,
        [column for column in columns if not cdc.same_type(column, captured[column.name])],
        f"{instance.label} has another type than the table for",
        "The capture job may not have come to an ALTER TABLE yet: run again later. If it stays so, create another "
        "capture instance.",
    )
    about = cdc.source_columns(session, options.relation)
    leave_out = "Leave them out with `source: {{exclude: {names}}}`."
    _refuse(
        options,
        [column for column in columns if about[column.name].computed],
        "change data capture has NULL for every value of a computed column:",
        leave_out,
    )
    _refuse(
        options,
        [column for column in columns if about[column.name].foreign and cdc.by_code_page(column)],
        "change data capture may change texts whose collation is not the database's:",
        f"Make them nvarchar. {leave_out}",
    )


def _refuse(options: CaptureOptions, columns: Sequence[Column], reason: str, hint: str) -> None:
    if columns:
        names = [column.name for column in columns]
        raise SchemaRefused(
            f"{options.relation.label}: {reason} {', '.join(map(repr, names))}",
            hint=hint.format(names=listed(names)),
            column=names[0],
        )
