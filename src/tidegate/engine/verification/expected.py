"""Defines which rows a table should have, for every comparison.

A pure function of stream and slices; never depends on the contents of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.batch import Latest
from tidegate.core.effects import Insert
from tidegate.core.manifest import LOADED
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.position_state import names_files
from tidegate.core.slices import Range, Slice
from tidegate.engine.stream import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The rows of a source that its table should hold.

    Args:
        part: among these rows; later ones are not missing, they are next.
        latest: of each key the last of them; None for every one of them.
    """

    part: Slice
    latest: Latest | None = None


def of_table(stream: Stream, since: Position | None, probe: Probe) -> Expected:
    """What the whole table should hold at a position."""
    return of_part(stream, stream.strategy.covers(since, probe), probe, since)


def of_part(stream: Stream, part: Slice, probe: Probe, since: Position | None = None) -> Expected:
    """What the whole table should hold where these rows are loaded."""
    latest = rule(stream, since)
    if latest is not None and (not latest.ordered or probe.unique(stream.key)):
        latest = None
    return Expected(part=part, latest=latest)


def rule(stream: Stream, since: Position | None) -> Latest | None:
    """By what the table chooses among several rows of one key; None where it keeps them all.

    Where the position names a manifest, the row of the file that was loaded last comes first: `core.manifest.LOADED`.
    """
    if not stream.key:
        return None
    if stream.writer.versions is not None and stream.strategy.emits == {Insert}:
        return None  # each row is a version of its own
    by_load = since is not None and names_files(since.state)
    return stream.writer.latest(stream.key, (LOADED,) if by_load else stream.strategy.cursor)


def around(slices: Sequence[Slice], through: str | None) -> Range | None:
    """Where the last row of a key of these slices lies, if that may be outside of them.

    Args:
        through: the end of all that is loaded once these slices are.

    Example:
        >>> new = Range(cursor=("at",), after="3", upto="5")
        >>> old = Range(cursor=("at",), after="0", upto="1")
        >>> around([new], "5"), around([new], "7").upto, around([old, new], "5").upto
        (None, '7', '5')
    """
    ranges = [part for part in slices if isinstance(part, Range)]
    if through is None or not ranges or len(ranges) < len(slices):
        return None
    first = ranges[0]
    newest = len(ranges) == 1 and first.upto == through and (first.after is None or not first.nulls)
    return None if newest else Range(cursor=first.cursor, after=None, upto=through, nulls=True)
