"""Runs a function in a thread beside a block of code, and joins it at the end of the block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def meanwhile(name: str, work: Callable[..., object], *given: object) -> Iterator[None]:
    """Does something beside the block; what it raises is raised at the block's end."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix=name) as pool:
        done = pool.submit(work, *given)
        yield
        done.result()
