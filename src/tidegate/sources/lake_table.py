"""The source `lake_table`: one version of a Delta or Iceberg table, or the changes between two.

Chosen by `source: {iceberg: …}` or `{delta: …}`. Reads only the version that was fixed when the probe was opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate import plugins
from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.change_feed import EMPTY, Span
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.flavours import Flavour
from tidegate.core.ids import Target, split_name
from tidegate.core.origin import LakeTable as Table
from tidegate.core.origin import Origin
from tidegate.core.ports.capabilities import DetectsRestore, TableVersions
from tidegate.core.ports.format import ChangeFeed, Format, TableState
from tidegate.core.ports.source import Source, SparkProvider
from tidegate.core.position import Position
from tidegate.core.position_state import cursor_of
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, Slice, SnapshotPair
from tidegate.errors import ColumnMissing, ConfigError, InternalError, SchemaRefused
from tidegate.sources.shared.frame_probe import Frame, FrameProbe, LazySpark, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOBODY = "source"
"""No stream has this uid: what a table says of the loads into it is nothing to who reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable(Source["LakeProbe"]):
    """A table in a lake.

    Args:
        iceberg: an Iceberg table, `lake.schema.table` of one of `lakes:`.
        delta: a Delta table, `lake.schema.table` of one of `lakes:`, or the path of a table.
        include: read only these columns; a name with `*` or `?` stands for every one that matches.
        exclude: do not read these columns.
        lakes: those of the project.
        folder: the project's folder, which relative paths start from.
    """

    kind: ClassVar[str] = "lake_table"
    reads: ClassVar[frozenset[type]] = frozenset({SnapshotPair})

    iceberg: str | None = None
    delta: str | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    lakes: Mapping[str, Format] = field(default_factory=dict, metadata={"given": True}, repr=False)
    folder: Path = field(default_factory=Path.cwd, metadata={"given": True}, repr=False)
    _format: Any = field(init=False, repr=False, compare=False)
    _feed: ChangeFeed = field(init=False, repr=False, compare=False)
    _target: Target = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.iceberg is None) == (self.delta is None):
            raise ConfigError("a lake table needs either `iceberg:` or `delta:`")
        ColumnSelection(include=self.include, exclude=self.exclude)  # refuses a list of nothing
        kind, name = ("iceberg", self.iceberg) if self.iceberg is not None else ("delta", self.delta)
        found, target = self._of_lake(kind, name or "") or self._of_path(kind, name or "")
        feed = found.change_feed
        if feed is None:
            raise ConfigError(f"{kind}: tables of this format do not record their changes, so they cannot be a source")
        object.__setattr__(self, "_format", found)
        object.__setattr__(self, "_feed", feed)
        object.__setattr__(self, "_target", target)

    @property
    def selection(self) -> ColumnSelection:
        """The columns that are read."""
        return ColumnSelection(include=self.include, exclude=self.exclude)

    @staticmethod
    def flavours() -> Iterator[Flavour]:
        """One for each table format."""
        yield from (Flavour(name=kind, reads=LakeTable.reads) for kind in plugins.names("formats"))

    @property
    def flavour(self) -> Flavour:
        """That of the table's format."""
        return Flavour(name=self._format.kind, reads=self.reads)

    def origin(self) -> Origin:
        """The table."""
        location = self._format.state(self._target, NOBODY, takes=lambda _: False).location
        return Table(kind=self._format.kind, target=self._target, location=location)

    @contextmanager
    def probe(self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None) -> Iterator[LakeProbe]:
        """Opens the table at its newest version, without Spark.

        Raises:
            ColumnMissing: there is no such table.
            WriteError: its metadata cannot be read.
            SchemaRefused: a column that is read is of a type that Tidegate does not load.
        """
        table = self._state()
        if not table.exists or table.schema is None:
            raise ColumnMissing(
                f"there is no table {self._label}",
                hint="Correct the `source:` in tidegate.yaml, then run `tidegate check`.",
            )
        columns = self.selection.applied(self._label, table.schema)
        frame = Frame(
            label=self._label,
            identity=f"{self._format.kind}:{table.uuid}",
            schema=lambda: columns,
            rows=lambda session: self._feed.at(session, self._target, table.snapshot, columns),
            version=table.snapshot or EMPTY,
            count=table.rows,
        )
        spark = LazySpark(sparks)
        try:
            probe = LakeProbe(frame, spark, self._feed, self._target)
            probe.bound = bound
            yield probe
        finally:
            spark.close()

    def read(self, session: SparkSession, probe: LakeProbe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices: of the probe's version, or what happened up to it.

        Rows: the columns of `schema`; of a pair of versions with more than appends, two more: see `ChangeFeed.changes`.
        """
        with reading(self._label):
            if len(parts) == 1 and isinstance(parts[0], SnapshotPair):
                return probe.read_changes(session, parts[0], schema)
            return _shaped(probe.frame.rows(session), schema).where(probe.statements.among(parts))

    def jars(self) -> tuple[str, ...]:
        """What the format needs."""
        found: tuple[str, ...] = self._format.jars()
        return found

    def spark_conf(self) -> Mapping[str, str]:
        """What the format needs."""
        found: Mapping[str, str] = self._format.spark_conf()
        return found

    def _state(self) -> TableState:
        """What the table says of itself and of the columns that are read."""
        try:
            found: TableState = self._format.state(self._target, NOBODY, takes=self.selection.takes)
        except SchemaRefused as error:
            name = error.context.get("column")
            raise SchemaRefused(
                f"{self._label}: {error.message}",
                hint=f"Leave it out with `source: {{exclude: [{name}]}}`.",
                column=name,
            ) from error
        return found

    @property
    def _label(self) -> str:
        return self.iceberg or self.delta or ""

    def _of_lake(self, kind: str, name: str) -> tuple[Format, Target] | None:
        """The lake and the table that a name stands for; None for a path."""
        try:
            lake, *namespace, table = split_name(name)
        except ValueError:
            lake, namespace, table = name, [], ""
        if lake not in self.lakes or not namespace:
            if kind == "delta":
                return None
            raise ConfigError(
                f"{name!r} is not a table in a lake; use lake.schema.table; lakes: {', '.join(self.lakes) or 'none'}"
            )
        found = self.lakes[lake]
        if getattr(found, "kind", None) != kind:
            raise ConfigError(f"{kind}: {name} is in a lake of format {getattr(found, 'kind', '?')}")
        return found, Target(lake=lake, namespace=tuple(namespace), table=table)

    def _of_path(self, kind: str, path: str) -> tuple[Format, Target]:
        found = plugins.load("formats", kind)(name=NOBODY, warehouse=path, folder=self.folder)
        return found, Target(lake=NOBODY, namespace=(), table="")


class LakeProbe(FrameProbe):
    """Answers questions about one version of a lake table, and the changes before it."""

    def __init__(self, frame: Frame, spark: LazySpark, feed: ChangeFeed, target: Target) -> None:
        super().__init__(frame, spark)
        self._feed = feed
        self._target = target

    @property
    def versions(self) -> TableVersions:
        """Its own."""
        return self

    @property
    def restore(self) -> DetectsRestore:
        """Its own."""
        return self

    def witness(self, cursor: Sequence[str], since: Position | None) -> Mapping[str, Any]:  # noqa: ARG002 - any load
        """What tells the version that is read from another one with its number."""
        version = self.frame.version or EMPTY
        return self._feed.witness(self._target, version) if version != EMPTY else {"version": EMPTY}

    def restore_reason(self, since: Position) -> str | None:
        """By the versions since; one shown again on purpose is only missed by who looks for greater cursors."""
        known, now = since.witness, self.frame.version or EMPTY
        if "version" not in known or EMPTY in (known["version"], now):
            return None
        cursor = bool(cursor_of(since.state))
        return self._feed.restore_reason(self._target, known, now, rolled_back=cursor)

    def follows(self) -> bool:
        """Never."""
        return False

    def between(self, after: str, upto: str | None = None) -> Span:
        """What happened after that version up to the one that is read, or another."""
        return self._feed.between(self._target, after, upto or self.frame.version or EMPTY)

    def enabling_statement(self) -> str | None:
        """See `core.ports.format.ChangeFeed`."""
        return self._feed.enabling_statement(self._target)

    def read_changes(self, session: SparkSession, pair: SnapshotPair, schema: Schema) -> DataFrame:
        """The rows that came, or every row that came or went, in the session given; of no `after` all of `upto`."""
        from tidegate.spark.dataframe_ops import DELETED, ORDER  # noqa: PLC0415 - rows are looked at, Spark is running

        feed, target, columns, after = self._feed, self._target, self.schema(), pair.after
        if after is None:
            return _shaped(feed.at(session, target, pair.upto, columns), schema)
        if pair.appends:
            return _shaped(feed.appended(session, target, after, pair.upto, columns), schema)
        return _shaped(feed.changes(session, target, after, pair.upto, columns), schema, DELETED, ORDER)

    def rows(self, part: Slice, latest: Latest | None = None) -> DataFrame:
        """The rows of a slice; of a pair of versions those that came, or the present rows of every key touched."""
        if not isinstance(part, SnapshotPair):
            return super().rows(part, latest)
        if part.after is None:
            return self._at(part.upto).rows(Everything(), latest)
        changes = self.read_changes(self.session(), part, self.schema())
        if not part.appends:
            if latest is None:
                raise InternalError("what the changes of a table left is known by key only")
            return self._touched(changes, latest.key, self.session())
        if latest is None:
            return changes
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

        return dataframe_ops.latest(changes, latest)

    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket of the slice that has rows; also of another version."""
        if isinstance(part, SnapshotPair) and part.after is None:
            return self._at(part.upto).spread(Everything(), key, buckets, latest=latest)
        return super().spread(part, key, buckets, latest=latest)

    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets by key and md5; also of another version."""
        if isinstance(part, SnapshotPair) and part.after is None:
            return self._at(part.upto).digests(Everything(), key, buckets, latest=latest)
        return super().digests(part, key, buckets, latest=latest)

    def _at(self, version: str) -> FrameProbe:
        """The same questions to another version."""
        if version == self.frame.version:
            return FrameProbe(self.frame, self._spark)
        schema = self.schema()

        def rows(session: SparkSession) -> DataFrame:
            if version == EMPTY:  # the table may have rows by now
                return self._feed.at(session, self._target, None, schema).where("false")
            return self._feed.at(session, self._target, version, schema)

        return FrameProbe(replace(self.frame, rows=rows, version=version, count=None), self._spark)

    def present(self, session: SparkSession, keys: DataFrame, key: Sequence[str]) -> DataFrame:
        """The rows, as they are in the probe's version, of these keys, in the session given."""
        with reading(self.frame.label):
            return self._touched(keys, key, session)

    def _touched(self, changes: DataFrame, key: Sequence[str], session: SparkSession) -> DataFrame:
        """The rows, as they are in the probe's version, of every key that something happened to."""
        from tidegate.dialects.spark import Spark  # noqa: PLC0415 - as above
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

        spark, schema = Spark(), self.schema()
        rows = self.frame.rows(session)
        keys = changes.selectExpr(*(spark.quote(name) for name in key)).distinct()
        ordered = [column for name in key if (column := schema.find(name)) and column.type.stored.kind in spark.ordered]
        ends = [
            f"{spark.text(f'{end}({spark.quote(column.name)})', column)} AS {end}{number}"
            for number, column in enumerate(ordered)
            for end in ("min", "max")
        ]
        found = keys.selectExpr(*ends).collect()[0] if ends else ()
        for number, column in enumerate(ordered):
            low, high = found[2 * number], found[2 * number + 1]
            if low is not None:  # literals, by which the format prunes files
                name = spark.quote(column.name)
                low, high = (spark.literal(column.type, text) for text in (low, high))
                rows = rows.where(f"{name} >= {low} AND {name} <= {high}")
        return dataframe_ops.of_keys(rows, keys, key)


def _shaped(rows: DataFrame, schema: Schema, *more: str) -> DataFrame:
    """The columns of the schema in order, with its stored types; a column that a version did not have yet is NULL."""
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - as above

    return dataframe_ops.completed(rows, schema, *more)
