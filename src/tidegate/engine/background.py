"""Work beside a stage, in a thread of its own that is over when the block is."""

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
