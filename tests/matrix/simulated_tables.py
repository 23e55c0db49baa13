"""Tables of databases of which no server runs here: simulated at the border of both drivers, Python's and Spark's.

The sessions are the program's, connected to a server of `support.simulated`. What Spark would ask by JDBC is asked
there, too, in the database's own SQL. So this proves the SQL and what the engine makes of it, and no driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import oracledb

from matrix.histories import ADDED, HELD, HIDDEN, TYPES
from matrix.model import CREATED, CURSOR, KEY, Event
from support import simulated_oracle, simulated_sqlserver, simulated_teradata
from support.plugin import installed_package
from support.simulated import SimulatedServer
from tidegate.core.ids import Connection
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.oracle.session import OracleSession
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.sqlserver.session import SqlServerSession
from tidegate.dialects.teradata import Teradata
from tidegate.dialects.teradata.session import TeradataSession

IDENTITY = "START WITH: 1, INCREMENT BY: 1, MAX_VALUE: 9999999999999999999999999999, CYCLE_FLAG: N, ORDER_FLAG: N"
SERVERS: dict[int, SimulatedServer] = {}
"""By the port of a URL the server that is there."""


def server_of(connection: Connection) -> SimulatedServer:
    return SERVERS[int((connection.url or "").rpartition(":")[2].partition("/")[0])]


class SimulatedSqlServer(SqlServer):
    """The same, of a simulated server."""

    def open(self, connection: Connection) -> SqlServerSession:
        return SqlServerSession(self, connection, connect=server_of(connection).connect)


class SimulatedOracle(Oracle):
    """The same, of a simulated server."""

    def open(self, connection: Connection) -> OracleSession:
        return OracleSession(self, connection, connect=server_of(connection).connect)


class SimulatedTeradata(Teradata):
    """The same, of a simulated server."""

    def open(self, connection: Connection) -> TeradataSession:
        return TeradataSession(self, connection, connect=server_of(connection).connect)


def install(folder: Path) -> None:
    """Makes them dialects of their own schemes for whoever has that folder in its path."""
    kinds = {f"simulated{place}": table.dialect.__name__ for place, table in PLACES.items()}
    text = f"from {__name__} import {', '.join(kinds.values())}\n"
    installed_package(folder, name="simulated_dialects", text=text, entries={"dialects": kinds})


@dataclass(frozen=True, kw_only=True)
class SimulatedReader:
    """What asks by JDBC asks the simulated server; all else is Spark's."""

    spark: Any
    server: SimulatedServer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark.read, name)

    def jdbc(self, url: str, table: str, *, predicates: Sequence[str], properties: Mapping[str, str]) -> Any:
        schema = self.spark.createDataFrame([], properties["customSchema"]).schema
        names = ", ".join(f'"{name}"' for name in schema.names)
        asked = [f"SELECT {names} FROM {table} WHERE {predicate}" for predicate in predicates]
        rows = [row for sql in asked for row in self.server.answer(sql) or ()]
        return self.spark.createDataFrame([tuple(map(_plain, row, schema.fields)) for row in rows], schema)


def _plain(value: Any, kept: Any) -> Any:
    """A value of DuckDB as a driver would give it for that type."""
    match kept.dataType.typeName():
        case "binary" if isinstance(value, str):
            return value.encode()
        case "decimal" if value is not None:
            return Decimal(value)
        case "integer" | "long" if value is not None:
            return int(value)
        case "string" if value is not None:
            return str(value)
        case _:
            return value


@dataclass(frozen=True, kw_only=True)
class SimulatedSpark:
    """A session whose JDBC ends at a simulated server."""

    spark: Any
    server: SimulatedServer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.spark, name)

    def newSession(self) -> SimulatedSpark:  # noqa: N802 - Spark's name
        return SimulatedSpark(spark=self.spark.newSession(), server=self.server)

    @property
    def read(self) -> SimulatedReader:
        return SimulatedReader(spark=self.spark, server=self.server)


@dataclass(kw_only=True)
class SimulatedTable(ABC):
    """One table; a phase is one DELETE and one INSERT.

    Unless it is read by a query, it has a column more, which changes with every row and is not to be read.

    Args:
        zoned: the columns of times with a zone.
    """

    query: bool = False
    server: SimulatedServer = field(init=False)
    columns: tuple[str, ...] = tuple(TYPES)
    phases: int = 0
    dialect: ClassVar[type[Any]]
    kinds: ClassVar[Mapping[str, str]]
    zoned: ClassVar[tuple[str, ...]] = ()
    schema: ClassVar[str]
    url: ClassVar[str]

    def __post_init__(self) -> None:
        self.server = self.new()
        self.port = 10_000 + len(SERVERS)
        SERVERS[self.port] = self.server

    def connections(self) -> dict[str, Any]:
        return {"shop": {"url": self.url.format(port=self.port)}}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        if self.query:
            return {"connection": "shop", "query": f"SELECT * FROM {self.dialect().relation(self.schema, 't').sql}"}
        return {"connection": "shop", "table": f"{self.schema}.t", "exclude": [HIDDEN]}

    def make(self) -> None:
        kinds = {name: "text" if kind == "uuid" else kind for name, kind in TYPES.items()}
        kinds |= dict.fromkeys(self.zoned, "timestamptz")
        kinds |= dict.fromkeys(self.hidden, "int")
        columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        self.server.database.execute(f"CREATE TABLE {self.schema}.t ({columns})")
        self.describe()

    def change(self, events: Sequence[Event]) -> None:
        last = {event.key: event.row for event in events}
        self.phases += 1
        database, names = self.server.database, [*self.columns, *self.hidden]
        hidden = [self.phases for _ in self.hidden]
        rows = [[*(row[name] for name in self.columns), *hidden] for row in last.values() if row]
        if last:
            database.execute(f"DELETE FROM {self.schema}.t WHERE {KEY} IN ({', '.join(map(str, last))})")
        if rows:
            marks = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO {self.schema}.t ({', '.join(names)}) VALUES ({marks})", rows)

    def widen(self) -> None:
        self.columns = tuple(HELD)
        self.server.database.execute(f"ALTER TABLE {self.schema}.t ADD COLUMN {ADDED} text")
        self.describe()

    @property
    def hidden(self) -> tuple[str, ...]:
        return () if self.query else (HIDDEN,)

    @property
    def natives(self) -> dict[str, str]:
        added = {name: HELD[name] for name in self.columns if name not in TYPES}
        kinds = {**TYPES, **dict.fromkeys(self.hidden, "int"), **added}
        return {name: self.kinds[kind] for name, kind in kinds.items()}

    @abstractmethod
    def new(self) -> SimulatedServer: ...

    @abstractmethod
    def describe(self) -> None: ...


