"""Hash buckets and row digests, with which `verify` and key comparison narrow down which rows differ."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How closely the two sides are compared."""

    COUNTS = "counts"
    CHECKSUM = "checksum"
    ROWS = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Buckets that rows are spread over by their key, or by all they hold where there is no key.

    Args:
        count: how many; those of a multiple of it lie within them.
        within: only the rows of these buckets of a smaller spread; None for all rows.
        among: the smaller spread's `count`.
        keys: the fingerprints are of keys alone.
        width: of keys that are one integer: the buckets are ranges of so many numbers, named by the end nearest to
            zero, and the fingerprint of each is the number of its keys and the sum of their distances from that end.
    """

    count: int
    within: tuple[str, ...] | None = None
    among: int = 1
    keys: bool = False
    width: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigest:
    """One row as a comparison sees it.

    Args:
        key: canonical texts of its key; empty without a key.
        digest: the md5 of its text.
        inside: it lies in the slice that was asked for.
    """

    key: tuple[str | None, ...]
    digest: str
    inside: bool = True
