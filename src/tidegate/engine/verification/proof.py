"""Verifies a load: compares the fingerprint of what was written with that of the source.

The source's engine computes one side, Spark the other from the committed snapshot. Never looks at the rows that were
passed to the writer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tidegate.core import canonical_text
from tidegate.core.batch import Checked, ComparisonScope, Latest, QuarantinedRows
from tidegate.core.display import counted
from tidegate.core.effects import Apply
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Mode
from tidegate.core.ports.format import Staging
from tidegate.core.ports.source import Probe
from tidegate.core.slices import Slice
from tidegate.dialects.spark import Spark
from tidegate.engine.stream import VerifyLevel
from tidegate.engine.verification import expected
from tidegate.errors import VerifyFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


REPAIR = "Repair the table with `tidegate verify STREAM --repair`; until then no run continues from it."
VARIES = (
    "The source gave another answer when it was asked again, although nobody had written to it: a column is computed "
    "from the time or at random, as by now(). Take it out of the `query:`, or leave it out: `source: {exclude: […]}`."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Fingerprints of the moved rows at the source and in the table."""

    source: Fingerprint
    table: Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a verification that did not fail: None when none was asked for.

    Args:
        sides: the fingerprints that were compared; None if there are none.
    """

    equal: bool | None
    rows: int | None = None
    not_covered: tuple[str, ...] = ()
    sides: Sides | None = None

    def to_dict(self) -> dict[str, Any]:
        """The proof as a task stores it; empty if no fingerprints were compared."""
        if self.sides is None:
            return {}
        return {
            "source_fingerprint": str(self.sides.source),
            "table_fingerprint": str(self.sides.table),
            "columns_not_covered": list(self.not_covered),
        }


def source_side(
    probe: Probe,
    plan: LoadPlan,
    level: VerifyLevel,
    latest: Latest | None,
    *,
    moved: tuple[Slice, ...] | None = None,
) -> Fingerprint:
    """The source's fingerprint of the plan's slices: only the number of rows at level counts, all of it at level moved.

    Args:
        moved: the slices that the write actually changed, instead of the plan's.
    """
    measured = [part.fingerprint for part in plan.changes.parts if part.fingerprint is not None]
    if moved is None and len(measured) == len(plan.changes.slices):
        total = sum(measured, Fingerprint())
        return total if level is VerifyLevel.MOVED else Fingerprint(rows=total.rows)
    total, parts = Fingerprint(), plan.changes.slices if moved is None else moved
    if latest is not None and (whole := expected.around(parts, plan.changes.loaded_through)) is not None:
        parts, latest = (whole,), replace(latest, touched=parts)
    for part in parts:
        if level is VerifyLevel.COUNTS:
            total += Fingerprint(rows=probe.count(part, latest=latest))
        else:
            total += probe.fingerprint(part, latest=latest)
    return total


def read_back(plan: LoadPlan, staging: Staging, checked: Checked, level: VerifyLevel) -> Fingerprint | None:
    """The same as `table_side` for few rows, without Spark; None if that is not possible.

    A difference is no proof yet: rows that were skipped because they are equal are in no new file.
    """
    compared, quarantined = checked.compared, checked.verdicts.quarantined
    apart = (compared.where, quarantined, compared.moved, checked.deleted_keys, checked.dated.touched, checked.folded)
    if isinstance(plan.changes.effect, Apply) or any(each is not None for each in apart):
        return None
    rows = staging.written()
    if rows is None:
        return None
    if level is VerifyLevel.COUNTS:
        return Fingerprint(rows=rows.num_rows)
    with contextlib.suppress(ValueError, ArithmeticError):
        return canonical_text.of_table(plan.columns.covered, rows)
    return None


def table_side(plan: LoadPlan, staging: Staging, checked: Checked, level: VerifyLevel) -> Fingerprint:
    """The committed version's fingerprint of the same rows; of no rows for a load that read none."""
    compared, quarantined = checked.compared, checked.verdicts.quarantined
    if not plan.changes.slices and compared.moved is None:
        return Fingerprint()
    rows = _moved(plan, staging, checked)
    rows = rows if compared.where is None else rows.where(compared.where)
    if quarantined is not None:
        rows = _with_quarantined(rows, quarantined, plan, compared)
    return measured(rows, plan, level)


