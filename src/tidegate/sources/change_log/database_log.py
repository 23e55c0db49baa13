"""A log that a database keeps of one of its own tables, beside which it is opened."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.core.slices import LogRange, Slice
from tidegate.errors import InternalError
from tidegate.sources.change_log import spool
from tidegate.sources.change_log.events import Event
from tidegate.sources.change_log.log import OpenLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DatabaseLog(OpenLog):
    """A log whose events are decoded in Python; what it is of is what its table is.

    Args:
        table: that it is of.
        held: what is open until the log is closed.
        place: where its events wait for Spark.
    """

    def __init__(self, table: Probe, held: ExitStack, place: Path) -> None:
        self._table = table
        self._held = held
        self._place = place

    @abstractmethod
    def decoded(self, part: LogRange, schema: Schema) -> Iterator[Event]:
        """The events of one range."""

    @abstractmethod
    def carried(self, session: SparkSession, schema: Schema) -> Sequence[spool.Carried]:
        """How the values of each column travel to Spark."""

    def identity(self) -> str:
        return self._table.identity()

    def clock(self) -> int | None:
        return self._table.clock()

    def schema(self) -> Schema:
        return self._table.schema()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def events(self, session: SparkSession, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The events of one range; decoded here a chunk at a time, and read by Spark from files beside the project.

        A session that does not share this machine's files is handed them in memory.
        """
        (part,) = parts
        if not isinstance(part, LogRange) or part.after is None:
            raise InternalError(f"{self.label} is read by one range of its log")
        carried = self.carried(session, schema)
        return self._held.enter_context(
            spool.spooled(session, self.decoded(part, schema), schema, carried, self._place)
        )
