"""Converts bytes to numbers in Spark SQL, which has no function for it, by inverting Spark's `hash`.

Used for the fingerprint. The number is that of the bytes in big-endian order, and no product exceeds 64 bits.

Spark's `hash` of four bytes is Murmur3 with seed 42. None of its steps loses a bit, so each can be inverted, the last
one first. Parsing the digest's hex with `conv` takes three times as long.

Source: A. Appleby, MurmurHash3 (`MurmurHash3_x86_32`); Spark's `Murmur3_x86_32.hashUnsafeBytes`.
"""

from __future__ import annotations

SEED, LENGTH, BITS = 42, 4, 2**32 - 1


def hashed(sql: str, first: int) -> str:
    """The hash of four bytes of a binary expression, from the position `first` on, counted from 1."""
    return f"CAST(hash(substr({sql}, {first}, {LENGTH})) AS bigint) & {BITS}"


def inverse_steps(name: str) -> tuple[str, ...]:
    """From the hash to the number of the four bytes: expressions over the result of the one before, called `name`."""

    def times(factor: int, sql: str) -> str:
        return f"(({sql}) * {_inverse(factor)}) & {BITS}"

    def turned(bits: int) -> str:
        return f"shiftright({name}, {bits}) | (shiftleft({name}, {32 - bits}) & {BITS})"

    # The hash takes the bytes from the right.
    shifted = (f"{way}({name}, {bits})" for way, bits in (("right", 24), ("right", 8), ("left", 8), ("left", 24)))
    reversed_bytes = (f"(shift{sql} & {0xFF << 8 * place})" for place, sql in enumerate(shifted))
    return (
        times(0xC2B2AE35, f"{name} ^ shiftright({name}, 16)"),
        times(0x85EBCA6B, f"{name} ^ shiftright({name}, 13) ^ shiftright({name}, 26)"),
        times(5, f"({name} ^ shiftright({name}, 16) ^ {LENGTH}) - {0xE6546B64}"),
        times(0x1B873593, f"({turned(13)}) ^ {SEED}"),
        times(0xCC9E2D51, turned(15)),
        " | ".join(reversed_bytes),
    )


def _inverse(factor: int) -> int:
    """What takes a multiplication modulo 2**32 back; of both signs the one whose product with 32 bits fits 64.

    Example:
        >>> _inverse(5) * 5 % 2**32
        1
    """
    inverse = pow(factor, -1, 2**32)
    return inverse - 2**32 if inverse >= 2**31 else inverse
