"""Random transactions, told by a connector that crashes and tells again: no cut has one of them by half, none waits."""

from __future__ import annotations

import random

from tidegate.core.transactions import Ending, Member, Tally

MINE, OTHER = "public.orders", "public.items"


class Connector:
    """What it wrote of random transactions: events into partitions, ends beside them; None is no event.

    Where it crashes, everything is written that it knows to be, and of what came after that each partition, and the
    topic of ends, has a beginning of its own; from there it tells again.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        parts = chance.randint(1, 3)
        self.transactions = [
            [chance.randrange(parts) if chance.random() < 0.8 else None for _ in range(chance.choice((1, 1, 2, 3, 6)))]
            for _ in range(chance.randint(1, 8))
        ]
        self.logs: dict[int, list[Member | None]] = {part: [] for part in range(parts)}
        self.ends: list[Ending] = []
        self._tell()

    def wanted(self, transaction: str) -> set[int]:
        return {n for n, part in enumerate(self.transactions[int(transaction)], start=1) if part is not None}

    def _tell(self) -> None:
        told = [
            each
            for number, events in enumerate(self.transactions)
            for each in (*((number, n, part) for n, part in enumerate(events, start=1)), (number, 0, "ends"))
        ]
        start = 0
        while True:
            stop = len(told) if self.chance.random() < 0.4 else self.chance.randint(start, len(told))
            known = stop if stop == len(told) else self.chance.randint(start, stop)
            written = {queue: self.chance.randint(known, stop) for queue in (*self.logs, "ends")}
            for place, each in enumerate(told[start:stop], start=start):
                if each[2] is not None and (place < known or place < written[each[2]]):
                    self._write(*each)
            if stop == len(told):
                return
            start = known

    def _write(self, number: int, order: int, queue: int | str) -> None:
        if queue == "ends":
            events = self.transactions[number]
            counts = {MINE: sum(part is not None for part in events), OTHER: sum(part is None for part in events)}
            self.ends.append(Ending(str(number), {table: count for table, count in counts.items() if count}))
            return
        self.logs[queue].append(Member(str(number), order))
        if self.chance.random() < 0.1:
            self.logs[queue].append(None)


class Reader:
    """Loads, each of what is visible by then and cut so that no transaction is cut."""

    def __init__(self, connector: Connector) -> None:
        self.connector = connector
        self.before = dict.fromkeys(connector.logs, 0)
        self.settled: tuple[int, tuple[str, ...]] | None = None
        self.applied: dict[str, set[int]] = {}

    def load(self, ends: dict[int, int], told: int, *, far: bool, least: bool) -> None:
        place, latest = self.settled or (None, ())
        tally = Tally(self.before, settled=place, begun=latest, passing=far)
        for at in range(0 if place is None or far else place + 1, told):
            tally.end(at, self.connector.ends[at], at, lambda table: table == MINE)
        half = {part: self.connector.chance.randint(start, ends[part]) for part, start in self.before.items()}
        self._take(tally, self.before, half)
        if settles := self.connector.chance.random() < 0.5:
            tally.settle(half)
        self._take(tally, half, ends)
        upto = dict(tally.cut(ends).upto)
        if least and upto != self.before and not settles:
            fewest = dict(tally.least(upto))
            assert self.before != fewest
            assert all(fewest[part] <= end for part, end in upto.items())
            upto = fewest
        self._apply(upto, ends)
        if upto != self.before:
            self.settled = tally.settled(upto)
        self.before = upto

    def _take(self, tally: Tally, starts: dict[int, int], stops: dict[int, int]) -> None:
        for part, stop in stops.items():
            for offset in range(starts[part], stop):
                if (member := self.connector.logs[part][offset]) is not None:
                    tally.take(part, offset, member, offset)

    def _apply(self, upto: dict[int, int], ends: dict[int, int]) -> None:
        for part, end in upto.items():
            assert self.before[part] <= end <= ends[part]
            for member in self.connector.logs[part][self.before[part] : end]:
                if member is not None:
                    self.applied.setdefault(member.transaction, set()).add(member.order)


def test_no_transaction_is_read_by_half_and_none_waits_for_ever():
    for seed in range(600):
        chance = random.Random(seed)
        connector = Connector(chance)
        reader = Reader(connector)
        seen, told = dict(reader.before), 0
        for step in range(30):
            for part, log in connector.logs.items():
                seen[part] = len(log) if step > 25 else chance.randint(seen[part], len(log))
            told = len(connector.ends) if step > 25 else chance.randint(told, len(connector.ends))
            reader.load(seen, told, far=step > 25 or chance.random() < 0.3, least=chance.random() < 0.3)
            for transaction, orders in reader.applied.items():
                assert orders == connector.wanted(transaction), f"seed {seed}: {transaction} by half"
        left = {part: len(log) - reader.before[part] for part, log in connector.logs.items()}
        assert not any(left.values()), f"seed {seed}: {left} wait for ever"
