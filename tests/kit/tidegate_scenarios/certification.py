"""What a database gives `tidegate certify`: a column of every type with its extreme values, and a way to write.

Loads use none of it. It must share no code with what reads rows: what a table should hold is stated as plain values of
Python, so that no expression of a dialect is compared with itself.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import doubled
from tidegate.errors import SourceError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A column of one type.

    Args:
        name: of the column and of its cases in the report.
        declaration: the type, as CREATE TABLE has it.
        values: at least two different ones, and no NULL, which every column gets anyway: how SQL writes it, and what a
            reader of the lake's table must be given as PyArrow gives it: int, Decimal, float, bool, date, datetime (in
            UTC for an instant, without a zone for a local time), str, bytes or a list.
        read_as: what `columns:` of the source says of it; empty to read it as it is.
    """

    name: str
    declaration: str
    values: tuple[tuple[str, Any], ...]
    read_as: str = ""


class Scratch(Protocol):
    """One schema in which nothing lies but what the kit creates, over a connection of the kit's own.

    Each statement is committed, except between `begin` and `commit`. `connection` is the one that streams read through,
    `schema` the name for people.
    """

    connection: Connection
    schema: str

    @abstractmethod
    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement, none where it returns none. Raises SourceError, without a value or a secret."""

    @abstractmethod
    def contents(self) -> tuple[str, ...] | None:
        """The names of everything that lies in the schema, not only of tables; None where there is no such schema."""

    @abstractmethod
    def create(self) -> None:
        """Creates the schema, which was missing. Raises ConfigError where a user cannot create one."""

    @abstractmethod
    def remove(self) -> None:
        """Removes the schema that `create` made, never what lies in it: a schema that is not empty is an error."""

    @abstractmethod
    def connect_again(self) -> Scratch | None:
        """Another connection to the same schema, which writes beside this one; None where there is one at a time."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection."""

    def parts(self, table: str) -> tuple[str, ...]:
        """A table's name as streams have it: schema and table."""
        return (self.schema, table)

    def begin(self) -> None:
        """Opens a transaction."""
        self.execute("BEGIN")

    def commit(self) -> None:
        """Commits it."""
        self.execute("COMMIT")

    def disconnect(self) -> int | None:
        """Ends every other session that works with the schema, and says how many; None where the server cannot.

        Never one that may work with another schema.
        """
        return None


class ServerScratch(Scratch):
    """A schema of a server, over a session of a driver of DB-API; `reopen` opens another one."""

    def __init__(self, connection: Connection, schema: str, session: Any, reopen: Callable[[], Scratch]) -> None:
        self.connection, self.schema = connection, schema
        self.session, self._reopen = session, reopen

    @property
    def quoted(self) -> str:
        """The schema as statements name it."""
        return doubled(self.schema, '"')

    @abstractmethod
    def translated(self) -> AbstractContextManager[None]:
        """Turns errors of the driver into SourceError."""

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        with self.translated(), closing(self.session.cursor()) as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def create(self) -> None:
        """A schema of the login's."""
        self.execute(f"CREATE SCHEMA {self.quoted}")

    def remove(self) -> None:
        """Without CASCADE."""
        self.execute(f"DROP SCHEMA {self.quoted}")

    def connect_again(self) -> Scratch | None:
        """By the same login."""
        return self._reopen()

    def close(self) -> None:
        """Ends the connection, and a transaction that is open."""
        self.session.close()


class FileScratch(Scratch):
    """A database that is a file, which is created with the first table and has one writer."""

    def __init__(self, connection: Connection, schema: str, path: Path) -> None:
        self.connection, self.schema, self.path = connection, schema, path

    def remove(self) -> None:
        """The file, unless it holds anything."""
        if self.contents():
            raise SourceError(f"{self.path} is not empty")
        self.close()
        self.path.unlink()

    def connect_again(self) -> None:
        """Nobody writes beside it."""
        return

    def close(self) -> None:
        """It is closed after each statement."""


class TableLog(Protocol):
    """A log that the server keeps of a table once it is told to, and that a stream applies.

    `name` is that of the stream and of its cases. `behind` is within how many seconds a commit is in the log; 0 where
    it is there at once. `outside` says for people what `start` may do outside of the schema, `tables` what it may
    create in it.
    """

    name: ClassVar[str]
    behind: ClassVar[float] = 0.0
    outside: ClassVar[str]
    tables: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def source(self, instance: str) -> Mapping[str, Any]:
        """What the source of a stream says beside connection and table; `instance` tells certifications apart."""

    @abstractmethod
    def start(self, scratch: Scratch, table: str, instance: str) -> None:
        """Has the server keep it of a table of the schema.

        Raises:
            TidegateError: server or login do not allow it, and nothing has changed; the hint is what would allow it.
        """

    @abstractmethod
    def pending(self, scratch: Scratch, instance: str) -> str:
        """Why no load can begin yet, once rows of the table have changed; empty where it can."""

    @abstractmethod
    def stop(self, scratch: Scratch, table: str, instance: str) -> tuple[str, ...]:
        """Undoes what `start` did, also for a certification that was killed, and nothing that others did.

        Returns:
            What could not be undone, and does not lie in the schema.
        """


class Certification(Protocol):
    """How the kit writes to the databases of a dialect: a plugin of the group `certifications`, of the dialect's kind.

    `driver` is the package of the Python driver. `integer`, `text` and `instant` declare the columns of the tables that
    change, the last one set by `now`, the server's own clock, in the time zone `zone` where the type has none.
    `identity` declares a key that the database counts up by itself; empty where none can. `transactions` is false where
    no load can run while a transaction is open. `schema` is where the kit works if nobody says where. `own` are
    types and sequences of the schema's own: by name, which begins with `tidegate_`, the statement that creates one
    before the first table, and the one that drops it after the last. `logs` are those that the database keeps of tables
    once it is told to.
    """

    kind: ClassVar[str]
    driver: ClassVar[str]
    integer: ClassVar[str] = "bigint"
    text: ClassVar[str] = "varchar(200)"
    instant: ClassVar[str]
    zone: ClassVar[str] = ""
    identity: ClassVar[str] = ""
    transactions: ClassVar[bool] = True
    now: ClassVar[str] = "CURRENT_TIMESTAMP"
    schema: ClassVar[str] = "tidegate_certify"
    own: ClassVar[Mapping[str, tuple[str, str]]] = {}
    logs: ClassVar[tuple[TableLog, ...]] = ()
    samples: ClassVar[tuple[Sample, ...]]

    @abstractmethod
    def open(self, connection: Connection, schema: str | None) -> Scratch:
        """Connects; creates nothing. Without a schema it is the one of that name, or what the URL names.

        Raises:
            SourceUnavailable: the server refuses the login, or does not answer.
            ConfigError: the URL cannot be parsed, or names no place for a schema.
        """

    def driver_version(self) -> str:
        """That of the package of the driver."""
        return metadata.version(self.driver)

    def string(self, text: str) -> str:
        """A text of printable characters as SQL writes it."""
        return "'" + text.replace("'", "''") + "'"

    def create_table(self, table: str, columns: Mapping[str, str]) -> str:
        """The statement for a table, its name quoted; the first of the columns is the key, and never NULL."""
        key, *others = (f"{name} {declaration}" for name, declaration in columns.items())
        return f"CREATE TABLE {table} ({', '.join([f'{key} NOT NULL PRIMARY KEY', *others])})"

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """The statement for a few rows; names are quoted, values are SQL."""
        values = ", ".join(f"({', '.join(row)})" for row in rows)
        return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"
