"""The quarantine: where rows that failed a check are kept, and when newer rows supersede them.

Rows of a load that was not committed never count.

Source: `docs/concepts/quarantine.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Mirror
from tidegate.core.ids import Target
from tidegate.core.schema import BIGINT, BOOLEAN, TEXT, TIMESTAMPTZ, Column, Schema
from tidegate.core.slices import Everything, Files

SUFFIX = "__tidegate_quarantine"
FORGOTTEN_AFTER = 100
"""Loads after which a row that does not wait any more leaves the quarantine; a rollback finds it until then."""
REFUSED_EVENT = "bad_event"
"""The rule of events that a log's reader could not take."""

COLUMNS = Schema(
    columns=(
        Column(name="load", type=BIGINT, nullable=False),
        Column(name="load_id", type=TEXT, nullable=False),
        Column(name="at", type=TIMESTAMPTZ, nullable=False),
        Column(name="until", type=BIGINT),
        Column(name="last", type=BOOLEAN),
        Column(name="rule", type=TEXT, nullable=False),
        Column(name="reason", type=TEXT),
        Column(name="origin", type=TEXT),
        Column(name="row", type=TEXT),
        Column(name="raw", type=TEXT),
        Column(name="log_order", type=TEXT),
        Column(name="lacks", type=TEXT),
        Column(name="ended", type=TIMESTAMPTZ),
    )
)
"""One row of it is one row that was read and not loaded.

`load`, `load_id`: of the load that read it; it counts once the target's position has that number. `until`: the load
that read its key or its slice again, or replayed it; NULL while it is waiting. `last`: no later row of its key came in
the same load. `rule`, `reason`: every rule that it broke. `row`: its columns as JSON of canonical texts. `raw`: an
event that could not be taken apart, as it came. `log_order`, `lacks`: of an event its order in the log, and as JSON the
columns whose values it does not carry. `ended`: of a version that waits for its place in a history, when its row was
found to be gone.
"""


class Superseding(StrEnum):
    """How the rows of a load supersede quarantined rows."""

    SLICES = "slices"
    """These partitions, files or keys become what is read; what waits of their keys elsewhere is older."""
    KEY = "key"
    """Of each key the row that was read last counts."""
    ORDER = "order"
    """Of each key the row that is greatest in the stream's order counts, of equal ones the one that was read last."""
    EVENT = "event"
    """Of each key the event that is last in the log counts, whenever it is read."""
    VERSION = "version"
    """Each version of a key counts; one that is read again with the same moment is another reading of it."""
    NOTHING = "nothing"
    """Every row that was read counts by itself."""


def everything(changes: ChangeSet) -> bool:
    """Whether everything in the source is read."""
    return isinstance(changes.effect, Mirror) and any(isinstance(part, Everything) for part in changes.slices)


def superseding(
    changes: ChangeSet, *, one_a_key: bool, history: bool, applies_events: bool, unique: bool
) -> Superseding:
    """How the rows of a load supersede quarantined rows: by the effect of the load, never by its write mode.

    Args:
        one_a_key: the table keeps one row per key.
        history: the table keeps every version of a row.
        applies_events: the rows of a changelog are events, each with its order in a log.
        unique: the source guarantees one row per key, or rows are ordered only by their loads.
    """
    if history:
        return Superseding.VERSION
    if isinstance(changes.effect, Apply):
        return Superseding.EVENT if applies_events else Superseding.KEY
    carried = any(isinstance(part, Files) and part.carrier for part in changes.slices)
    if carried or (isinstance(changes.effect, Mirror) and not everything(changes)):
        return Superseding.SLICES
    if not one_a_key:
        return Superseding.NOTHING
    return Superseding.KEY if unique or everything(changes) else Superseding.ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedColumns:
    """What the source calls the columns by whose names the rows of a quarantine are kept; see `Schema.ids`.

    Args:
        relation: whose columns they are; None where only names tell.
    """

    relation: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> NamedColumns:
        """Those of the state of a quarantine's position."""
        found = state.get("columns") or {}
        return cls(relation=found.get("relation"), columns=found.get("columns") or {})

    def to_state(self) -> dict[str, Any]:
        """The inverse of `of`."""
        return {"columns": {"relation": self.relation, "columns": dict(self.columns)}} if self.relation else {}

    def moved(self, columns: Schema) -> Mapping[str, str]:
        """The names by which rows are kept, to those that the columns have now, where these differ."""
        ids = columns.ids
        if ids is None or ids.relation != self.relation:
            return {}
        now = {number: name for name, number in ids.columns.items()}
        return {name: now[number] for name, number in self.columns.items() if now.get(number, name) != name}

    def followed(self, columns: Schema) -> NamedColumns:
        """Those of the same rows once they are kept by the names of these columns, and of others that have them.

        Example:
            >>> from tidegate.core.schema import TEXT, Column, ColumnIds
            >>> kept = NamedColumns(relation="t", columns={"old": "2", "left_out": "3"})
            >>> ids = ColumnIds(relation="t", columns={"new": "2"})
            >>> dict(kept.followed(Schema(columns=(Column(name="new", type=TEXT),), ids=ids)).columns)
            {'new': '2', 'left_out': '3'}
        """
        ids = columns.ids
        if ids is None:
            return self
        own = {name: ids.columns[name] for name in columns.names if name in ids.columns}
        moved = self.moved(columns)
        old = {moved.get(name, name): number for name, number in self.columns.items()}
        return NamedColumns(relation=ids.relation, columns={**(old if self.relation == ids.relation else {}), **own})


ROW, FIELDS = "row", "__tidegate_fields"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowText:
    """How rows of certain columns become a text and rows again, in Spark SQL.

    Args:
        pack: the text of a row.
        parse: the fields, called `FIELDS` from there on, of a text in a column `ROW`.
        values: select list of the columns from `FIELDS`.
    """

    pack: str
    parse: str
    values: tuple[str, ...]


def quarantine_of(target: Target) -> Target:
    """The quarantine of a table.

    Example:
        >>> str(quarantine_of(Target(lake="lake", namespace=("shop",), table="orders")))
        'lake.shop.orders__tidegate_quarantine'
    """
    return replace(target, table=target.table + SUFFIX)


def uid_of(uid: str) -> str:
    """The identity of a stream in the commits of its quarantine."""
    return f"{uid}-q"
