"""Decides how the partitions of a stream are kept: one row each, as they were loaded.

Called by store inside its transactions. Must never be taken for the truth: the table's position vouches for it or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.slices import WHOLE_LABEL
from tidegate.errors import RegistryError
from tidegate.registry import streams
from tidegate.registry.tables import checksums


def ledger(connection: Connection, uid: str) -> Ledger | None:
    """The partitions of the stream as they were loaded; None when none is kept.

    Raises:
        RegistryError: one of them cannot be read.
    """
    object_id = streams.find(connection, uid)
    columns = (checksums.c.extract_group_id, checksums.c.partition_checksum, checksums.c.quick_checksum)
    rows = connection.execute(select(*columns).where(checksums.c.object_id == object_id)).all()
    try:
        entries = {
            label: Entry(fingerprint=Fingerprint.parse(checksum), quick=quick) for label, checksum, quick in rows
        }
    except ValueError as error:
        raise RegistryError(
            f"a partition checksum of stream {uid} cannot be read", hint="Run `tidegate state repair STREAM`."
        ) from error
    return Ledger(entries=entries) if entries else None


def keep(connection: Connection, uid: str, method: Mapping[str, Any], found: Ledger, now: datetime) -> None:
    """These partitions and no others; those that are kept already stay older than they are."""
    object_id = streams.lock(connection, uid)
    connection.execute(
        delete(checksums).where(
            checksums.c.object_id == object_id, checksums.c.extract_group_id.not_in(list(found.entries))
        )
    )
    rows = [
        {
            "extract_group_id": label,
            "partition_checksum": str(entry.fingerprint),
            "partition_row_count": entry.fingerprint.rows,
            "quick_checksum": entry.quick,
            "source_filter": None,
            "target_filter": None,
        }
        for label, entry in found.entries.items()
    ]
    _put(connection, object_id, method, rows, now)


def apply(connection: Connection, object_id: int, plan: Mapping[str, Any], now: datetime) -> None:
    """The partitions that a load's plan names are in the table now as the source held them."""
    changes = plan["changes"]
    parts = changes.get("parts") or ()
    gone = [_label(part) for part in parts if not part["fingerprint"]["rows"]]
    if gone:
        here = (checksums.c.object_id == object_id) & checksums.c.extract_group_id.in_(gone)
        connection.execute(delete(checksums).where(here))
    rows = [
        {
            "extract_group_id": _label(part),
            "partition_checksum": str(Fingerprint(**part["fingerprint"])),
            "partition_row_count": part["fingerprint"]["rows"],
            "quick_checksum": part["quick"],
            "source_filter": part["source_filter"],
            "target_filter": part["target_filter"],
        }
        for part in parts
        if part["fingerprint"]["rows"]
    ]
    _put(connection, object_id, changes["state"].get("method"), rows, now)


def _put(connection: Connection, object_id: int, method: Any, rows: Sequence[dict[str, Any]], now: datetime) -> None:
    known = set(connection.scalars(select(checksums.c.extract_group_id).where(checksums.c.object_id == object_id)))
    facts = {"object_id": object_id, "checksum_method": method, "updated_ts": now}
    new = [{**row, **facts, "created_ts": now} for row in rows if row["extract_group_id"] not in known]
    old = [{**row, **facts} for row in rows if row["extract_group_id"] in known]
    if new:
        connection.execute(insert(checksums), new)
    for row in old:
        here = (checksums.c.object_id == object_id) & (checksums.c.extract_group_id == row["extract_group_id"])
        connection.execute(update(checksums).where(here).values(row))


def _label(part: Mapping[str, Any]) -> str:
    return str(part["slice"].get("label", WHOLE_LABEL))
