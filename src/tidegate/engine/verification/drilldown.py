"""Compares two sides by bucket fingerprints, level by level, down to the rows that differ.

Pure; never fetches the rows of a bucket that is equal.

Source: the bisection of reladiff and data-diff, by buckets of the key's hash instead of ranges of the key, so that
neither gaps nor collations matter and one grouped query is enough per level.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.fingerprint import Fingerprint

LEAF_ROWS = 1_024
MOST_LEAF_ROWS = 16_384
MOST_BUCKETS = 4_096
FINER = 64
DEEPEST = 2**31

Key = tuple[str | None, ...]
T = TypeVar("T")


class Side(Protocol):
    """One side of the comparison; both give the same answers for equal rows."""

    def spread(self, spread: Buckets) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket that has rows."""

    def digests(self, spread: Buckets) -> Sequence[RowDigest]:
        """The rows of the buckets named by `within`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The result of a comparison.

    Args:
        buckets: how many of the smallest buckets differ.
        missing, changed, extra: keys that only the source has, keys whose rows differ, and keys that only the table
            has. Without a key, rows are only counted, in `missing_rows` and `extra_rows`.
        more: differing rows of these keys beyond one per key.
        fetched: how many rows were fetched from both sides to find this.
        quarantined: rows in the quarantine; they are compared together with the table's, and counted separately.
        fingerprints: of all rows of the source and of the table; None if only counts were compared. They differ for
            equal tables if the source has rows that the next load will read.
    """

    source_rows: int
    target_rows: int
    buckets: int = 0
    missing: tuple[Key, ...] = ()
    changed: tuple[Key, ...] = ()
    extra: tuple[Key, ...] = ()
    missing_rows: int = 0
    extra_rows: int = 0
    more: int = 0
    fetched: int = 0
    quarantined: int = 0
    fingerprints: tuple[Fingerprint, Fingerprint] | None = None

    @property
    def rows(self) -> int:
        """How many rows differ: a changed row counts once, a duplicate once for each surplus copy."""
        keyed = len(self.missing) + len(self.changed) + len(self.extra)
        return keyed + self.more + self.missing_rows + self.extra_rows

    @property
    def equal(self) -> bool:
        """Whether both sides hold the same rows."""
        return not self.buckets


def buckets_for(rows: int) -> int:
    """A power of two of buckets that leaves about `LEAF_ROWS` rows in each.

    Example:
        >>> buckets_for(10), buckets_for(100_000), buckets_for(10**12)
        (1, 128, 4096)
    """
    count = 1
    while count < MOST_BUCKETS and rows > count * LEAF_ROWS:
        count *= 2
    return count


def compare(source: Side, target: Side, *, rows: int, to_rows: bool) -> Difference:
    """Narrows down the difference level by level to buckets, and to rows if asked for.

    Args:
        rows: about how many there are.
        to_rows: fetch the rows of the smallest buckets that differ.
    """
    spread = Buckets(count=buckets_for(rows))
    of_source, of_target = _both(source.spread, target.spread, spread)
    totals = (_rows(of_source.values()), _rows(of_target.values()))
    whole = (sum(of_source.values(), Fingerprint()), sum(of_target.values(), Fingerprint()))
    unlike = differing(of_source, of_target)
    leaves: list[tuple[int, tuple[str, ...]]] = []
    while to_rows and unlike:
        small = tuple(name for name in unlike if _leaf(of_source, of_target, name) or spread.count >= DEEPEST)
        if small:
            leaves.append((spread.count, small))
        large = tuple(name for name in unlike if name not in set(small))
        if not large:
            break
        spread = Buckets(count=spread.count * FINER, within=large, among=spread.count)
        of_source, of_target = _both(source.spread, target.spread, spread)
        unlike = differing(of_source, of_target)
    if not to_rows:
        return Difference(source_rows=totals[0], target_rows=totals[1], buckets=len(unlike), fingerprints=whole)
    found = _Found()
    for count, names in leaves:
        within = Buckets(count=count, within=names, among=count)
        found.compare(*_both(source.digests, target.digests, within))
    return replace(found.difference(totals, sum(len(names) for _, names in leaves)), fingerprints=whole)


def _both(source: Callable[[Buckets], T], target: Callable[[Buckets], T], spread: Buckets) -> tuple[T, T]:
    """Asks both sides at the same time, because each uses its own engine."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="source") as pool:
        asked = pool.submit(source, spread)
        of_target = target(spread)
        return asked.result(), of_target


class _Found:
    """Gathers the differing rows of the leaves."""

    def __init__(self) -> None:
        self.missing: list[Key] = []
        self.changed: list[Key] = []
        self.extra: list[Key] = []
        self.lost = self.surplus = self.more = self.fetched = 0

    def compare(self, source: Sequence[RowDigest], target: Sequence[RowDigest]) -> None:
        """The rows of one set of buckets, as multisets by key."""
        self.fetched += len(source) + len(target)
        # A row that has changed since the position is not behind: the next load brings it.
        pending = {row.key for row in source if not row.inside}
        of_source, of_target = _by_key(source, pending), _by_key(target, pending)
        for key in of_source.keys() | of_target.keys():
            lacks, exceeds = of_source[key] - of_target[key], of_target[key] - of_source[key]
            if not key:
                self.lost += lacks.total()
                self.surplus += exceeds.total()
                continue
            self.more += max(0, max(lacks.total(), exceeds.total()) - 1)
            if lacks and exceeds:
                self.changed.append(key)
            elif lacks:
                (self.changed if of_target[key] else self.missing).append(key)
            elif exceeds:
                (self.changed if of_source[key] else self.extra).append(key)

    def difference(self, totals: tuple[int, int], buckets: int) -> Difference:
        """The collected differences."""
        any_rows = self.missing or self.changed or self.extra or self.lost or self.surplus
        return Difference(
            source_rows=totals[0],
            target_rows=totals[1],
            buckets=buckets if any_rows else 0,
            missing=_sorted(self.missing),
            changed=_sorted(self.changed),
            extra=_sorted(self.extra),
            missing_rows=self.lost,
            extra_rows=self.surplus,
            more=self.more,
            fetched=self.fetched,
        )


def _by_key(rows: Sequence[RowDigest], pending: set[Key]) -> defaultdict[Key, Counter[str]]:
    found: defaultdict[Key, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if not row.key or row.key not in pending:
            found[row.key][row.digest] += int(row.inside)
    return found


def differing(source: Mapping[str, Fingerprint], target: Mapping[str, Fingerprint]) -> tuple[str, ...]:
    """The buckets that differ, sorted."""
    nothing = Fingerprint()
    names = sorted(source.keys() | target.keys())
    return tuple(name for name in names if source.get(name, nothing) != target.get(name, nothing))


def _leaf(source: Mapping[str, Fingerprint], target: Mapping[str, Fingerprint], name: str) -> bool:
    return _rows(side[name] for side in (source, target) if name in side) <= 2 * MOST_LEAF_ROWS


def _rows(found: Iterable[Fingerprint]) -> int:
    return sum(each.rows for each in found)


def _sorted(keys: list[Key]) -> tuple[Key, ...]:
    return tuple(sorted(keys, key=lambda key: [text or "" for text in key]))
