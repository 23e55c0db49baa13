"""The position of a stream: how far its table has been loaded, stored in the table's own commit.

A missing position is an error, never a default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.core import position_state

VERSION = 1
NEWEST = "newest"
"""In a witness: the rows that had the greatest cursors, by `key` and `cursor`."""


def property_name(uid: str) -> str:
    """The snapshot property that carries the position of the stream with that uid."""
    return f"tidegate.{uid}.position"


def columns_name(uid: str) -> str:
    """The property of a load's commit that says which column of the source each of the table is."""
    return f"tidegate.{uid}.columns"


def touched_name(uid: str) -> str:
    """The snapshot property of a position that maintenance wrote again after others had changed the table."""
    return f"tidegate.{uid}.touched"


def repeated_name(uid: str) -> str:
    """The property of a position that maintenance wrote again: the version in which it was found."""
    return f"tidegate.{uid}.repeated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far one stream has been loaded into one table; a value of its commit.

    Args:
        sequence: loads that landed so far, from 1; never goes down.
        load_id: the load that put it there.
        kind: the strategy that wrote `state`.
        source: identity of the source (server and relation); another identity is another history. None: not recorded.
        clock: a number of the source that only grows while its history goes on; None where it has none.
        state: the strategy's own values, JSON types only, canonical texts for values of columns.
        loaded_through: the cursor up to which the table is complete, as canonical text; None without a cursor.
        schema: digest of the columns loaded; None where it was not recorded.
        writer: the signature of a writer that keeps history, which must not change under its table; None for others.
        retained: which rows the table keeps, see `core.policies.retention.Kept`; empty where it keeps all.
        witness: what only this history of the source can say of itself later, see `continuity.Witness`.
    """

    sequence: int
    load_id: str
    kind: str
    source: str | None = None
    clock: int | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    loaded_through: str | None = None
    schema: str | None = None
    writer: str | None = None
    witness: Mapping[str, Any] = field(default_factory=dict)
    retained: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only; what is not recorded is an empty text, as every version of Tidegate writes and reads it."""
        return {
            "version": VERSION,
            "sequence": self.sequence,
            "load_id": self.load_id,
            "kind": self.kind,
            "source": self.source or "",
            "clock": self.clock,
            "state": dict(self.state),
            "loaded_through": self.loaded_through,
            "schema": self.schema or "",
            **({"writer": self.writer} if self.writer else {}),
            **({"retained": dict(self.retained)} if self.retained else {}),
            **({"witness": dict(self.witness)} if self.witness else {}),
        }

    def to_json(self) -> str:
        """One line, keys sorted: the text in the commit."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    def renamed(self, names: Mapping[str, str]) -> Position:
        """The same position by the names that the source's columns have now; old names to new ones.

        Example:
            >>> old = Position(sequence=1, load_id="a", kind="full", retained={"column": "at", "begin": "2025-01-01"})
            >>> old.renamed({"at": "changed_at"}).retained["column"]
            'changed_at'
        """
        retained = dict(self.retained)
        if "column" in retained:
            retained["column"] = names.get(retained["column"], retained["column"])
        witness = dict(self.witness)
        if newest := witness.get(NEWEST):
            key = [names.get(name, name) for name in newest["key"]]
            witness[NEWEST] = {**newest, "key": key, "cursor": names.get(newest["cursor"], newest["cursor"])}
        return replace(self, state=position_state.renamed(self.state, names), retained=retained, witness=witness)

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
            return cls.from_values(values)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a position: {error}") from error

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Position:
        """The position of these fields as a document holds them: an empty text, null or no key is what has no value."""
        return cls(**{**values, **{name: values.get(name) or None for name in ("source", "schema", "writer")}})
