"""What alerts ask of the last hours of each stream. Reads only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select

from tidegate.core.outcome import Result
from tidegate.registry.beginnings import BAD, failing, quarantined
from tidegate.registry.newest import newest
from tidegate.registry.tables import object_info, plans, positions, runs

QUERIES = ("detect", "verify")
"""Stages that consist of queries to source and table."""
RUNS = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentHistory:
    """What happened to a stream recently; None for what never did.

    Args:
        rows_at: when a run last loaded a row.
        failed_at: when a run last failed.
        failing: by error code when the first run began that failed so since the last one that ended well.
        columns_changed: by the newest load: its id, and the changes; empty for none.
        columns_at: when that load was recorded.
        query_seconds: of its last good runs, newest first; empty unless asked for.
        quarantined: ends of its last runs that put rows into quarantine, and those rows, newest first; as above.
    """

    rows_at: datetime | None = None
    failed_at: datetime | None = None
    failing: Mapping[str, datetime] = field(default_factory=dict)
    columns_changed: tuple[str, tuple[Mapping[str, Any], ...]] = ("", ())
    columns_at: datetime | None = None
    query_seconds: tuple[float, ...] = ()
    quarantined: tuple[tuple[datetime, int], ...] = ()


def recent_history(connection: Connection, *, queries: bool, quarantines: Collection[str]) -> dict[str, RecentHistory]:
    """Of every stream, by its uid.

    Args:
        queries: also how long the queries of the last runs took.
        quarantines: the streams of which also their last quarantined rows are asked for, by uid.
    """
    moved = (runs.c.outcome == Result.LOADED) & (runs.c.row_count > 0)
    rows_at, failed_at = _ends(connection, moved), _ends(connection, runs.c.outcome.in_(BAD))
    loads, took = _newest_loads(connection), _query_seconds(connection) if queries else {}
    since = failing(connection)
    found = {}
    for object_id, uid in connection.execute(select(object_info.c.object_id, object_info.c.uid)).all():
        load = loads.get(object_id)
        found[uid] = RecentHistory(
            rows_at=rows_at.get(object_id),
            failed_at=failed_at.get(object_id),
            failing=since.get(object_id, {}),
            columns_changed=("", ()) if load is None else (load.load_id, _changes(load.plan)),
            columns_at=None if load is None else load.recorded_ts,
            query_seconds=tuple(took.get(object_id, ())),
            quarantined=quarantined(connection, object_id) if uid in quarantines else (),
        )
    return found


def _changes(plan: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Columns that the load added, widened, renamed or replaced; a new table's are no changes."""
    return () if plan.get("create") else tuple(plan.get("evolve") or ())


def _ends(connection: Connection, condition: ColumnElement[bool]) -> dict[int, datetime]:
    """By stream the end of the last of its runs that fulfil the condition and have ended."""
    ended = [condition, runs.c.finished_ts.is_not(None)]
    found = newest(connection, runs.c.number, ("finished_ts",), of=ended)
    return {number: row.finished_ts for number, row in found.items()}


def _newest_loads(connection: Connection) -> dict[int, Any]:
    last = (
        select(func.max(positions.c.revision))
        .where(positions.c.object_id == object_info.c.object_id)
        .correlate(object_info)
        .scalar_subquery()
    )
    same = (positions.c.object_id == object_info.c.object_id) & (positions.c.revision == last)
    query = (
        select(positions.c.object_id, positions.c.load_id, positions.c.recorded_ts, plans.c.plan)
        .join(object_info, same)
        .join(plans, plans.c.load_id == positions.c.load_id)
    )
    return {row.object_id: row for row in connection.execute(query).all()}


def _query_seconds(connection: Connection) -> dict[int, list[float]]:
    place = func.row_number().over(partition_by=runs.c.object_id, order_by=runs.c.number.desc())
    good = runs.c.outcome == Result.LOADED
    ranked = (
        select(runs.c.object_id, runs.c.outcome_payload, runs.c.finished_ts, place.label("n")).where(good).subquery()
    )
    found: dict[int, list[float]] = {}
    for row in connection.execute(select(ranked).where(ranked.c.n <= RUNS).order_by(ranked.c.n)).all():
        seconds = (row.outcome_payload or {}).get("seconds") or {}
        found.setdefault(row.object_id, []).append(sum(seconds.get(stage, 0) for stage in QUERIES))
    return found
