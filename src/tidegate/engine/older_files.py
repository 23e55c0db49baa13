"""Restores rows from files loaded earlier when the file with the newest row of a key no longer has it.

Called between check and write, and again to verify the restored rows. Never restores a row that a file of the load
still has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.batch import Batch, Checked, Latest, RestoredRows
from tidegate.core.display import counted
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.manifest import LOADED
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.ports.format import Staging
from tidegate.core.schema import Schema
from tidegate.core.slices import Files, Keys
from tidegate.dialects.spark import Spark
from tidegate.engine.context import LoadContext
from tidegate.engine.quality import quality
from tidegate.engine.stream import VerifyLevel
from tidegate.engine.verification.fingerprint_sources import TableSide
from tidegate.engine.verification.proof import measured
from tidegate.errors import VerifyFailed
from tidegate.spark import dataframe_ops
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def restore(work: LoadContext, plan: LoadPlan, session: SparkSession, staging: Staging, checked: Checked) -> Checked:
    """The rows, together with those restored from older files.

    Raises:
        DuplicateKeys: two older files of one load have a key that is to come back, and nothing orders their rows.
    """
    older = [part for part in plan.changes.slices if isinstance(part, Files) and part.older and part.carrier]
    if plan.write.mode is not Mode.MERGE_PARTITIONS or not older:
        return checked
    part, spark = older[0], Spark()
    keys = [spark.quote(name) for name in plan.key]
    columns = Schema(columns=tuple(column for column in plan.columns if column.name in plan.key))
    with translated(f"comparing with {plan.stream.target}"):
        lost = dataframe_ops.without_keys(staging.read_partitions(plan.changes.slices), checked.frame, plan.key)
        # Read now: afterwards the staging shows what was written.
        side = TableSide(rows=lost.selectExpr(*keys).distinct().localCheckpoint(), columns=columns, key=plan.key)
        texts = [tuple(row) for row in side.rows.selectExpr(*side.texts()).collect()]
    if not texts:
        return checked
    named = Keys(columns=plan.key, values=tuple(sorted(key for key in texts if None not in key)))
    found, rule = _latest(work, plan, session, part, side.rows)
    restored = RestoredRows(files=part, keys=named, frame=side.rows, latest=rule)
    return replace(
        checked,
        frame=checked.frame.unionAll(dataframe_ops.completed(found, plan.columns)),
        compared=replace(checked.compared, restored=restored),
    )


def _latest(
    work: LoadContext, plan: LoadPlan, session: SparkSession, part: Files, keys: DataFrame
) -> tuple[DataFrame, Latest]:
    """The last row of each key in the older files, and the rule that determines it."""
    spark, order = Spark(), Latest(key=plan.key, order=(LOADED,))
    paths = tuple(path for _, path in part.older)
    loads = dataframe_ops.listed(
        session, [(spark.string(path), f"{number}L") for number, path in part.older], ("path", LOADED)
    )
    rows = work.stream.source.read(session, work.probe, (Files(paths=paths),), plan.columns)
    rows = dataframe_ops.of_keys(rows, keys, plan.key)
    rows = rows.join(loads.withColumnRenamed("path", part.carrier or ""), on=[part.carrier or ""], how="inner")
    rows = rows.selectExpr(*(spark.quote(name) for name in plan.columns.names), LOADED)
    batch = Batch(latest=order, keys_unique=False, skip_equal=False)
    one = work.stream.writer.check(quality.good(work, plan, rows), plan, batch)
    try:
        return one.frame.drop(LOADED).localCheckpoint(), one.compared.latest or order
    finally:
        quality.release(one)


def verify(work: LoadContext, plan: LoadPlan, staging: Staging, checked: Checked, level: VerifyLevel) -> None:
    """Compares the restored rows with the older files, as the second reader reads them.

    Not for streams with checks: rows that broke a rule are not restored.

    Raises:
        VerifyFailed: it is not the same.
    """
    back, files, judged = checked.compared.restored, work.probe.files, bool(work.stream.policies.checks)
    if back is None or level is VerifyLevel.NONE or judged or files is None:
        return
    source = files.restored(back.files, back.keys, back.latest)
    table = measured(staging.read_keys(back.frame, prune=()), plan, level)
    source = source if level is VerifyLevel.MOVED else Fingerprint(rows=source.rows)
    if source != table:
        raise VerifyFailed(
            f"stream {plan.stream.name!r}: rows restored from files loaded earlier differ: "
            f"{counted(source.rows, 'row')} at the "
            f"source, {table.rows} in {plan.stream.target}",
            load_id=plan.load_id,
        )
