"""What a database dialect implements: SQL expressions, and a live session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Protocol, runtime_checkable

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.flavours import Bound
from tidegate.core.ids import Connection
from tidegate.core.schema import Column, Kind, Schema, Type
from tidegate.core.wire_format import Reading

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What is read: a table by its parts, or the text of a query.

    Args:
        sql: what stands behind FROM, quoted.
        label: how people call it.
        parts: schema and table; empty for a query.
    """

    sql: str
    label: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What `init` proposes a stream from."""

    schema: str
    table: str
    columns: Schema
    refused: Mapping[str, str]
    primary_key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Jdbc:
    """How Spark reaches the database: the password is among the properties and nowhere else."""

    url: str
    properties: Mapping[str, str]


class Session(Protocol):
    """A live connection; other threads may use it too.

    From `hold` on every answer comes from one snapshot where there is one.
    `connections` says how many statements `parallel` asks at a time, `steady` whether Spark reads that one snapshot.
    """

    connections: ClassVar[int]
    has_snapshot: ClassVar[bool]

    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement. Raises the classes of `errors`, never the driver's."""

    def columns(self, relation: Relation, overrides: Mapping[str, str]) -> Schema:
        """The columns with their exact types. Raises SchemaRefused, ColumnMissing."""

    def hold(self, relation: Relation) -> None:
        """Takes the snapshot."""

    def identity(self, relation: Relation) -> str:
        """See `Probe.identity`."""

    def clock(self) -> int | None:
        """See `Probe.clock`."""

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:
        """Sets of columns of which no two rows are equal and none is NULL."""

    def row_bytes(self, relation: Relation) -> int:
        """Estimated bytes of one row."""

    def estimate(self, relation: Relation, condition: str) -> int:
        """Estimated rows of the relation that fulfil the condition."""

    def cuts(self, relation: Relation, parts: int) -> tuple[str, ...]:
        """Conditions over the pseudo-column `dialect.place` that split a table evenly; empty if nothing does."""

    def parallel(self, relation: Relation, statements: Sequence[str]) -> list[Row]:
        """The rows of all the statements, asked at the same time within the snapshot."""

    def verify_unchanged(self) -> None:
        """See `Probe.verify_unchanged`."""

    def jdbc(self) -> Jdbc:
        """Connects Spark to the same snapshot."""

    def list_tables(self) -> list[tuple[str, str]]:
        """Schema and name of every table that the user can see."""

    def facts(self, schema: str, table: str) -> TableFacts:
        """Keys, types, indexes and size of one table."""

    def close(self) -> None:
        """Ends every connection."""


class Entrance(Session, Protocol):
    """A session before its snapshot: the only one that returns safe bounds, which must be taken before the snapshot."""

    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """The inclusive safe bound of a timestamp or date column. Raises EdgeUnknown."""

    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """That of an ever growing integer column; None while writers hold it. Raises EdgeUnknown."""


@runtime_checkable
class KeepsRanges(Protocol):
    """A session of a database that may keep a table in ranges of a column."""

    def ranges(self, relation: Relation) -> tuple[str, tuple[str, ...]] | None:
        """The column, and where its ranges begin or end as expressions of its type; None for any other table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBack:
    """What a server says of a moment before.

    Args:
        restarted: whether it was started since, without which nothing can have been put in its place.
        reason: why it cannot have come here from there; None where nothing says so.
    """

    restarted: bool
    reason: str | None = None


@runtime_checkable
class Remembers(Protocol):
    """A session that can detect that its database was restored from a copy taken before a given moment."""

    def witness(self) -> Mapping[str, Any]:
        """What to remember about the time of the snapshot; empty if it would prove nothing."""

    def set_back(self, witness: Mapping[str, Any], clock: int | None) -> SetBack:
        """Whether the server continues from that moment; `clock` as it was then."""

    def older_than(self, witness: Mapping[str, Any], relation: Relation, condition: str) -> str | None:
        """Why rows that fulfil the condition, and were not there at that moment, were written before it."""

    def follows(self) -> bool:
        """Whether it replays the history of another server."""


@runtime_checkable
class Packs(Protocol):
    """A dialect in which the numbers of a digest are cheaper to take from another form of it than from its text."""

    def packed(self, digest: str) -> str:
        """The digest in that form."""

    def quarter_of(self, digest: str, index: int) -> str:
        """One of its four 32-bit quarters as a number, as `Dialect.quarter` gives it."""


@runtime_checkable
class Seeks(Protocol):
    """A dialect in which an index finds no row by `comparable`, but by a condition beside it."""

    def seek(self, sql: str, column: Column, texts: Sequence[str]) -> str | None:
        """What every row fulfils whose value has one of these canonical texts; None where no index can serve it."""


class Asks(Protocol):
    """What the questions to a database's catalog need of a session: statements, and the dialect that writes them."""

    name: str

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    def rows(self, sql: str) -> list[Row]:
        """See `Session.rows`."""

    def estimate(self, relation: Relation, condition: str) -> int:
        """See `Session.estimate`."""


class Dialect(Protocol):
    """The SQL of one database: text only."""

    kind: ClassVar[str]
    fence: ClassVar[str]
    place: ClassVar[str]
    ordered: ClassVar[frozenset[Kind]]

    def quote(self, name: str) -> str:
        """One identifier, whatever it holds."""

    def string(self, text: str) -> str:
        """A text literal that no setting reads differently, for comparison by bytes."""

    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text."""

    def text(self, sql: str, column: Column) -> str:
        """The canonical text of an expression of the column's type; NULL stays NULL, a bad value is an error."""

    def comparable(self, sql: str, column: Column) -> str:
        """The expression that compares with `literal`, and sorts in the same order in every engine."""

    def likely_above(self, sql: str, column: Column, text: str) -> str:
        """A cheap condition that holds for every row above a canonical text; "1 = 1" where none is cheaper."""

    def read(self, column: Column) -> Reading:
        """The exact expression that Spark reads."""

    def as_text(self, sql: str) -> str:
        """A number as text."""

    def concat(self, texts: Sequence[str]) -> str:
        """Texts, none of them NULL, one after the other."""

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text, or all of a shorter one."""

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division, with the sign of the dividend."""

    def quick(self, columns: Sequence[Column]) -> str | None:
        """The engine's own hash of a row over all the columns, as a number; None where it has none that is sound."""

    def digest(self, row: str) -> str:
        """The md5 of a row's text in lower hex."""

    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""


class Connectable(Dialect, Protocol):
    """The dialect of a database that can be connected to.

    `bounds` are the safe bounds that its sessions know; `ranges` says that a table may be kept in ranges of a column;
    `known` matches the names of the types that Spark's JDBC source knows.
    """

    jars: ClassVar[tuple[str, ...]]
    sqlglot: ClassVar[str]
    bounds: ClassVar[frozenset[Bound]]
    ranges: ClassVar[bool]
    known: ClassVar[re.Pattern[str]]

    def open(self, connection: Connection) -> Entrance:
        """Connects. Raises SourceUnavailable, ConfigError."""
