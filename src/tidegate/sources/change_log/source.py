"""The source `change_log`: reads events from files, a table, topics or a replication slot, with one envelope.

Chosen by `source: {topic: …}`, `{slot: …}`, or a path or table with an `envelope:`. Reads only the events up to the end
that was fixed when the probe was opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate import plugins
from tidegate.core.bounds import BoundRequest
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.connector import CapturedTable, ConnectorOptions
from tidegate.core.flavours import Flavour
from tidegate.core.ids import Connection
from tidegate.core.origin import Origin, StoredFiles, Topic
from tidegate.core.ports.capabilities import ReplicationSlot
from tidegate.core.ports.envelope import Envelope
from tidegate.core.ports.format import Format
from tidegate.core.ports.source import Probe, Source, SparkProvider
from tidegate.core.retention import SlotRetention
from tidegate.core.schema import Schema
from tidegate.core.slices import LogRange, Slice
from tidegate.errors import ConfigError, InternalError
from tidegate.sources.change_log import files
from tidegate.sources.change_log.log import LogProbe, OpenLog
from tidegate.sources.change_log.own_logs import OWN_LOGS, SLOT, OwnLog
from tidegate.sources.change_log.stated import Stated
from tidegate.sources.change_log.topic import brokers as kafka
from tidegate.sources.change_log.topic import log as topics
from tidegate.sources.change_log.topic.log import Start
from tidegate.sources.shared.files.shape import FileFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLog(Source[LogProbe]):
    """Change events of one table, in commit order.

    Args:
        path: files of events: a file, a folder with everything below it, or a pattern.
        iceberg: an append-only Iceberg table of events: `lake.schema.table` of one of `lakes:`.
        delta: an append-only Delta table of events: `lake.schema.table` of one of `lakes:`, or the path of a table.
        topic: a Kafka topic, at the brokers of `connection:`.
        start: where the first load of a topic starts: at its `beginning`, which must still be there; at the `earliest`
            event that is left; or with a copy of the `table`, followed by its events from then on.
        transactions: Debezium's topic of transaction boundaries; a load then takes each transaction whole or not at
            all.
        connector: the connector that fills the topic: what `tidegate connector` prints, and `tidegate status` asks.
        envelope: how an event is written, alone or with options.
        format: the format of the files; taken from the path's suffix unless given.
        options: options of the reader of the files, such as `{sep: ";"}` of CSV.
        columns: exact types by column name, such as `{amount: "decimal(20,4)"}`; events in JSON must then have these
            fields and no others. Of a slot, `text` reads any type as the text that the database writes.
        settle: ignore files that were written less than this ago.
        follow_links: read links to files that lead out of the folder, too.
        table: the table that the log belongs to, if it can be asked: to compare with, and to load before the log.
        database: the connection of `table:`, a name under `connections:`.
        slot: a PostgreSQL replication slot, created by the first run; `table:` then is a table of `connection:`.
        capture_instance: an instance of SQL Server's change data capture; `table:` then is a table of `connection:`.
        change_tracking: reads SQL Server's change tracking of `table:`, a table of `connection:`.
        include: of a log that the database itself keeps, read only these columns; a name with `*` or `?` stands for
            every one that matches.
        exclude: of such a log, do not read these columns.
        publication: the publication that the slot reads; unless given, the first run creates one for this table.
        connection: the connection of the slot or the topic, a name under `connections:`.
        key: the stream's.
        folder: the project's folder.
    """

    kind: ClassVar[str] = "change_log"
    reads: ClassVar[frozenset[type]] = frozenset({LogRange})

    path: str | None = None
    iceberg: str | None = None
    delta: str | None = None
    topic: str | None = None
    start: Start = Start.BEGINNING
    transactions: str | None = None
    connector: ConnectorOptions | None = None
    envelope: Envelope | None = field(default=None, metadata={"plugin": "envelopes"})
    format: FileFormat | None = None
    options: Mapping[str, str | int | float | bool | list[str]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    settle: timedelta = timedelta(0)
    follow_links: bool = False
    table: str | None = None
    database: str | None = None
    slot: str | None = None
    publication: str | None = None
    capture_instance: str | None = None
    change_tracking: bool = False
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    connection: Connection | None = None
    key: tuple[str, ...] = field(default=(), metadata={"given": True})
    folder: Path = field(default_factory=Path.cwd, metadata={"given": True}, repr=False)
    lakes: Mapping[str, Format] = field(default_factory=dict, metadata={"given": True}, repr=False)
    connections: Mapping[str, Connection] = field(default_factory=dict, metadata={"given": True}, repr=False)

    def __post_init__(self) -> None:
        places = ("path", "iceberg", "delta", "topic", *(own.key for own in OWN_LOGS))
        if sum(bool(getattr(self, name)) for name in places) != 1:
            *others, last = (f"`{name}:`" for name in places)
            raise ConfigError(f"a change log needs exactly one of {', '.join(others)} and {last}")
        if self.start is not Start.BEGINNING and self.topic is None:
            raise ConfigError("`start:` is only for a topic")
        for name in ("transactions", "connector"):
            if getattr(self, name) is not None and self.topic is None:
                raise ConfigError(f"`{name}:` is only for a topic")
        if self._own is not None:
            self._check_own(self._own)
            return
        self._check_events()
        if self.topic is not None:
            self._topic()
        elif self.path is not None:
            self._files()
        else:
            self._table()

    def _check_events(self) -> None:
        if self.include is not None or self.exclude:
            raise ConfigError(
                "`include:` and `exclude:` are for a log that the database itself keeps: others hold their own columns"
            )
        if self.envelope is None:
            known = ", ".join(plugins.names("envelopes"))
            raise ConfigError(f"a change log needs `envelope:`, the format of its events: {known}")
        if (self.table is None) != (self.database is None):
            raise ConfigError("the table of a change log needs both `database:` and `table:`")
        if self.database is not None and self.connections and self.database not in self.connections:
            raise ConfigError(f"database: {self.database!r} is not under `connections:`")

    @property
    def selection(self) -> ColumnSelection:
        """The columns that are read."""
        return ColumnSelection(include=self.include, exclude=self.exclude)

    @staticmethod
    def flavours() -> Iterator[Flavour]:
        """One for each place of a log and each envelope that its events may have there."""
        yield from (_flavour(own.flavour) for own in OWN_LOGS)
        for kind in plugins.names("envelopes"):
            envelope = plugins.load("envelopes", kind)
            if envelope.messages:
                yield _flavour("topic", kind)
                if not envelope.needs_registry:
                    yield _flavour(f"{FileFormat.JSON} files", kind)
                continue
            yield from (_flavour(f"{form} files", kind) for form in FileFormat)
            yield from (_flavour(f"{table} table", kind) for table in plugins.names("formats"))

    @property
    def flavour(self) -> Flavour:
        """The place and the envelope of this log."""
        if self._own is not None or self.envelope is None:
            return _flavour((self._own or SLOT).flavour)
        if self.topic is not None:
            return _flavour("topic", self.envelope.kind)
        place = f"{self._files().format} files" if self.path is not None else f"{self._table().flavour.name} table"
        return _flavour(place, self.envelope.kind)

    def origin(self) -> Origin | None:
        """The topic, the files or the table of the events; of a log of the database's own the table itself."""
        rows = self._rows()
        if self._own is not None:
            return rows.origin() if rows else None
        if self.topic is not None:
            brokers = self.connection.kafka if self.connection else None
            return Topic(brokers=brokers, name=self.topic) if brokers else None
        if self.path is not None:
            return StoredFiles(path=self.path)
        found: Origin | None = self._table().origin()
        return found

    def refuse_urls(self) -> None:
        """That of the database of the table."""
        if (rows := self._rows()) is not None:
            rows.refuse_urls()

    def in_the_clear(self) -> tuple[str, ...]:
        """That of the brokers, and of the database of the table."""
        rows = self._rows()
        brokers = kafka.in_the_clear(self.connection) if self.topic is not None and self.connection else None
        return (*((brokers,) if brokers else ()), *(rows.in_the_clear() if rows else ()))

    def located(self) -> Origin | None:
        """The same; of a log of the database's own with the schema of its table."""
        rows = self._rows()
        return rows.located() if self._own is not None and rows else self.origin()

    @contextmanager
    def probe(self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None) -> Iterator[LogProbe]:  # noqa: ARG002 - no cursor
        """Opens the log without Spark, and the table that it is the log of.

        Raises:
            SourceUnavailable: one of them cannot be reached.
        """
        rows = self._rows()
        with ExitStack() as held:
            table = held.enter_context(rows.probe(sparks)) if rows else None
            log: OpenLog
            events = None
            if self._own is not None and table is not None:
                log = held.enter_context(self._own.opened(self._options(self._own), table))
            elif self.topic is not None:
                log = topics.TopicLog(self._topic(), table)
            elif self.path is None and self.envelope is not None:
                events = held.enter_context(self._table().probe(sparks))
                log = _log_table().TableLog(self.iceberg or self.delta, self.envelope.keyed_by(self.key), events)
            else:
                log = held.enter_context(files.opened(self._files(), sparks))
            yield LogProbe(log, table, events)

    def read(self, session: SparkSession, probe: LogProbe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """Events of ranges of the log; rows of the table for every other slice."""
        if all(isinstance(part, LogRange) for part in parts):
            return probe.opened.events(session, parts, schema)
        rows = self._rows()
        if rows is None or probe.table is None:
            raise InternalError("a change log without a table has no rows")
        return rows.read(session, probe.table, parts, schema)

    @property
    def replication_slot(self) -> ReplicationSlot | None:
        """That of `slot:`."""
        found: ReplicationSlot | None = self._options(SLOT) if self.slot is not None else None
        return found

    def retained(self) -> SlotRetention | None:
        """Of a topic, what its database retains for the connector, where `connector:` says which one it is."""
        slot = self.replication_slot
        if self.connector is not None and self.database is not None and (table := self.captured) is not None:
            slot = _connectors().slot_of(table, self.connections[self.database])
        return slot.retained() if slot is not None else None

    @property
    def captured(self) -> CapturedTable | None:
        """Of a topic whose table is stated."""
        if self.topic is None:
            return None
        database = self.connections[self.database] if self.database is not None else None
        found: CapturedTable | None = _connectors().captured(self._topic(), self.table, database, self.connector)
        return found

    def jars(self) -> tuple[str, ...]:
        """What the log needs, and what the table needs."""
        rows = self._rows()
        own: tuple[str, ...] = ()
        if self.topic is not None:
            own = topics.JARS
        elif self.path is not None:
            own = files.jars(self._files())
        elif self._own is None:
            own = self._table().jars()
        return (*own, *(rows.jars() if rows else ()))

    def spark_conf(self) -> Mapping[str, str]:
        """What the log needs, and what the table needs."""
        rows = self._rows()
        own = self._table().spark_conf() if self.iceberg is not None or self.delta is not None else {}
        return {**own, **(rows.spark_conf() if rows else {})}

    def _rows(self) -> Source[Probe] | None:
        """The table, as the source that it would be without its log."""
        connection = self.connections[self.database] if self.database is not None else self.connection
        if self.table is None or connection is None:
            return None
        made: Any = plugins.load("sources", "database")
        # Of other logs `columns:` describes the events.
        types = self.columns if self._own is not None else {}
        found: Source[Probe] = made(
            connection=connection, table=self.table, columns=types, include=self.include, exclude=self.exclude
        )
        return found

    @property
    def _own(self) -> OwnLog | None:
        """Which log of the database's own it is; None for events that somebody else wrote."""
        return next((own for own in OWN_LOGS if getattr(self, own.key)), None)

    def _check_own(self, own: OwnLog) -> None:
        if self.table is None or self.connection is None:
            raise ConfigError(f"{own.label} needs `connection:` and `table:`, whose changes it reports")
        others = {"path": self.path, "envelope": self.envelope, "format": self.format, "database": self.database}
        for name, value in {**others, "options": self.options or None}.items():
            if value is not None:
                raise ConfigError(f"{name}: is not for {own.label}")
        self._options(own)

    def _options(self, own: OwnLog) -> Any:
        if self.table is None or self.connection is None:
            raise InternalError("a log of a database's own without its table")
        stated = Stated(
            connection=self.connection,
            table=self.table,
            name=str(getattr(self, own.key)),
            publication=self.publication,
            stream_key=self.key,
            selection=self.selection,
            folder=self.folder,
        )
        return own.options(stated)

    def _topic(self) -> topics.TopicLogOptions:
        if self.topic is None or self.envelope is None:
            raise InternalError("a log in a topic without a topic or an envelope")
        if self.connection is None:
            raise ConfigError("a topic needs `connection:`, its brokers")
        if self.start is Start.TABLE and self.table is None:
            raise ConfigError("`start: table` needs `database:` and `table:`")
        own = self._of_files()
        for name, value in own.items():
            if value:
                raise ConfigError(f"`{name}:` is only for files; a topic's events are described under `envelope:`")
        return topics.TopicLogOptions(
            connection=self.connection,
            topic=self.topic,
            envelope=self.envelope.keyed_by(self.key),
            start=self.start,
            transactions=self.transactions,
        )

    def _of_files(self) -> dict[str, Any]:
        """The keys that only files have."""
        return {name: getattr(self, name) for name in ("format", "options", "columns", "settle", "follow_links")}

    def _table(self) -> Any:
        """The table of events, as the source that it would be on its own."""
        if self.envelope is not None:
            _log_table().check(self.envelope)
        own = self._of_files()
        for name, value in own.items():
            if value:
                raise ConfigError(f"`{name}:` is only for files; a table describes its own contents")
        made: Any = plugins.load("sources", "lake_table")
        return made(iceberg=self.iceberg, delta=self.delta, lakes=self.lakes, folder=self.folder)

    def _files(self) -> files.FileLogOptions:
        if self.path is None or self.envelope is None:
            raise InternalError("a log of files without a path or an envelope")
        return files.FileLogOptions(
            path=self.path,
            envelope=self.envelope.keyed_by(self.key),
            form=self.format,
            options=self.options,
            columns=self.columns,
            settle=self.settle,
            follow_links=self.follow_links,
        )


def _flavour(place: str, envelope: str | None = None) -> Flavour:
    name = place if envelope is None else f"{place}, {envelope}"
    return Flavour(name=name, reads=ChangeLog.reads, rows=False, bounds=frozenset())


def _connectors() -> Any:
    """What fills a topic."""
    from tidegate.sources.change_log.topic import connector  # noqa: PLC0415 - a load needs none of it

    return connector


def _log_table() -> Any:
    """The log in a table of events."""
    from tidegate.sources.change_log import table  # noqa: PLC0415 - only where one is read

    return table
