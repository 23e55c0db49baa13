"""Verify: compares the committed version with the source, by code that shares nothing with the read path."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Mode
from tidegate.engine import event_fence, older_files
from tidegate.engine.background import meanwhile
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.deletes import key_diff
from tidegate.engine.events import Stage
from tidegate.engine.recovery import recovery
from tidegate.engine.stages.write import Written
from tidegate.engine.stream import Stream, VerifyLevel
from tidegate.engine.verification import events, proof
from tidegate.engine.verification.proof import Verdict
from tidegate.errors import SourceUnavailable, TidegateError, VerifyFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REASON = 10.0
"""Seconds in which a source that ended Spark's connections says why."""


@contextmanager
def asking(work: LoadContext, planned: PlannedLoad) -> Iterator[Future[Fingerprint] | None]:
    """Asks the source while Spark reads, when the answer does not depend on what the check finds."""
    level = work.stream.policies.verify
    found_by_check = work.stream.key and not planned.unique
    if (
        level is VerifyLevel.NONE
        or found_by_check
        or event_fence.of_events(planned.plan, work.stream.writer)
        or planned.plan.write.mode is Mode.MERGE_DIFFERENCES
    ):
        yield None
        return

    def ask() -> Fingerprint:
        with work.journal.background(Stage.VERIFY, "the source has answered"):
            return proof.source_side(work.probe, planned.plan, level, None)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="verify") as pool:
        asked = pool.submit(ask)
        try:
            yield asked
        except BaseException as error:
            # A question that a source refuses, for a bad value, ends the snapshot that Spark reads.
            if isinstance(error, SourceUnavailable):
                wait([asked], REASON)
            reason = asked.exception() if asked.done() else None
            if isinstance(error, TidegateError) and isinstance(reason, TidegateError) and reason is not error:
                raise reason from error
            if not asked.done():  # it may take hours, and nobody needs the answer
                work.probe.cancel()
            raise


def verify(work: LoadContext, planned: PlannedLoad, written: Written, expected: Future[Fingerprint] | None) -> Verdict:
    """Equal, or an error.

    Args:
        expected: the source's answer, where it was asked for while Spark read.

    Raises:
        VerifyFailed: the committed version is not what the source holds; it is not published.
        SourceMoved: the source has changed in between.
    """
    plan, rows, staging = planned.plan, written.rows, written.staging
    with (
        work.journal.stage(Stage.VERIFY),
        recovery.seen_unverified(work, plan, staging),
        _proven_meanwhile(work.stream, plan, written),
    ):
        if event_fence.of_events(plan, work.stream.writer):
            return events.verify_events(work, rows.read.session, plan, staging, rows.batch)
        return _compare(work, plan, written, expected)


def _of_readers(work: LoadContext, plan: LoadPlan, session: SparkSession, *, seen: bool) -> VerifyFailed | None:
    """The error of files that their two readers read differently; None where they read the same."""
    files, values = work.probe.files, work.stream.policies.verify is VerifyLevel.MOVED
    if files is None or (found := files.disagreement(session, plan.changes.slices, values=values)) is None:
        return None
    return VerifyFailed(
        f"stream {plan.stream.name!r}: {found}; " + ("the rows are visible" if seen else "nothing was published"),
        hint="Leave the column out (`source: {exclude: […]}`), write the file another way, or take what Spark reads "
        f"with `verify: counts`{f'; then repair the table: `tidegate verify {plan.stream.name} --repair`' * seen}. "
        "Please report the format of the file and the type of the column.",
        load_id=plan.load_id,
    )


def _proven_meanwhile(stream: Stream, plan: LoadPlan, written: Written) -> AbstractContextManager[None]:
    """Proves a history while its rows are compared with the source's: either of them looks at the same rows."""
    versions = stream.writer.versions
    if versions is None or stream.policies.verify is VerifyLevel.NONE:
        return contextlib.nullcontext()
    return meanwhile("prove", versions.prove, written.checked, plan, written.staging)


def _compare(work: LoadContext, plan: LoadPlan, written: Written, expected: Future[Fingerprint] | None) -> Verdict:
    level, checked, staging = work.stream.policies.verify, written.checked, written.staging
    if level is VerifyLevel.NONE:
        return Verdict(equal=None)

    def ask() -> Fingerprint:
        return proof.source_side(work.probe, plan, level, checked.compared.latest, moved=checked.compared.moved)

    key_diff.need_absent(plan, staging, checked)
    source = expected.result() if expected is not None else ask()
    table = proof.read_back(plan, staging, checked, level)
    if table != source:
        table = proof.table_side(plan, staging, checked, level)
    sides, seen = proof.Sides(source=source, table=table), not staging.invisible
    try:
        verdict = proof.judge(plan, level, sides, again=ask, verify_unchanged=work.probe.verify_unchanged, seen=seen)
    except VerifyFailed as error:
        if (of_readers := _of_readers(work, plan, written.rows.read.session, seen=seen)) is None:
            raise
        raise of_readers from error
    older_files.verify(work, plan, staging, checked, level)
    return verdict
