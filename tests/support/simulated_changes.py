"""Change data capture and change tracking of a table of a simulated SQL Server; see `simulated_sqlserver`.

Kept by DuckDB tables, which each connection sees in a transaction of its own, so that a snapshot holds what it should.
The capture job reads the log of the transactions when a test says so, and not before; the cleanup job moves the low end
first, then removes rows. What a change table has of a transaction follows Microsoft's documentation: large values that
an update left alone are missing, and so are values of columns that are not captured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlglot import exp

from support import simulated_sqlserver as simulated
from support.simulated import SimulatedConnection, SimulatedServer, in_duckdb

BEGIN = datetime(2025, 6, 1, 12)  # noqa: DTZ001 - the clock of a server, which says no zone
NUMBER = 901578250
CHANGETABLE = re.compile(r"CHANGETABLE\(CHANGES \[\w+\]\.\[\w+\], (\d+)\)")
CHANGES = """(SELECT * FROM (SELECT [version] AS SYS_CHANGE_VERSION, CASE WHEN [gone] = 1 THEN 'D'
WHEN [created] > {0} THEN 'I' ELSE 'U' END AS SYS_CHANGE_OPERATION, [id] FROM [ct].[orders]) AS y
WHERE SYS_CHANGE_VERSION > {0})"""
MACROS = """
CREATE SCHEMA sys; CREATE SCHEMA cdc; CREATE SCHEMA ct;
CREATE TABLE cdc.mapping (lsn BLOB, committed TIMESTAMP);
CREATE TABLE cdc.clock (now TIMESTAMP);
CREATE TABLE cdc.instances (name TEXT, number INT, low BLOB);
CREATE TABLE ct.orders (id BIGINT, version BIGINT, created BIGINT, gone INT);
CREATE TABLE ct.versions (least BIGINT, latest BIGINT);
CREATE MACRO sys.fn_cdc_get_max_lsn() AS (SELECT max(lsn) FROM cdc.mapping);
CREATE MACRO sys.fn_cdc_get_min_lsn(n) AS
  coalesce((SELECT low FROM cdc.instances WHERE name = n), unhex('00000000000000000000'));
