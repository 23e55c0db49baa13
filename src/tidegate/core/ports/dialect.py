"""What a database dialect implements: SQL expressions, and a live session.

What most databases share is a default here, so a dialect states only what is its own: it inherits from `Connectable`
(from `Dialect` where no rows are read through it), and its session from `PreSnapshotSession`. A method is abstract if a
wrong default could silently produce wrong rows.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, Protocol

from tidegate.core.bounds import Clock
from tidegate.core.changes import SafeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.connector import CapturedDatabase
from tidegate.core.flavours import Bound
from tidegate.core.ids import Connection
from tidegate.core.schema import Column, Kind, Schema, Type
from tidegate.core.server import Ask, Server
from tidegate.core.wire_format import ColumnRead
from tidegate.errors import ConfigError

Row = tuple[Any, ...]


EXACT = frozenset({Kind.BINARY, Kind.BOOLEAN, Kind.DATE, Kind.DECIMAL, Kind.INTEGER, Kind.TEXT, Kind.UUID})


class SelectForms(Protocol):
    """What most databases write; a dialect overrides what its database writes otherwise."""

    def named(self, subquery: str, name: str) -> str:
        """A subquery as it stands behind FROM."""
        return f"({subquery}) AS {name}"

    def descending(self, sql: str) -> str:
        """In ORDER BY: the greatest value first, NULL last."""
        return f"{sql} DESC NULLS LAST"

    def limited(self, columns: str, rest: str, rows: int, *, distinct: bool = False) -> str:
        """A SELECT of these columns that gives at most so many rows; `rest` begins with FROM."""
        return f"SELECT {'DISTINCT ' if distinct else ''}{columns} {rest} LIMIT {rows}"

    def every(self, columns: Sequence[str]) -> str:  # noqa: ARG002 - few know no star there
        """All columns of a relation, given by their quoted names, before another expression."""
        return "*"

    def is_among(self, values: Sequence[str], rest: str) -> str:
        """Whether the values of a row are those of any row of a SELECT of the same ones; `rest` begins with FROM."""
        one = values[0] if len(values) == 1 else f"({', '.join(values)})"
        return f"{one} IN (SELECT {', '.join(values)} {rest})"

    def tiles(self, count: int, order: str) -> str:
        """The number of the part that a row lies in, of so many parts with equally many rows in that order."""
        return f"ntile({count}) OVER (ORDER BY {order})"

    def remainder(self, sql: str, divisor: int) -> str:
        """Of a whole number's division, with the sign of the dividend."""
        return f"({sql} % {divisor})"

    def by_characters(self, text: str) -> tuple[str, Callable[[str], str]]:
        """A text in a form of which equal ones have the same characters, blanks at the end included; and its inverse.

        `left` and `string` are compared and grouped by it.
        """
        return text, str


