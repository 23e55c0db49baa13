"""Where the rows of a source are, for those who trace and draw lineage: a closed union without a password.

What `telemetry/datasets.py` makes names of.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.ids import Connection, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseTable:
    """A table of a database; a query where `parts` is empty, for it may read any.

    Args:
        parts: schema and table, as far as the project states them.
    """

    connection: Connection
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """Files below a path.

    Args:
        made: columns that no file has.
    """

    path: str
    made: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic of the brokers `host:port`, with commas between them."""

    brokers: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A table of a lake.

    Args:
        kind: of its format.
        location: where its files are; None where they are not known.
    """

    kind: str
    target: Target
    location: str | None = None


Origin = DatabaseTable | StoredFiles | Topic | LakeTable
