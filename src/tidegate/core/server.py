"""Which server answers at a connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Ask = Callable[[str], Sequence[Sequence[Any]]]
"""The rows of one statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What answers at a connection.

    Args:
        product: as its makers call it.
        version: in full, as the server says it.
        major: the part of the version that a certificate is for, such as `15` or `10.11`.
    """

    product: str
    version: str
    major: str

    @classmethod
    def of(cls, product: str, version: object, *, numbers: int = 1) -> Server:
        """One whose release series are told apart by the first numbers of their versions."""
        text = str(version).strip()
        return cls(product=product, version=text, major=".".join(re.findall(r"\d+", text)[:numbers]))
