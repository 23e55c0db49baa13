"""Everything that a `Project` returns: frozen values with the fields of the JSON documents.

Each has a readable `str()`, an HTML table for notebooks, and `to_dict()` for JSON. Rows are counts; sizes are bytes;
durations are seconds unless the type is `timedelta`; timestamps are time-zone-aware, in UTC.
"""

from tidegate.core.backfill import Backfill
from tidegate.core.bucketing import Level
from tidegate.core.intervals import Interval, Intervals
from tidegate.core.lateness import Lateness
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.core.policies.maintenance import Version
from tidegate.core.report import RunReport, StreamReport
from tidegate.core.table_facts import TableFacts
from tidegate.engine.assemble.check import CheckedStream
from tidegate.engine.assemble.doctor import Finding
from tidegate.engine.attention import Attention
from tidegate.engine.backfill.backfill import Backfills
from tidegate.engine.checksum_tasks import ChecksumTask, ChecksumTasks, Identifiers, StreamTasks
from tidegate.engine.maintenance.maintain import StreamUpkeep, UpkeepReport
from tidegate.engine.maintenance.rollback import RolledBack
from tidegate.engine.positions import States, StateView
from tidegate.engine.preview import PlannedSlice, PlanReport, StreamPlan
from tidegate.engine.proof import Comparison, ProofReport, Proven, StreamProof
from tidegate.engine.replay import Quarantined, Replayed
from tidegate.engine.savings import SavingsReport, StreamSavings
from tidegate.engine.table_view import TableColumn, TableView
from tidegate.engine.verify import Verification, VerificationReport
from tidegate.engine.watch import WatchResult
from tidegate.registry.values import RunRecord, StreamStatus, TaskRecord

__all__ = [
    "Attention",
    "Backfill",
    "Backfills",
    "CheckedStream",
    "ChecksumTask",
    "ChecksumTasks",
    "Comparison",
    "Finding",
    "Identifiers",
    "Interval",
    "Intervals",
    "Lateness",
    "Level",
    "Outcome",
    "PlanReport",
    "PlannedSlice",
    "Problem",
    "ProofReport",
    "Proven",
    "Quarantined",
    "Replayed",
    "Result",
    "RolledBack",
    "RunRecord",
    "RunReport",
    "SavingsReport",
    "StateView",
    "States",
    "StreamPlan",
    "StreamProof",
    "StreamReport",
    "StreamSavings",
    "StreamStatus",
    "StreamTasks",
    "StreamUpkeep",
    "TableColumn",
    "TableFacts",
    "TableView",
    "TaskRecord",
    "UpkeepReport",
    "Verification",
    "VerificationReport",
    "Version",
    "WatchResult",
]
