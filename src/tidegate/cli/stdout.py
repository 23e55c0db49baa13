"""Keeps stdout for a command alone while code of others, such as a source of dlt, runs in its process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO


@contextmanager
def reserved() -> Iterator[TextIO]:
    """The stream that is stdout; what others print meanwhile, and the processes that they start, goes to stderr."""
    before = sys.stdout
    with _descriptor(before) as own:
        sys.stdout = sys.stderr
        try:
            yield own
        finally:
            sys.stdout = before


@contextmanager
def _descriptor(before: TextIO) -> Iterator[TextIO]:
    try:
        number = before.fileno()
    except (OSError, ValueError):  # closed, or no file
        number = -1
    if number != 1:
        yield before
        return
    before.flush()
    kept = os.dup(1)
    own = os.fdopen(kept, "w", encoding=before.encoding, errors=before.errors)
    os.dup2(2, 1)
    try:
        yield own
    finally:
        os.dup2(kept, 1)
        with suppress(OSError):  # the terminal may be gone
            own.close()
