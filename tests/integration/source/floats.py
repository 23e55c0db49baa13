"""Floating-point numbers by which a database's own answers are tested: alike, or as close to each other as can be."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from tidegate.sources.database import Database

DOUBLES = [1.0, 0.1, 0.3, 1e15, 123456789012345.68, 1e300, 2.2250738585072014e-308, 5e-324, 2.0**53]
SINGLES = [1.0, 0.5, 16777215.0, 3.4028234663852886e38, 1.401298464324817e-45]
"""Single-precision numbers."""


def after(value: float) -> float:
    """The next number in single precision; below the greatest one the one before it."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    (found,) = struct.unpack("<f", struct.pack("<I", bits + (1 if value < 1e38 else -1)))
    return float(found)


def check_own_fingerprints(source: Database, put: Callable[[str, float | None], None], *, singles: bool = True) -> None:
    """Any change of a number is seen, however small; 0.0 and -0.0 are one value, as in every comparison of SQL.

    Args:
        source: a table of one row with the columns `d`, of double precision, and `s`, of single precision.
        put: sets a column of the row.
        singles: the database has single precision.
    """

    def asked() -> str:
        with source.probe() as probe:
            found = probe.own_fingerprint()
            assert found is not None
            return found

    def both(column: str, first: float | None, second: float | None) -> tuple[str, str]:
        put(column, first)
        one = asked()
        put(column, second)
        return one, asked()

    for value in DOUBLES:
        one, other = both("d", value, math.nextafter(value, math.inf))
        assert one != other, value
    for value in SINGLES if singles else ():
        one, other = both("s", value, after(value))
        assert one != other, value
    one, other = both("d", None, 0.0)
    assert one != other
    one, other = both("d", 0.0, -0.0)
    assert one == other
    one, other = both("d", 1.0, -1.0)
    assert one != other
