"""What the rows of a load do to the table: the closed union `Effect`.

Strategies emit effects, writers declare which they accept, and `check` refuses the rest. How an effect is carried out
(merge, overwrite, replaced partitions) is chosen by writer and format by cost, and never changes the resulting rows.
Only a person can ask for more than these: see `core.plan.Reset`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tidegate.core.grouping import Grouping
from tidegate.core.log import EventRules
from tidegate.core.significance import Significance


class WriteHint(StrEnum):
    """How a mirror is cheapest to carry out, as the strategy expects; changes no row of the result."""

    COMPARE = "compare"
    """Only rows that differ are written."""
    CONFIRM = "confirm"
    """The same; where none differs nothing is committed, because the position would say what it says already."""
    REWRITE = "rewrite"
    """Every row is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Rows that the table cannot hold yet."""

    kind: str = field(default="insert", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows by key: for each key, the last one in the stream's order counts, including the table's own row.

    Args:
        repeats: why some of the rows may already be in the table, as the beginning of a sentence; None if none can.
    """

    kind: str = field(default="upsert", init=False)
    repeats: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The table, or the part named by the slices, becomes exactly these rows: every other row is deleted.

    A history ends the versions of deleted rows, and soft deletes mark them.

    Args:
        of: how the slices partition the table; None if they are the whole table, or keys.
        moves: a row may have moved here from a partition that was not compared.
        ignore: differences that are not worth a load; None if every difference is.
        hint: how the mirror is cheapest, as far as the strategy knows; None leaves the choice to the writer.
        log: how the events of the log that continues from these rows are applied; None without a log.
    """

    kind: str = field(default="mirror", init=False)
    of: Grouping | None = None
    moves: bool = False
    ignore: Significance | None = None
    hint: WriteHint | None = None
    log: EventRules | None = None

    @property
    def compares(self) -> bool:
        """Whether it costs least where only the rows that differ are written."""
        return self.hint in (WriteHint.COMPARE, WriteHint.CONFIRM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """Events, each with its order: the last one of a key counts, even if events are delivered again or late.

    Args:
        rules: how the events of a log are applied; None for the changes between two versions of a table, which are
            read from the versions themselves and so cannot be delivered again.
    """

    kind: str = field(default="apply", init=False)
    rules: EventRules | None = None


Effect = Insert | Upsert | Mirror | Apply
EFFECTS: frozenset[type[Effect]] = frozenset({Insert, Upsert, Mirror, Apply})


def event_rules(effect: Effect) -> EventRules | None:
    """How this load and later ones apply the events of a log; None without a log."""
    match effect:
        case Mirror(log=rules) | Apply(rules=rules):
            return rules
        case _:
            return None


def saved_rules(changes: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The rules by which a saved plan applied events; None for every other plan.

    Args:
        changes: of the plan, as JSON types. Plans that say `meaning` were saved before there were effects.
    """
    if "meaning" in changes:
        return changes.get("events") if changes["meaning"] == "changelog" else None
    effect = changes["effect"]
    return effect["rules"] if effect["kind"] == "apply" else None
