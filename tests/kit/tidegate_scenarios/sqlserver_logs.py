"""How `tidegate certify` has SQL Server keep logs of its table: change data capture, and change tracking.

Neither is switched off for others: change data capture of a whole database is never switched on here, because that
creates a schema, a user and jobs, and change tracking of one only as long as a table of the kit's says so.

Source: Microsoft's documentation, "Enable and disable change data capture", "sys.sp_cdc_enable_table",
"sys.sp_cdc_disable_table", "Enable and Disable Change Tracking" and "ALTER DATABASE SET options".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tidegate.dialects.sqlserver.errors import quoted
from tidegate.errors import ConfigError, TidegateError
from tidegate_scenarios.certification import Scratch, TableLog
from tidegate_scenarios.samples import plain

MARKER = "tidegate_tracking_of_the_database"
"""A table of the schema: change tracking of the database is on because the kit switched it on."""
IN_USE = "change tracking of the database, which other tables use by now"
NOWHERE = "0x" + "0" * 20
CAPTURE = """
SELECT d.is_cdc_enabled, coalesce(is_rolemember('db_owner'), 0), db_name(), user_name()
FROM sys.databases AS d WHERE d.database_id = db_id()
"""
IS_CAPTURED = "SELECT count(*) FROM sys.tables AS t WHERE t.object_id = object_id({table}) AND t.is_tracked_by_cdc = 1"
ENABLE = (
    "EXEC sys.sp_cdc_enable_table @source_schema = {schema}, @source_name = {name}, @role_name = NULL, "
    "@capture_instance = {instance}"
)
DISABLE = (
    "EXEC sys.sp_cdc_disable_table @source_schema = {schema}, @source_name = {name}, @capture_instance = {instance}"
)
BEGUN = """
SELECT CASE WHEN x.low > {nowhere} AND x.high >= x.low THEN 1 ELSE 0 END
FROM (SELECT sys.fn_cdc_get_min_lsn({instance}) AS low, sys.fn_cdc_get_max_lsn() AS high) AS x
"""
TRACKING = """
SELECT (SELECT count(*) FROM sys.change_tracking_databases AS d WHERE d.database_id = db_id()),
  coalesce(has_perms_by_name(db_name(), 'DATABASE', 'ALTER'), 0),
  (SELECT count(r.recovery_fork_guid) FROM sys.database_recovery_status AS r WHERE r.database_id = db_id()),
  db_name(), user_name(), suser_sname()
"""
TABLES = """
SELECT coalesce(sum(CASE WHEN t.object_id = object_id({table}) THEN 1 ELSE 0 END), 0), count(*)
FROM sys.change_tracking_tables AS t
"""


class ChangeDataCapture(TableLog):
    """Of a database that captures changes already."""

    name: ClassVar[str] = "cdc"
    behind: ClassVar[float] = 60.0
    outside: ClassVar[str] = "has tidegate_orders captured, if change data capture is on in the database"

    def source(self, instance: str) -> Mapping[str, Any]:
        """One capture instance."""
        return {"capture_instance": instance}

    def start(self, scratch: Scratch, table: str, instance: str) -> None:
        """Raises ConfigError: the database captures nothing, or this login may not have a table captured."""
        ((enabled, owner, database, user),) = scratch.execute(CAPTURE)
        if not enabled:
            raise ConfigError(
                "change data capture is off in the database",
                hint=f"To certify it, let a member of sysadmin run `USE {quoted(str(database))}; EXEC "
                "sys.sp_cdc_enable_db` before, and `EXEC sys.sp_cdc_disable_db` afterwards if nothing else needs it.",
            )
        if not owner:
            raise ConfigError(
                "this login may not have a table captured, because it is not a member of db_owner",
                hint="To certify it, use the login of the database's owner, or let an administrator run `ALTER ROLE "
                f"db_owner ADD MEMBER {quoted(str(user))}`.",
            )
        scratch.execute(_capture(ENABLE, scratch, table, instance))

    def pending(self, scratch: Scratch, instance: str) -> str:
        """The capture job is a job of SQL Server Agent."""
        ((begun,),) = scratch.execute(BEGUN.format(nowhere=NOWHERE, instance=_unicode(instance)))
        if begun:
            return ""
        return (
            f"the capture job has recorded nothing within {self.behind:.0f} s. To certify it, let an administrator see "
            "that SQL Server Agent runs, and run `EXEC sys.sp_cdc_start_job`"
        )

    def stop(self, scratch: Scratch, table: str, instance: str) -> tuple[str, ...]:
        """The table alone; what the server creates for the first one of a database is the server's."""
        try:
            ((captured,),) = scratch.execute(IS_CAPTURED.format(table=_named(scratch, table)))
            if captured:
                scratch.execute(_capture(DISABLE, scratch, table, instance))
        except TidegateError:
            return (f"capture instance {instance}",)
        return ()


