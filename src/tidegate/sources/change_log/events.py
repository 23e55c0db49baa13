"""One event of a log that is decoded here, before Spark: of a replication slot, or of SQL Server's own logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class Event(NamedTuple):
    """See `core.ports.capabilities.Log` for what the parts are.

    Args:
        values: in the order of the columns, each as `spool.Carried` says it travels.
        not_sent: columns of a row whose key changed that were stored apart and not sent, also in `unknown`: nothing in
            the log tells them under the new key.
    """

    order: str
    deleted: bool
    clears: bool
    values: Sequence[Any]
    unknown: tuple[str, ...]
    refused: str | None
    raw: str | None
    origin: str
    not_sent: tuple[str, ...] = ()
