"""Finds how far the partitions of a topic can be read without splitting a transaction, from its transaction topic.

Keeps only open transactions in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from tidegate.core.display import counted, done_by
from tidegate.core.ports.envelope import TransactionMarkers
from tidegate.core.transactions import PATIENCE, BlockingTransaction, Cut, Ending, Tally
from tidegate.errors import ConfigError, SourceError
from tidegate.sources.change_log.topic import brokers as kafka

FAR = 3_600_000
"""Milliseconds around an event within which its transaction's end is looked for where it is not found beside it."""
NEAR = 60_000
"""Milliseconds for which a transaction may be open before its end is looked for so far."""
BEFORE = 1000
"""Messages of a partition below a position that nobody knows to be whole, by which transactions are known to be cut."""
SETTLED = 50_000
"""Events after which whatever is whole is forgotten."""


class Scanning(Protocol):
    """The brokers, as far as they are asked here."""

    def topic(self, name: str) -> kafka.TopicOffsets | None:
        """See `Brokers`."""

    def scan(self, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[list[kafka.ReadMessage]]:
        """See `Brokers`."""

    def offset_at(self, topic: str, moment: int) -> int | None:
        """See `Brokers`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRead:
    """What is to be read of a topic.

    Args:
        topic, transactions: the names of both topics.
        found: the topic as it is now.
        before: the next offset of each partition.
        known: what the position says of transactions.
        share: the ends of a load of at most so many events; all there are for None.
        most: of events; None for no limit.
    """

    topic: str
    transactions: str
    markers: TransactionMarkers
    found: kafka.TopicOffsets
    before: Mapping[int, int]
    known: Mapping[str, Any] | None
    share: Callable[[int | None], Mapping[int, int]]
    most: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeTransactions:
    """The answer.

    Args:
        upto: the ends of what is read, exclusive.
        state: what the position says of transactions then.
        held: whether what is left waits for the rest of a transaction.
        notes: which one that is, and what was taken in spite of a limit.
    """

    upto: Mapping[int, int]
    state: Mapping[str, Any]
    held: bool = False
    notes: tuple[str, ...] = ()


def whole(brokers: Scanning, ask: TopicRead) -> WholeTransactions:
    """The ends that have of each transaction all events or none.

    Raises:
        SourceError: there is no such topic of transactions.
        ConfigError: it has several partitions.
    """
    marks = brokers.topic(ask.transactions)
    if marks is None:
        raise SourceError(
            f"there is no topic {ask.transactions}, which should report transactions",
            hint="Set `provide.transaction.metadata=true` in the connector, correct `source: {transactions: …}`, or "
            "remove it; then run again.",
        )
    if len(marks.ends) != 1:
        raise ConfigError(
            f"topic {ask.transactions} has {counted(len(marks.ends), 'partition')}, but the order of "
            f"transactions is known only "
            f"with one",
            hint="Recreate it with one partition (`topic.creation.default.partitions=1` in the connector).",
        )
    near = _Search(brokers, ask, marks)
    found = near.cut()
    if found.upto == ask.before and found.holders and _age(found.holders[0]) > NEAR:
        near = _Search(brokers, ask, marks, far=True)
        found = near.cut()
    ended, latest = near.tally.settled(found.upto)
    state = {"topic": marks.topic, "ended": ended, "latest": list(latest)}
    return WholeTransactions(upto=found.upto, state=state, held=bool(found.holders), notes=tuple(near.notes(found)))


@dataclass(kw_only=True)
class _Open:
    """The topic of transactions, read as far as it was needed."""

    batches: Iterator[list[kafka.ReadMessage]]
    latest: int = 0


@dataclass
class _Search:
    """One pass over the events that wait, and over the ends of their transactions."""

    brokers: Scanning
    ask: TopicRead
    marks: kafka.TopicOffsets
    far: bool = False
    tally: Tally = field(init=False)
    larger: int | None = None
    without_transaction: int = 0
    _ends: _Open | None = None
    _latest: int = 0
    _settled: int | None = None
    _oldest: int | None = None

    def __post_init__(self) -> None:
        known = self.ask.known or {}
        self._settled = int(known["ended"]) if known.get("topic") == self.marks.topic else None
        begun = self._begun() if self._settled is None else known["latest"]
        self.tally = Tally(self.ask.before, settled=self._settled, begun=begun, passing=self.far)

    def cut(self) -> Cut:
        """The greatest one within the load's limit, else the smallest that takes anything."""
        ask = self.ask
        read, most = dict(ask.before), ask.most
        while True:
            share = dict(ask.share(most))
            self._read({part: (read[part], end) for part, end in share.items()})
            read = {part: max(read[part], end) for part, end in share.items()}
            found = self.tally.cut(read)
            everything = read == dict(ask.found.ends)
            if found.upto != ask.before or everything:
                break
            most = most * 2 if most is not None else None
        if most == ask.most or found.upto == ask.before:
            return found if everything else Cut(upto=found.upto)  # who ends a share ends no log
        least = self.tally.least(found.upto)
        size = sum(least.values()) - sum(ask.before.values())
        self.larger = size if ask.most is not None and size > ask.most else None
        return Cut(upto=least)

    def notes(self, found: Cut) -> Iterator[str]:
        """What people should know of the answer."""
        if self.larger is not None:
            yield (
                f"one transaction of {counted(self.larger, 'message')} exceeds max_events ({self.ask.most}) and is "
                f"loaded as a whole"
            )
        if found.holders:
            behind = sum(self.ask.found.ends.values()) - sum(found.upto.values())
            yield f"{_blocking_text(found.holders[0])}; {counted(behind, 'message', 'are')} waiting for it"
        if self.without_transaction:
            yield (
                f"{counted(self.without_transaction, 'event', 'have')} no transaction, so their transactions may be "
                "read in part (provide.transaction.metadata=true in the connector)"
            )

    def _read(self, spans: Mapping[int, tuple[int, int]]) -> None:
        number = 0
        read = {part: start for part, (start, _) in spans.items()}
        for batch in self.brokers.scan(self.ask.topic, spans):
            members = self.ask.markers.members([each.message for each in batch])
            for each, member in zip(batch, members, strict=True):
                read[each.part] = each.offset + 1
                self._latest = max(self._latest, each.at)
                if member is not None:
                    self.without_transaction += not member.transaction
                    self.tally.take(each.part, each.offset, member, each.at)
            self._read_ends(batch)
            number += len(batch)
            if number >= SETTLED:
                self.tally.settle({**self.tally.starts, **read})
                number = 0

    def _read_ends(self, batch: list[kafka.ReadMessage]) -> None:
        """As many ends as the transactions that were read so far have, as long as they may still come."""
        if self._ends is None:
            self._ends = _Open(batches=self._opened(min((each.at for each in batch), default=0)))
        patience = FAR if self.far else PATIENCE
        while self.tally.unended() and self._ends.latest <= self._latest + patience:
            ends = next(self._ends.batches, None)
            if ends is None:
                break
            self._ends.latest = max(each.at for each in ends)
            endings = self.ask.markers.endings([each.message for each in ends])
            for each, ending in zip(ends, endings, strict=True):
                if ending is not None:
                    self.tally.end(each.offset, ending, each.at, self._takes(ending))
        if self._oldest is not None and self.tally.unended():
            self.tally.forget(self._oldest)

    def _opened(self, earliest: int) -> Iterator[list[kafka.ReadMessage]]:
        """The ends from where those of the first events may be."""
        ((part, begin),) = self.marks.begins.items()
        if self._settled is not None and not self.far:
            start = max(begin, self._settled + 1)
        else:
            found = self.brokers.offset_at(self.ask.transactions, earliest - (FAR if self.far else PATIENCE))
            start = max(begin, self.marks.ends[part] if found is None else found)
        if begin > 0 and begin < self.marks.ends[part]:
            first = next(self.brokers.scan(self.ask.transactions, {part: (begin, begin + 1)}), None)
            self._oldest = first[0].at if first else None
        return self.brokers.scan(self.ask.transactions, {part: (start, self.marks.ends[part])})

    def _takes(self, ending: Ending) -> Callable[[str], bool]:
        """Which tables are read here: the one that the topic is named for, else those that the envelope takes."""
        own = {table for table in ending.events if self.ask.topic.endswith(f".{table}")}
        return own.__contains__ if own else self.ask.markers.takes

    def _begun(self) -> Iterator[str]:
        begins = self.ask.found.begins
        spans = {part: (max(begins[part], next_ - BEFORE), next_) for part, next_ in self.ask.before.items()}
        for batch in self.brokers.scan(self.ask.topic, spans):
            members = self.ask.markers.members([each.message for each in batch])
            yield from (each.transaction for each in members if each is not None)


def _age(holder: BlockingTransaction) -> int:
    return int(datetime.now(UTC).timestamp() * 1000) - holder.since


def _blocking_text(holder: BlockingTransaction) -> str:
    since = datetime.fromtimestamp(holder.since / 1000, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = (
        "its end has not been reported yet"
        if holder.wanted is None
        else f"{holder.found:,} of its {counted(holder.wanted, 'event')} {done_by(holder.wanted, 'have')} arrived"
    )
    return f"transaction {holder.transaction} holds back the end of the log since {since}: {about}"
