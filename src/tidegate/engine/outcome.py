"""The result of a load, and the outcome of a stream's run that is made of its loads.

Has no secrets and no values of rows.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.core.batch import Checked
from tidegate.core.changes import ChangeSet
from tidegate.core.display import counted
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.core.plan import LoadPlan
from tidegate.core.policies.rules import RuleViolation
from tidegate.core.ports.format import Receipt
from tidegate.core.position import Position
from tidegate.engine import damaged_files, held_back
from tidegate.engine.context import LoadContext
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verification.proof import Verdict
from tidegate.errors import INTERRUPTED, LeaseHeld, TidegateError

log = logging.getLogger("tidegate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was moved, with the names of `Outcome`; those of several loads add up."""

    rows_read: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_quarantined: int = 0
    rows_warned: int = 0
    rows_superseded: int = 0
    log_taken: int = 0
    bytes_read: int = 0
    slices_changed: int = 0
    slices_total: int = 0

    def __add__(self, other: Counts) -> Counts:
        names = [each.name for each in dataclasses.fields(Counts)]
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def to_dict(self) -> dict[str, int]:
        """By the names of `Outcome`."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The state of a stream after a load; see `Outcome`."""

    snapshot: str | None = None
    position: Position | None = None
    looked_through: str | None = None
    log_behind: int = 0
    table_rows: int | None = None
    rows_ahead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """What one load, or several in a row, did to a stream; see `Outcome`."""

    result: Result
    effect: str | None = None
    write: str | None = None
    counts: Counts = field(default_factory=Counts)
    reached: StreamState = field(default_factory=StreamState)
    arrivals: tuple[tuple[int, int], ...] = ()
    verdict: Verdict = field(default_factory=lambda: Verdict(equal=None))
    whole: bool = False
    spark_started: bool = False
    notes: tuple[str, ...] = ()
    error: Problem | None = None

    @property
    def verified(self) -> bool | None:
        """Whether it was verified; None when nobody asked."""
        return self.verdict.equal


def outcome_of(
    stream: Stream, done: LoadResult, seconds: Mapping[str, float], checks_failed: tuple[RuleViolation, ...] = ()
) -> Outcome:
    """The outcome of a run, from everything that its loads did.

    Args:
        seconds: by stage.
    """
    reached = done.reached
    outcome = Outcome(
        stream=stream.name,
        outcome=done.result,
        strategy=stream.strategy.kind,
        effect=done.effect,
        write=done.write,
        **done.counts.to_dict(),
        rows_ahead=reached.rows_ahead,
        log_behind=reached.log_behind,
        table_rows=reached.table_rows,
        snapshot=reached.snapshot,
        position=reached.position.to_dict() if reached.position else None,
        looked_through=reached.looked_through,
        verified=done.verified,
        whole=done.whole,
        spark_started=done.spark_started,
        arrivals=done.arrivals,
        seconds=dict(seconds),
        notes=done.notes,
        checks_failed=checks_failed,
        error=done.error,
    )
    return replace(outcome, notes=(outcome.set_aside, *outcome.notes)) if outcome.set_aside else outcome


def loaded(  # noqa: PLR0913 - everything that the stages found
    work: LoadContext,
    plan: LoadPlan,
    checked: Checked,
    receipt: Receipt,
    verdict: Verdict,
    *,
    notes: tuple[str, ...] = (),
    warm: bool = False,
) -> LoadResult:
    """The result of one published commit.

    Args:
        notes: on what came after it.
        warm: Spark ran before.
    """
    ahead = held_back.ahead(work)
    changes, quarantined = plan.changes, checked.verdicts.quarantined.rows if checked.verdicts.quarantined else 0
    counted = (checked.rows + quarantined if checked.rows is not None else None, verdict.rows, changes.rows, 0)
    return LoadResult(
        result=Result.LOADED,
        effect=changes.effect.kind,
        write=plan.write.mode,
        counts=Counts(
            rows_read=next(number for number in counted if number is not None),
            rows_inserted=receipt.rows_inserted,
            rows_updated=receipt.rows_updated,
            rows_deleted=receipt.rows_deleted,
            rows_quarantined=quarantined,
            rows_warned=checked.verdicts.warned,
            rows_superseded=checked.folded.superseded if checked.folded else 0,
            log_taken=changes.observed.log_taken,
            bytes_read=changes.bytes or 0,
            slices_changed=len(changes.slices),
            slices_total=len(changes.slices),
        ),
        reached=StreamState(
            snapshot=receipt.snapshot,
            position=plan.position,
            looked_through=work.probe.safe_bound(),
            log_behind=changes.observed.log_behind,
            table_rows=work.recovered.table.rows,
            rows_ahead=ahead,
        ),
        arrivals=changes.observed.arrivals,
        verdict=verdict,
        whole=work.context.reads_everything or (changes.whole and _proven(work, verdict)),
        spark_started=not warm and work.context.sessions.started,
        notes=(*_of_source(work, ahead), *_coverage(verdict), *notes, *checked.verdicts.findings),
    )


