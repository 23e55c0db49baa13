"""Recommends a better partition size for the checksum strategy."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.display import counted
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps

GOOD_ROWS = (1_000_000, 10_000_000)
MANY_PARTITIONS = 100
PERIODS = tuple(Period)


def advice(grouping: Grouping, rows: Sequence[int]) -> tuple[str, ...]:
    """One sentence where the partitions to load are too large, or many and small; else nothing.

    Example:
        >>> advice(Steps(column="id", width=100_000_000), [60_000_000])
        ('a partition has 60,000,000 rows; 1,000,000 to 10,000,000 are best: set modulus: 8333333',)
    """
    least, most = GOOD_ROWS
    greatest, usual = max(rows), sorted(rows)[len(rows) // 2]
    best = f"{least:,} to {most:,} are best"
    if greatest > most:
        better = smaller(grouping, greatest)
        return (f"a partition has {counted(greatest, 'row')}; {best}: {better}",)
    if len(rows) > MANY_PARTITIONS and usual < least // 10:
        better = larger(grouping, usual)
        return (f"{counted(len(rows), 'partition')} of about {counted(usual, 'row')}; {best}: {better}",)
    return ()


def smaller(grouping: Grouping, rows: int, most: int = GOOD_ROWS[1]) -> str:
    """What to set so that a partition of that many rows becomes several of at most that many."""
    good = min(most, GOOD_ROWS[1])
    match grouping:
        case Steps(width=width):
            return f"set modulus: {max(1, width * good // 2 // rows)}"
        case Periods(period=period) if period is not Period.HOUR:
            return f"set period: {PERIODS[PERIODS.index(period) - 1]}"
        case Prefixes(length=length):
            return f"set length: {length + 1}"
        case _:
            return "set method: by_integer or by_date with a column that spreads the rows"


def larger(grouping: Grouping, rows: int) -> str:
    """What to set so that several partitions of that many rows become one."""
    match grouping:
        case Steps(width=width):
            return f"set modulus: {width * GOOD_ROWS[0] * 2 // max(1, rows)}"
        case Periods(period=period) if period is not Period.YEAR:
            return f"set period: {PERIODS[PERIODS.index(period) + 1]}"
        case Prefixes(length=length) if length > 1:
            return f"set length: {length - 1}"
        case _:
            return "use a column that spreads the rows less"