CREATE MACRO sys.fn_cdc_map_lsn_to_time(l) AS (SELECT committed FROM cdc.mapping WHERE lsn = l);
CREATE MACRO sys.fn_cdc_is_bit_set(place, mask) AS ((mask >> (place - 1)) & 1);
CREATE MACRO servers_clock() AS (SELECT now FROM cdc.clock);
CREATE MACRO change_tracking_current_version() AS (SELECT latest FROM ct.versions);
CREATE MACRO change_tracking_min_valid_version(n) AS (SELECT least FROM ct.versions);
CREATE MACRO object_id(n) AS 901578250;
"""

Row = Mapping[str, Any]
"""A row by its columns, its key `id` among them."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the table, as SQL Server and DuckDB call its type.

    Args:
        large: an update that leaves it alone does not say its value.
        captured: the capture instance has it.
        captured_as: its type in the change table, if it is another one.
    """

    native: str
    type: str
    large: bool = False
    captured: bool = True
    captured_as: str | None = None
    computed: bool = False
    foreign: bool = False


ORDERS = {
    "id": Column(native="bigint", type="BIGINT"),
    "name": Column(native="nvarchar(50)", type="TEXT"),
    "amount": Column(native="decimal(12,3)", type="DECIMAL(12,3)"),
    "changed": Column(native="datetime2(6)", type="TIMESTAMP"),
    "note": Column(native="nvarchar(max)", type="TEXT", large=True),
}


@dataclass(frozen=True, kw_only=True)
class Change:
    """What happened to a row; either side is None for an insert or a delete."""

    before: Row | None
    after: Row | None


@dataclass(kw_only=True)
class ChangeServer(SimulatedServer):
    """A server with one table, `dbo.orders` unless it is named otherwise.

    Args:
        in_place: an update of a key is one change of a row, as in a heap; else a delete and an insert.
        by_row: each change of a row is a command of its own; else each statement is.
        commits: every transaction, each a list of statements, each of the changes of rows.
    """

    columns: dict[str, Column] = field(default_factory=lambda: dict(ORDERS))
    schema: str = "dbo"
    table: str = "orders"
    in_place: bool = False
    by_row: bool = False
    instance: str = "dbo_orders"
    rows: dict[int, Row] = field(default_factory=dict)
    commits: list[tuple[int, datetime, list[list[Change]]]] = field(default_factory=list)
    now: datetime = BEGIN
    lsn: int = 0x2D000000D00001
    captured: int = 0
    fork: str | None = "11111111-0000-4000-8000-000000000001"

    def __post_init__(self) -> None:
        self.database.execute(MACROS)
        self.create_tables()
        self.database.execute("INSERT INTO cdc.clock VALUES (?)", [self.now])
        self.database.execute("INSERT INTO ct.versions VALUES (0, 0)")
        self.on("FROM sys.indexes AS i\nJOIN sys.index_columns", [("pk", 1, 1, "id", 0)])
        self.on("is_cdc_enabled", lambda _: [(1, int(self._instance() is not None))])
        self.on("sp_cdc_help_change_data_capture", lambda _: self._helped())
        self.on("c.is_computed", lambda _: [(n, int(c.computed), int(c.foreign)) for n, c in self.columns.items()])
        self.on("change_tracking_databases", [(1, 1, 1)])
        self.on("recovery_fork_guid", lambda _: [(self.fork,)])
        self.on("fn_cdc_get_column_ordinal", lambda sql: [(self._ordinal(sql),)])
        self.on("@@DBTS", lambda _: [(2001 + len(self.commits),)])

    def create_tables(self) -> None:
        """The one that it has from the beginning."""
        self.database.execute("CREATE SCHEMA IF NOT EXISTS dbo")
        self.database.execute(f"CREATE TABLE dbo.orders ({self._declared(self.columns)})")
        self.describe_table()

    def connect(self, *_args: Any, **arguments: Any) -> SimulatedConnection:
        """A connection that sees the database in transactions of its own."""
        self.connections.append(arguments)
        return ChangeConnection(self)

    def describe_table(self) -> None:
        """What the server says of the table's columns."""
        simulated.describe(self, "orders", {name: column.native for name, column in self.columns.items()})

    # Change data capture.

    def capture_table(self) -> None:
        """Enables the table, and has the capture job come to it."""
        own = '"__$start_lsn" BLOB, "__$end_lsn" BLOB, "__$seqval" BLOB, "__$operation" INT, "__$update_mask" BIGINT'
        kept = {name: column for name, column in self.columns.items() if column.captured}
        self.database.execute(f'DROP TABLE IF EXISTS cdc."{self.instance}_CT"')
        declared = f'{own}, {self._declared(kept)}, "__$command_id" INT'
        self.database.execute(f'CREATE TABLE cdc."{self.instance}_CT" ({declared})')
        natives = {"__$start_lsn": "binary(10)", "__$operation": "int"}
        natives |= {name: column.captured_as or column.native for name, column in kept.items()}
        simulated.describe(self, f"{self.instance}_CT", {**natives, "__$command_id": "int"})
        self.captured = len(self.commits)
        self.tick()
        self.lsn += 1
        numbered = [NUMBER + self.lsn % 1000, self._place(self.lsn)]
        self.database.execute("DELETE FROM cdc.instances WHERE name = ?", [self.instance])
        self.database.execute("INSERT INTO cdc.instances VALUES (?, ?, ?)", [self.instance, *numbered])
        self.idle()

    def disable(self) -> None:
        """Ends the capture of the table."""
        self.database.execute("DELETE FROM cdc.instances")

    def capture(self, most: int | None = None) -> None:
        """Has the capture job go on, by so many transactions."""
        end = len(self.commits) if most is None else min(len(self.commits), self.captured + most)
        for lsn, at, statements in self.commits[self.captured : end]:
            self.database.execute("BEGIN")
            for row in self._captured(lsn, statements):
                marks = ", ".join("?" * len(row))
                self.database.execute(f'INSERT INTO cdc."{self.instance}_CT" VALUES ({marks})', row)
            self.database.execute("INSERT INTO cdc.mapping VALUES (?, ?)", [self._place(lsn), at])
            self.database.execute("COMMIT")
        self.captured = end

    def idle(self) -> None:
        """Has the job record that there was nothing to capture."""
        self.tick()
        self.lsn += 1
        self.database.execute("INSERT INTO cdc.mapping VALUES (?, ?)", [self._place(self.lsn), self.now])

    def clean_up(self, below: str) -> None:
        """Has the cleanup job remove what was committed before that place."""
        low = bytes.fromhex(below)
        self.database.execute("UPDATE cdc.instances SET low = ? WHERE low < ?", [low, low])
        self.database.execute(f'DELETE FROM cdc."{self.instance}_CT" WHERE "__$start_lsn" < ?', [low])
        self.database.execute("DELETE FROM cdc.mapping WHERE lsn < ?", [low])

    # The table.

    def tick(self, seconds: float = 1) -> None:
        """The server's clock."""
        self.now += timedelta(seconds=seconds)
        self.database.execute("UPDATE cdc.clock SET now = ?", [self.now])

    def commit(self, *statements: Iterable[Change]) -> int:
        """A transaction; its place in the log."""
        done = [list(statement) for statement in statements]
        self.tick(2)
        self.lsn += 0x100
        self.database.execute("BEGIN")
        for statement in done:
            self._apply(statement)
        self.database.execute("COMMIT")
        self.commits.append((self.lsn, self.now, done))
        return self.lsn

    def insert(self, *rows: Row) -> list[Change]:
        """A statement."""
        return [Change(before=None, after=self.full(row)) for row in rows]

    def update(self, key: int, **values: Any) -> list[Change]:
        """A statement about one row, of which `id` may be changed."""
        return [Change(before=self.rows[key], after={**self.rows[key], **values})]

    def delete(self, *keys: int) -> list[Change]:
        """A statement."""
        return [Change(before=self.rows[key], after=None) for key in keys]

    def full(self, row: Row) -> Row:
        """With NULL for what is not said."""
        return {**dict.fromkeys(self.columns), **row}

    def restore(self, upto: int) -> None:
        """Sets the database back to a place of its log; what was captured later is gone with it."""
        kept = [each for each in self.commits if each[0] <= upto]
        self.rows = {}
        self.database.execute("DELETE FROM dbo.orders; DELETE FROM ct.orders; UPDATE ct.versions SET latest = 0")
        self.commits = []
        for lsn, at, statements in kept:
            for statement in statements:
                self._apply(statement)
            self.commits.append((lsn, at, statements))
        place = self._place(upto)
        self.database.execute(f'DELETE FROM cdc."{self.instance}_CT" WHERE "__$start_lsn" > ?', [place])
        self.database.execute("DELETE FROM cdc.mapping WHERE lsn > ?", [place])
        self.captured = min(self.captured, len(kept))
        self.lsn = upto
        self.fork = f"22222222-0000-4000-8000-{upto % 10**12:012}"

    def truncate(self) -> None:
        """Without CDC: change tracking begins again."""
        self.rows = {}
        self.database.execute("DELETE FROM dbo.orders; DELETE FROM ct.orders")
        self.database.execute("UPDATE ct.versions SET latest = latest + 1, least = latest + 1")

    def forget(self) -> None:
        """Has the cleanup task of change tracking remove what is older than the last version."""
        self.database.execute("UPDATE ct.versions SET least = latest")
        self.database.execute("DELETE FROM ct.orders WHERE version < (SELECT latest FROM ct.versions)")

    def _apply(self, statement: Sequence[Change]) -> None:
        for change in statement:
            if change.before is not None:
                self.rows.pop(change.before["id"], None)
        for change in statement:
            if change.after is not None:
                self.rows[change.after["id"]] = change.after
        for key in _keys(statement):
            row = self.rows.get(key)
            self.database.execute("DELETE FROM dbo.orders WHERE id = ?", [key])
            if row is not None:
                self.database.execute(
                    f"INSERT INTO dbo.orders VALUES ({', '.join('?' * len(row))})", list(row.values())
                )
        self._tracked(statement)

    def track(self, statement: Sequence[Change]) -> None:
        """What change tracking keeps of a statement that was committed, of a table that somebody else writes."""
        for change in statement:
            if change.before is not None:
                self.rows.pop(change.before["id"], None)
            if change.after is not None:
                self.rows[change.after["id"]] = change.after
        cursor = self.database.cursor()
        cursor.execute("BEGIN")
        self._tracked(statement, cursor)
        cursor.execute("COMMIT")

    def _tracked(self, statement: Sequence[Change], database: Any = None) -> None:
        database = database or self.database
        ((version,),) = database.execute("SELECT latest FROM ct.versions").fetchall()
        for key in _keys(statement):
            row = self.rows.get(key)
            before = database.execute("SELECT created FROM ct.orders WHERE id = ?", [key]).fetchall()
            database.execute("DELETE FROM ct.orders WHERE id = ?", [key])
            inserted = row is not None and all(one.before is None or one.before["id"] != key for one in statement)
            created = version + 1 if inserted or not before else before[0][0]
            database.execute("INSERT INTO ct.orders VALUES (?, ?, ?, ?)", [key, version + 1, created, row is None])
        database.execute("UPDATE ct.versions SET latest = latest + 1")

    def _captured(self, lsn: int, statements: Sequence[Sequence[Change]]) -> Iterable[list[Any]]:
        names = [name for name, column in self.columns.items() if column.captured]
        # No sequence of a transaction may be used as an order, so this one runs backwards.
        place, everything, command = 0xFFFF, (1 << len(names)) - 1, 0
        for statement in statements:
            command += not self.by_row
            for change in self._ordered(statement):
                place, command = place - 1, command + self.by_row
                head = [self._place(lsn), None, self._place((lsn << 16) + place)]
                before, after = change.before, change.after
                if before is None or after is None:
                    operation, row = (2, after) if before is None else (1, before)
                    yield [*head, operation, everything, *((row or {})[name] for name in names), command]
                    continue
                touched = [name for name in names if before[name] != after[name]]
                mask = sum(1 << names.index(name) for name in touched)
                for operation, row in ((3, before), (4, after)):
                    sent = [row[n] if n in touched or not self.columns[n].large else None for n in names]
                    yield [*head, operation, mask, *sent, command]

    def _ordered(self, statement: Sequence[Change]) -> Iterable[Change]:
        """As the log has the changes of one statement."""
        if self.in_place:
            return statement
        split = []
        for change in statement:
            before, after = change.before, change.after
            if before is None or after is None or before["id"] == after["id"]:
                split.append(change)
            else:
                split += [Change(before=before, after=None), Change(before=None, after=after)]
        # An index sorts by key, the deletes of a key first.
        return sorted(split, key=lambda one: ((one.before or one.after or {})["id"], one.after is not None))

    def _instance(self) -> tuple[str, int] | None:
        found = self.database.cursor().execute("SELECT name, number FROM cdc.instances").fetchall()
        return found[0] if found else None

    def _helped(self) -> list[tuple[Any, ...]]:
        found = self._instance()
        return [(self.schema, self.table, *found, NUMBER, *[None] * 10)] if found else []

    def _ordinal(self, sql: str) -> int:
        names = [name for name, column in self.columns.items() if column.captured]
        return names.index(re.findall(r"N'([^']*)'", sql)[1]) + 1

    def _place(self, lsn: int) -> bytes:
        return lsn.to_bytes(10)

    def _declared(self, columns: Mapping[str, Column]) -> str:
        return ", ".join(f'"{name}" {column.type}' for name, column in columns.items())