def measured(rows: DataFrame, plan: LoadPlan, level: VerifyLevel) -> Fingerprint:
    """The fingerprint of rows with the plan's columns; at level counts only their number."""
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows have moved, Spark is running

    if level is VerifyLevel.COUNTS:
        return Fingerprint(rows=rows.count())
    return dataframe_ops.fingerprint(rows, Spark().steps(plan.columns.columns))


def _moved(plan: LoadPlan, staging: Staging, checked: Checked) -> DataFrame:
    if plan.write.mode in (Mode.OVERWRITE_PARTITIONS, Mode.MERGE_PARTITIONS, Mode.REPLACE_FILES):
        return staging.read_partitions(plan.changes.slices)
    if plan.write.mode is Mode.APPEND:
        return staging.read_added()
    if checked.compared.moved is not None:
        return staging.read_partitions(checked.compared.moved)
    if plan.write.mode in (Mode.OVERWRITE, Mode.MERGE_DIFFERENCES):
        return staging.read()
    return staging.read_keys(checked.keys, prune=checked.prune)


def _with_quarantined(
    rows: DataFrame, quarantined: QuarantinedRows, plan: LoadPlan, compared: ComparisonScope
) -> DataFrame:
    """The rows together with the quarantined ones, which the source holds and the table does not.

    If the source is asked for the last row of each key, a quarantined row counts for its key if it is the last one.
    """
    from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows have moved, Spark is running

    held = quarantined.frame
    if compared.latest is not None:
        held = held.where(quarantined.last)
    replaced = held if compared.latest is not None else quarantined.kept
    if replaced is not None:
        rows = dataframe_ops.without_keys(rows, replaced, quarantined.key)
    if compared.moved is not None:
        held = held.where(Spark().among(compared.moved, plan.columns))
    return dataframe_ops.completed(rows, plan.columns).unionAll(dataframe_ops.completed(held, plan.columns))


def judge(  # noqa: PLR0913 - both sides, and the ways to ask again
    plan: LoadPlan,
    level: VerifyLevel,
    sides: Sides,
    *,
    again: Callable[[], Fingerprint],
    verify_unchanged: Callable[[], None],
    seen: bool = False,
) -> Verdict:
    """Returns the verdict, or raises: a source that changed meanwhile is distinguished from a wrong table.

    Args:
        again: asks the source once more; called only if the sides differ.
        verify_unchanged: raises SourceMoved if the source changed since it was opened and was read without a snapshot.
        seen: the rows are already visible, because the format cannot hide them.

    Raises:
        SourceMoved: the source has changed in between.
        VerifyFailed: the source stood still and the sides differ, so the table is wrong, or nobody can tell.
    """
    source, table = sides.source, sides.table
    if source != table and (asked_again := again()) != table:
        verify_unchanged()
        varies = VARIES if asked_again != source else None
        what = "rows" if source.rows != table.rows else "fingerprints"
        raise VerifyFailed(
            f"stream {plan.stream.name!r}: {what} differ after the write: {counted(source.rows, 'row')} at the source, "
            f"{table.rows} in {plan.stream.target}; " + ("the rows are visible" if seen else "nothing was published"),
            hint=" ".join(filter(None, (varies, REPAIR if seen else None))) or None,
            load_id=plan.load_id,
        )
    not_covered = plan.columns.not_covered if level is VerifyLevel.MOVED else ()
    # A source that moved while it was read, and answered like the table when it was asked again, is equal now.
    return Verdict(equal=True, rows=table.rows, not_covered=not_covered, sides=Sides(source=table, table=table))
