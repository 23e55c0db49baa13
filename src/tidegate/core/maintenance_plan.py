"""The plan of a load that no detection asked for.

Such loads re-stamp a position, replay quarantined rows, write a side table, or take a caller's own batch.
"""

from __future__ import annotations

from datetime import datetime

from tidegate.core.changes import ChangeSet
from tidegate.core.plan import Evolution, LoadPlan, PlannedDeletes, StreamRef, WriteChoice
from tidegate.core.policies.deletes import Deletes
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.schema import Schema

NO_COLUMNS = Schema(columns=())
HARD = Deletes()


def maintenance_plan(  # noqa: PLR0913 - everything that detection and contract decide for other loads
    stream: StreamRef,
    table: TableState,
    position: Position,
    *,
    at: datetime,
    changes: ChangeSet,
    write: WriteChoice,
    columns: Schema,
    key: tuple[str, ...] = (),
    added: Schema = NO_COLUMNS,
    deletes: Deletes = HARD,
) -> LoadPlan:
    """From the version and the position that the table stands at to `position`; see `LoadPlan`.

    A table that does not exist is created; its columns stay as they are.
    """
    return LoadPlan(
        stream=stream,
        created_at=at,
        base=table.snapshot,
        since=table.position,
        position=position,
        changes=changes,
        columns=columns,
        key=key,
        added=added,
        evolution=Evolution(create=not table.exists, source_columns=table.since_load.source_columns),
        write=write,
        deletes=PlannedDeletes(policy=deletes),
    )
