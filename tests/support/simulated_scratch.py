"""A simulated SQL Server that `tidegate certify` can write to; see `simulated_changes`.

Statements create, fill and change tables of one schema in DuckDB. What they did to the table of orders is told to the
change tables and to change tracking when it is committed, where these are on. The capture job is a thread.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pymssql

from support import simulated_changes, simulated_sqlserver
from support.simulated_changes import Change, ChangeConnection, ChangeServer, Column

SCHEMA, ORDERS = "tidegate_certify", "tidegate_orders"
COLUMNS = {
    "id": Column(native="bigint", type="BIGINT"),
    "code": Column(native="nvarchar(200)", type="TEXT"),
    "amount": Column(native="bigint", type="BIGINT"),
    "changed_at": Column(native="datetimeoffset(6)", type="TIMESTAMPTZ"),
}
TYPES = {
    "bigint": "BIGINT",
    "bigint IDENTITY(1,1)": "BIGINT DEFAULT nextval('ct.numbers')",
    "int": "INT",
    "datetimeoffset(6)": "TIMESTAMPTZ",
    "nvarchar(20)": "TEXT",
    "nvarchar(200)": "TEXT",
}
COLLATED = re.compile(r" COLLATE \w+")
DECLARED = re.compile(r"\[?(\w+)\]? (.+?)( NOT NULL PRIMARY KEY)?(?:, |$)")
NAMED = re.compile(r"\[(\w+)\]\.\[(\w+)\]")
CREATE = re.compile(r"CREATE TABLE \[(\w+)\]\.\[(\w+)\] \((.*)\)$", re.DOTALL)
WRITES = re.compile(r"(INSERT INTO|UPDATE|DELETE FROM) \[(\w+)\]\.\[(\w+)\]")
POLL = 0.5
NOT_YET = bytes(10)


@dataclass(kw_only=True)
class ScratchServer(ChangeServer):
    """A server with one database, `shop`, in which a schema may be created.

    Args:
        captures: change data capture of the database is on.
        tracks: change tracking of the database is on.
        refused: patterns of statements that the login may not run.
        others: tables of others that are tracked.
        ends: the capture job does.
    """

    columns: dict[str, Column] = field(default_factory=lambda: dict(COLUMNS))
    schema: str = SCHEMA
    table: str = ORDERS
    captures: bool = True
    tracks: bool = False
    tracked: bool = False
    others: int = 0
    schemas: set[str] = field(default_factory=set)
    tables: dict[str, dict[str, str]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    writing: dict[int, datetime] = field(default_factory=dict)
    committing: threading.Lock = field(default_factory=threading.Lock)
    ends: threading.Event = field(default_factory=threading.Event)
    begun: bytes = NOT_YET

    def __post_init__(self) -> None:
        super().__post_init__()
        self.database.execute("CREATE SEQUENCE ct.numbers")
        self.database.execute("CREATE MACRO current_timestamp_l_t_z() AS now()")
        self.database.execute("CREATE OR REPLACE MACRO servers_clock() AS (now() AT TIME ZONE 'UTC')")
        self.on("SELECT schema_id", lambda sql: [(7 if self._named(sql)[0] in self.schemas else None,)])
        self.on(r"FROM sys\.objects AS o WHERE", lambda _: [(name,) for name in sorted(self.tables)])
        self.on("ProductVersion", [("16.0.1000.6",)])
        self.on("SELECT datediff_big.*sysutcdatetime", lambda _: [(_micros(datetime.now(UTC)),)])
        self.on("dm_tran_active_transactions", lambda _: self._open())
        self.on("FROM sys.identity_columns", [(1, False)])
        self.on("is_cdc_enabled", lambda _: [(int(self.captures), int(self._instance() is not None))])
        self.on("is_rolemember", lambda _: [(int(self.captures), 1, "shop", "loader")])
        self.on("t.is_tracked_by_cdc = 1", lambda _: [(int(self._instance() is not None),)])
        self.on("change_tracking_databases", lambda _: [(int(self.tracks), int(self.tracked), 1)])
        self.on("'DATABASE', 'ALTER'", lambda _: [(int(self.tracks), 1, 1, "shop", "loader", "loader")])
        self.on(
            "FROM sys.change_tracking_tables AS t\n$", lambda _: [(int(self.tracked), int(self.tracked) + self.others)]
        )

    def connect(self, *_args: Any, **arguments: Any) -> _Connection:
        """A connection that writes."""
        self.connections.append(arguments)
        return _Connection(self)

    def create_tables(self) -> None:
        """None yet."""

    def tick(self, seconds: float = 1) -> None:
        """The clock is this machine's."""
        del seconds
        self.now = datetime.now(UTC).replace(tzinfo=None)

    def wrote(self, before: Mapping[int, Mapping[str, Any]], after: Mapping[int, Mapping[str, Any]]) -> None:
        """A transaction that is committed."""
        changes = [
            Change(before=before.get(key), after=after.get(key))
            for key in sorted(before.keys() | after.keys())
            if before.get(key) != after.get(key)
        ]
        if not changes:
            return
        with self.committing:
            self.lsn += 0x100
            self.tick()
            self.track(changes)
            self.commits.append((self.lsn, self.now, [changes]))

    def capturing(self) -> None:
        """Runs the capture job until it is stopped; changes of an instance appear once it has captured them."""
        while not self.ends.wait(POLL):
            with self.committing:
                if self._instance() is not None:
                    self.database.execute("UPDATE cdc.instances SET low = ? WHERE low = ?", [self.begun, NOT_YET])
                    self.capture()

    def capture_table(self) -> None:
        """Enables the table; the job has not come to it yet."""
        super().capture_table()
        self.begun = self._place(self.lsn - 1)
        self.database.execute("UPDATE cdc.instances SET low = ?", [NOT_YET])

    def run_ddl(self, sql: str) -> bool:
        """Whether it was a statement about a table, a schema or a setting."""
        if any(re.search(pattern, sql) for pattern in self.refused):
            raise pymssql.OperationalError((15247, b"User does not have permission to perform this action."))
        known = {
            "CREATE TABLE": self._create,
            "DROP TABLE": self._drop,
            "CREATE SCHEMA": self._create_schema,
            "DROP SCHEMA": self._drop_schema,
            "ALTER DATABASE": self._set_tracking,
            "ALTER TABLE": self._track_table,
            "EXEC sys.sp_cdc_enable_table": self._capture_it,
            "EXEC sys.sp_cdc_disable_table": lambda _: self.disable(),
        }
        done = next((each for words, each in known.items() if sql.startswith(words)), None)
        if done is not None:
            done(sql)
        return done is not None

    def contents(self, connection: _Connection) -> dict[int, dict[str, Any]]:
        """The rows of orders, as that connection sees them."""
        if self.table not in self.tables:
            return {}
        names = list(self.columns)
        rows = connection.database.execute(f"SELECT {', '.join(names)} FROM {SCHEMA}.{ORDERS}").fetchall()
        return {row[0]: dict(zip(names, row, strict=True)) for row in rows}

    def _create(self, sql: str) -> None:
        schema, table, columns = CREATE.findall(sql)[0]
        natives, declared = {}, []
        for name, declaration, key in DECLARED.findall(columns):
            plain = COLLATED.sub("", declaration)
            if plain not in TYPES:
                raise pymssql.OperationalError((2715, b"Cannot find data type."))
            natives[name] = plain.partition(" IDENTITY")[0]
            declared.append(f'"{name}" {TYPES[plain]}{" PRIMARY KEY" if key else ""}')
        self.database.cursor().execute(f"CREATE TABLE {schema}.{table} ({', '.join(declared)})")
        self.tables[table] = natives
        simulated_sqlserver.describe(self, table, natives)

    def _drop(self, sql: str) -> None:
        """Ends what is kept of it, too."""
        _, table = self._named(sql)
        if table == self.table:
            self.tracked = False
            self.disable()
        del self.tables[table]
        self.database.cursor().execute(f"DROP TABLE {SCHEMA}.{table}")

    def _create_schema(self, sql: str) -> None:
        del sql
        self.schemas.add(SCHEMA)
        self.database.cursor().execute(f"CREATE SCHEMA {SCHEMA}")

    def _drop_schema(self, sql: str) -> None:
        assert not self.tables, sql
        self.schemas.remove(SCHEMA)
        self.database.cursor().execute(f"DROP SCHEMA {SCHEMA}")

    def _set_tracking(self, sql: str) -> None:
        self.tracks = sql == "ALTER DATABASE [shop] SET CHANGE_TRACKING = ON"
        assert self.tracks or not (self.tracked or self.others), sql

    def _track_table(self, sql: str) -> None:
        assert self.tracks, sql
        self.tracked = sql.endswith("ENABLE CHANGE_TRACKING")

    def _capture_it(self, sql: str) -> None:
        assert self.captures, sql
        self.instance = re.findall(r"N'([^']*)'", sql)[2]
        with self.committing:
            self.capture_table()

    def _named(self, sql: str) -> tuple[str, str]:
        found = NAMED.search(sql)
        return (found[1], found[2]) if found else (SCHEMA if SCHEMA in sql else "", "")

    def _open(self) -> list[tuple[Any, ...]]:
        return [("transaction", number, 51, "loader", _micros(since)) for number, since in self.writing.items()]


