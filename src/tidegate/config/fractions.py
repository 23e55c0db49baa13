"""Parses shares such as `0.05` and `5%`.

A number above 1 without a percent sign is an error: 5 could mean either.
"""

from __future__ import annotations

import re
from decimal import Decimal

PATTERN = r"^\d+(?:\.\d+)? ?%$"


def fraction(value: object) -> float:
    """A share, from a number up to 1 or a text in percent.

    Raises:
        ValueError: a number above 1, or another text.

    Example:
        >>> fraction("5%"), fraction(0.05), fraction("1%"), fraction(1)
        (0.05, 0.05, 0.01, 1.0)
    """
    if isinstance(value, str) and re.fullmatch(PATTERN, value.strip(), re.ASCII):
        return float(Decimal(value.strip().rstrip("% ")) / 100)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a share: a number such as 0.05, or a percentage such as 5%")  # noqa: TRY004 - as pydantic wants it
    if value > 1:
        raise ValueError(f"{value} is more than 1, the whole: write {value}%, or {value / 100:g} for the same share")
    return float(value)
