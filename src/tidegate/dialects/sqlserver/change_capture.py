"""Asks SQL Server about change data capture: which instance captures a table, how far it is, and what it captured.

A place in the log (LSN) is 20 hexadecimal digits, which sort as the log does. Change tables are read themselves, not by
their functions: only they have `__$command_id`, by which the changes of a transaction are ordered.

Source: Microsoft's documentation, "About Change Data Capture", "cdc.<capture_instance>_CT", "cdc.lsn_time_mapping",
"sys.fn_cdc_get_min_lsn", "sys.fn_cdc_map_lsn_to_time" and "sys.sp_cdc_help_change_data_capture".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.core.ports.dialect import Relation, Row
from tidegate.core.schema import Column, Schema
from tidegate.dialects.sqlserver.catalog import natives, object_id, unicode
from tidegate.dialects.sqlserver.session import SqlServerSession
from tidegate.dialects.sqlserver.types import ROW_VERSION, word_of

START, COMMAND, WITHIN = "[__$start_lsn]", "[__$command_id]", "[__$seqval]"
OPERATION, MASK = "[__$operation]", "[__$update_mask]"
OWN = "__$"
"""What the names of a change table's own columns begin with."""
LARGE = frozenset({"image", "ntext", "text", "xml"})
BY_CODE_PAGE = frozenset({"char", "varchar", "text"})
DELETE, INSERT, BEFORE, AFTER = 1, 2, 3, 4
ROWS_AT_A_TIME = 2000

TRACKED = """
SELECT d.is_cdc_enabled, coalesce(t.is_tracked_by_cdc, 0) FROM sys.databases AS d
LEFT JOIN sys.tables AS t ON t.object_id = {object} WHERE d.database_id = db_id()
"""
SOURCE_COLUMNS = """
SELECT c.name, c.is_computed,
  CASE WHEN c.collation_name <> CAST(databasepropertyex(db_name(), 'Collation') AS nvarchar(128)) THEN 1 ELSE 0 END
FROM sys.columns AS c WHERE c.object_id = {object}
"""


class Tracked(NamedTuple):
    """Whether the database, and the table, are enabled for change data capture."""

    database: bool
    table: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A capture instance of a table.

    Args:
        number: of its change table; one that is created again has another.
    """

    name: str
    number: int

    @property
    def label(self) -> str:
        """The change table, for people."""
        return f"cdc.{self.name}_CT"


class Interval(NamedTuple):
    """From where to where an instance has every change; None where it has not begun."""

    low: str | None
    high: str | None


class Change(NamedTuple):
    """One row of a change table.

    Args:
        unsent: columns that the update left alone, and of which the row has no value.
    """

    lsn: str
    command: int
    within: str
    operation: int
    unsent: tuple[str, ...]
    values: tuple[object, ...]


class SourceColumn(NamedTuple):
    """What decides whether a column can be captured.

    Args:
        foreign: its collation is not the database's.
    """

    computed: bool
    foreign: bool


def tracked(session: SqlServerSession, relation: Relation) -> Tracked:
    """Whether changes of the table are captured at all."""
    ((database, table),) = session.ask(TRACKED.format(object=object_id(relation)))
    return Tracked(database=bool(database), table=bool(table))


def instances(session: SqlServerSession, schema: str, table: str) -> list[Instance]:
    """The capture instances of a table that this user may read: one, or two."""
    rows = session.ask(
        f"EXEC sys.sp_cdc_help_change_data_capture @source_schema = {unicode(schema)}, @source_name = {unicode(table)}"
    )
    return [Instance(name=str(row[2]), number=int(row[3])) for row in rows]


def interval(session: SqlServerSession, instance: Instance) -> Interval:
    """Of which commits the instance has every change."""
    low, high = f"sys.fn_cdc_get_min_lsn({unicode(instance.name)})", "sys.fn_cdc_get_max_lsn()"
    ((first, last),) = session.ask(f"SELECT convert(varchar(20), {low}, 2), convert(varchar(20), {high}, 2)")
    return Interval(low=_begun(first), high=_begun(last))


def newest(session: SqlServerSession) -> str | None:
    """The newest commit that the capture job has recorded; None if there is none. The database must be enabled."""
    ((high,),) = session.ask("SELECT convert(varchar(20), sys.fn_cdc_get_max_lsn(), 2)")
    return _begun(high)


def _begun(lsn: str | None) -> str | None:
    """None for zero, which the server says of an instance that it does not know."""
    return lsn if lsn is not None and lsn.strip("0") else None


def committed_at(session: SqlServerSession, lsn: str) -> str | None:
    """When that commit was, by the server's clock, as text; None where the log has none there."""
    ((time,),) = session.ask(f"SELECT convert(varchar(23), sys.fn_cdc_map_lsn_to_time({_literal(lsn)}), 121)")
    return None if time is None else str(time)


def soon(session: SqlServerSession) -> str:
    """A second after now, by the server's clock, as `committed_at` writes it."""
    ((time,),) = session.ask("SELECT convert(varchar(23), dateadd(second, 1, sysdatetime()), 121)")
    return str(time)


def age(session: SqlServerSession, lsn: str) -> int | None:
    """Seconds since that commit; None where the log has none there."""
    ((seconds,),) = session.ask(f"SELECT {_seconds(_time(lsn), 'sysdatetime()')}")
    return None if seconds is None else max(0, int(seconds))


