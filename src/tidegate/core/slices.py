"""The parts of a source that can be read: the closed union `Slice`.

Emitted by strategies, read by sources, replaced or verified by formats. Contains no SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidegate.core.display import counted

WHOLE_LABEL = "everything"
LAST_POINT = 0x10FFFF
SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """Every row."""

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return WHOLE_LABEL


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Rows whose cursor is greater than `after` and at most `upto`.

    Args:
        cursor: the columns whose first non-NULL value is the cursor; usually one.
        after: exclusive lower bound as canonical text (`core/fingerprint`), None for no bound.
        upto: inclusive upper bound as canonical text.
        nulls: also every row whose cursor is NULL.
    """

    cursor: tuple[str, ...]
    after: str | None
    upto: str | None
    nulls: bool = False

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return f"({self.after or '-inf'}, {self.upto or '-inf'}]" + (" and NULL" if self.nulls else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Rows of one partition: `low <= column < high`, or a text's prefix; without any of them, rows of NULL.

    Args:
        label: the slice's `extract_group_id`.
        low, high: inclusive and exclusive bound as canonical text; a missing `high` is no bound.
        prefix: the first `length` characters of the column, or the whole of a shorter text.
        length: of the prefix.
        nulls: also the rows of NULL, beside those of the interval.
    """

    column: str
    label: str
    low: str | None = None
    high: str | None = None
    prefix: str | None = None
    length: int = 0
    nulls: bool = False

    @property
    def of_null(self) -> bool:
        """Whether these are the rows whose column is NULL."""
        return self.low is None and self.prefix is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Rows of certain keys.

    Args:
        columns: of the key.
        values: canonical texts, one tuple a key in the order of the columns.
        nulls: also the rows with a NULL in one of the columns.
    """

    columns: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    nulls: bool = False

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return counted(len(self.values), "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Rows of certain files, as they were listed.

    Args:
        paths: relative to the source's folder, sorted.
        carrier: the column with a row's path, by which a table's rows of these files are found; None for none.
        older: other loaded files, each after the number of the load that read it: a key that the files no longer have
            gets the row of the last of these.
    """

    paths: tuple[str, ...]
    carrier: str | None = None
    older: tuple[tuple[int, str], ...] = ()

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return self.paths[0] if len(self.paths) == 1 else counted(len(self.paths), "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPair:
    """The changes of a versioned table after one version, up to another.

    Args:
        after: exclusive; None for the time before the first version, so that every row of `upto` is included.
        upto: inclusive.
        appends: rows were only added, so only these have to be read.
    """

    after: str | None
    upto: str
    appends: bool = False

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return f"versions ({self.after or 'none'}, {self.upto}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """Events of one part of a log: a topic's partition, a replication slot.

    Args:
        part: its name (`shop.public.orders:0`, a slot's name).
        after: exclusive, in the unit of the log (an offset, an LSN); None for the log's beginning.
        upto: inclusive.
    """

    part: str
    after: str | None
    upto: str

    @property
    def label(self) -> str:
        """The slice's `extract_group_id`."""
        return f"{self.part} ({self.after or 'beginning'}, {self.upto}]"


Slice = Everything | Range | Partition | Keys | Files | SnapshotPair | LogRange


def joined(parts: Sequence[Slice]) -> list[Partition]:
    """The partitions among the slices, neighbouring intervals made one; in order of their bounds.

    Example:
        >>> days = [Partition(column="d", label=n, low=f"2025-01-0{n}", high=f"2025-01-0{int(n) + 1}") for n in "213"]
        >>> [(part.low, part.high) for part in joined(days)]
        [('2025-01-01', '2025-01-04')]
    """
    found = [part for part in parts if isinstance(part, Partition)]
    by_low = {part.low: part for part in found if part.low is not None}
    ends = {part.high for part in by_low.values()}
    starts = [part for part in by_low.values() if part.low not in ends]
    intervals = []
    for start in sorted(starts, key=lambda part: part.low or ""):
        last = start
        while last.high in by_low:
            last = by_low[last.high]
        intervals.append(replace(start, high=last.high))
    return [*intervals, *(part for part in found if part.low is None)]


def successor(prefix: str) -> str | None:
    """The smallest text, by code points, above every text with this prefix; None if there is none.

    Example:
        >>> successor("ab"), successor("a\U0010ffff"), successor("\ud7ff") == "\ue000"
        ('ac', 'b', True)
    """
    for place in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[place])
        if point < LAST_POINT:
            following = point + 1 if point + 1 not in SURROGATES else SURROGATES.stop
            return prefix[:place] + chr(following)
    return None
