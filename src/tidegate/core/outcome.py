"""The outcome of a run for one stream, with the fields of `run --json`.

Has no secrets and no values of rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from tidegate.core.display import Shown
from tidegate.core.policies.rules import RuleViolation
from tidegate.errors import TidegateError, error_of


class Result(StrEnum):
    """How a stream's run ended."""

    LOADED = "loaded"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    STOPPED = "stopped"
    HELD = "held"
    INTERRUPTED = "interrupted"


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

    def to_error(self) -> TidegateError:
        """The error itself, to be raised."""
        return error_of(self.code, self.message, self.hint)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Shown):
    """What one run did to one stream, in all its commits together.

    Units: `seconds` by stage, and `total`; those of `read`, `check` and `write` are `read_write` together. Rows and
    bytes as named. `effect` is what the rows did to the table: `insert`, `upsert`, `mirror`, `apply`. `verified` is
    None when no verification was asked for or nothing moved. `notes` are for people: who holds the edge, rows held
    back, columns that no fingerprint covers. `rows_quarantined` were read and are not in the table; `rows_warned` are
    in it although they break a check that only warns. `looked_through` is the bound of the cursor up to which the
    source was looked at; None without a cursor. `rows_ahead` have a cursor ahead of the
    clock, and wait until its time has come. `arrivals` see `ChangeSet`. `table_rows` are those of the table before
    the run; None where its metadata do not say. `log_taken` and `log_behind` are of a log, in its own unit: events of a
    topic, files, bytes of a server's log. `whole` is whether the run took all of the source, by a full refresh, a
    resync, or a mirror of the whole table that was verified: an earlier comparison says nothing of the table then.
    `checks_failed` are the checks that rows failed, and what was done about it; of a run of several commits a check may
    be in it several times. One that is not in it was passed only if the run loaded rows.
    """

    shown: ClassVar[tuple[str, ...]] = (
        "stream",
        "outcome",
        "strategy",
        "write",
        "rows_read",
        "rows_inserted",
        "rows_updated",
        "rows_deleted",
        "rows_quarantined",
        "rows_warned",
        "verified",
        "notes",
        "error",
    )

    stream: str
    outcome: Result
    strategy: str
    effect: str | None = None
    write: str | None = None
    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_quarantined: int = 0
    rows_warned: int = 0
    rows_superseded: int = 0
    rows_ahead: int = 0
    log_taken: int = 0
    log_behind: int = 0
    bytes_read: int = 0
    slices_changed: int = 0
    slices_total: int = 0
    table_rows: int | None = None
    snapshot: str | None = None
    position: dict[str, Any] | None = None
    looked_through: str | None = None
    verified: bool | None = None
    whole: bool = False
    spark_started: bool = False
    arrivals: tuple[tuple[int, int], ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    checks_failed: tuple[RuleViolation, ...] = ()
    error: Problem | None = None

    @property
    def set_aside(self) -> str | None:
        """How many of the rows that were read are not in the table, for people; None where all of them are."""
        if not self.rows_quarantined:
            return None
        are = "is" if self.rows_quarantined == 1 else "are"
        return (
            f"{self.rows_quarantined:,} of {self.rows_read:,} rows that were read {are} in quarantine, not in the "
            f"table; `tidegate quarantine show {self.stream}` shows them"
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        values = asdict(self)
        values["meaning"] = self.effect  # as it was called first
        values["outcome"] = str(self.outcome)
        values["notes"] = list(self.notes)
        values["arrivals"] = [list(each) for each in self.arrivals]
        values["checks_failed"] = [each.to_dict() for each in self.checks_failed]
        values["error"] = self.error.to_dict() if self.error else None
        return values


EXIT_ORDER = (1, 3, 4, 5)
