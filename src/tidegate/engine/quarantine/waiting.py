"""Counts the rows in a stream's quarantine without Spark."""

from __future__ import annotations

from tidegate.core.ids import Target
from tidegate.core.ports.format import Format
from tidegate.core.quarantine import quarantine_of, uid_of
from tidegate.engine.reconcile import holds_rows


def waiting_rows(lake: Format, target: Target, uid: str) -> dict[str, int] | None:
    """The rows that wait, by the rule that they broke, in the order of the rules.

    Counts as `Quarantine.rows` does: only rows of loads that landed, and that no load that landed took back.

    Returns:
        None where the quarantine can only be read by Spark.

    Raises:
        WriteError: the catalog or the table's metadata cannot be read.
    """
    state = lake.state(quarantine_of(target), uid_of(uid))
    if not state.exists or not holds_rows(state):
        return {}
    position = lake.state(target, uid).position
    inspection = lake.inspection
    rows = None if inspection is None else inspection.rows(quarantine_of(target), ("load", "until", "rule"))
    if rows is None:
        return None
    import pyarrow.compute as pc  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second

    number = position.sequence if position is not None else 0
    landed = pc.less_equal(rows["load"], number)
    waits = pc.fill_null(pc.greater(rows["until"], number), fill_value=True)
    counted = rows.filter(pc.and_(landed, waits))["rule"].value_counts().to_pylist()
    return {each["values"]: each["counts"] for each in sorted(counted, key=lambda each: str(each["values"]))}
