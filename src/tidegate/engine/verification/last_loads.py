"""Chooses, among files read by several loads, the row of each key that was loaded last.

Raises an error where the order of two loads is not known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Checked, Latest
from tidegate.core.manifest import LOAD, LOADED, Manifest
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.source import Probe
from tidegate.core.position import Position
from tidegate.core.schema import Schema
from tidegate.core.slices import Files, Keys
from tidegate.engine.context import LoadContext
from tidegate.engine.stream import Stream
from tidegate.engine.verification import expected
from tidegate.errors import PlanError
from tidegate.spark import dataframe_ops

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def refuse_unknown(stream: Stream, since: Position, manifest: Manifest, probe: Probe) -> None:
    """Asks the source where nobody remembers which loads read several files.

    Raises:
        PlanError: two of them have rows of one key, and which one counts depends on their loads.
    """
    unknown = tuple(file.path for file in manifest.files.values() if not file.loaded)
    rule = expected.rule(stream, since)
    if rule is None or LOADED not in rule.order or len(unknown) < 2:
        return
    one = Latest(key=rule.key, order=())
    keys = probe.count(Files(paths=unknown), latest=one)
    if sum(probe.count(Files(paths=(path,)), latest=one) for path in unknown) > keys:
        raise PlanError(
            f"the table of stream {stream.name!r} cannot be compared with its files: several of them have rows with "
            f"the same key, and the registry, which was lost and rebuilt, does not know which of them was loaded last",
            hint=f"Reload all files in one load: `tidegate run {stream.name} --full-refresh --yes`; the "
            "writer's `order_by:` then decides which row of a key wins.",
        )


def read(work: LoadContext, plan: LoadPlan, session: SparkSession) -> DataFrame:
    """The rows of the plan's slices; where these name keys, of each key those that its last load read.

    Rows: the plan's columns in order.
    """
    source = work.stream.source
    if _rule(work.stream, plan) is None:
        return source.read(session, work.probe, plan.changes.slices, plan.columns)
    asked = Schema(columns=(*plan.columns, LOAD))
    rows = source.read(session, work.probe, plan.changes.slices, asked)
    return dataframe_ops.greatest(rows, LOADED, key=plan.key).drop(LOADED)


def with_rule(stream: Stream, plan: LoadPlan, checked: Checked) -> Checked:
    """The batch with the whole rule by which its rows were chosen."""
    rule = _rule(stream, plan)
    return checked if rule is None else replace(checked, compared=replace(checked.compared, latest=rule))


def _rule(stream: Stream, plan: LoadPlan) -> Latest | None:
    """What orders the rows of several loads; None where the plan reads no such rows."""
    slices = plan.changes.slices
    rule = expected.rule(stream, plan.since) if any(isinstance(part, Keys) for part in slices) else None
    return rule if rule is not None and LOADED in rule.order else None