class ChangeConnection(SimulatedConnection):
    """With transactions: what others commit is not seen within one."""

    def __init__(self, server: ChangeServer) -> None:
        super().__init__(server)
        self.database = server.database.cursor()

    def answer(self, sql: str) -> list[tuple[Any, ...]] | None:
        if sql in ("BEGIN TRANSACTION", "COMMIT TRANSACTION"):
            self.server.statements.append(sql)
            self.database.execute(sql)
            return None
        rows = self.server.answer(sql, self.database)
        scripted = any(pattern.search(sql) for pattern, _ in self.server.scripted)
        self.names = [] if scripted or rows is None else [each[0] for each in self.database.description]
        return rows

    def close(self) -> None:
        self.database.close()
        super().close()


def _keys(statement: Sequence[Change]) -> set[int]:
    return {side["id"] for change in statement for side in (change.before, change.after) if side is not None}


def server(**options: Any) -> ChangeServer:
    """A server whose table is not captured yet, and tracked."""
    found = ChangeServer(translated=translated, failed=simulated.failed, **options)
    simulated.script(found)
    return found


def translated(sql: str) -> str:
    """A statement in DuckDB's words."""
    return in_duckdb(CHANGETABLE.sub(lambda found: CHANGES.format(found[1]), sql), "tsql", _made)


def _made(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.CurrentTimestamp):
        return exp.Anonymous(this="servers_clock", expressions=[])
    return simulated.made(node)
