"""Decides which log of changes is read, and how: files, topics or a replication slot, by one envelope.

Chosen by `source: {topic: …}`, `{slot: …}` or `{path: …, envelope: …}`; strategy cdc asks it. Must never read an event
that the probe did not name when it was opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate import plugins
from tidegate.core.ids import Connection
from tidegate.core.log import Envelope
from tidegate.core.protocols import Probe, Source, Sparks
from tidegate.core.schema import Schema
from tidegate.core.slices import LogRange, Slice
from tidegate.errors import ConfigError, InternalError
from tidegate.sources import _log_files as files
from tidegate.sources._files_shape import FileFormat
from tidegate.sources._log import LogProbe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeLog:
    """Events of one table, in the order in which it committed them.

    Args:
        path: files of events: one, a folder with everything below it, or a pattern.
        envelope: how an event is written.
        format: of the files; told by the path's suffix unless given.
        options: of Spark's reader of the files.
        columns: exact types, by name; of JSON then the only fields there are.
        settle: leave files alone that were written less than this ago.
        table: that the log is of, where it can be asked: to compare with, and to load before the log.
        database: the connection of that table.
    """

    kind: ClassVar[str] = "change_log"
    reads: ClassVar[frozenset[type]] = frozenset({LogRange})

    path: str | None = None
    envelope: Envelope | None = field(default=None, metadata={"plugin": "envelopes"})
    format: FileFormat | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    settle: timedelta = timedelta(0)
    table: str | None = None
    database: str | None = None
    connections: Mapping[str, Connection] = field(default_factory=dict, metadata={"given": True}, repr=False)

    def __post_init__(self) -> None:
        if self.path is None:
            raise ConfigError("a change log is named by `path:`")
        if self.envelope is None:
            known = ", ".join(plugins.names("envelopes"))
            raise ConfigError(f"a change log needs `envelope:`, how its events are written: {known}")
        if (self.table is None) != (self.database is None):
            raise ConfigError("the table of a change log is named by both `database:` and `table:`")
        if self.database is not None and self.connections and self.database not in self.connections:
            raise ConfigError(f"database: {self.database!r} is not under `connections:`")
        self._files()

    @contextmanager
    def probe(self, sparks: Sparks | None = None) -> Iterator[Probe]:
        """Opens the log without Spark, and the table that it is the log of.

        Raises:
            SourceUnavailable: one of them cannot be reached.
        """
        rows = self._rows()
        with ExitStack() as held:
            table = held.enter_context(rows.probe(sparks)) if rows else None
            log = held.enter_context(files.opened(self._files(), sparks))
            yield LogProbe(log, table)

    def read(self, session: SparkSession, probe: Probe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """Events of ranges of the log; rows of the table for every other slice."""
        if not isinstance(probe, LogProbe):
            raise InternalError("a change log is read through its own probe")
        if all(isinstance(part, LogRange) for part in parts):
            return probe.log.events(session, parts, schema)
        rows = self._rows()
        if rows is None or probe.table is None:
            raise InternalError("a change log without a table has no rows")
        return rows.read(session, probe.table, parts, schema)

    def jars(self) -> tuple[str, ...]:
        """What the log needs, and what the table needs."""
        rows = self._rows()
        return (*files.jars(self._files()), *(rows.jars() if rows else ()))

    def spark_conf(self) -> Mapping[str, str]:
        """What the table needs."""
        rows = self._rows()
        return rows.spark_conf() if rows else {}

    def _rows(self) -> Source | None:
        """The table, as the source that it would be without its log."""
        if self.table is None or self.database is None:
            return None
        made: Any = plugins.load("sources", "database")
        found: Source = made(connection=self.connections[self.database], table=self.table)
        return found

    def _files(self) -> files.FileLogOptions:
        if self.path is None or self.envelope is None:
            raise InternalError("a log of files without a path or an envelope")
        return files.FileLogOptions(
            path=self.path,
            envelope=self.envelope,
            form=self.format,
            options=self.options,
            columns=self.columns,
            settle=self.settle,
        )
