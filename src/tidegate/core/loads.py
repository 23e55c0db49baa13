"""The rows of `loads_table:`: one for each run of a stream that loaded rows, or found its table to be current."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

KEY = ("stream_uid", "run_id")
TIME = "loaded_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRow:
    """One run of one stream; the fields are the columns, in order.

    Args:
        table_name: of the target in its lake, `namespace.table`.
        loaded_at: the start of the run: whatever the source had then is in the table, if the run `caught_up`.
        outcome: `loaded`, `unchanged`, or `recovered` of a run that ended after its commit and before it could report.
        load: the number of the stream's newest load.
        version_before, version_after: the table's version (Iceberg: snapshot) when the row before this one was written,
            and after the run. Each range begins where the one before ends, so that none is missing.
        rows_inserted, rows_updated, rows_deleted: None where the run could not report them.
        verified: whether what moved was compared with the source; None where it was not, or nothing moved.
        caught_up: whether the run took everything that the source had when it began.
    """

    stream: str
    stream_uid: str
    lake: str
    table_name: str
    run_id: str
    loaded_at: datetime
    outcome: str
    load: int | None
    version_before: str | None
    version_after: str | None
    rows_inserted: int | None
    rows_updated: int | None
    rows_deleted: int | None
    verified: bool | None
    caught_up: bool