@dataclass(kw_only=True)
class SqlServerTable(SimulatedTable):
    dialect = SimulatedSqlServer
    schema = "dbo"
    url = "simulatedsqlserver://loader:s3cr3t@127.0.0.1:{port}/shop"
    kinds = {
        "bigint": "bigint",
        "uuid": "uniqueidentifier",
        "text": "nvarchar(max)",
        "int": "int",
        "decimal(10,2)": "decimal(10,2)",
        "date": "date",
        "timestamp": "datetime2(6)",
    }

    def new(self) -> SimulatedServer:
        found = simulated_sqlserver.server()
        found.on("SELECT datediff_big.*sysutcdatetime", lambda _: [(int(datetime.now(UTC).timestamp()) * 1_000_000,)])
        found.on(r"FROM sys\.(indexes|foreign_keys|views)", [])
        found.on(r"FROM sys\.identity_columns", [(1, False)])
        return found

    def describe(self) -> None:
        simulated_sqlserver.describe(self.server, "t", self.natives)


@dataclass(kw_only=True)
class TeradataTable(SimulatedTable):
    dialect = SimulatedTeradata
    schema = "SHOP"
    url = "simulatedteradata://loader:s3cr3t@127.0.0.1:{port}/SHOP"
    kinds = {
        "bigint": "BIGINT",
        "uuid": "CHAR(36) CHARACTER SET LATIN",
        "text": "VARCHAR(200) CHARACTER SET UNICODE",
        "int": "INTEGER",
        "decimal(10,2)": "DECIMAL(10,2)",
        "date": "DATE",
        "timestamp": "TIMESTAMP(6)",
    }

    def new(self) -> SimulatedServer:
        found = simulated_teradata.server()
        found.on("FROM DBC", [])
        found.on("CURRENT_TIMESTAMP", lambda _: [(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}",)])
        return found

    def describe(self) -> None:
        simulated_teradata.describe(self.server, "t", self.natives)


@dataclass(kw_only=True)
class OracleTable(SimulatedTable):
    """A DATE has a time of day there, a NUMBER is read as what the project states, and a cursor needs a time zone."""

    dialect = SimulatedOracle
    schema = "SHOP"
    url = "simulatedoracle://loader:s3cr3t@127.0.0.1:{port}/SHOP"
    kinds = {kind: kind for kind in TYPES.values()}
    zoned = (CREATED, CURSOR)

    def new(self) -> SimulatedServer:
        found = simulated_oracle.server()
        found.on("sys_extract_utc", lambda _: [(str(int(datetime.now(UTC).timestamp())),)])
        found.on("CON_NAME", [("SHOP/PDB1",)])
        found.on("FROM all_objects", [("73214",)])
        found.on("FROM all_(indexes|constraints|cons_columns|views|mviews)", [])
        found.on("FROM all_tab_identity_cols", [(IDENTITY,)])
        return found

    def source(self, name: str) -> dict[str, Any]:
        return {**super().source(name), "columns": {"id": "bigint", "qty": "int", "day": "date"}}

    def describe(self) -> None:
        made = simulated_oracle.column
        number, text = simulated_oracle.NUMBER, simulated_oracle.VARCHAR
        known = {
            "bigint": lambda name: made(name, number, precision=38, null_ok=name != KEY),
            "int": lambda name: made(name, number, precision=10),
            "decimal(10,2)": lambda name: made(name, number, precision=10, scale=2),
            "date": lambda name: made(name, oracledb.DB_TYPE_DATE),
            "timestamp": lambda name: made(
                name, oracledb.DB_TYPE_TIMESTAMP_TZ if name in self.zoned else oracledb.DB_TYPE_TIMESTAMP, scale=6
            ),
        }
        columns = [known.get(kind, lambda name: made(name, text))(name) for name, kind in self.natives.items()]
        self.server.describe(r'"t"\s[^=]*WHERE 1 = 0', columns)


PLACES: Mapping[str, type[SimulatedTable]] = {
    "oracle": OracleTable,
    "sqlserver": SqlServerTable,
    "teradata": TeradataTable,
}
