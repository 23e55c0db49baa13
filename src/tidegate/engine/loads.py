"""Keeps `loads_table:`: what the registry knows of runs, as a table in the lake, without Spark.

Never fails or holds up a run: what could not be written is written after a later run. A row is never written twice.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidegate.core.ids import join_name
from tidegate.core.loads import LoadRow
from tidegate.core.outcome import Result
from tidegate.engine.stream import LoadsTable, Stream
from tidegate.errors import TidegateError
from tidegate.registry.store import Registry
from tidegate.registry.values import GOOD, RUNNING_OUTCOME, RunRecord, Status

log = logging.getLogger("tidegate")

TASK = "loads_table"
RUNS = 200
"""Runs of a stream that are looked back at."""
RECOVERED = "recovered"
COUNTS = ("rows_inserted", "rows_updated", "rows_deleted")


def publish(streams: Sequence[Stream], registry: Registry) -> None:
    """Adds the rows of the streams' runs that the project's table lacks; logs a warning where it cannot."""
    table = next((stream.loads for stream in streams if stream.loads is not None), None)
    if table is None:
        return
    try:
        _publish(table, streams, registry)
    except TidegateError as error:
        log.warning("loads_table %s was not written, a later run writes it: %s", table.target, error.message)
    except Exception as error:  # whatever a catalog or a store does, the load is done
        log.warning("loads_table %s was not written, a later run writes it: %s", table.target, type(error).__name__)
        log.debug("the error of loads_table", exc_info=error)


def _publish(table: LoadsTable, streams: Sequence[Stream], registry: Registry) -> None:
    found = {stream.uid: rows for stream in streams if (rows := _waiting(table, stream, registry))}
    if not found:
        return
    ledger = table.format.ledger
    if ledger is None:
        log.warning("loads_table %s: tables of its lake cannot be written without Spark", table.target)
        return
    ledger.add(table.target, [row for rows in found.values() for row in rows])
    for uid, rows in found.items():
        last = rows[-1]
        with registry.task(uid, TASK, run_id=last.run_id) as payload:
            payload |= {"table": str(table.target), "run": last.run_id, "version": last.version_after}
            payload |= {"loaded_at": last.loaded_at.isoformat()}


def _waiting(table: LoadsTable, stream: Stream, registry: Registry) -> list[LoadRow]:
    """The rows that are to be written, oldest first; none while an unchanged table's last row is new enough."""
    last = _last(table, stream, registry)
    runs: list[RunRecord] = []
    for run in registry.history(stream.uid, RUNS):
        if run.run_id == last.get("run"):
            break
        runs.insert(0, run)
    rows = _rows(stream, registry, runs, last.get("version"))
    known = last.get("loaded_at")
    new = known is not None and rows and rows[-1].loaded_at - datetime.fromisoformat(known) < table.every
    return [] if new and all(row.outcome == Result.UNCHANGED for row in rows) else rows


def _last(table: LoadsTable, stream: Stream, registry: Registry) -> dict[str, Any]:
    """What was written last of the stream, into this very table."""
    newest = next(iter(registry.tasks(stream.uid, Status.OK, limit=1, task_type=TASK)), None)
    payload = dict(newest.result_payload or {}) if newest else {}
    return payload if payload.get("table") == str(table.target) else {}


def _rows(stream: Stream, registry: Registry, runs: Sequence[RunRecord], version: str | None) -> list[LoadRow]:
    """One of each run that ended well or left a commit; of unchanged runs in a row only the last one.

    Nothing after a run that is still at work, or whose end nobody has recorded yet, is told before it is.
    """
    landed: dict[str, str | None] | None = None
    found: list[LoadRow] = []
    for run in runs:
        if run.outcome == RUNNING_OUTCOME:
            break
        if run.outcome not in GOOD:
            landed = _landed(stream, registry) if landed is None else landed
            if run.run_id not in landed:
                continue
        row = _row(stream, run, version, (landed or {}).get(run.run_id))
        version = row.version_after
        still = found and found[-1].outcome == row.outcome == Result.UNCHANGED
        if still and found[-1].version_before == found[-1].version_after:
            found.pop()
        found.append(row)
    return found


def _landed(stream: Stream, registry: Registry) -> dict[str, str | None]:
    """By run the version that its last commit made, as the registry learned it from the table."""
    found: dict[str, str | None] = {}
    for each in reversed(registry.positions(stream.uid, RUNS)):
        saved = registry.plan(each.position.load_id) if each.position.load_id else None
        if saved is not None:
            found[saved.run_id] = each.snapshot
    return found


def _row(stream: Stream, run: RunRecord, before: str | None, landed: str | None) -> LoadRow:
    details = run.details or {}
    good = run.outcome in GOOD
    # A run that was ended reports no rows, although its commit may have some.
    counts = {name: details.get(name) if good else None for name in COUNTS}
    position = details.get("position") or {}
    return LoadRow(
        stream=stream.name,
        stream_uid=stream.uid,
        lake=stream.target.lake,
        table_name=join_name(stream.target.parts[1:]),
        run_id=run.run_id,
        loaded_at=run.started_at,
        outcome=run.outcome if good else RECOVERED,
        load=position.get("sequence") if good else None,
        version_before=before,
        version_after=(details.get("snapshot") if good else landed) or before,
        verified=details.get("verified") if good else None,
        caught_up=good and not details.get("log_behind"),
        **counts,
    )
