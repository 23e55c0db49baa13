"""Plan: slices, effect, write mode and number of rows, saved before a row is read.

Starts no Spark. The decisions are pure functions in `engine/planner`; this module collects their inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply
from tidegate.core.plan import KeyFacts, LoadPlan, Mode, WriteFacts
from tidegate.core.slices import Files, SnapshotPair
from tidegate.engine import partitions, rescued_columns
from tidegate.engine.context import LoadContext, PlannedLoad
from tidegate.engine.deletes import delete_guard
from tidegate.engine.events import Stage
from tidegate.engine.planner import PlanInputs, make_plan
from tidegate.engine.reconcile import holds_rows
from tidegate.engine.recovery import restored_source
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, SchemaRefused


def plan(work: LoadContext, changes: ChangeSet, *, save: Callable[[LoadPlan], None], some: bool = False) -> PlannedLoad:
    """Plans one load of these changes; moves nothing, starts no Spark. The plan is passed to `save` before it is used.

    Args:
        some: it reads some rows beside the loads that go on, so other rows may lack columns that it brings.
    """
    stream, probe = work.stream, work.probe
    with work.journal.stage(Stage.PLAN) as tell:
        unique = bool(stream.key) and not isinstance(changes.effect, Apply) and probe.unique(stream.key)
        found = PlanInputs(
            table=work.recovered.table,
            since=work.recovered.since,
            changes=replace(partitions.described(changes, probe, probe.schema()), read_at=probe.now()),
            columns=probe.schema(),
            identity=probe.identity(),
            clock=probe.clock(),
            witness=restored_source.witness(stream, probe, work.recovered.since),
            facts=_write_facts(work, changes, unique=unique),
            most_deleted=delete_guard.limit(work),
            last_sequence=work.context.registry.last_sequence(stream.uid),
            unloaded=rescued_columns.unloaded_changes(probe),
            before=work.recovered.table.since_load.source_columns,
        )
        made = make_plan(stream, found, now=work.context.now())
        made = replace(made, since=work.recovered.stored)
        made = keep_loaded_columns(made, found) if some else made
        _refuse_irreplaceable(stream, made)
        _refuse_layout(stream, made)
        save(made)
        work.journal.rows, work.journal.plan = changes.rows, made
        tell(made.write.reason)
    return PlannedLoad(plan=made, unique=unique)


def _refuse_irreplaceable(stream: Stream, plan: LoadPlan) -> None:
    """Refuses to give a column another type where the table's format cannot, or where rows of the table stay.

    Raises:
        SchemaRefused: nothing was touched.
    """
    if not plan.replaced:
        return
    reason = stream.format.irreplaceable(stream.target, plan.replaced)
    if plan.write.mode is not Mode.OVERWRITE:
        reason = f"rows of the table stay with this load ({plan.write.mode})"
    if reason is not None:
        raise SchemaRefused(
            f"stream {stream.name!r}: the type of {', '.join(plan.replaced)} cannot be replaced: {reason}",
            hint="Use another target, or drop the table; its next load makes it with the new types.",
            column=plan.replaced[0],
        )


def _refuse_layout(stream: Stream, plan: LoadPlan) -> None:
    """Refuses a new table that its format cannot lay out so, before a row is read.

    Raises:
        ConfigError: every reason.
    """
    problems = stream.format.layout_problems(stream.policies.layout, plan.table) if plan.evolution.create else ()
    if found := "; ".join(problem.removeprefix("layout: ") for problem in problems):
        raise ConfigError(f"stream {stream.name!r}: layout: {found}", hint="Correct `layout:` in tidegate.yaml.")


def keep_loaded_columns(plan: LoadPlan, found: PlanInputs) -> LoadPlan:
    """The same load; the table goes on saying with which columns every row was loaded."""
    if plan.since is None:
        return plan
    known = plan.evolution.source_columns
    known = known.of_some_rows(found.before) if known is not None else None
    evolution = replace(plan.evolution, source_columns=known)
    return replace(plan, position=replace(plan.position, schema=plan.since.schema), evolution=evolution)


def _write_facts(work: LoadContext, changes: ChangeSet, *, unique: bool) -> WriteFacts:
    """What the writer chooses its mode by."""
    stream, table = work.stream, work.recovered.table
    filled = holds_rows(table)
    reset = work.context.reset if table.snapshot is not None else None
    bounds, apart = None, False
    if stream.writer.needs_key and filled and reset is None and _bounded(changes):
        bounds = work.probe.key_bounds(changes.slices[0], stream.key[0])
        if bounds is not None and unique and work.key_diff is None:
            apart = not stream.format.may_hold(stream.target, bounds)
    return WriteFacts(
        effect=changes.effect,
        rows=changes.rows,
        table_rows=table.rows if filled else 0,
        reset=reset,
        keys=KeyFacts(columns=stream.key, unique=unique, bounds=bounds, apart=apart),
        aligned=filled and changes.grouping is not None and stream.format.aligned(stream.target, changes.grouping),
        counted=stream.policies.deletes.soft or delete_guard.limit(work) is not None,
        missing_keys=work.key_diff is not None,
        carried=any(isinstance(part, Files) and part.carrier for part in changes.slices),
        copies_files=table.since_load.copies_files,
    )


def _bounded(changes: ChangeSet) -> bool:
    """Whether the keys of what is read lie within bounds that the source can tell and that are worth the question."""
    if changes.grouping is not None or changes.whole or len(changes.slices) != 1:
        return False
    return not isinstance(changes.slices[0], SnapshotPair)
