"""Builds the outcome of a stream's run.

Has no secrets and no values of rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from tidegate.core.batch import Checked
from tidegate.core.changes import ChangeSet
from tidegate.core.intervals import Looking
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.format import Receipt
from tidegate.engine.context import LoadContext
from tidegate.engine.stream import Stream
from tidegate.engine.verification.proof import Verdict
from tidegate.errors import LeaseHeld, TidegateError

log = logging.getLogger("tidegate")
COUNTED = (
    "rows_read",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "rows_quarantined",
    "rows_warned",
    "rows_superseded",
    "log_taken",
    "bytes_read",
    "slices_changed",
)


def loaded(  # noqa: PLR0913 - everything that the stages found
    work: LoadContext,
    plan: LoadPlan,
    checked: Checked,
    receipt: Receipt,
    verdict: Verdict,
    *,
    notes: tuple[str, ...] = (),
    warm: bool = False,
) -> Outcome:
    """The outcome of one published commit.

    Args:
        notes: on what came after it.
        warm: Spark ran before.
    """
    changes, aside = plan.changes, checked.verdicts.aside.rows if checked.verdicts.aside else 0
    counted = (checked.rows + aside if checked.rows is not None else None, verdict.rows, changes.rows, 0)
    return Outcome(
        stream=work.stream.name,
        outcome=Result.LOADED,
        strategy=work.stream.strategy.kind,
        meaning=changes.effect.kind,
        write=plan.write.mode,
        rows_read=next(number for number in counted if number is not None),
        rows_inserted=receipt.rows_inserted,
        rows_updated=receipt.rows_updated,
        rows_deleted=receipt.rows_deleted,
        rows_quarantined=aside,
        rows_warned=checked.verdicts.warned,
        rows_superseded=checked.folded.superseded if checked.folded else 0,
        bytes_read=changes.bytes or 0,
        slices_changed=len(changes.slices),
        slices_total=len(changes.slices),
        log_taken=changes.log_taken,
        log_behind=changes.log_behind,
        snapshot=receipt.snapshot,
        position=plan.position.to_dict(),
        looked_through=_looked_through(work),
        verified=verdict.equal,
        arrivals=changes.arrivals,
        spark_started=not warm and work.context.sessions.started,
        seconds=dict(work.journal.seconds),
        notes=(*work.probe.notes(), *_coverage(verdict), *notes, *checked.verdicts.findings),
    )


def _coverage(verdict: Verdict) -> tuple[str, ...]:
    if not verdict.not_covered:
        return ()
    return (f"not covered by the fingerprint: {', '.join(verdict.not_covered)}",)


def unchanged(work: LoadContext, *notes: str) -> Outcome:
    """The outcome of a run that moved nothing; `notes` say why, if rows differed."""
    since = work.recovered.since
    return Outcome(
        stream=work.stream.name,
        outcome=Result.UNCHANGED,
        strategy=work.stream.strategy.kind,
        position=since.to_dict() if since else None,
        looked_through=_looked_through(work),
        snapshot=work.recovered.table.snapshot,
        seconds=dict(work.journal.seconds),
        notes=(*work.probe.notes(), *notes),
    )


def _looked_through(work: LoadContext) -> str | None:
    return work.probe.looked_through() if isinstance(work.probe, Looking) else None


def failure(stream: Stream, error: TidegateError, redact: Callable[[str], str]) -> Outcome:
    """The outcome of a stream that ended with an error."""
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
    return Outcome(stream=stream.name, outcome=result, strategy=stream.strategy.kind, error=problem)


def refused(work: LoadContext, changes: ChangeSet, error: TidegateError) -> Outcome:
    """The outcome of a partition that failed while others were loaded."""
    told = failure(work.stream, error, work.context.redact)
    labels = ", ".join(part.label for part in changes.slices)
    return replace(told, error=told.error and replace(told.error, message=f"partition {labels}: {told.error.message}"))


def drained(outcomes: Sequence[Outcome]) -> Outcome:
    """Combines consecutive loads of one run: counts are added, the last state wins."""
    if len(outcomes) == 1:
        return outcomes[0]
    last, landed = outcomes[-1], [each for each in outcomes if each.error is None and each.outcome is Result.LOADED]
    return replace(
        landed[-1],
        **{name: sum(getattr(each, name) for each in landed) for name in (*COUNTED, "slices_total")},
        log_behind=last.log_behind,
        notes=tuple(dict.fromkeys((*landed[-1].notes, *last.notes))),
        outcome=last.outcome if last.error else Result.LOADED,
        error=last.error,
        spark_started=any(each.spark_started for each in outcomes),
    )


def combined(outcomes: Sequence[Outcome], changes: ChangeSet) -> Outcome:
    """Combines all commits of one run: counts are added, the last state wins, and one failure fails the run."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    good = [outcome for outcome in outcomes if outcome.error is None]
    last = (good or failed)[-1]
    total = len(changes.slices) + changes.skipped
    together = replace(
        last,
        **{name: sum(getattr(outcome, name) for outcome in outcomes) for name in COUNTED},
        slices_total=total,
        spark_started=any(outcome.spark_started for outcome in outcomes),
        notes=tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes)) + changes.notes,
    )
    if not failed or failed[0].error is None:
        return together
    first = failed[0].error
    message = f"{len(failed)} of {len(changes.slices)} partitions were not loaded, the others were; {first.message}"
    return replace(together, outcome=failed[0].outcome, error=replace(first, message=message))
