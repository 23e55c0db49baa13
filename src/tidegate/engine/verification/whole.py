"""Compares a whole table with its source, and keeps what was found as a task of the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.core.bucketing import Level
from tidegate.core.display import counted
from tidegate.core.position_state import begin_of
from tidegate.engine import load_history
from tidegate.engine.context import LoadContext
from tidegate.engine.events import Stage
from tidegate.engine.verification import comparison
from tidegate.engine.verification.drilldown import Difference
from tidegate.registry.facts import MEASURE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOING = {
    Level.COUNTS: "counting rows",
    Level.CHECKSUM: "comparing fingerprints",
    Level.ROWS: "looking for rows that differ",
}


def compared(work: LoadContext, session: SparkSession, level: Level) -> Difference:
    """What differs, kept as a task. Raises SourceMoved: the source was written to meanwhile, and shares no snapshot."""
    stream, context = work.stream, work.context
    with (
        work.journal.stage(Stage.VERIFY) as tell,
        context.registry.task(stream.uid, MEASURE, run_id=context.run_id) as payload,
    ):
        read_at = work.probe.now()  # before the snapshot is taken, which holds all that was written until then
        work.journal.working(f"{stream.target}: {DOING[level]}")
        difference = comparison.difference(work, session, level)
        work.probe.verify_unchanged()
        payload |= {"source_rows": difference.source_rows, "target_rows": difference.target_rows}
        payload |= {"level": str(level), "equal": difference.equal, "snapshot": work.recovered.table.snapshot}
        columns = work.probe.schema()
        payload |= {"columns_not_covered": list(columns.not_covered), "columns_excluded": list(columns.excluded)}
        payload |= {"rows_quarantined": difference.quarantined}
        if (loaded := work.recovered.loaded) is not None:
            payload.update(load_history.proof_of(loaded.load_id, read_at))
            if begin := begin_of(loaded.state):
                payload.update(begin=dict(begin))
        if difference.fingerprints is not None:
            source, table = difference.fingerprints
            payload |= {"source_fingerprint": str(source), "table_fingerprint": str(table)}
        payload |= {"slices_different": difference.buckets}
        tell(f"{counted(difference.source_rows, 'row')} at the source, {difference.target_rows:,} in {stream.target}")
    return difference