def between(session: SqlServerSession, first: str, second: str) -> int | None:
    """Seconds from one commit to another; None where the log has none there."""
    ((seconds,),) = session.ask(f"SELECT {_seconds(_time(first), _time(second))}")
    return None if seconds is None else int(seconds)


def count(session: SqlServerSession, instance: Instance, after: str, upto: str) -> int:
    """The changes of commits after one place up to another; an update is one."""
    ((found,),) = session.ask(f"SELECT count_big(*) FROM {_changes(session, instance, after, upto)}")
    return int(found)


def limited(session: SqlServerSession, instance: Instance, after: str, upto: str, most: int) -> str:
    """The commit of the last of so many changes; there must be as many."""
    first = f"SELECT TOP ({most}) {START} AS lsn FROM {_changes(session, instance, after, upto)} ORDER BY {START}"
    ((lsn,),) = session.ask(f"SELECT convert(varchar(20), max(x.lsn), 2) FROM ({first}) AS x")
    return str(lsn)


def oldest(session: SqlServerSession, instance: Instance, after: str, upto: str) -> str | None:
    """The first commit with a change; None for none."""
    asked = f"SELECT convert(varchar(20), min({START}), 2) FROM {_changes(session, instance, after, upto)}"
    ((lsn,),) = session.ask(asked)
    return None if lsn is None else str(lsn)


def captured(session: SqlServerSession, instance: Instance) -> Mapping[str, str]:
    """The columns of the change table, its own included, each with the server's word for its type.

    Raises:
        SourceError: this user may not read it.
    """
    return {name: native for name, (native, _) in natives(session, _table(session, instance))}


def source_columns(session: SqlServerSession, relation: Relation) -> Mapping[str, SourceColumn]:
    """The columns of the table."""
    rows = session.ask(SOURCE_COLUMNS.format(object=object_id(relation)))
    return {str(name): SourceColumn(computed=bool(computed), foreign=bool(other)) for name, computed, other in rows}


def same_type(column: Column, native: str) -> bool:
    """Whether a change table keeps the column as the table does; the version of a row is eight bytes there."""
    return native == column.native or (word_of(column) == ROW_VERSION and native == "binary(8)")


def by_code_page(column: Column) -> bool:
    """Whether its texts are of the code page that its collation has."""
    return word_of(column) in BY_CODE_PAGE


def large(column: Column) -> bool:
    """Whether the server may leave out a value that an update left alone."""
    return word_of(column) in LARGE or (column.native or "").endswith("(max)")


def changes(session: SqlServerSession, instance: Instance, columns: Schema, after: str, upto: str) -> Iterator[Change]:
    """The rows of commits after one place up to another, in the order in which the changes were made."""
    lobs = [column.name for column in columns if large(column)]
    unsent = [_unsent(session, instance, name) for name in lobs]
    values = [session.dialect.read(column).sql for column in columns]
    head = [f"convert(varchar(20), {START}, 2)", f"coalesce({COMMAND}, 0)", f"convert(varchar(20), {WITHIN}, 2)"]
    asked = (
        f"SELECT {', '.join([*head, OPERATION, *unsent, *values])} "
        f"FROM {_table(session, instance).sql} WHERE {_range(after, upto)} "
        f"ORDER BY {START}, {COMMAND}, {WITHIN}, {OPERATION}"
    )
    for row in session.stream(asked, ROWS_AT_A_TIME):
        yield _change(row, lobs)


def _change(row: Row, lobs: Sequence[str]) -> Change:
    lsn, command, within, operation, *rest = row
    left_out = tuple(name for name, flag in zip(lobs, rest, strict=False) if flag)
    return Change(str(lsn), int(command), str(within), int(operation), left_out, tuple(rest[len(lobs) :]))


def _unsent(session: SqlServerSession, instance: Instance, name: str) -> str:
    """Whether an update left the column alone and its row has no value of it."""
    ordinal = f"sys.fn_cdc_get_column_ordinal({unicode(instance.name)}, {unicode(name)})"
    ((place,),) = session.ask(f"SELECT {ordinal}")
    value = session.dialect.quote(name)
    alone = f"sys.fn_cdc_is_bit_set({int(place)}, {MASK}) = 0"
    return f"CASE WHEN {OPERATION} = {AFTER} AND {value} IS NULL AND {alone} THEN 1 ELSE 0 END"


def _changes(session: SqlServerSession, instance: Instance, after: str, upto: str) -> str:
    return f"{_table(session, instance).sql} WHERE {_range(after, upto)} AND {OPERATION} <> {BEFORE}"


def _table(session: SqlServerSession, instance: Instance) -> Relation:
    return session.dialect.relation("cdc", f"{instance.name}_CT")


def _range(after: str, upto: str) -> str:
    return f"{START} > {_literal(after)} AND {START} <= {_literal(upto)}"


def _literal(lsn: str) -> str:
    return f"0x{lsn}"


def _time(lsn: str) -> str:
    return f"sys.fn_cdc_map_lsn_to_time({_literal(lsn)})"


def _seconds(first: str, second: str) -> str:
    return f"datediff_big(second, {first}, {second})"
