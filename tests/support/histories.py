"""Random histories of a source table, and the log that a careless carrier makes of them.

Used by the tests of change logs. The truth is the simulated table itself, never a fold of the events.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

KEYS = 4
Event = dict[str, Any]


@dataclass(kw_only=True)
class Source:
    """A table of many histories side by side, each with keys of its own; what happens to it is written to a log.

    Every event has the commit's LSN, which the events of one transaction share, and its place in the transaction.
    """

    histories: int
    seed: int
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    lsn: int = 100
    truncates: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def truth(self) -> list[tuple[Any, ...]]:
        """The rows, sorted."""
        return sorted((key, row["name"], row["size"], row["big"]) for key, row in self.rows.items())

    def phase(self, transactions: int, *, truncate: float = 0.0) -> list[Event]:
        """The events of that many transactions a history, in the order of their commits."""
        events: list[Event] = []
        order = [history for history in range(self.histories) for _ in range(transactions)]
        self.random.shuffle(order)
        for step, history in enumerate(order):
            self.lsn += self.random.choice((1, 1, 7))
            if truncate and self.random.random() < truncate and step > len(order) // 4:
                self.rows.clear()
                self.truncates += 1
                events.append(self._event(0, "TRUNCATE", {"id": None}))
                continue
            for number in range(self.random.choice((1, 1, 1, 3))):
                events += self._change(history, 2 * number)
        return events

    def _change(self, history: int, number: int) -> list[Event]:
        key = history * KEYS + self.random.randrange(KEYS)
        row = self.rows.get(key)
        if row is None:
            self.rows[key] = self._row()
            return [self._event(number, "INSERT", {"id": key, **self.rows[key]})]
        what = self.random.choice(("update", "update", "update", "delete", "move"))
        if what == "delete":
            del self.rows[key]
            return [self._event(number, "DELETE", {"id": key})]
        if what == "move":
            other = history * KEYS + self.random.randrange(KEYS)
            if other in self.rows:
                return []
            self.rows[other] = self.rows.pop(key)
            end = self._event(number, "DELETE", {"id": key})
            return [end, self._event(number + 1, "INSERT", {"id": other, **self.rows[other]})]
        row.update(name=self.random.choice((None, f"n{self.random.random():.6f}")), size=self.random.randrange(10**6))
        event = {"id": key, **row}
        if self.random.random() < 0.3:
            row["big"] = event["big"] = f"b{self.random.random():.6f}"
            return [self._event(number, "UPDATE", event)]
        event["big"] = "not available"  # which must never be seen
        return [self._event(number, "UPDATE", event, unknown=["big"])]

    def _row(self) -> dict[str, Any]:
        size = self.random.randrange(10**6)
        return {"name": f"n{size}", "size": size, "big": f"b{self.random.random():.6f}"}

    def _event(self, number: int, operation: str, values: dict[str, Any], unknown: list[str] | None = None) -> Event:
        return {"operation": operation, "lsn": self.lsn, "place": number, "unknown": unknown or [], **values}


@dataclass(frozen=True, kw_only=True)
class Carrier:
    """Delivers events at least once, in no order."""

    random: random.Random
    within: int = 50
    twice: float = 0.1
    late: float = 0.05

    def deliver(self, events: list[Event]) -> list[Event]:
        """The same events: some several times, shuffled within some places, some much later than they should."""
        wanted = [*events, *(event for event in events if self.random.random() < self.twice)]
        places = {id(event): number for number, event in enumerate(events)}
        last = len(events)

        def place(event: Event) -> float:
            late = self.random.random() * last if self.random.random() < self.late else 0
            return places[id(event)] + self.random.random() * self.within + late

        return sorted(wanted, key=place)


def cut(events: list[Event], chance: random.Random, parts: int) -> Iterator[list[Event]]:
    """The events in that many batches, cut anywhere."""
    ends = sorted(chance.randrange(len(events) + 1) for _ in range(parts - 1))
    for first, last in zip([0, *ends], [*ends, len(events)], strict=True):
        yield events[first:last]


def lines(events: list[Event]) -> str:
    """One event a line."""
    return "".join(json.dumps(event) + "\n" for event in events)
