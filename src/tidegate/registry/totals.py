"""Sums over all runs of a stream that ended: they only grow, also when the process that counts them is a new one.

Runs inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, select

from tidegate.core.outcome import Outcome, Result
from tidegate.registry.database import upsert
from tidegate.registry.tables import run_totals

KINDS = ("read", "inserted", "updated", "deleted", "quarantined", "warned", "superseded")
"""Of rows, as `Outcome` counts them."""

Totals = Mapping[tuple[str, str], float]
"""By measure and label: runs by outcome, failures by code, rows by kind, bytes read, seconds by stage."""


def count(connection: Connection, object_id: int, outcome: Outcome) -> None:
    """Adds a run that ended."""
    _add(connection, object_id, dict(_of(outcome)))


def count_crashed(connection: Connection, object_id: int, code: str, runs: int) -> None:
    """Adds runs of which nothing is known but that they ended without finishing."""
    _add(connection, object_id, {("runs", str(Result.FAILED)): runs, ("failures", code): runs})


def totals(connection: Connection) -> dict[int, dict[tuple[str, str], float]]:
    """Of every stream that ever ran, by its number; one query."""
    found: dict[int, dict[tuple[str, str], float]] = {}
    for object_id, measure, label, value in connection.execute(select(run_totals)).all():
        found.setdefault(object_id, {})[measure, label] = value
    return found


def _of(outcome: Outcome) -> Iterator[tuple[tuple[str, str], float]]:
    yield ("runs", str(outcome.outcome)), 1
    if outcome.error is not None:
        yield ("failures", outcome.error.code), 1
    for kind in KINDS:
        yield ("rows", kind), getattr(outcome, f"rows_{kind}")
    yield ("bytes", "read"), outcome.bytes_read
    for stage, seconds in outcome.seconds.items():
        yield ("seconds", stage), seconds


def _add(connection: Connection, object_id: int, sums: Mapping[tuple[str, str], float]) -> None:
    rows: list[dict[str, Any]] = [
        {"object_id": object_id, "measure": measure, "label": label[:64], "value": float(value)}
        for (measure, label), value in sums.items()
        if value
    ]
    if not rows:
        return
    new = upsert(connection, run_totals)
    key = [run_totals.c.object_id, run_totals.c.measure, run_totals.c.label]
    grown = {"value": run_totals.c.value + new.excluded.value}
    connection.execute(new.on_conflict_do_update(index_elements=key, set_=grown), rows)
