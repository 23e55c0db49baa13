"""Takes turns between a backfill and the loads of its stream, so that only one of them works on the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tidegate.errors import LeaseHeld
from tidegate.registry.leases import Lease
from tidegate.registry.store import Registry

LONGEST = 600.0
POLL = 0.2


@contextmanager
def acquire(registry: Registry, uid: str, *, waits: Callable[[], bool]) -> Iterator[Lease]:
    """Waits for the stream's lease.

    Args:
        waits: asked whenever somebody else has it: whether that is worth waiting for.

    Raises:
        LeaseHeld: it is not, or it took too long.
    """
    deadline = time.monotonic() + LONGEST
    with ExitStack() as held:
        while True:
            try:
                lease = held.enter_context(registry.lease(uid))
                break
            except LeaseHeld:
                if time.monotonic() > deadline or not waits():
                    raise
                time.sleep(POLL)
        yield lease
