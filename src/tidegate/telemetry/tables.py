"""What the tables themselves tell: rows, files, small files, and what waits in quarantine; without Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from functools import partial

from tidegate.core.policies.maintenance import Maintenance, Step, Upkeep
from tidegate.engine.assemble.assemble import TableLocation
from tidegate.engine.quarantine.waiting import waiting_rows
from tidegate.errors import TidegateError
from tidegate.telemetry.samples import Sample

log = logging.getLogger("tidegate")


def table_samples(place: TableLocation, rules: Maintenance, now: datetime) -> Iterator[Sample]:
    """Of a stream's table; nothing of one that does not exist or does not answer."""
    for ask in (partial(_size, rules=rules, now=now), _waiting):
        try:
            found = tuple(ask(place))
        except TidegateError as error:
            log.warning("stream %s: its table is left out of the metrics: %s", place.name, error.code)
            continue
        yield from found


def _size(place: TableLocation, *, rules: Maintenance, now: datetime) -> Iterator[Sample]:
    state = place.format.state(place.target, place.uid)
    if not state.exists:
        return
    if state.rows is not None:
        yield "table_rows", (), state.rows
    facts = place.format.inspection.facts(place.target) if place.format.inspection else None
    if facts is not None and facts.files is not None:
        yield "table_files", (), facts.files
    if facts is not None and facts.bytes is not None:
        yield "table_bytes", (), facts.bytes
    if place.format.maintenance is not None:
        # Orphan files are not looked for: that would list the table's folder.
        upkeep = Upkeep(target=place.target, uid=place.uid, rules=rules, now=now, looked_at=now)
        needs = place.format.maintenance.survey(upkeep)
        yield "table_small_files", (), sum(need.files for need in needs if need.step is Step.COMPACT)


def _waiting(place: TableLocation) -> Iterator[Sample]:
    waiting = waiting_rows(place.format, place.target, place.uid)
    if waiting is not None:
        yield "quarantine_rows", (), sum(waiting.values())