def _proven(work: LoadContext, verdict: Verdict) -> bool:
    return verdict.equal is True and work.stream.policies.verify is VerifyLevel.MOVED


def _coverage(verdict: Verdict) -> tuple[str, ...]:
    if not verdict.not_covered:
        return ()
    return (f"not covered by the fingerprint: {', '.join(verdict.not_covered)}",)


def _of_source(work: LoadContext, ahead: int) -> tuple[str, ...]:
    return (*work.probe.notes(), *held_back.notes(work.probe, ahead), *_others(work))


def _others(work: LoadContext) -> tuple[str, ...]:
    table = work.recovered.table
    if table.position is None or table.since_load.same_rows or work.stream.strategy.restores:
        return ()
    name = work.stream.name
    return (f"others have changed the table since its last load: `tidegate verify {name}` compares it with its source",)


def unchanged(work: LoadContext, *notes: str) -> LoadResult:
    """The result of a load that moved nothing; `notes` say why, if rows differed."""
    ahead = held_back.ahead(work)
    return LoadResult(
        result=Result.UNCHANGED,
        reached=StreamState(
            snapshot=work.recovered.table.snapshot,
            position=work.recovered.since,
            looked_through=work.probe.safe_bound(),
            table_rows=work.recovered.table.rows,
            rows_ahead=ahead,
        ),
        whole=work.context.reads_everything,
        notes=(*_of_source(work, ahead), *notes),
    )


def failure(stream: Stream, error: TidegateError, redact: Callable[[str], str]) -> LoadResult:
    """The result of a load that ended with an error."""
    error = damaged_files.named(stream, error)
    log.debug("stream %s failed: %s", stream.name, error.code, exc_info=error)
    result = Result.STOPPED if error.exit_code == 4 else Result.FAILED
    if isinstance(error, LeaseHeld):
        result = Result.HELD
    problem = Problem(
        code=error.code,
        message=redact(error.message),
        hint=redact(error.hint).replace("STREAM", stream.name),
        exit_code=error.exit_code,
    )
    return LoadResult(result=result, error=problem)


def interruption(stream: Stream) -> LoadResult:
    """The result of a stream whose run was ended from outside."""
    problem = Problem(
        code="interrupted",
        message=f"the run of stream {stream.name!r} was interrupted by Ctrl-C or SIGTERM",
        hint=f"Run again: `tidegate run {stream.name}`. Published rows stay, and the run continues from there.",
        exit_code=INTERRUPTED,
    )
    return LoadResult(result=Result.INTERRUPTED, error=problem)


def refused(work: LoadContext, changes: ChangeSet, error: TidegateError) -> LoadResult:
    """The result of a partition that failed while others were loaded."""
    failed = failure(work.stream, error, work.context.redact)
    labels = ", ".join(part.label for part in changes.slices)
    return replace(
        failed, error=failed.error and replace(failed.error, message=f"partition {labels}: {failed.error.message}")
    )


def combine_consecutive(results: Sequence[LoadResult]) -> LoadResult:
    """Combines consecutive loads of one run: counts are added, the last state wins."""
    if len(results) == 1:
        return results[0]
    last, landed = results[-1], [each for each in results if each.error is None and each.result is Result.LOADED]
    return replace(
        landed[-1],
        counts=_total(landed),
        reached=replace(
            landed[-1].reached, log_behind=last.reached.log_behind, table_rows=landed[0].reached.table_rows
        ),
        notes=tuple(dict.fromkeys((*landed[-1].notes, *last.notes))),
        result=last.result if last.error else Result.LOADED,
        error=last.error,
        whole=any(each.whole for each in landed),
        spark_started=any(each.spark_started for each in results),
    )


def combined(results: Sequence[LoadResult], changes: ChangeSet) -> LoadResult:
    """Combines all commits of one run: counts are added, the last state wins, and one failure fails the run."""
    failed = [each for each in results if each.error is not None]
    good = [each for each in results if each.error is None]
    landed = [each for each in good if each.result is Result.LOADED]
    together = replace(
        (landed or good or failed)[-1],
        counts=replace(_total(results), slices_total=len(changes.slices) + changes.observed.skipped),
        spark_started=any(each.spark_started for each in results),
        notes=tuple(dict.fromkeys(note for each in results for note in each.notes)) + changes.notes,
    )
    if not failed or failed[0].error is None:
        return together
    first = failed[0].error
    every = counted(len(changes.slices), "partition")
    message = f"{len(failed):,} of {every} were not loaded, the others were; {first.message}"
    return replace(together, result=failed[0].result, error=replace(first, message=message))


def _total(results: Sequence[LoadResult]) -> Counts:
    return sum((each.counts for each in results), Counts())