class _Connection(ChangeConnection):
    """Writes as well; what it wrote is told once it is committed."""

    server: ScratchServer

    def __init__(self, server: ScratchServer) -> None:
        super().__init__(server)
        self._before: dict[int, dict[str, Any]] = {}
        self._wrote = False
        self._within = False

    def answer(self, sql: str) -> list[tuple[Any, ...]] | None:
        server = self.server
        if sql == "BEGIN TRANSACTION":
            self._within, self._wrote = True, False
            return super().answer(sql)
        if sql == "COMMIT TRANSACTION":
            self._within = False
            after = server.contents(self) if self._wrote else {}
            found = super().answer(sql)
            if self._wrote:
                server.wrote(self._before, after)
                del server.writing[id(self)]
            return found
        if WRITES.match(sql):
            self._write(sql)
            return None
        if server.run_ddl(sql):
            server.statements.append(sql)
            return None
        return super().answer(sql)

    def _write(self, sql: str) -> None:
        server = self.server
        server.statements.append(sql)
        if not (self._within and self._wrote):
            self._before = server.contents(self)
        if self._within and not self._wrote:
            self._wrote = True
            server.writing[id(self)] = datetime.now(UTC)
        self.database.execute(server.translated(sql.replace(" +00:00'", "+00:00'")))
        if not self._within:
            server.wrote(self._before, server.contents(self))


@contextlib.contextmanager
def working(**options: Any) -> Iterator[ScratchServer]:
    """A server whose capture job runs."""
    server = ScratchServer(translated=simulated_changes.translated, failed=simulated_sqlserver.failed, **options)
    simulated_sqlserver.script(server)
    job = threading.Thread(target=server.capturing, daemon=True)
    job.start()
    try:
        yield server
    finally:
        server.ends.set()
        job.join(10)


def _micros(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000)
