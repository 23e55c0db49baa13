"""What a stream's table is: its columns, layout, size and versions, and how other engines read it.

Asked of the table's own metadata, without Spark.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from tidegate.config import Config
from tidegate.core.display import Shown
from tidegate.core.ports.format import TableState
from tidegate.core.table_facts import TableFacts
from tidegate.engine.assemble.assemble import TableLocation
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, PositionMissing


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn(Shown):
    """A column of a table; `type` as its format calls it."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableView(Shown):
    """The visible version of a stream's table.

    Args:
        rows: None where the metadata cannot tell: a full scan would.
        facts: its layout and size; in the JSON document its values stand beside the others.
        version: its id, as `rollback --to` takes it.
        versions: how many are kept; None where the format keeps none.
        sequence: loads that landed in it.
        loaded_through: the cursor up to which it is complete.
        snippets: by engine a text that reads it there.
    """

    shown: ClassVar[tuple[str, ...]] = (
        "stream",
        "target",
        "facts",
        "location",
        "rows",
        "version",
        "versions",
        "sequence",
        "loaded_through",
    )

    stream: str
    target: str
    location: str | None
    rows: int | None
    columns: tuple[TableColumn, ...]
    facts: TableFacts
    version: str | None
    versions: int | None
    as_loaded: bool
    sequence: int
    loaded_through: str | None
    snippets: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        values = asdict(self)
        facts = values.pop("facts")
        return {**values, **facts}


def view(place: TableLocation | Stream, config: Config) -> TableView:
    """The table as it is now; secrets of the catalog are masked in the snippets.

    Raises:
        ConfigError: the lake's format tells nothing without Spark, or there is no table yet.
        WriteError: catalog or metadata cannot be read.
    """
    lake, target = place.format, place.target
    inspection = lake.inspection
    if inspection is None:
        raise ConfigError(
            f"the lake of stream {place.name!r} has a format that cannot describe its tables without Spark",
            hint=f"Read the table {target} in Spark.",
        )
    state, facts = lake.state(target, place.uid), inspection.facts(target)
    if not state.exists or facts is None:
        raise PositionMissing(
            f"the table {target} of stream {place.name!r} does not exist yet",
            hint=f"`tidegate run {place.name}` creates it.",
        )
    travel = lake.time_travel
    versions = None if travel is None else len(travel.versions(target, place.uid))
    snippets = {name: config.redact(text) for name, text in inspection.snippets(target).items()}
    return _of(place, state, facts, versions, snippets)


def _of(
    place: TableLocation | Stream, state: TableState, facts: TableFacts, versions: int | None, snippets: dict[str, str]
) -> TableView:
    position, columns = state.position, state.schema.columns if state.schema else ()
    return TableView(
        stream=place.name,
        target=str(place.target),
        location=state.location,
        rows=state.rows,
        columns=tuple(
            TableColumn(
                name=each.name, type=each.native if each.native is not None else each.type.spark, nullable=each.nullable
            )
            for each in columns
        ),
        facts=facts,
        version=state.snapshot,
        versions=versions,
        as_loaded=state.since_load.same_rows,
        sequence=position.sequence if position else 0,
        loaded_through=position.loaded_through if position else None,
        snippets=snippets,
    )