class ColumnValues(Protocol):
    """What holds for most databases; a dialect overrides what its database keeps otherwise."""

    def tells_apart(self, column: Column) -> bool:
        """Whether values that a unique index tells apart have canonical texts that differ.

        Not of times with digits that a canonical text leaves out, nor of texts in several spellings of one value.
        """
        return column.type.kind in EXACT


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What is read: a table by its parts (schema and table), or the text of a query, which has none.

    `sql` stands behind FROM, quoted; `label` is how people call it.
    """

    sql: str
    label: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What `init` proposes a stream from.

    Args:
        unsupported: columns without an exact type, and the source's word for each.
        as_text: those of them that `columns: {name: text}` reads; None for all.
        clocked: columns that the database itself sets to its own time at every insert and update, and what proves it.
    """

    schema: str
    table: str
    columns: Schema
    unsupported: Mapping[str, str]
    primary_key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...]
    rows: int
    as_text: Collection[str] | None = None
    clocked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jdbc:
    """How Spark reaches the database, and writes its SQL; the password is among the properties and nowhere else."""

    url: str
    properties: Mapping[str, str]
    escaped: Callable[[str], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCheck:
    """What a server says of a moment before: why it cannot have come here from there, None where nothing says so.

    Unless it was `restarted` since, nothing can have been put in its place.
    """

    restarted: bool
    reason: str | None = None


class Session(Protocol):
    """A live connection; other threads may use it too.

    From `hold` on every answer comes from one snapshot where there is one.
    `connections` says how many statements `parallel` asks at a time, `has_snapshot` whether Spark reads that one too.
    """

    connections: ClassVar[int] = 1
    has_snapshot: ClassVar[bool] = False

    @abstractmethod
    def rows(self, sql: str) -> list[Row]:
        """The rows of one statement. Raises the classes of `errors`, never the driver's."""

    @abstractmethod
    def columns(self, relation: Relation, selection: ColumnSelection) -> Schema:
        """The columns that are read, with their exact types. Raises SchemaRefused, ColumnMissing, ConfigError."""

    @abstractmethod
    def hold(self, relation: Relation) -> None:
        """Takes the snapshot."""

    @abstractmethod
    def identity(self, relation: Relation) -> str:
        """See `Probe.identity`."""

    @abstractmethod
    def clock(self) -> int | None:
        """See `Probe.clock`."""

    @abstractmethod
    def row_bytes(self, relation: Relation) -> int:
        """Estimated bytes of one row."""

    @abstractmethod
    def estimate(self, relation: Relation, condition: str) -> int:
        """Estimated rows of the relation that fulfil the condition."""

    @abstractmethod
    def verify_unchanged(self) -> None:
        """See `Probe.verify_unchanged`."""

    @abstractmethod
    def jdbc(self) -> Jdbc:
        """Connects Spark to the same snapshot."""

    @abstractmethod
    def list_tables(self) -> list[tuple[str, str]]:
        """Schema and name of every table that the user can see."""

    @abstractmethod
    def facts(self, schema: str, table: str) -> TableFacts:
        """Keys, types, indexes and size of one table."""

    @abstractmethod
    def close(self) -> None:
        """Ends every connection."""

    def cancel(self) -> None:
        """Ends what any thread asks at this moment, with an error there; where nothing can, that goes on to its end."""
        return

    def in_snapshot(self, relation: Relation) -> Relation:
        """The relation as statements name it after `hold`, where a statement itself says of which moment it is."""
        return relation

    def views(self) -> Sequence[tuple[str, str]]:
        """Schema and name of the views, which `list_tables` leaves out."""
        return ()

    def primary_keys(self) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """By schema and name the primary key of every table that has one; none where no key is enforced."""
        return {}

    def unique_sets(self, relation: Relation) -> tuple[frozenset[str], ...]:  # noqa: ARG002 - here and below
        """Sets of columns of which no two rows are equal and none is NULL; none where no key is enforced."""
        return ()

    def schema_of(self, relation: Relation) -> str | None:  # noqa: ARG002
        """The schema in which a table lies that is named alone; None where a database has none, or no such table."""
        return None

    def cuts(self, relation: Relation, parts: int) -> tuple[str, ...]:  # noqa: ARG002
        """Conditions over the pseudo-column `dialect.place` that split a table evenly; empty if nothing does."""
        return ()

    def parallel(self, relation: Relation, statements: Sequence[str]) -> list[Row]:
        """The rows of all the statements within the snapshot, asked at the same time if there are connections."""
        self.hold(relation)
        return [row for sql in statements for row in self.rows(sql)]

    def ranges(self, relation: Relation) -> tuple[str, tuple[str, ...]] | None:  # noqa: ARG002
        """The column in whose ranges a table is kept, and where these begin or end as expressions of its type."""
        return None

    def witness(self) -> Mapping[str, Any]:
        """What to remember about the time of the snapshot; empty if it would prove nothing."""
        return {}

    def check_restore(self, witness: Mapping[str, Any], clock: int | None) -> RestoreCheck:  # noqa: ARG002
        """Whether the server continues from that moment, or was restored from a copy; `clock` as it was then."""
        return RestoreCheck(restarted=False)

    def older_than(self, witness: Mapping[str, Any], relation: Relation, condition: str) -> str | None:  # noqa: ARG002
        """Why rows that fulfil the condition, and were not there at that moment, were written before it."""
        return None

    def held_at(self) -> datetime | None:
        """When the snapshot was taken, by the server's clock; None where only the reader's clock tells."""
        return None

    def table_version(self, relation: Relation) -> str | None:  # noqa: ARG002 - few read tables of lakes
        """The snapshot of a lake's table that statements read now; None for any other table."""
        return None

    def execute(self, sql: str, *, seconds: float) -> None:  # noqa: ARG002 - here and below
        """Executes one statement outside of a transaction, for so long at most; only where the dialect `executes`."""
        raise ConfigError("hooks run no statements at this database", hint="Use another connection.")

    def follows(self) -> bool:
        """Whether it replays the history of another server."""
        return False


class PreSnapshotSession(Session, Protocol):
    """A session before its snapshot: the only one that returns safe bounds, which must be taken before the snapshot."""

    @abstractmethod
    def safe_time_bound(
        self, relation: Relation, column: Column, *, clock: Clock, lag: timedelta, time_zone: str | None
    ) -> SafeBound:
        """The inclusive safe bound of a timestamp or date column. Raises EdgeUnknown."""

    @abstractmethod
    def safe_sequence_bound(self, relation: Relation, column: Column, *, wait: timedelta) -> SafeBound:
        """That of an ever growing integer column; None while writers hold it. Raises EdgeUnknown."""


class CatalogSession(Protocol):
    """What the questions to a database's catalog need of a session: statements, and the dialect that writes them."""

    name: str

    @property
    def dialect(self) -> Dialect:
        """The SQL that the session speaks."""

    def rows(self, sql: str) -> list[Row]:
        """See `Session.rows`."""

    def estimate(self, relation: Relation, condition: str) -> int:
        """See `Session.estimate`."""


class Dialect(SelectForms, ColumnValues, Protocol):
    """The SQL of one database: text only.

    `schemes` are those of URLs that name it, beside its `kind`. `fence` at the end of a subquery keeps the optimizer
    from computing its columns several times. `place` is the pseudo-column that places rows, else a character that
    stands in no condition. `ordered` are the kinds whose values `comparable` sorts as every engine does.
    """

    kind: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]] = ()
    fence: ClassVar[str] = ""
    place: ClassVar[str] = "\0"
    ordered: ClassVar[frozenset[Kind]]
    connects: ClassVar[bool] = False
    retains: ClassVar[bool] = False

    @abstractmethod
    def literal(self, kind: Type, text: str) -> str:
        """The value of a canonical text."""

    @abstractmethod
    def text(self, sql: str, column: Column) -> str:
        """The canonical text of an expression of the column's type; NULL stays NULL, a bad value is an error."""

    @abstractmethod
    def comparable(self, sql: str, column: Column) -> str:
        """The expression that compares with `literal`, and sorts in the same order in every engine."""

    @abstractmethod
    def read(self, column: Column) -> ColumnRead:
        """The exact expression that Spark reads."""

    @abstractmethod
    def as_text(self, sql: str) -> str:
        """A number as text."""

    @abstractmethod
    def digest(self, row: str) -> str:
        """The md5 of a row's text, as UTF-8, in lower hex."""

    @abstractmethod
    def quarter(self, digest: str, index: int) -> str:
        """One of the four 32-bit quarters of a digest as a number."""

    def quote(self, name: str) -> str:
        """One identifier, whatever it holds.

        Raises:
            ConfigError: a NUL character, which no database keeps in a name.
        """
        if "\0" in name:
            raise ConfigError("a name cannot hold a NUL character")
        return doubled(name, '"')

    def relation(self, *parts: str) -> Relation:
        """A table by the parts of its name."""
        return Relation(sql=".".join(map(self.quote, parts)), label=".".join(parts), parts=parts)

    def string(self, text: str) -> str:
        """A text literal that no setting reads differently, for comparison by bytes."""
        return doubled(text, "'")

    def likely_above(self, sql: str, column: Column, text: str) -> str:  # noqa: ARG002 - the comparison is cheap itself
        """A cheap condition that holds for every row above a canonical text; "1 = 1" where none is cheaper."""
        return "1 = 1"

    def compared(self, sql: str, sign: str, kind: Type, text: str) -> str:
        """A comparison of a `comparable` expression with a bound; the sign is `>=`, `>`, `<` or `<=`."""
        return f"{sql} {sign} {self.literal(kind, text)}"

    def seek(self, sql: str, column: Column, texts: Sequence[str]) -> str | None:  # noqa: ARG002 - as above
        """What every row fulfils whose value has one of these canonical texts, for an index that holds the values.

        None where `comparable` serves an index as well, or none can serve.
        """
        return None

    def truncated(self, sql: str, kind: Type, characters: int) -> tuple[str, Type] | None:  # noqa: ARG002 - as above
        """A value that is cheaper to group by than that many characters of the canonical text, and its type.

        Its text begins with the same characters. None where nothing is cheaper.
        """
        return None

    def concat(self, texts: Sequence[str]) -> str:
        """Texts, none of them NULL, one after the other; what does not fit is an error, never a shorter text."""
        half = len(texts) // 2  # by halves, for each operator copies what stands before it
        return " || ".join(texts) if half < 16 else f"({self.concat(texts[:half])}) || ({self.concat(texts[half:])})"

    def left(self, sql: str, length: int) -> str:
        """The first characters of a text, or all of a shorter one."""
        return f"substr({sql}, 1, {length})"

    def replaced(self, sql: str, old: str, new: str) -> str:
        """A text with another one put in place of a short one, both given without quotes in them."""
        return f"replace({sql}, '{old}', '{new}')"

    def escaped(self, text: str, column: Column) -> str:  # noqa: ARG002 - few need the column's length
        """The canonical text of a column as it stands between others, see `core/fingerprint`."""
        return self.replaced(self.replaced(text, "~", "~0"), "|", "~1")

    def quick(self, columns: Sequence[Column]) -> str | None:  # noqa: ARG002 - most hashes change with a version
        """The engine's own hash of a row over all the columns, as a number; None where it has none that is sound."""
        return None

    def own_text(self, sql: str, column: Column) -> str | None:  # noqa: ARG002 - most engines print rounded numbers
        """A text of a value without a canonical one, exact, and the same for values that are equal.

        Comparable only with this engine's own answers: 0.0 and -0.0 have one text. None where it has none.
        """
        return None

    def packed(self, digest: str) -> str:
        """The digest in the form of which `quarter_of` is cheapest."""
        return digest

    def quarter_of(self, digest: str, index: int) -> str:
        """One of the four quarters of a packed digest, as `quarter` gives it."""
        return self.quarter(digest, index)

    def file(self, url: str) -> Path | None:  # noqa: ARG002 - as above
        """The file that holds the database of a URL, absolute or from the project's folder; None for a server."""
        return None


