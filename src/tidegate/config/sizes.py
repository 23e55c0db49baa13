"""Parses sizes in bytes such as `32MB`.

A number without a unit is an error.
"""

from __future__ import annotations

import re

from tidegate.core.policies.maintenance import Bytes

UNITS = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PATTERN = r"^\d+(?:\.\d+)? ?(?:B|kB|KB|MB|GB|KiB|MiB|GiB)$"


def size(value: object) -> Bytes:
    """A number of bytes from a text such as `32MB` or `1 GiB`.

    Raises:
        ValueError: no number, no unit or an unknown one.

    Example:
        >>> size("1.5kB")
        1500
    """
    if isinstance(value, Bytes):
        return value
    text = value.strip() if isinstance(value, str) else str(value)
    if not re.fullmatch(PATTERN, text, re.ASCII):
        raise ValueError("must be a size: a number and its unit, such as 500kB, 32MB, 128MiB or 1GB")
    number, unit = re.findall(r"[\d.]+|[A-Za-z]+", text)
    return Bytes(float(number) * UNITS[unit])
