"""Says of a failed read that a file of the table itself is damaged, and which one."""

from __future__ import annotations

from contextlib import suppress

from tidegate.engine.stream import Stream
from tidegate.errors import (
    CommitConflict,
    CommitUnknown,
    FileUnreadable,
    SourceMoved,
    SparkLost,
    TableDamaged,
    TidegateError,
    VersionGone,
    WriteError,
)
from tidegate.spark.failures import everything, failed_in_a_job

POSSIBLE = (FileUnreadable, SourceMoved, WriteError)
OTHERS = (CommitConflict, CommitUnknown, SparkLost, TableDamaged, VersionGone)


def named(stream: Stream, error: TidegateError) -> TidegateError:
    """The error itself, or the damaged file that caused it; a table that cannot be looked at changes nothing."""
    inspection = stream.format.inspection
    if inspection is None or isinstance(error, OTHERS) or not isinstance(error, POSSIBLE):
        return error
    said = everything(error)
    if not failed_in_a_job(said):
        return error
    with suppress(TidegateError):
        if damage := inspection.damaged(stream.target, said):
            found = TableDamaged(f"a file of table {stream.target} is damaged: {damage}")
            found.__cause__ = error
            return found
    return error
