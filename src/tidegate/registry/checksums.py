"""Stores the partition ledger of a stream: one row per partition, as it was loaded.

The ledger counts only if the table's position vouches for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.position_state import described_method, method_of, without_lookback
from tidegate.core.slices import WHOLE_LABEL
from tidegate.errors import RegistryError
from tidegate.registry import streams
from tidegate.registry.tables import checksums, object_info

NO_FILTER = (None, None)


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


def keep(
    connection: Connection,
    uid: str,
    method: Mapping[str, Any],
    measured: tuple[Ledger, Mapping[str, tuple[str, str]]],
    now: datetime,
) -> None:
    """These partitions (with their filters by label) and no others; a row that says so already stays as it is."""
    found, filters = measured
    object_id = streams.lock(connection, uid)
    stored = _stored(connection, object_id)
    _drop(connection, object_id, [label for label in stored if label not in found.entries])
    rows = [
        {
            "extract_group_id": label,
            "partition_checksum": str(entry.fingerprint),
            "partition_row_count": entry.fingerprint.rows,
            "quick_checksum": entry.quick,
            "source_filter": filters.get(label, NO_FILTER)[0],
            "target_filter": filters.get(label, NO_FILTER)[1],
        }
        for label, entry in found.entries.items()
        if stored.get(label) != (str(entry.fingerprint), method)
    ]
    _put(connection, object_id, method, rows, now)
    if without_lookback(_described(connection, object_id)) != method:
        _describe(connection, object_id, method)


def keep_quick(connection: Connection, uid: str, hashes: Mapping[str, str]) -> None:
    """The quick hash of partitions that are as they were; nothing else of them changes."""
    object_id = streams.lock(connection, uid)
    rows = [{"label": label, "quick_checksum": quick} for label, quick in hashes.items()]
    connection.execute(update(checksums).where(*_at(object_id)), rows)


def apply(connection: Connection, object_id: int, plan: Mapping[str, Any], now: datetime) -> None:
    """The partitions that a load's plan names are in the table now as the source held them."""
    changes = plan["changes"]
    method = method_of(changes["state"])
    if method is None:
        _forget(connection, object_id)
        return
    parts = changes.get("parts") or ()
    _drop(connection, object_id, [_label(part) for part in parts if not part["fingerprint"]["rows"]])
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
    _put(connection, object_id, method, rows, now)
    _describe(connection, object_id, described_method(changes["state"]))


def _put(
    connection: Connection, object_id: int, method: Mapping[str, Any], rows: Sequence[dict[str, Any]], now: datetime
) -> None:
    stored = _stored(connection, object_id)
    # Partitions of another method overlap with these, and the table is compared by these from now on.
    _drop(connection, object_id, [label for label, (_, of) in stored.items() if of != method])
    known = {label for label, (_, of) in stored.items() if of == method}
    facts = {"object_id": object_id, "checksum_method": method, "updated_ts": now}
    new = [{**row, **facts, "created_ts": now} for row in rows if row["extract_group_id"] not in known]
    old = [{**row, **facts, "label": row["extract_group_id"]} for row in rows if row["extract_group_id"] in known]
    if new:
        connection.execute(insert(checksums), new)
    if old:
        connection.execute(update(checksums).where(*_at(object_id)), old)


def _described(connection: Connection, object_id: int) -> Mapping[str, Any]:
    of_stream = object_info.c.object_id == object_id
    return connection.scalar(select(object_info.c.checksum_method).where(of_stream)) or {}


def _describe(connection: Connection, object_id: int, method: Mapping[str, Any] | None) -> None:
    connection.execute(update(object_info).where(object_info.c.object_id == object_id).values(checksum_method=method))


def _drop(connection: Connection, object_id: int, labels: Sequence[str]) -> None:
    if labels:
        connection.execute(delete(checksums).where(*_at(object_id)), [{"label": label} for label in labels])


def _forget(connection: Connection, object_id: int) -> None:
    """The stream is not loaded by partitions any more, if it ever was."""
    was = (object_info.c.object_id == object_id) & object_info.c.checksum_method.is_not(None)
    if connection.execute(update(object_info).where(was).values(checksum_method=None)).rowcount:
        connection.execute(delete(checksums).where(checksums.c.object_id == object_id))


def _at(object_id: int) -> tuple[ColumnElement[bool], ...]:
    """The partition whose label is the statement's parameter `label`."""
    return (checksums.c.object_id == object_id, checksums.c.extract_group_id == bindparam("label"))


def _stored(connection: Connection, object_id: int) -> dict[str, tuple[str, Any]]:
    columns = (checksums.c.extract_group_id, checksums.c.partition_checksum, checksums.c.checksum_method)
    rows = connection.execute(select(*columns).where(checksums.c.object_id == object_id))
    return {label: (checksum, method) for label, checksum, method in rows}


def _label(part: Mapping[str, Any]) -> str:
    return str(part["slice"].get("label", WHOLE_LABEL))
