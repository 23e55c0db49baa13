"""The source `database`: reads a table or query with Spark's JDBC source, in parallel, from one snapshot.

Chosen by `source: {connection: …}`; the SQL comes from the dialect. Never reads outside the probe's snapshot, and Spark
never interprets a value that it could change.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegate import plugins
from tidegate.core.bounds import BoundRequest
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.flavours import Bound, Flavour
from tidegate.core.ids import Connection
from tidegate.core.origin import DatabaseTable, Origin
from tidegate.core.policies.retention import Kept
from tidegate.core.ports.dialect import Connectable, Dialect, Session, TableFacts
from tidegate.core.ports.source import Source, SparkProvider
from tidegate.core.schema import RESCUED, Column, Schema
from tidegate.core.slices import Range, Slice
from tidegate.dialects.shared.statements import Statements
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError, InternalError, UnknownPlugin
from tidegate.sources.database.described import taken
from tidegate.sources.database.probe import DatabaseProbe
from tidegate.sources.database.slicing import conditions
from tidegate.sources.shared.relation import of_query, of_table, split_name
from tidegate.spark import sql
from tidegate.spark.failures import needing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Where Spark notes that a text has a greatest length.
CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"
TRIP_BYTES = 32 * 1024 * 1024
"""Of the rows that come in a round trip, by the average of the table."""
FEWER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Database(Source[DatabaseProbe]):
    """A table or a query of a relational database.

    Args:
        connection: the database, a name under `connections:`.
        table: the table, `schema.table`; a part in double quotes may contain dots.
        query: one SELECT statement instead of a table.
        slices: the number of parallel parts in which a load is read; chosen by size unless given.
        fetch_size: rows per round trip to the database at most; wide rows come in trips of fewer.
        columns: exact types where the database's own say too little, `{amount: "decimal(20,4)"}`; `text` reads any type
            as the text that the database writes.
        include: read only these columns; a name with `*` or `?` stands for every one that matches.
        exclude: do not read these columns.
    """

    kind: ClassVar[str] = "database"

    packs: ClassVar[bool] = True

    connection: Connection
    table: str | None = None
    query: str | None = None
    slices: int | None = None
    fetch_size: int = 20_000
    columns: Mapping[str, str] = field(default_factory=dict)
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    kept: Kept | None = field(default=None, metadata={"given": True})

    def __post_init__(self) -> None:
        if (self.table is None) == (self.query is None):
            raise ConfigError("a database source needs either `table:` or `query:`")
        for name, value in (("slices", self.slices), ("fetch_size", self.fetch_size)):
            if value is not None and value < 1:
                raise ConfigError(f"{name}: must be at least 1, got {value}")
        ColumnSelection(include=self.include, exclude=self.exclude)  # refuses a list of nothing

    @property
    def selection(self) -> ColumnSelection:
        """The columns that are read."""
        return ColumnSelection(include=self.include, exclude=self.exclude, types=self.columns)

    @staticmethod
    def flavours() -> Iterator[Flavour]:
        """Two for each dialect that rows are read through: a table and a query."""
        for kind in plugins.names("dialects"):
            dialect = plugins.load("dialects", kind)
            if dialect.connects:
                yield _flavour(dialect)
                yield _of_query(_flavour(dialect))

    @property
    def flavour(self) -> Flavour:
        """That of the connection's dialect."""
        found = _flavour(dialect_of(self.connection))
        return found if self.query is None else _of_query(found)

    def refuse_urls(self) -> None:
        """That of its connection, by its dialect."""
        dialect_of(self.connection).refuse_url(self.connection)

    def in_the_clear(self) -> tuple[str, ...]:
        """That of its connection."""
        found = dialect_of(self.connection).in_the_clear(self.connection)
        return (found,) if found else ()

    def origin(self) -> Origin:
        """The table; of a query the database alone."""
        parts = split_name(self.table) if self.table is not None else ()
        return DatabaseTable(connection=self.connection, parts=parts)

    def located(self) -> Origin:
        """The table with its schema, for which the database is asked where the project names the table alone."""
        parts = split_name(self.table) if self.table is not None else ()
        if self.table is None or len(parts) != 1:
            return self.origin()
        dialect = dialect_of(self.connection)
        session = dialect.open(self.connection)
        try:
            schema = session.schema_of(of_table(dialect, self.table))
        finally:
            session.close()
        return DatabaseTable(connection=self.connection, parts=parts if schema is None else (schema, *parts))

    def retaining(self, kept: Kept) -> Database | None:
        """The rows that are kept, in databases that are tested for it."""
        return replace(self, kept=kept) if dialect_of(self.connection).retains else None

    @contextmanager
    def probe(
        self,
        sparks: SparkProvider | None = None,  # noqa: ARG002 - databases answer themselves
        bound: BoundRequest | None = None,
    ) -> Iterator[DatabaseProbe]:
        """Opens the database without Spark; while open, its snapshot is held.

        Only here a session is known that can be asked for a bound: what gets the probe can no more.
        """
        dialect = dialect_of(self.connection)
        relation = of_table(dialect, self.table) if self.table is not None else of_query(dialect, self.query or "")
        session = dialect.open(self.connection)
        try:
            edge = taken(session, relation, self.selection, bound) if bound is not None else None
            yield DatabaseProbe(dialect, session, relation, self.selection, bound=bound, edge=edge, kept=self.kept)
        finally:
            session.close()

    def read(self, session: SparkSession, probe: DatabaseProbe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices in the probe's snapshot.

        Rows: the columns of `schema` in order, with exactly its stored types. A value that its column's type does
        not allow ends the job with an error that names the column.
        """
        if schema.names != probe.schema().names:
            raise InternalError("the columns of the plan are not the columns of the snapshot")
        statements, packed = probe.unpacked()
        dialect, spark, own = statements.dialect, Spark(), statements.own
        aliases = _aliases(own)
        sizes = [(part, probe.stats(part).rows) for part in parts]
        predicates = conditions(probe.session, statements, sizes, self.slices, probe.row_bytes) or ["1 = 0"]
        extra, predicates = _asked(statements, parts, predicates, known=dialect_of(self.connection).known)
        jdbc = probe.session.jdbc()
        readings = [dialect.read(column) for column in own]
        properties = {
            **jdbc.properties,
            "fetchsize": str(max(1, min(self.fetch_size, TRIP_BYTES // probe.row_bytes))),
            # Text compares otherwise in Spark than in the database.
            "pushDownPredicate": "false",
            "customSchema": ", ".join(
                f"{alias} {spark.wire_type(column, reading.wire_format)}"
                for alias, column, reading in zip(aliases, own, readings, strict=True)
            ),
        }
        table, predicates = jdbc.escaped(statements.reading(aliases, extra)), list(map(jdbc.escaped, predicates))
        with needing(jdbc.properties["driver"], self.jars(), self.connection.name):
            rows = session.read.jdbc(jdbc.url, table, predicates=predicates, properties=properties)
        utc = session.conf.get("spark.sql.session.timeZone") == "UTC"
        decoded = (
            f"{spark.decode(alias, column, reading.wire_format, utc=utc)} AS {alias}"
            for alias, column, reading in zip(aliases, own, readings, strict=True)
        )
        plain = _unlimited(rows, aliases).selectExpr(*decoded)
        if statements.casts:
            plain = plain.selectExpr(*_cast(aliases, statements))
        if schema.find(RESCUED.name) is not None:
            plain = plain.selectExpr(*_packed(aliases, statements.schema, packed))
        # Names are given last and never parsed: in SQL text Spark replaces ${…} by a variable.
        return plain.toDF(*schema.names)

    def smaller(self) -> Self:
        """Fewer rows a round trip."""
        return replace(self, fetch_size=max(1, self.fetch_size // FEWER))

    @staticmethod
    def tables(connection: Connection, pattern: str) -> list[tuple[str, str]]:
        """Schema and name of the tables that a pattern stands for, sorted."""
        return sorted(list_tables(connection, pattern))

    @staticmethod
    def primary_keys(connection: Connection) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """The columns of the primary key of every table that has one, by schema and name."""
        with open_session(connection) as session:
            return session.primary_keys()

    def jars(self) -> tuple[str, ...]:
        """The database's JDBC driver."""
        return dialect_of(self.connection).jars

    def spark_conf(self) -> Mapping[str, str]:
        """None."""
        return {}


def dialect_of(connection: Connection) -> Connectable:
    """The dialect that a connection's URL names.

    Raises:
        UnknownPlugin: no dialect has the URL's scheme.
    """
    if not connection.url:
        raise ConfigError(
            f"connection {connection.name!r} has no `url:`, so it has no tables; read a topic with "
            "`source: {connection: …, topic: …, envelope: …}`"
        )
    try:
        dialect = plugins.dialect_of(connection.scheme)
    except UnknownPlugin as error:
        raise UnknownPlugin(
            f"connection {connection.name!r}: {connection.scheme}:// is of no known database; {_must_begin()}",
            hint=error.hint,
        ) from error
    if not dialect.connects:
        raise ConfigError(
            f"connection {connection.name!r}: rows cannot be read from {dialect.kind}; {_must_begin()}",
            hint="docs/concepts/fingerprint-sql.md has the SQL that compares a table in another database.",
        )
    found: Connectable = dialect()
    return found


def _must_begin() -> str:
    known = [kind for kind in plugins.names("dialects") if plugins.load("dialects", kind).connects]
    return f"`url:` must begin with one of {', '.join(f'{name}://' for name in known)}"


def _unlimited(rows: DataFrame, aliases: Sequence[str]) -> DataFrame:
    """The rows without the lengths that Spark noted with their texts.

    A note that an optimizer's rule carries up to a write makes that write one of another type, which Spark refuses.
    """
    limited = {field.name for field in rows.schema if CHAR_VARCHAR in field.metadata} & set(aliases)
    if not limited:
        return rows
    # What Spark could simplify to the column itself would carry the note again.
    return rows.selectExpr(*(f"if({n} IS NULL, NULL, {n}) AS {n}" if n in limited else n for n in aliases))


def _flavour(dialect: Any) -> Flavour:
    return Flavour(name=dialect.kind, bounds=dialect.bounds, ranges=dialect.ranges)


def _of_query(table: Flavour) -> Flavour:
    """Nobody knows who writes to the tables behind a query, nor in which ranges they are kept."""
    return replace(table, name=f"{table.name} query", bounds=table.bounds - {Bound.NUMBER}, ranges=False)


@contextmanager
def open_session(connection: Connection) -> Iterator[Session]:
    """A connection to look around with, without a relation."""
    session = dialect_of(connection).open(connection)
    try:
        yield session
    finally:
        session.close()


def list_tables(connection: Connection, pattern: str = "*") -> list[tuple[str, str]]:
    """Schema and name of the tables that match `schema.table` with `*` and `?`; a bare pattern means any schema."""
    parts = split_name(pattern)
    schema, table = parts if len(parts) == 2 else ("*", parts[0])
    with open_session(connection) as session:
        return [
            (found, name)
            for found, name in session.list_tables()
            if fnmatch.fnmatchcase(found, schema) and fnmatch.fnmatchcase(name, table)
        ]


def table_facts(connection: Connection, pattern: str = "*") -> list[TableFacts]:
    """What `init` proposes streams from, for every table that matches."""
    found = list_tables(connection, pattern)
    with open_session(connection) as session:
        return [session.facts(schema, table) for schema, table in found]


def _aliases(schema: Schema) -> list[str]:
    """Names that no column of the source begins with: Spark quotes odd names wrongly."""
    prefix = "c"
    while any(name.lower().startswith(prefix) for name in schema.names):
        prefix = f"x{prefix}"
    return [f"{prefix}{index}" for index in range(len(schema.columns))]


def _cast(aliases: Sequence[str], statements: Statements) -> list[str]:
    """Every column as it is, but those that the table keeps in another type in that type."""
    casts, spark = statements.casts, Spark()
    return [
        f"{spark.cast(alias, column, casts[column.name])} AS {alias}" if column.name in casts else alias
        for alias, column in zip(aliases, statements.schema, strict=True)
    ]


def _packed(aliases: Sequence[str], columns: Schema, names: Sequence[str]) -> list[str]:
    """Every column as it is, but those of these names as one: a JSON object of their texts, NULL for none."""
    spark, kept, fields = Spark(), [], []
    for alias, column in zip(aliases, columns, strict=True):
        if column.name not in names:
            kept.append(alias)
            continue
        text = spark.text_of(alias, column.type) if column.type.covered else f"CAST({alias} AS string)"
        fields.append(f"{sql.string(column.name)}, {text}")
    rescued = f"nullif(to_json(named_struct({', '.join(fields)})), '{{}}')" if fields else "CAST(NULL AS string)"
    return [*kept, f"{rescued} AS {RESCUED.name}"]


def _asked(
    statements: Statements, parts: Sequence[Slice], predicates: list[str], *, known: re.Pattern[str]
) -> tuple[list[str], list[str]]:
    """What the subquery must have beside its columns for the predicates, and the predicates over that.

    The raw columns, of which the database can use an index. Spark stops at a type that it does not know, though it need
    not touch the column: then the condition is a column itself, and one partition reads what fulfils it.
    """
    dialect = statements.dialect
    names = {name for part in parts if isinstance(part, Range) for name in part.cursor}
    asked = [column for column in statements.schema if column.name in names or _in(column, dialect, predicates)]
    if not all(known.match(column.native or "") for column in asked):
        within = dialect.quote("within")
        return [f"({' OR '.join(f'({each})' for each in predicates)}) AS {within}"], [within]
    place = [dialect.place] if any(dialect.place in predicate for predicate in predicates) else []
    return [*(dialect.quote(column.name) for column in asked), *place], predicates


def _in(column: Column, dialect: Dialect, predicates: Sequence[str]) -> bool:
    return any(dialect.quote(column.name) in predicate for predicate in predicates)
