"""Splits the integers between two bounds into conditions of equal width."""

from __future__ import annotations


def even(name: str, low: int | None, high: int | None, parts: int) -> tuple[str, ...]:
    """Disjoint conditions that together hold every number; none where there are fewer numbers than parts.

    Args:
        name: the quoted column.
        low, high: the least and the greatest number; None for no rows.

    Example:
        >>> even("id", 1, 10, 3)
        ('id < 4', 'id >= 4 AND id < 7', 'id >= 7')
    """
    if low is None or high is None or high - low < parts:
        return ()
    borders = [low + (high - low + 1) * part // parts for part in range(1, parts)]
    starts = ["", *(f"{name} >= {border}" for border in borders)]
    stops = [*(f"{name} < {border}" for border in borders), ""]
    return tuple(" AND ".join(filter(None, pair)) for pair in zip(starts, stops, strict=True))
