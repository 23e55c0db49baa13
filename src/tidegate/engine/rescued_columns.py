"""Adapts a source to its table's columns for `contract:` with rescue, discard or cast.

The other columns are packed into one column, left out, or cast. Columns of the table are loaded unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tidegate.core.bounds import BoundRequest
from tidegate.core.ids import Target
from tidegate.core.origin import Origin
from tidegate.core.policies.contract import LEAVES_OUT, MAPPED, NOT_LOADED, ColumnMapping, Mode
from tidegate.core.ports.format import Format
from tidegate.core.ports.source import Probe, Source, SparkProvider
from tidegate.core.schema import ChangeKind, Schema, SchemaChange
from tidegate.core.slices import Slice
from tidegate.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def incompatibilities(source: type[Any], contract: Mapping[str, str]) -> list[str]:
    """Why the contract cannot be kept with such a source, a sentence each; nothing where it can."""
    found = []
    asked = [f"{kind}: {contract[kind]}" for kind in LEAVES_OUT if contract[kind] in MAPPED]
    if asked and not source.packs:
        found.append(
            f"contract: {{{', '.join(asked)}}} is only for database tables and queries; here add_column must be "
            f"evolve, fill or stop, and type_change must be stop"
        )
    empties = contract[ChangeKind.TYPE_CHANGE] in NOT_LOADED
    if empties and contract[ChangeKind.DROP_COLUMN] == Mode.STOP:
        found.append(
            f"contract: {{type_change: {contract[ChangeKind.TYPE_CHANGE]}}} stops loading the table's column, which "
            f"drop_column: stop forbids; use drop_column: keep, or type_change: stop"
        )
    return found


def rescuing(  # noqa: PLR0913 - a source, and the table of a stream
    source: Source[Probe], contract: Mapping[str, str], lake: Format, target: Target, key: tuple[str, ...], *, uid: str
) -> Source[Probe]:
    """The source as its table sees it; itself, unless the contract leaves columns out or casts them."""
    if not any(contract[kind] in MAPPED for kind in LEAVES_OUT):
        return source
    return RescuingSource(source=source, lake=lake, target=target, contract=contract, key=key, uid=uid)


def unloaded_changes(probe: Probe) -> tuple[SchemaChange, ...]:
    """The changes of columns that the load leaves out of its table's own, or casts to them."""
    return tuple(probe.rescue.left_out()) if probe.rescue is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuingSource(Source[Probe]):
    """A source whose columns that the table does not have as they are are packed into one, left out, or cast."""

    packs: ClassVar[bool] = True
    source: Source[Probe]
    lake: Format
    target: Target
    contract: Mapping[str, str]
    key: tuple[str, ...]
    uid: str

    @contextmanager
    def probe(self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None) -> Iterator[Probe]:
        """Opens the source; a table that is not there yet gets all its columns."""
        state = self.lake.state(self.target, self.uid)
        with self.source.probe(sparks, bound) as probe:
            if probe.rescue is None:
                raise InternalError(f"the source of {self.target} cannot leave out columns")
            if state.schema is not None:
                before = state.since_load.source_columns
                mapping = ColumnMapping(table=state.schema, contract=self.contract, key=self.key, before=before)
                probe.rescue.map_columns(mapping)
            yield probe

    def read(self, session: SparkSession, probe: Probe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices, see `Source`."""
        return self.source.read(session, probe, parts, schema)

    def smaller(self) -> Self:
        """Of the source."""
        return replace(self, source=self.source.smaller())

    def origin(self) -> Origin | None:
        """Of the source."""
        return self.source.origin()

    def located(self) -> Origin | None:
        """Of the source."""
        return self.source.located()

    def refuse_urls(self) -> None:
        """Those of the source."""
        self.source.refuse_urls()

    def in_the_clear(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.in_the_clear()

    def jars(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.jars()

    def spark_conf(self) -> Mapping[str, str]:
        """Those of the source."""
        return self.source.spark_conf()
