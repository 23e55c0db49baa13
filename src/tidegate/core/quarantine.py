"""Decides where rows that broke a rule are kept, and which of them count.

Followed by the engine and by `tidegate quarantine`. Must never count a row of a load that did not land.

Source: `docs/concepts/quarantine.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.ids import Target
from tidegate.core.schema import BIGINT, BOOLEAN, TEXT, TIMESTAMPTZ, Column, Schema

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
    )
)
"""One row of it is one row that was read and not loaded.

`load`, `load_id`: of the load that read it; it counts once the target's position has that number. `until`: the load
that read its key or its slice again, or replayed it; NULL while it is waiting. `last`: no later row of its key came in
the same load. `rule`, `reason`: every rule that it broke. `row`: its columns as JSON of canonical texts. `raw`: an
event that could not be taken apart, as it came.
"""

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


def beside(target: Target) -> Target:
    """The quarantine of a table.

    Example:
        >>> str(beside(Target(lake="lake", namespace=("shop",), table="orders")))
        'lake.shop.orders__tidegate_quarantine'
    """
    return replace(target, table=target.table + SUFFIX)


def uid_of(uid: str) -> str:
    """The identity of a stream in the commits of its quarantine."""
    return f"{uid}-q"
