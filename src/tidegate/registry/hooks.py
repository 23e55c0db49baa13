"""Stores for which load each hook of a stream last succeeded, and why one failed since.

Runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select, update

from tidegate.registry import streams
from tidegate.registry.database import upsert
from tidegate.registry.tables import hooks, object_info
from tidegate.registry.values import HookFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRecord:
    """What is known of a hook.

    Args:
        load_id: the load for which it last succeeded; None while it is unknown what it has seen: it never ran, or was
            begun for another load and did not succeed since.
        failed_at: when it first failed since it last succeeded; None if it did not.
    """

    load_id: str | None
    failed_at: datetime | None = None


def of_stream(connection: Connection, uid: str) -> dict[str, HookRecord]:
    """By the hook's identity."""
    of = select(hooks).join(object_info, object_info.c.object_id == hooks.c.object_id).where(object_info.c.uid == uid)
    return {
        row.hook_id: HookRecord(load_id=row.load_id, failed_at=row.failed_ts) for row in connection.execute(of).all()
    }


def failures(connection: Connection) -> dict[int, tuple[HookFailure, ...]]:
    """The hooks of every stream that failed when they were last tried, by its number; one query."""
    found: dict[int, tuple[HookFailure, ...]] = {}
    query = select(hooks).where(hooks.c.failed_ts.is_not(None)).order_by(hooks.c.object_id, hooks.c.failed_ts)
    for row in connection.execute(query):
        failure = HookFailure(hook=row.label, since=row.failed_ts, error=row.error or {})
        found[row.object_id] = (*found.get(row.object_id, ()), failure)
    return found


def begin(connection: Connection, uid: str, hook_id: str, label: str) -> None:
    """From here on it is unknown what the hook has seen, until `succeeded`."""
    object_id = streams.lock(connection, uid)
    row = {"object_id": object_id, "hook_id": hook_id, "label": label, "load_id": None}
    key = [hooks.c.object_id, hooks.c.hook_id]
    changed = {"label": label, "load_id": None}
    connection.execute(upsert(connection, hooks).values(row).on_conflict_do_update(index_elements=key, set_=changed))


def succeeded(connection: Connection, uid: str, hook_id: str, load_id: str, now: datetime) -> None:
    facts = {"load_id": load_id, "done_ts": now, "failed_ts": None, "error": None}
    _change(connection, uid, hook_id, facts)


def failed(connection: Connection, uid: str, hook_id: str, error: Mapping[str, Any], now: datetime) -> None:
    """The hook did not succeed; `since` stays when it first failed."""
    known = of_stream(connection, uid).get(hook_id)
    since = known.failed_at if known is not None and known.failed_at is not None else now
    _change(connection, uid, hook_id, {"failed_ts": since, "error": dict(error)})


def keep_only(connection: Connection, uid: str, hook_ids: Collection[str]) -> None:
    """Forgets what is known of hooks that the project does not state any more."""
    object_id = streams.lock(connection, uid)
    strange = (hooks.c.object_id == object_id) & hooks.c.hook_id.not_in(list(hook_ids))
    connection.execute(delete(hooks).where(strange))


def _change(connection: Connection, uid: str, hook_id: str, facts: Mapping[str, Any]) -> None:
    here = (hooks.c.object_id == streams.lock(connection, uid)) & (hooks.c.hook_id == hook_id)
    connection.execute(update(hooks).where(here).values(facts))
