"""The position of a stream: how far its table has been loaded, stored in the table's own commit.

A missing position is an error, never a default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

VERSION = 1


def property_name(uid: str) -> str:
    """The snapshot property that carries the position of the stream with that uid."""
    return f"tidegate.{uid}.position"


def touched_name(uid: str) -> str:
    """The snapshot property of a position that maintenance wrote again after others had changed the table."""
    return f"tidegate.{uid}.touched"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far one stream has been loaded into one table; a value of its commit.

    Args:
        sequence: loads that landed so far, from 1; never goes down.
        load_id: the load that put it there.
        kind: the strategy that wrote `state`.
        source: identity of the source (server and relation); another identity is another history.
        clock: a number of the source that only grows while its history goes on; None where it has none.
        state: the strategy's own values, JSON types only, canonical texts for values of columns.
        loaded_through: the cursor up to which the table is complete, as canonical text; None without a cursor.
        schema: digest of the columns loaded.
        writer: what a writer that keeps history was told, which must not change under its table; empty for others.
        witness: what only this history of the source can say of itself later, see `continuity.Witness`.
    """

    sequence: int
    load_id: str
    kind: str
    source: str = ""
    clock: int | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    loaded_through: str | None = None
    schema: str = ""
    writer: str = ""
    witness: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "version": VERSION,
            "sequence": self.sequence,
            "load_id": self.load_id,
            "kind": self.kind,
            "source": self.source,
            "clock": self.clock,
            "state": dict(self.state),
            "loaded_through": self.loaded_through,
            "schema": self.schema,
            **({"writer": self.writer} if self.writer else {}),
            **({"witness": dict(self.witness)} if self.witness else {}),
        }

    def to_json(self) -> str:
        """One line, keys sorted: the text in the commit."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str) -> Position:
        """The inverse of `to_json`.

        Raises:
            ValueError: damaged, or written by a newer version.

        Example:
            >>> p = Position(sequence=1, load_id="a", kind="full")
            >>> Position.from_json(p.to_json()) == p
            True
        """
        try:
            values = json.loads(text)
            version = values.pop("version")
            if version != VERSION:
                raise ValueError(
                    f"position has format version {version}, but this version of Tidegate reads version {VERSION}"
                )
            return cls(**values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a position: {error}") from error
