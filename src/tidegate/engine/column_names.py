"""What the columns of a source are called now, and what the position and the table of a stream call them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.ports.format import TableState
from tidegate.core.ports.source import Probe
from tidegate.core.ports.writer import Writer
from tidegate.core.position import Position
from tidegate.core.schema import Schema
from tidegate.core.source_columns import follow
from tidegate.engine.context import LoadContext, RunContext
from tidegate.engine.reconcile import RecoveryState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def followed(work: LoadContext) -> LoadContext:
    """The same load, from the position by the names that the project and the source have now.

    A log says itself what its columns are called.
    """
    if work.probe.log is not None:
        return work
    return replace(work, recovered=renamed(work.recovered, work.probe, work.stream.writer))


def renamed(recovered: RecoveryState, probe: Probe, writer: Writer) -> RecoveryState:
    """The position by the names that the columns of the source have now."""
    table, since = recovered.table, recovered.since
    known = table.since_load.source_columns
    if known is None or not known.relation or since is None or table.schema is None:
        return recovered  # where names alone tell columns apart, none is renamed, and files are not listed for it
    names = follow(known, probe.schema(), table.schema)
    if names is None or not names.moved:
        return recovered
    return replace(recovered, since=_renamed(since, names.moved, writer), found=since)


def _renamed(since: Position, names: Mapping[str, str], writer: Writer) -> Position:
    """The position, of the same writer where the columns that it names are the same."""
    before = writer.renamed({new: old for old, new in names.items()}).signature
    position = since.renamed(names)
    return replace(position, writer=writer.signature) if before == since.writer else position


def as_loaded_last(position: Position, table: TableState, context: RunContext) -> Position:
    """An earlier position by the names that columns had in the last load of the table, as the plans of both say."""
    known, saved = table.since_load.source_columns, context.registry.plan(position.load_id)
    if known is None or saved is None or table.position is None or table.position.source != position.source:
        return position
    now = {each.id: each.name for each in known}
    then = ((column["name"], column.get("ident")) for column in saved.plan["columns"]["columns"])
    return position.renamed({name: now[number] for name, number in then if now.get(number, name) != name})


def by_names_of(rows: DataFrame, table: TableState, columns: Schema) -> DataFrame:
    """The rows of a table by the names that the source gives to its columns, also before a load has followed them."""
    followed = follow(table.since_load.source_columns, columns, table.schema or columns)
    renames = followed.renames.items() if followed is not None else ()
    return rows.withColumnsRenamed({old: new for new, old in renames if new not in rows.columns})
