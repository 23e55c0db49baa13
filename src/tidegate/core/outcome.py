"""Decides what a run tells: one value a stream, with the fields of `run --json`.

Made by the pipeline, printed by the CLI, returned by the Python API. Never holds a secret or a row's values.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Result(StrEnum):
    """How a stream's run ended."""

    LOADED = "loaded"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    STOPPED = "stopped"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as JSON documents show it, with the exit code it stands for."""

    code: str
    message: str
    hint: str
    exit_code: int = 1

    def to_dict(self) -> dict[str, str]:
        """The `error` object."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run did to one stream.

    Units: `seconds` by stage (`detect`, `plan`, `read_write`, `verify`, `total`); rows and bytes as named.
    `verified` is None when no verification was asked for or nothing moved. `notes` are for people: who holds
    the edge, rows held back, columns that no fingerprint covers. `looked_through` is the bound of the cursor up to
    which the source was looked at; None without a cursor. `arrivals` see `ChangeSet`. `log_taken` and `log_behind`
    are of a log, in its own unit: events of a topic, files, bytes of a server's log.
    """

    stream: str
    outcome: Result
    strategy: str
    meaning: str | None = None
    write: str | None = None
    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_quarantined: int = 0
    rows_superseded: int = 0
    log_taken: int = 0
    log_behind: int = 0
    bytes_read: int = 0
    slices_changed: int = 0
    slices_total: int = 0
    snapshot: str | None = None
    position: dict[str, Any] | None = None
    looked_through: str | None = None
    verified: bool | None = None
    spark_started: bool = False
    arrivals: tuple[tuple[int, int], ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: Problem | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        values = asdict(self)
        values["outcome"] = str(self.outcome)
        values["notes"] = list(self.notes)
        values["arrivals"] = [list(each) for each in self.arrivals]
        values["error"] = self.error.to_dict() if self.error else None
        return values


EXIT_ORDER = (1, 3, 4, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What one run did to all its streams."""

    run_id: str
    started_at: datetime
    finished_at: datetime
    streams: tuple[Outcome, ...]

    @property
    def exit_code(self) -> int:
        """0, or the first of 1, 3, 4, 5 that a stream stands for."""
        codes = {outcome.error.exit_code for outcome in self.streams if outcome.error}
        return next((code for code in EXIT_ORDER if code in codes), max(codes, default=0))

    def to_dict(self) -> dict[str, Any]:
        """The document of `run --json`."""
        return {
            "run_id": self.run_id,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "exit_code": self.exit_code,
            "streams": [outcome.to_dict() for outcome in self.streams],
        }
