"""Decides that a source seems to have the columns of its table, and one more for whatever else it has.

Called where streams are put together, for `contract: {add_column: rescue}`. Must never change what a column of the
table is loaded with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tidegate.core.ids import Target
from tidegate.core.protocols import Format, Probe, Source, Sparks
from tidegate.core.schema import Schema
from tidegate.core.slices import Slice
from tidegate.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MODE = "rescue"


@runtime_checkable
class Packing(Protocol):
    """A probe of a source that can pack columns into one."""

    def rescue(self, kept: Collection[str]) -> None:
        """From now on there are these columns, and `RESCUED` for all others."""


def misfits(source: type[Any], contract: Mapping[str, str]) -> list[str]:
    """Why columns of such a source cannot be rescued, a sentence; nothing where they can, or nobody asks for it."""
    if contract["add_column"] != MODE or getattr(source, "packs", False):
        return []
    return ["contract: {add_column: rescue} is for tables and queries of databases; use evolve or stop"]


def rescuing(source: Source, contract: Mapping[str, str], lake: Format, target: Target) -> Source:
    """The source as its table sees it; itself, unless the contract says rescue."""
    return Rescuing(source=source, lake=lake, target=target) if contract["add_column"] == MODE else source


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescuing:
    """A source whose columns that the table does not have are packed into one."""

    source: Source
    lake: Format
    target: Target

    @contextmanager
    def probe(self, sparks: Sparks | None = None) -> Iterator[Probe]:
        """Opens the source; a table that is not there yet gets all its columns."""
        table = self.lake.state(self.target, "").schema
        with self.source.probe(sparks) as probe:
            if not isinstance(probe, Packing):
                raise InternalError(f"the source of {self.target} cannot pack columns")
            if table is not None:
                probe.rescue(table.names)
            yield probe

    def read(self, session: SparkSession, probe: Probe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices, see `Source`."""
        return self.source.read(session, probe, parts, schema)

    def jars(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.jars()

    def spark_conf(self) -> Mapping[str, str]:
        """Those of the source."""
        return self.source.spark_conf()
