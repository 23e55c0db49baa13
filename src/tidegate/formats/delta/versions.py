"""Lists the versions of a Delta table that can be restored, and restores one.

A version whose files were removed by VACUUM is never listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidegate.core.ids import Target
from tidegate.core.policies.maintenance import Version
from tidegate.formats.delta import deletion_vectors, table
from tidegate.formats.delta.ddl import by_path
from tidegate.formats.delta.log import Commit, Log
from tidegate.formats.delta.maintenance import made_at
from tidegate.formats.shared.storage import stored
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def versions(log: Log, location: str, uid: str) -> Iterator[Version]:
    """The versions whose commits the log keeps, oldest first."""
    there = {each.path for each in stored(location)}
    loads: dict[int, int | None] = {}
    for snapshot in log.snapshots():
        commit = log.commit(snapshot.version)
        if commit is None:
            continue
        loads[commit.version] = _load(log, commit, loads, uid)
        yield Version(
            id=str(commit.version),
            made_at=made_at(commit.info),
            load=loads[commit.version],
            rows=snapshot.rows,
            operation=str(commit.info.get("operation", "")),
            readable=all(there.issuperset(_names(file)) for file in snapshot.files),
            current=commit.version == log.version,
        )


def rollback(session: SparkSession, target: Target, location: str, version: str) -> None:
    """Makes that version the visible one, in a commit of its own; the numbers of loads stay.

    Raises:
        CommitConflict: another writer came in between.
    """
    with translated(f"rolling back {target}", location):
        session.sql(f"RESTORE TABLE {by_path(location)} TO VERSION AS OF {int(version)}").collect()


def _load(log: Log, commit: Commit, loads: Mapping[int, int | None], uid: str) -> int | None:
    """The number of the newest load among the commits that the version stands on, by those of older versions."""
    found = table.carried(log, commit, uid)
    if found is not None:
        return found.sequence
    before = table.stands_on(log, commit)
    if before is None or before in loads:
        return None if before is None else loads[before]
    landed = next(
        (found for each in table.ancestors(log, before) if each and (found := table.carried(log, each, uid))), None
    )
    return landed.sequence if landed else None


def _names(file: Mapping[str, Any]) -> Iterator[str]:
    """The files that a live file is read from, as far as they lie below the table."""
    if (path := table.own_path(file)) is not None:
        yield path
    if vector := deletion_vectors.file_of(file.get("deletionVector") or {}):
        yield vector
