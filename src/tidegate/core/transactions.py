"""Finds where a log can be split without splitting a source transaction.

A transaction is complete only when all its events were seen, never because time has passed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

REMEMBERED = 100_000
"""Transactions that are done with, and whose events are recognised when their events are delivered again."""
LATEST = 20
"""Transactions that a position names."""
PLACES = 2**31
"""Places within a transaction that are told apart, each by a bit."""
PATIENCE = 600_000
"""Milliseconds after which an end is not waited for any more whose events nobody has seen."""


@dataclass(frozen=True, slots=True)
class Member:
    """An event's place in its transaction.

    Args:
        transaction: empty for an event that should tell it and does not.
        order: counted from 1 among all events of the transaction; another one of the same place is the same event.
    """

    transaction: str
    order: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a transaction, and how many events of each table it has."""

    transaction: str
    events: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockingTransaction:
    """A transaction that a log cannot be read beyond.

    Args:
        since: when its first event was written, in milliseconds.
        found: how many different events of it are there.
        wanted: how many it has; None while its end is not known.
    """

    transaction: str
    since: int
    found: int
    wanted: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Where each part of a log may be cut.

    Args:
        upto: by part, exclusive.
        holders: the transactions that end it there, the oldest first.
    """

    upto: Mapping[int, int]
    holders: tuple[BlockingTransaction, ...] = ()


@dataclass(slots=True)
class _Seen:
    """What was read of a transaction; `last` is of events that were not there before."""

    at: int
    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    found: int = 0
    places: bytearray = field(default_factory=bytearray)

    def take(self, part: int, offset: int, order: int) -> None:
        byte, bit = order >> 3, 1 << (order & 7)
        if byte >= len(self.places) and 0 < order < PLACES:
            self.places.extend(bytes(byte + 1 + byte // 2 - len(self.places)))
        known = not 0 < order < PLACES or bool(self.places[byte] & bit)
        if not known:
            self.places[byte] |= bit
            self.found += 1
        self.first.setdefault(part, offset)
        if not known or part not in self.last:
            self.last[part] = offset


@dataclass(slots=True)
class _End:
    """An end: where it was first reported, when, and the greatest event counts reported with it.

    `events` are those of tables that are read here; `all` of them count where none is known by its name.
    """

    at: int
    when: int
    events: int
    all: int

    @property
    def wanted(self) -> int:
        return self.events or self.all


class Tally:
    """The transactions in spans of a log, as far as they were read.

    An event that comes again (a connector that restarts sends again what it is not sure of) is found by its place
    in its transaction. A transaction may have fewer events than its end says: some may lie before the beginning of the
    log, or were removed on the way. Its rest is not waited for once every part of the log has an event of a
    transaction that ended later: each part tells transactions in the order of their first ends. That holds only where
    all of these were read, back to before the connector last started.

    Args:
        starts: of each part, the first offset that is read.
        settled: the place in the topic of transactions up to which all that ended is below `starts`; None if unknown.
        begun: transactions that are below `starts`, whole or as far as can be.
        passing: whether the ends that were read begin long enough before the events.
    """

    def __init__(
        self, starts: Mapping[int, int], *, settled: int | None = None, begun: Iterable[str] = (), passing: bool = False
    ) -> None:
        self.starts = dict(starts)
        self._passing = passing
        self._settled = settled
        self._begun = tuple(begun)
        self._loose: dict[str, None] = dict.fromkeys(self._begun)
        self._seen: dict[str, _Seen] = {}
        self._ends: dict[str, _End] = {}
        self._past: dict[int, int] = {}
        self._read = -1

    def take(self, part: int, offset: int, member: Member, at: int) -> None:
        """An event, in the order of its part; `at` in milliseconds."""
        name = member.transaction
        if name and name not in self._loose:
            one = self._seen.get(name)
            if one is None:
                one = self._seen[name] = _Seen(at)
            one.take(part, offset, member.order)

    def end(self, at: int, ending: Ending, when: int, takes: Callable[[str], bool]) -> None:
        """The end of a transaction, at that place of the topic of transactions, and which tables are read here."""
        self._read = max(self._read, at)
        events = sum(count for table, count in ending.events.items() if takes(table))
        total = sum(ending.events.values())
        found = self._ends.setdefault(ending.transaction, _End(at, when, events, total))
        found.events, found.all = max(found.events, events), max(found.all, total)

    def forget(self, before: int) -> None:
        """Transactions that began before that moment, and whose end is not known, ended long ago."""
        for name, one in list(self._seen.items()):
            if name not in self._ends and one.at < before:
                self._done(name)

    def unended(self) -> bool:
        """Whether the end of a transaction that was read is not known."""
        return any(name not in self._ends for name in self._seen)

    def cut(self, upto: Mapping[int, int]) -> Cut:
        """The greatest cut up to there that has of each transaction all events or none."""
        edge = dict(upto)
        seen = {name: one for name, one in self._seen.items() if not self._was_settled(name)}
        short = [name for name, one in seen.items() if not self._counted(name, one)]
        held: dict[str, None] = {}
        while True:
            passed = self._passed(edge)
            broken = [name for name in short if not self._is_passed(name, passed) and _reaches(seen[name], edge)]
            held.update(dict.fromkeys(broken))
            lowered = _lowered(edge, broken, seen)
            if lowered == edge:
                holders = sorted((self._holder(name, seen[name]) for name in held), key=lambda each: each.since)
                return Cut(upto=edge, holders=tuple(holders))
            edge = lowered

    def least(self, within: Mapping[int, int]) -> Mapping[int, int]:
        """The smallest cut above the starts that has whole transactions alone, below a cut that has them, too."""
        seen = [one for name, one in self._seen.items() if not self._was_settled(name)]
        heads: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, one in enumerate(seen):
            for part, offset in one.first.items():
                heads[part].append((offset, number))
        for each in heads.values():
            each.sort()
        found = [
            _closed(part, self.starts, heads, seen) for part, end in within.items() if end > self.starts.get(part, end)
        ]
        return min(found, key=lambda each: sum(each.values()), default=dict(self.starts))

    def settle(self, upto: Mapping[int, int]) -> None:
        """Forgets whatever is whole below the greatest cut up to there: nothing above it depends on that."""
        edge = self.cut(upto).upto
        for name, one in list(self._seen.items()):
            if self._was_settled(name) or all(offset < edge[part] for part, offset in one.last.items()):
                self._done(name)
        self.starts.update(edge)
        patient = self._patient()
        for name, end in list(self._ends.items()):
            if end.when < patient and name not in self._seen and name not in self._loose:
                del self._ends[name]

    def settled(self, upto: Mapping[int, int]) -> tuple[int, tuple[str, ...]]:
        """The place in the topic of transactions up to which all that ended is below this cut, and who ended last.

        Returns:
            The place, and the latest transactions below the cut: those after the place, and those that are the first
            to be delivered again.
        """
        patient = self._patient()
        waiting, below = [], []
        for name, end in self._ends.items():
            one = self._seen.get(name)
            if self._was_settled(name):
                continue
            if name in self._loose or (one and all(offset < upto[part] for part, offset in one.last.items())):
                below.append((end.at, name))
            elif one or (end.events > 0 and end.when >= patient):
                waiting.append(end.at)
        before = -1 if self._settled is None else self._settled
        place = max(before, min(waiting) - 1 if waiting else self._read)
        latest = dict.fromkeys(name for _, name in sorted(below))
        return place, (*(name for name in self._begun if name not in latest), *latest)[-LATEST:]

    def _patient(self) -> int:
        return max((end.when for end in self._ends.values()), default=0) - PATIENCE

    def _done(self, name: str) -> None:
        one, end = self._seen.pop(name), self._ends.get(name)
        if end is not None:
            for part in one.first:
                self._past[part] = max(self._past.get(part, -1), end.at)
        self._loose[name] = None
        if len(self._loose) > REMEMBERED:
            oldest = next(iter(self._loose))
            del self._loose[oldest]
            self._ends.pop(oldest, None)

    def _was_settled(self, name: str) -> bool:
        """Whether an earlier load has all of it, so that its events are here for the second time."""
        end = self._ends.get(name)
        return end is not None and self._settled is not None and end.at <= self._settled

    def _counted(self, name: str, one: _Seen) -> bool:
        end = self._ends.get(name)
        return end is not None and one.found >= end.wanted

    def _passed(self, edge: Mapping[int, int]) -> dict[int, int]:
        """For each part, where the latest end was reported of a transaction that it has an event of."""
        passed = {part: self._past.get(part, -1) for part in edge}
        for name, one in self._seen.items():
            if (end := self._ends.get(name)) is not None:
                for part, offset in one.first.items():
                    if offset < edge[part]:
                        passed[part] = max(passed[part], end.at)
        return passed

    def _is_passed(self, name: str, passed: Mapping[int, int]) -> bool:
        end = self._ends.get(name)
        return self._passing and end is not None and all(latest > end.at for latest in passed.values())

    def _holder(self, name: str, one: _Seen) -> BlockingTransaction:
        end = self._ends.get(name)
        return BlockingTransaction(transaction=name, since=one.at, found=one.found, wanted=end.wanted if end else None)


def _reaches(one: _Seen, edge: Mapping[int, int]) -> bool:
    return any(offset < edge[part] for part, offset in one.first.items())


def _lowered(edge: Mapping[int, int], broken: Sequence[str], seen: Mapping[str, _Seen]) -> dict[int, int]:
    """The cut below these transactions, and below each that is cut in two by that."""
    found = dict(edge)
    tails: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for name, one in seen.items():
        for part, offset in one.last.items():
            tails[part].append((offset, name))
    for each in tails.values():
        each.sort()
    below = list(broken)
    while True:
        for name in below:
            for part, offset in seen[name].first.items():
                found[part] = min(found[part], offset)
        below = []
        for part, each in tails.items():
            kept = bisect_left(each, (found[part], ""))
            below += [name for _, name in each[kept:]]
            del each[kept:]
        if not below:
            return found


def _closed(
    part: int, starts: Mapping[int, int], heads: Mapping[int, list[tuple[int, int]]], seen: Sequence[_Seen]
) -> dict[int, int]:
    """The smallest cut that has the next event of a part, and every transaction whole that it has an event of."""
    found = {**starts, part: starts[part] + 1}
    taken = dict.fromkeys(heads, 0)
    more = True
    while more:
        more = False
        for each, waiting in heads.items():
            while taken[each] < len(waiting) and waiting[taken[each]][0] < found[each]:
                for other, offset in seen[waiting[taken[each]][1]].last.items():
                    found[other] = max(found[other], offset + 1)
                taken[each] += 1
                more = True
    return found