class ChangeTracking(TableLog):
    """Of any database of which this login is an owner, or that tracks changes already."""

    name: ClassVar[str] = "change_tracking"
    outside: ClassVar[str] = "switches change tracking of the database on as long as it runs, if it is off"
    tables: ClassVar[tuple[str, ...]] = (MARKER,)

    def source(self, instance: str) -> Mapping[str, Any]:
        """The table's own; it has no name."""
        del instance
        return {"change_tracking": True}

    def start(self, scratch: Scratch, table: str, instance: str) -> None:
        """Raises TidegateError: this login may not switch it on, or may not see the fork of the database."""
        ((tracked, allowed, fork, database, user, login),) = scratch.execute(TRACKING)
        if not fork:
            raise ConfigError(
                "this login may not see which history the database is on",
                hint=f"To certify it, let an administrator run `GRANT VIEW ANY DATABASE TO {quoted(str(login))}`.",
            )
        name = quoted(str(database))
        off = ConfigError(
            "change tracking is off in the database, and this login may not switch it on",
            hint=f"To certify it, let an administrator run `ALTER DATABASE {name} SET CHANGE_TRACKING = ON`, or "
            f"`GRANT ALTER ON DATABASE::{name} TO {quoted(str(user))}`.",
        )
        if not tracked and not allowed:
            raise off
        try:
            if not tracked:
                scratch.execute(f"CREATE TABLE {_sql(scratch, MARKER)} (id int)")
                scratch.execute(f"ALTER DATABASE {name} SET CHANGE_TRACKING = ON")
            scratch.execute(f"ALTER TABLE {_sql(scratch, table)} ENABLE CHANGE_TRACKING")
        except TidegateError as error:
            self.stop(scratch, table, instance)
            raise off if not tracked else error from error

    def pending(self, scratch: Scratch, instance: str) -> str:
        """It is there with the commit."""
        del scratch, instance
        return ""

    def stop(self, scratch: Scratch, table: str, instance: str) -> tuple[str, ...]:
        """The database's setting only if `start` changed it; a marker that stays says that it could not be undone."""
        del instance
        try:
            own, _ = _tracked_tables(scratch, table)
            if own:
                scratch.execute(f"ALTER TABLE {_sql(scratch, table)} DISABLE CHANGE_TRACKING")
            return self._switched_off(scratch, table) if MARKER in (scratch.contents() or ()) else ()
        except TidegateError:
            return ()

    def _switched_off(self, scratch: Scratch, table: str) -> tuple[str, ...]:
        ((tracked, *_, database, _user, _login),) = scratch.execute(TRACKING)
        _, others = _tracked_tables(scratch, table)
        if tracked and not others:
            scratch.execute(f"ALTER DATABASE {quoted(str(database))} SET CHANGE_TRACKING = OFF")
        scratch.execute(f"DROP TABLE {_sql(scratch, MARKER)}")
        return (IN_USE,) if tracked and others else ()


def _tracked_tables(scratch: Scratch, table: str) -> tuple[int, int]:
    """Whether the table is tracked, and how many are in all."""
    ((own, all_of_them),) = scratch.execute(TABLES.format(table=_named(scratch, table)))
    return int(own), int(all_of_them)


def _capture(statement: str, scratch: Scratch, table: str, instance: str) -> str:
    schema, name = scratch.parts(table)
    return statement.format(schema=_unicode(schema), name=_unicode(name), instance=_unicode(instance))


def _sql(scratch: Scratch, table: str) -> str:
    return ".".join(map(quoted, scratch.parts(table)))


def _named(scratch: Scratch, table: str) -> str:
    return _unicode(_sql(scratch, table))


def _unicode(text: str) -> str:
    return f"N{plain(text)}"
