"""Has the database keep its logs of the kit's table, where it can, and undoes that."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tidegate.errors import TidegateError
from tidegate_scenarios.certification import Scratch, TableLog
from tidegate_scenarios.streams import ORDERS
from tidegate_scenarios.trial import reason_of

POLL = 1.0  # seconds


def start(logs: Sequence[TableLog], scratch: Scratch, instance: str) -> dict[str, str]:
    """By name of a log why it cannot be kept."""
    found = {}
    for log in logs:
        try:
            log.start(scratch, ORDERS, instance)
        except TidegateError as error:
            found[log.name] = reason_of(error)
    return found


def wait(logs: Sequence[TableLog], scratch: Scratch, instance: str) -> dict[str, str]:
    """By name of a log why no load can begin, for as long as it may be behind; rows have changed before."""
    found = {}
    for log in logs:
        began = time.monotonic()
        while (reason := log.pending(scratch, instance)) and time.monotonic() - began < log.behind:
            time.sleep(POLL)
        if reason:
            found[log.name] = reason
    return found


def stop(logs: Sequence[TableLog], scratch: Scratch, instance: str) -> tuple[str, ...]:
    """What could not be undone, of this certification or of one that was killed."""
    return tuple(each for log in logs for each in log.stop(scratch, ORDERS, instance))
