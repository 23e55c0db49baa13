"""Applies a stream's checks to the rows of a load before they are published, and separates the invalid rows.

A load never continues if its rows fail a check with `on_fail: stop`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Batch, Checked, Latest, QuarantinedRows, Verdicts
from tidegate.core.display import counted, done_by
from tidegate.core.effects import Apply, Mirror
from tidegate.core.log import ORIGIN, REFUSED
from tidegate.core.outcome import Result
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.policies.rules import CheckContext, MeasuredCheck, Rule, RuleViolation, Scope
from tidegate.core.ports.format import Staging
from tidegate.core.quarantine import REFUSED_EVENT
from tidegate.core.schema import Schema
from tidegate.dialects.spark import Spark
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.quality import rules
from tidegate.engine.quarantine.quarantine import Quarantine, carried, quarantine_rows
from tidegate.engine.quarantine.superseded import Load, one_a_key
from tidegate.engine.stream import Stream
from tidegate.errors import CheckFailed, DuplicateKeys, PlanError, WriteError
from tidegate.spark import dataframe_ops, validation
from tidegate.spark.caching import persisted
from tidegate.spark.failures import translated
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOADS = 50
NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationSplit:
    """The result of the checks for the rows of a load.

    Args:
        good: the rows that may be written.
        read: every row that was read, with `validation.ERRORS` if rules of single rows were evaluated.
        rows, bad: how many were read and how many are quarantined; None if they were not counted.
        warned: how many of the good ones break a rule that only warns.
        findings: see `Checked`.
    """

    good: DataFrame
    read: DataFrame
    rows: int | None = None
    bad: int = 0
    warned: int = 0
    findings: tuple[str, ...] = ()


def check(work: LoadContext, planned: PlannedLoad, batch: Batch, rows: DataFrame, held: ExitStack) -> Checked:
    """The rows that may be written; the others are quarantined, in a commit that counts once the load is committed.

    Args:
        held: lets go what Spark keeps for the load, when it ends.

    Raises:
        CheckFailed: rows break a rule that stops a load; nothing was written.
        DuplicateKeys: see `Writer.check`.
    """
    stream, plan, session = work.stream, planned.plan, rows.sparkSession
    folds = batch.fence is not None  # and counts in the same pass what cannot be taken, which is hardly ever there
    if not stream.policies.checks and (folds or REFUSED not in rows.columns) and not Quarantine.of(stream).filled:
        checked = stream.writer.check(rows, plan, batch)
        held.callback(release, checked)
        if not checked.verdicts.refused:
            return checked
    kept = rows
    if stream.policies.checks or REFUSED in rows.columns or plan.key:
        kept = persisted(rows)  # looked at, then written to two tables
        held.callback(kept.unpersist)
    found = _sorted(work, plan, kept)
    if found.bad:
        batch = replace(batch, bounds=())  # they were told of all the rows
        _refuse_ties(work, planned, found.read)
    checked = stream.writer.check(found.good, plan, replace(batch, cheap=batch.cheap or folds))
    held.callback(release, checked)
    load = Load(
        plan=plan,
        read=found.read,
        bad=found.bad,
        rule=_last(checked, planned, stream),
        unique=planned.unique,
        full_refresh=work.context.full_refresh,
        fence=batch.fence,
        folded=checked.folded,
    )
    quarantined = quarantine_rows(work.context, stream, session, load)
    values = carried(stream, session, load, work.recovered.table)
    verdicts = replace(_with_findings(checked.verdicts, quarantined, found), carried=values)
    return replace(checked, verdicts=verdicts)


def _with_findings(verdicts: Verdicts, quarantined: QuarantinedRows | None, found: ValidationSplit) -> Verdicts:
    return replace(verdicts, quarantined=quarantined, findings=found.findings, warned=found.warned)


def good(work: LoadContext, plan: LoadPlan, rows: DataFrame) -> DataFrame:
    """Of rows that are read again, those that passed the checks the first time."""
    read = _annotated(work, plan, rows)
    return rows if read is None else validation.good(read, rows.columns)


def judged(stream: Stream, columns: Schema, rows: DataFrame, *, key: Sequence[str]) -> DataFrame:
    """Quarantined rows with the current result of the checks, and whether each may be loaded."""
    rules.refuse_rules(stream.name, stream.policies.checks, columns)
    return validation.replayable(_asked(stream, columns, rows), key, complete=stream.writer.versions is not None)


def _annotated(work: LoadContext, plan: LoadPlan, rows: DataFrame) -> DataFrame | None:
    """The rows with the rules that each one breaks; None if there is no rule about single rows."""
    stream = work.stream
    if REFUSED not in rows.columns and not rules.conditions(stream.policies.checks, plan.columns):
        return None
    return _asked(stream, plan.columns, rows)


def _asked(stream: Stream, columns: Schema, rows: DataFrame) -> DataFrame:
    lookups = rules.lookups(stream.policies.checks)
    for rule, lookup in lookups:
        rows = validation.with_lookup(rows, lookup.there(rows.sparkSession), rule.name, lookup.columns)
    if lookups:
        rows = rows.localCheckpoint()  # Spark 4.1 cannot merge from a view over another table of a lake
    return validation.annotated(rows, rules.conditions(stream.policies.checks, columns), refused=stream.refused)


def _last(checked: Checked, planned: PlannedLoad, stream: Stream) -> Latest | None:
    """The rule that determines the last row of each key; None if no two rows have the same key."""
    latest = checked.compared.latest
    if latest is not None or not planned.plan.key:
        return latest
    if isinstance(planned.plan.changes.effect, Apply):
        return Latest(key=planned.plan.key, order=(dataframe_ops.ORDER,))
    return None if planned.unique else Latest(key=planned.plan.key, order=stream.order)


def _refuse_ties(work: LoadContext, planned: PlannedLoad, read: DataFrame) -> None:
    """Raises DuplicateKeys if several rows of a key have no order, even if one of them is bad."""
    stream, plan = work.stream, planned.plan
    if planned.unique or not one_a_key(stream) or isinstance(plan.changes.effect, Apply):
        return
    rule = Latest(key=plan.key, order=stream.order)
    if (versions := stream.writer.versions) is not None:
        moment = versions.moment(stream.strategy.cursor)
        if moment is None or isinstance(plan.changes.effect, Mirror):
            return
        read = read.selectExpr("*", f"{moment} AS {dataframe_ops.MOMENT}")
        rule = Latest(key=(*plan.key, dataframe_ops.MOMENT), order=())
    known = " AND ".join(f"{quote(name)} IS NOT NULL" for name in rule.key)
    columns = dict.fromkeys((*plan.columns.names, *rule.key))
    with _asking(plan):
        tied = dataframe_ops.ties(read.where(known).selectExpr(*map(quote, columns)), rule)
    if tied:
        raise DuplicateKeys(
            f"{counted(tied, 'key')} ({', '.join(plan.key)}) {done_by(tied, 'have')} several different rows, "
            f"valid and invalid, and nothing says "
            f"which one is later",
        )


def release(checked: Checked) -> None:
    """Removes the rows cached for the write from Spark."""
    if checked.held is not None:
        with suppress(Exception):  # a Spark that died holds nothing, and the reason is on its way
            checked.held.unpersist()


def _sorted(work: LoadContext, plan: LoadPlan, rows: DataFrame) -> ValidationSplit:
    """One pass over the rows for all rules."""
    stream, columns = work.stream, rows.columns
    # Of a load that only deletes no row was expected.
    of_load = rules.measured(stream.policies.checks, Scope.LOAD) if plan.changes.slices else []
    asked = rules.conditions(stream.policies.checks, plan.columns)
    with _asking(plan):
        read = _annotated(work, plan, rows)
        if read is None and not of_load:
            return ValidationSplit(good=rows, read=rows)
        read = read if read is not None else validation.annotated(rows, (), refused=stream.refused)
        names = [each.rule for each in asked]
        counts = ["count(*)", validation.BROKEN, validation.WARNED, *map(validation.breaking, [*names, REFUSED_EVENT])]
        answers, found = _answers(read, counts, of_load, plan)
    total, bad, warned, *each = (int(number) for number in answers)
    broken = [
        RuleViolation(rule=one.rule, columns=one.columns, on_fail=one.on_fail, reason=one.reason, rows=number)
        for one, number in zip(asked, each, strict=False)
        if number
    ]
    if each[-1]:
        reason = f"events that cannot be applied ({_first(read)})"
        broken.append(
            RuleViolation(rule=REFUSED_EVENT, columns=(), on_fail=stream.refused, reason=reason, rows=each[-1])
        )
    broken += _judged(found, _known(work, of_load))
    work.journal.broken += tuple(broken)
    findings = rules.settle(stream.name, broken, total)
    kept = validation.good(read, columns)
    return ValidationSplit(good=kept, read=read, rows=total, bad=bad, warned=warned, findings=findings)


def _first(read: DataFrame) -> str:
    """The places of the first events that cannot be applied, and why; never their content."""
    found = read.where(f"{REFUSED} IS NOT NULL").selectExpr(ORIGIN, REFUSED).limit(NAMED).collect()
    return "; ".join(f"{origin}: {why}" for origin, why in found)


Judging = Sequence[tuple[Rule, MeasuredCheck]]


def _answers(
    rows: DataFrame, counts: Sequence[str], judging: Judging, plan: LoadPlan
) -> tuple[list[Any], list[tuple[Rule, MeasuredCheck, list[Any]]]]:
    """The counts and the answers for each check, from one pass over the rows."""
    own = [validation.filtered(check.ask(plan.columns), rule.where) for rule, check in judging]
    answers = validation.measured(rows, [*counts, *(one for some in own for one in some)])
    rest, found = answers[len(counts) :], []
    for (rule, check), some in zip(judging, own, strict=True):
        found.append((rule, check, rest[: len(some)]))
        rest = rest[len(some) :]
    return answers[: len(counts)], found


def _judged(found: Sequence[tuple[Rule, MeasuredCheck, list[Any]]], known: CheckContext) -> list[RuleViolation]:
    judgements = ((rule, check.judge(answers, known)) for rule, check, answers in found)
    return [
        RuleViolation(rule=rule.name, columns=rule.check.columns, on_fail=rule.on_fail, reason=rule.redact(reason))
        for rule, reason in judgements
        if reason is not None
    ]


def _known(work: LoadContext, judging: Judging) -> CheckContext:
    context = work.context
    past = context.registry.history(work.stream.uid, LOADS) if judging else []
    loads = [run.details["rows_read"] for run in past if run.outcome == Result.LOADED and run.details]
    return CheckContext(now=context.now(), loads=loads)


def check_before_create(work: LoadContext, plan: LoadPlan, checked: Checked) -> Checked:
    """The same rows. If the load creates the table, the rules about the whole table are checked first.

    Not for a history: its versions are known only once they are written.

    Raises:
        CheckFailed: the table would break a rule that stops a load; it was not made.
    """
    judging = rules.measured(work.stream.policies.checks, Scope.TABLE)
    if judging and work.recovered.table.snapshot is None and work.stream.writer.versions is None:
        _of_table(work, plan, _rows_after_write(checked, plan, checked.frame.where("false"), "true"), judging)
    return checked


def write(work: LoadContext, plan: LoadPlan, staging: Staging, checked: Checked) -> Checked:
    """The writer's commit, and the rules about the whole table: checked on the invisible version if there is one.

    If a write is visible at once, they are checked before it, on the rows that the table would have.

    Raises:
        CheckFailed: the table would break a rule that stops a load; it stays as it was.
        PlanError: how the table would be cannot be told before it is written.
    """
    judging = rules.measured(work.stream.policies.checks, Scope.TABLE)
    if not judging:
        return work.stream.writer.write(checked, plan, staging)
    findings: tuple[str, ...] = ()
    if not staging.invisible:
        versions = work.stream.writer.versions
        if versions is not None and not isinstance(plan.changes.effect, Apply):
            after = dataframe_ops.completed(versions.currently(checked, plan, staging), plan.columns)
        else:
            after = _rows_after_write(checked, plan, staging.read(), work.stream.writer.current)
        findings = _of_table(work, plan, after, judging)
    written = work.stream.writer.write(checked, plan, staging)
    if staging.invisible and written.skipped is None:
        findings = _of_table(work, plan, staging.read().where(work.stream.writer.current), judging)
    verdicts = written.verdicts
    return replace(written, verdicts=replace(verdicts, findings=(*verdicts.findings, *findings)))


def _of_table(work: LoadContext, plan: LoadPlan, table: DataFrame, judging: Judging) -> tuple[str, ...]:
    with _asking(plan):
        _, found = _answers(table, (), judging, plan)
    broken = _judged(found, _known(work, judging))
    work.journal.broken += tuple(broken)
    return rules.settle(work.stream.name, broken, None)


def _rows_after_write(checked: Checked, plan: LoadPlan, present: DataFrame, counts: str) -> DataFrame:
    """The rows that the table would have after the write, restricted by the condition `counts`."""
    now = dataframe_ops.completed(present.where(counts), plan.columns)
    changelog = isinstance(plan.changes.effect, Apply)
    coming = checked.frame.where(f"NOT {dataframe_ops.DELETED} AND ({counts})") if changelog else checked.frame
    coming = dataframe_ops.completed(coming, plan.columns)
    quarantined = checked.verdicts.quarantined
    if quarantined is not None and quarantined.kept is not None:
        keys = quarantined.kept.selectExpr(*map(quote, plan.key))
        coming = coming.unionAll(dataframe_ops.of_keys(now, keys, plan.key))
        now = dataframe_ops.without_keys(now, keys, plan.key)
    match plan.write.mode:
        case Mode.APPEND:
            return now.unionAll(coming)
        case Mode.OVERWRITE | Mode.MERGE_DIFFERENCES:
            return coming
        case Mode.OVERWRITE_PARTITIONS | Mode.MERGE_PARTITIONS | Mode.REPLACE_FILES:
            within = Spark().among(plan.changes.slices, plan.columns)
            now = now.where(f"NOT coalesce({within}, false)")
        case Mode.MERGE_ON_READ | Mode.COPY_ON_WRITE:
            pass
        case _:
            raise PlanError(
                f"stream {plan.stream.name!r}: on a Delta lake, a check of the whole table runs before the write, and "
                f"with write: {plan.write.mode} the resulting table is not known then",
                hint="Remove `unique` and `row_count: {of: table}`, or write to an Iceberg lake.",
            )
    if plan.key:
        now = dataframe_ops.without_keys(now, checked.frame, plan.key)
    if checked.deleted_keys:
        now = dataframe_ops.without_keys(now, checked.deleted_keys.frame, plan.key)
    return now.unionAll(coming)


@contextmanager
def _asking(plan: LoadPlan) -> Iterator[None]:
    try:
        with translated(f"checking the rows for {plan.stream.target}"):
            yield
    except WriteError as error:
        raise CheckFailed(
            f"{error.message}; nothing was published",
            hint="If the SQL of a check is the cause, correct it under `checks:`, then run `tidegate check`.",
        ) from error
