"""Finds the columns of a table in the tuples of its log, whatever they were called when these were written.

PostgreSQL numbers the columns of a table for good (`pg_attribute.attnum`): a renamed column keeps its number, an added
one gets a greater one, and that of a dropped one is not given again. The log lists the columns of its time in the order
of their numbers, but without the numbers. Which they are follows from the columns that the table had at the position
and those that it has now; where it does not, the log cannot be read.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from tidegate.core.log import RESYNC
from tidegate.errors import HistoryGone

DIGITS = 6
ABSENT = "-" * DIGITS
TRIED = 10_000
"""Ways to number the columns of a tuple that are looked at; only columns that came or went since make more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The columns of a table that its log carries.

    Args:
        names: by number; those that were dropped or are generated have none.
        last: the greatest number that was ever given.
    """

    names: Mapping[int, str]
    last: int

    def kept(self) -> str:
        """What a position keeps of them: six digits of a hash of each name, in the order of their numbers."""
        return "".join(_digest(self.names.get(number)) for number in range(1, self.last + 1))

    def replaced(self, kept: str) -> list[str]:
        """Names that were those of other columns: rows that no event brings have the values of these."""
        then = [kept[at : at + DIGITS] for at in range(0, len(kept), DIGITS)]
        return [
            name
            for number, name in self.names.items()
            if (digest := _digest(name)) in then and (number > len(then) or then[number - 1] != digest)
        ]


def places(logged: Sequence[str], now: Attributes, kept: str) -> Mapping[str, int]:
    """Where in the tuples of a relation the table's columns stand, by their names of now; without those added later.

    Args:
        logged: the names that the relation had.
        now: the table's columns after that.
        kept: what a position before that keeps of them.

    Raises:
        HistoryGone: more than one answer is possible.
    """
    ways = list(_ways(logged, now, kept))
    plain = [way for way in ways if all(_is_plain(logged[place], number, now, kept) for number, place in way.items())]
    found = {
        tuple((now.names[number], place) for number, place in way.items() if number in now.names)
        for way in plain or ways
    }
    if len(found) == 1:
        return dict(found.pop())
    raise HistoryGone(
        "columns of the table were dropped, added or replaced since the last load, and it is unknown which of them the "
        f"log means by {', '.join(logged)}",
        hint=RESYNC,
    )


def _ways(logged: Sequence[str], now: Attributes, kept: str) -> Iterator[Mapping[int, int]]:
    """Every way to number the columns of a tuple: the place of each number."""
    then = {at // DIGITS + 1 for at in range(0, len(kept), DIGITS) if kept[at : at + DIGITS] != ABSENT}
    last = len(kept) // DIGITS
    certain = then & set(now.names)
    # Dropped since, or added.
    possible = sorted((then | set(now.names) | set(range(last + 1, now.last + 1))) - certain)
    more = len(logged) - len(certain)
    if not 0 <= more <= len(possible) or comb(len(possible), more) > TRIED:
        return
    added = [number for number in now.names if number not in then]
    for chosen in combinations(possible, more):
        # What is there still, and was added before another, is there beside it.
        newest = max((number for number in chosen if number > last), default=0)
        if all(number in chosen for number in added if last < number < newest):
            yield {number: place for place, number in enumerate(sorted(certain.union(chosen)))}


def _is_plain(name: str, number: int, now: Attributes, kept: str) -> bool:
    """Whether a column has the name that it has now or had at the position."""
    at = DIGITS * (number - 1)
    return name == now.names.get(number) or _digest(name) == kept[at : at + DIGITS]


def _digest(name: str | None) -> str:
    return ABSENT if name is None else hashlib.sha256(name.encode()).hexdigest()[:DIGITS]