class Connectable(Dialect, Protocol):
    """The dialect of a database that can be connected to.

    `bounds` are the safe bounds that its sessions know; `ranges` says that a table may be kept in ranges of a column;
    `known` matches the names of the types that Spark's JDBC source knows; `reads_lakes` says that a table of a lake is
    read like any other, see `Session.table_version`; `executes` names the package by which they execute statements.
    """

    jars: ClassVar[tuple[str, ...]]
    sqlglot: ClassVar[str]
    connects: ClassVar[bool] = True
    bounds: ClassVar[frozenset[Bound]]
    ranges: ClassVar[bool] = False
    reads_lakes: ClassVar[bool] = False
    executes: ClassVar[str] = ""
    known: ClassVar[re.Pattern[str]] = re.compile("")

    @abstractmethod
    def open(self, connection: Connection) -> PreSnapshotSession:
        """Connects. Raises SourceUnavailable, ConfigError, EnvironmentMissing (the driver is not installed)."""

    def server(self, ask: Ask) -> Server | None:  # noqa: ARG002 - nothing says how
        """What answers, by statements that every login may run; None where the dialect cannot say."""
        return None

    def refuse_url(self, connection: Connection) -> None:  # noqa: ARG002 - a URL may be of any form
        """Raises ConfigError for a URL that `open` would refuse whatever the server says. Asks nobody."""
        return

    def in_the_clear(self, connection: Connection) -> str | None:  # noqa: ARG002 - a file is sent nowhere
        """A warning where others may read what is sent; None where the project has it encrypted, or it stays here."""
        return None

    def captured(self, connection: Connection) -> CapturedDatabase | None:  # noqa: ARG002 - few are captured
        """How Debezium captures the database of that connection so that no digit is lost; None where it does not."""
        return None


def doubled(text: str, mark: str) -> str:
    """A text between marks, those inside written twice."""
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"
