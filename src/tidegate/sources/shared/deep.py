"""Room for documents as deep as Spark reads them, which is deeper than Python's own limit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

Found = TypeVar("Found")

LEVELS = 1_000
"""How deep Spark reads a document."""
_ONE_AT_A_TIME = Lock()  # the limit is that of the whole process


def deep(work: Callable[[], Found]) -> Found:
    """What `work` returns; where Python's limit ends it, it is repeated with room for `LEVELS` levels.

    Args:
        work: takes at most four calls a level.

    Raises:
        ValueError: more levels.
    """
    try:
        return work()
    except RecursionError:
        pass
    with _ONE_AT_A_TIME:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(before + 4 * LEVELS)
        try:
            return work()
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        finally:
            sys.setrecursionlimit(before)
