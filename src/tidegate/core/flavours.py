"""The flavours of a source (a dialect, a file format, a kind of log) and the features of each.

Declared by sources and dialects, used by `core/compatibility`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tidegate.core.slices import Slice


class Bound(StrEnum):
    """The kind of safe upper bound up to which a strategy reads."""

    TIME = "time"
    """Of a timestamp that the database's own clock sets."""
    APPLICATION_TIME = "application_time"
    """Of a timestamp that an application sets: the clock less a lag that the user vouches for."""
    NUMBER = "number"
    """Of numbers that a sequence of the database hands out."""


ALL_BOUNDS = frozenset(Bound)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavour:
    """One flavour of a source.

    Args:
        name: the dialect, the file format, the table format, or the place of a log and its envelope.
        reads: slices that it reads beside those that every source of rows reads.
        rows: it holds rows; false for a log, which holds events alone.
        bounds: the safe bounds that it knows.
        ranges: it may keep a table in ranges of a column.
        carries: each row can carry the name of its file.
    """

    name: str
    reads: frozenset[type[Slice]] = frozenset()
    rows: bool = True
    bounds: frozenset[Bound] = ALL_BOUNDS
    ranges: bool = False
    carries: bool = False


def flavours_of(source: type[Any]) -> Iterator[Flavour]:
    """Every flavour of a class of sources; a class that declares none has one, named after its kind."""
    found: Callable[[], Iterator[Flavour]] | None = getattr(source, "flavours", None)
    if found is not None:
        yield from found()
        return
    yield Flavour(name=source.kind, reads=getattr(source, "reads", frozenset()))


def flavour_of(source: Any) -> Flavour:
    """The flavour of a source as the project states it.

    Raises:
        ConfigError: its connection names a database that no rows are read from.
    """
    found: Flavour | None = getattr(source, "flavour", None)
    return found if found is not None else next(flavours_of(type(source)))
