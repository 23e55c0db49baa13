"""The fingerprint "tg1" of a set of rows, by which source and table are compared, and its reference in Python.

Used by `verify`, by strategies, and as SQL functions in SQLite; the SQL of other engines is in `dialects/`. Must never
change for the same rows, because stored fingerprints are compared with new ones.

A row's text is its fields joined by `|`; a field is `~N` for NULL, else its canonical text with `~` written `~0` and
`|` written `~1`, so that no two different rows share a text. A fingerprint is the number of rows and the sums of the
four 32-bit quarters of the md5 of each row's text: independent of order, sensitive to duplicates, and additive over
disjoint sets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SPEC = "tg1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """Rows and four sums; equal on every engine that holds the same rows.

    Units: `rows` counts rows with multiplicity; each sum is below 2**32 times `rows`.
    """

    rows: int = 0
    s0: int = 0
    s1: int = 0
    s2: int = 0
    s3: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(
            rows=self.rows + other.rows,
            s0=self.s0 + other.s0,
            s1=self.s1 + other.s1,
            s2=self.s2 + other.s2,
            s3=self.s3 + other.s3,
        )

    def __str__(self) -> str:
        return f"{SPEC}:{self.rows}:{self.s0:x}:{self.s1:x}:{self.s2:x}:{self.s3:x}"

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """The inverse of `str()`.

        Raises:
            ValueError: another specification or a damaged text.

        Example:
            >>> Fingerprint.parse("tg1:1:a:b:c:d").s3
            13
        """
        spec, rows, *sums = text.split(":")
        if spec != SPEC or len(sums) != 4:
            raise ValueError(f"not a {SPEC} fingerprint: {text!r}")
        return cls.of_sums([rows, *(int(value, 16) for value in sums)])

    @classmethod
    def of_sums(cls, values: Sequence[int | str | None]) -> Fingerprint:
        """From one result row of the engines' SQL: rows, s0 … s3, as numbers or texts; NULL sums are 0."""
        rows, s0, s1, s2, s3 = (int(value or 0) for value in values)
        return cls(rows=rows, s0=s0, s1=s1, s2=s2, s3=s3)

    @classmethod
    def of_texts(cls, texts: Iterable[str]) -> Fingerprint:
        """The reference: of the row texts given.

        Example:
            >>> Fingerprint.of_texts(["a", "a"]) == Fingerprint.of_texts(["a"]) + Fingerprint.of_texts(["a"])
            True
        """
        rows = s0 = s1 = s2 = s3 = 0
        for text in texts:
            digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
            rows += 1
            s0 += int.from_bytes(digest[0:4])
            s1 += int.from_bytes(digest[4:8])
            s2 += int.from_bytes(digest[8:12])
            s3 += int.from_bytes(digest[12:16])
        return cls(rows=rows, s0=s0, s1=s1, s2=s2, s3=s3)


def row_text(fields: Iterable[str | None]) -> str:
    """The text of one row whose fields are given as canonical texts.

    Example:
        >>> row_text(["a|b", None, "~"])
        'a~1b|~N|~0'
    """
    return "|".join("~N" if field is None else field.replace("~", "~0").replace("|", "~1") for field in fields)
