"""Decides whether what was written equals what the source held.

Called between write and advance. The source's engine computes one side, Spark the other from the committed
snapshot; must never look at the rows that were handed to the writer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.protocols import Latest, Probe, Staging, Written
from tidegate.dialects.spark import Spark
from tidegate.engine.stream import VerifyLevel
from tidegate.errors import SourceMoved, VerifyFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a verification that did not fail: None when none was asked for."""

    equal: bool | None
    rows: int | None = None
    not_covered: tuple[str, ...] = ()


def source_side(probe: Probe, plan: LoadPlan, level: VerifyLevel, latest: Latest | None) -> Fingerprint:
    """What the source holds of the plan's slices: rows alone at level counts, all five numbers at level moved."""
    total = Fingerprint()
    for part in plan.changes.slices:
        if level is VerifyLevel.COUNTS:
            total += Fingerprint(rows=probe.count(part, latest=latest))
        else:
            total += probe.fingerprint(part, latest=latest)
    return total


def table_side(plan: LoadPlan, staging: Staging, written: Written, level: VerifyLevel) -> Fingerprint:
    """What the committed, invisible version holds of the same rows."""
    from tidegate.spark import frames  # noqa: PLC0415 - rows have moved, Spark is running

    rows = _moved(plan, staging, written)
    if level is VerifyLevel.COUNTS:
        return Fingerprint(rows=rows.count())
    spark = Spark()
    return frames.fingerprint(rows, digest=spark.digest(plan.columns.columns), sums=spark.sums("digest"))


def _moved(plan: LoadPlan, staging: Staging, written: Written) -> DataFrame:
    if written.keys is not None:
        return staging.read_keys(written.keys, prune=written.prune)
    if plan.write.mode is Mode.APPEND:
        return staging.read_added()
    return staging.read()


def judge(
    plan: LoadPlan, level: VerifyLevel, *, source: Fingerprint, table: Fingerprint, again: Callable[[], Fingerprint]
) -> Verdict:
    """Equal, or an error; a source that changed in between is told apart from a table that is wrong.

    Args:
        again: asks the source once more; called only when the sides differ.

    Raises:
        SourceMoved: the source gives another answer now than before.
        VerifyFailed: the source gives the same answer, so the table is wrong.
    """
    not_covered = plan.columns.not_covered if level is VerifyLevel.MOVED else ()
    if source != table:
        second = again()
        if second not in (source, table):
            raise SourceMoved(f"the source of stream {plan.stream!r} changed while it was being read")
        if second != table:
            what = "rows" if source.rows != table.rows else "fingerprints"
            raise VerifyFailed(
                f"stream {plan.stream!r}: {what} differ after the write: {source.rows} rows at the source, "
                f"{table.rows} in {plan.target}; nothing was published",
                load_id=plan.load_id,
            )
    return Verdict(equal=True, rows=table.rows, not_covered=not_covered)
