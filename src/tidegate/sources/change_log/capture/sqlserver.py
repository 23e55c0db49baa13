"""What the logs that SQL Server keeps of its tables have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Relation
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.sqlserver.session import Connect, SqlServerSession
from tidegate.errors import ConfigError
from tidegate.sources.change_log import spool
from tidegate.sources.change_log.database_log import DatabaseLog
from tidegate.sources.shared.relation import of_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlServerLogOptions:
    """What such a log is, as the project says; see `ChangeLog`.

    Args:
        key: the stream's.
    """

    connection: Connection
    table: str
    key: tuple[str, ...]
    folder: Path

    @property
    def relation(self) -> Relation:
        return of_table(SqlServer(), self.table)


def check_server(connection: Connection, what: str) -> None:
    """Raises ConfigError: the connection is to another kind of database."""
    if connection.scheme not in (SqlServer.kind, *SqlServer.schemes):
        raise ConfigError(f"connection {connection.name!r} is not SQL Server, and only SQL Server has {what}")


@contextmanager
def session_of(options: SqlServerLogOptions, connect: Connect) -> Iterator[SqlServerSession]:
    """A connection of its own, beside that of the table."""
    session = SqlServerSession(SqlServer(), options.connection, connect)
    try:
        yield session
    finally:
        session.close()


class SqlServerLog(DatabaseLog):
    """A log whose values come as queries of SQL Server give them."""

    def __init__(self, session: SqlServerSession, table: Probe, held: ExitStack, place: Path) -> None:
        super().__init__(table, held, place)
        self._session = session

    def carried(self, session: SparkSession, schema: Schema) -> Sequence[spool.Carried]:
        """As queries of the table do."""
        utc = session.conf.get("spark.sql.session.timeZone") == "UTC"
        return [spool.of_query(self._session.dialect, column, utc=utc) for column in schema]
