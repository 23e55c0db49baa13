"""Values that the registry returns: frozen, with time-zone-aware UTC timestamps.

Never imports a database driver.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from tidegate.core.connector import ConnectorState
from tidegate.core.display import Shown
from tidegate.core.intervals import Gap
from tidegate.core.outcome import Result
from tidegate.core.position import Position
from tidegate.core.retention import SlotRetention


class Status(StrEnum):
    """`status_cd` of streams, slices and tasks; streams and slices begin as NEW."""

    NEW = "NEW"
    RUNNING = "RUNNING"
    OK = "OK"
    ERROR = "ERROR"


class PlanStatus(StrEnum):
    """`status_cd` of plans; PUBLISHED is final."""

    PLANNED = "PLANNED"
    PUBLISHED = "PUBLISHED"
    DROPPED = "DROPPED"
    FAILED = "FAILED"


GOOD = (Result.LOADED, Result.UNCHANGED)
"""Outcomes of runs that ended well."""
RUNNING_OUTCOME = "running"
"""`runs.outcome` until the run ends; the others are those of `core.outcome.Result`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredPosition:
    """A position as the registry last saw it in the table.

    Args:
        sequence: the greatest sequence the stream ever had; at least that of `position`, greater after a repair
            that took an older table's word.
        snapshot: the table's version that carried it.
        verified: whether that load was verified; None when nobody asked.
    """

    position: Position
    sequence: int
    snapshot: str | None
    table_uuid: str | None
    verified: bool | None
    recorded_at: datetime

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {**_document(self), "position": self.position.to_dict()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Discontinued:
    """Why the source does not continue a stream's position.

    Args:
        reason: one sentence for people.
        options: those of the strategy on which the finding rests, by name; it says nothing where they are others.
    """

    reason: str
    options: Mapping[str, str | None] = field(default_factory=dict)

    def to_text(self) -> str:
        """As the registry keeps it; `parse` is the inverse."""
        return json.dumps({"reason": self.reason, "options": dict(self.options)}) if self.options else self.reason

    @classmethod
    def parse(cls, text: str) -> Discontinued:
        """The inverse of `to_text`.

        Example:
            >>> mark = Discontinued(reason="the clock went back", options={"time_zone": "UTC"})
            >>> Discontinued.parse(mark.to_text()) == mark, Discontinued.parse("restored").reason
            (True, 'restored')
        """
        return cls(**json.loads(text)) if text.startswith('{"reason"') else cls(reason=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """A plan as it was saved; enough of a load to advance or to drop it after a crash.

    Args:
        plan: the document of `LoadPlan.to_dict`.
    """

    load_id: str
    uid: str
    run_id: str
    status: PlanStatus
    since: Position | None
    position: Position
    plan: Mapping[str, Any] = field(repr=False)
    created_at: datetime
    finished_at: datetime | None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return _document(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookFailure:
    """A hook of `after_publish:` that failed when it was last tried.

    Args:
        hook: what it is, for people.
        since: when it first failed since it last succeeded.
        error: the error object of the last time.
    """

    hook: str
    since: datetime
    error: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus(Shown):
    """One stream: how far it is, how its last run ended, who works on it now.

    Args:
        sequence: loads that landed; 0 for none.
        verified: whether the last load was verified; None when nobody asked.
        held_by: `user@host:pid` of the runner that holds the lease; None when nobody does.
        gaps: what the table lacks of what was tried, or was there before.
        last_success_at: end of the last run that loaded or found nothing new.
        last_error: the error object of the last run; None when it had none.
        lag_events: of a log, events after the table's position; None for other sources, and where nobody knows.
        lag_seconds: for how long the oldest of them has been there; 0 for none.
        lag_error: the error object of asking the log; None when it answered.
        slot: what the server retains of its log for the stream or its connector, and how much of that was not read yet;
            None where there is no replication slot.
        connector: the state of the connector that fills its topic; None where the project states no URL to ask.
        due_at: when its schedule wants it to run next, or wanted it to; None without one, and while it runs or is
            paused.
        late: whether a whole turn of its schedule passed without a success, since the last one or since it was
            registered. None where nothing is due, and of a stream that is not registered.
        rows_ahead: rows of the source that its last good run left to later ones, because their cursor is ahead of the
            clock.
        rows_quarantined: rows that wait in its quarantine; None where nobody could tell without Spark.
        problem: the error object of something else that could not be asked; None when everything could.
        health: its state against its schedule (`core.health.Health`); None where only the registry was asked.
        paused_at, paused_by: when it was taken off its schedule, and by whom; None while it is not.
        registered_at: when the registry first heard of it; None of a stream that it does not know.
        acknowledged_at, acknowledged_by: when a person has seen the error of its last run, and who; else None.
        hooks_failed: hooks of `after_publish:` that failed when they were last tried; the next run tries them again.
    """

    shown: ClassVar[tuple[str, ...]] = (
        "stream",
        "status",
        "sequence",
        "loaded_through",
        "verified_through",
        "last_outcome",
        "last_success_at",
        "held_by",
        "due_at",
        "late",
        "lag_events",
        "lag_seconds",
        "rows_quarantined",
    )

    uid: str
    stream: str
    source: str
    target: str
    status: str
    sequence: int
    loaded_through: str | None
    loaded_at: datetime | None
    verified: bool | None
    verified_through: str | None
    verified_at: datetime | None
    last_run_id: str | None
    last_run_at: datetime | None
    last_outcome: str | None
    last_success_at: datetime | None
    last_error: Mapping[str, Any] | None
    held_by: str | None
    gaps: tuple[Gap, ...] = ()
    lag_events: int | None = None
    lag_seconds: int | None = None
    lag_error: Mapping[str, Any] | None = None
    slot: SlotRetention | None = None
    connector: ConnectorState | None = None
    due_at: datetime | None = None
    late: bool | None = None
    rows_ahead: int = 0
    rows_quarantined: int | None = 0
    problem: Mapping[str, Any] | None = None
    health: str | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    registered_at: datetime | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    hooks_failed: tuple[HookFailure, ...] = ()

    @classmethod
    def new(cls, *, uid: str, stream: str, source: str, target: str) -> StreamStatus:
        """Of a stream that never ran."""
        return cls(
            uid=uid,
            stream=stream,
            source=source,
            target=target,
            status=Status.NEW.value,
            sequence=0,
            loaded_through=None,
            loaded_at=None,
            verified=None,
            verified_through=None,
            verified_at=None,
            last_run_id=None,
            last_run_at=None,
            last_outcome=None,
            last_success_at=None,
            last_error=None,
            held_by=None,
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return _document(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord(Shown):
    """One run of one stream.

    Args:
        outcome: a value of `core.outcome.Result`, or "running".
        details: the document of `Outcome.to_dict`; None until the run ends.
    """

    shown: ClassVar[tuple[str, ...]] = ("stream", "outcome", "started_at", "finished_at", "error")

    run_id: str
    uid: str
    stream: str
    outcome: str
    started_at: datetime
    finished_at: datetime | None
    started_by: str
    details: Mapping[str, Any] | None
    error: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return _document(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord(Shown):
    """One task, with the names of the `tasks` table."""

    task_id: int
    run_id: str | None
    stream: str
    task_type: str
    status_cd: Status
    start_ts: datetime
    finish_ts: datetime | None
    source_object_id: int
    target_object_id: int
    extract_group_id: str | None
    result_payload: Mapping[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return _document(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDay:
    """What the runs of a day (UTC, in ISO 8601) found in the partitions of a stream.

    Args:
        partitions_loaded, rows_loaded: of partitions that differed; rows are those at the source.
        partitions_skipped, rows_skipped: of partitions that were compared and equal.
    """

    day: str
    stream: str
    runs: int
    partitions_loaded: int
    partitions_skipped: int
    rows_loaded: int
    rows_skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    """One row of `status_change_log`: a status of a stream or slice, or a move of the position."""

    object_id: int
    stream: str
    extract_group_id: str | None
    old_status: str
    new_status: str
    changed_ts: datetime
    changed_by: str
    reason: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return _document(self)


def _document(record: Any) -> dict[str, Any]:
    """Not by `asdict`, which copies every value first: a document of a thousand streams took twice as long."""
    return {each.name: _plain(getattr(record, each.name)) for each in fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, str | int | float | None) and not isinstance(value, StrEnum):
        return value
    if is_dataclass(value):
        return _document(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, StrEnum):
        return str(value)
    return value.isoformat() if isinstance(value, datetime) else value
