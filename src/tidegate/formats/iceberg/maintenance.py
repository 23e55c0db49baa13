"""Maintenance of Iceberg tables: which steps are worthwhile, and the procedures that carry them out.

Never expires the only snapshot with a position, nor deletes files that may belong to a running writer.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidegate.core.display import counted, done_by
from tidegate.core.ids import new_load_id
from tidegate.core.plan import branch_prefix
from tidegate.core.policies.maintenance import (
    DELETE_FILES,
    DELETED_SHARE,
    MANIFESTS,
    SMALL_FILES,
    Need,
    Step,
    Upkeep,
    many_deleted,
)
from tidegate.core.position import touched_name
from tidegate.errors import CommitConflict, WriteError
from tidegate.formats.iceberg import layout, statistics
from tidegate.formats.iceberg.metadata import Metadata, Snapshot
from tidegate.formats.iceberg.staging import MAIN, PROPERTY, drop_branch, drop_leftovers
from tidegate.formats.shared.small_write import SETTINGS
from tidegate.formats.shared.storage import stored
from tidegate.spark import sql
from tidegate.spark.failures import translated
from tidegate.storage import Store

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

FEW_FILES = 1_000
MARKS, POSITION, TOUCHED = "tidegate.", ".position", ".touched"
FORMAT_WITH_VECTORS = 3


def survey(
    metadata: Metadata, open_table: Callable[[], Table | None], upkeep: Upkeep, *, aged: Callable[[], bool]
) -> Iterator[Need]:
    """The steps that are worth doing, in order.

    Args:
        open_table: the same table through PyIceberg, asked for only where manifests have to be read.
        aged: whether any file of the table is old enough to be taken for an orphan.
    """
    if left := metadata.left(branch_prefix(upkeep.uid)):
        yield Need(step=Step.BRANCHES, reason=f"{len(left)} left by crashed loads")
    if (reason := layout.differs(metadata.raw, upkeep.partition_by)) is not None:
        yield Need(step=Step.LAYOUT, reason=reason)
    current = metadata.snapshot(metadata.main)
    if current is not None:
        yield from _of_files(current, open_table, upkeep)
    if expiring := expired(metadata, upkeep):
        number, all_ = len(expiring), counted(len(metadata.snapshots()), "snapshot")
        yield Need(step=Step.EXPIRE, reason=f"{number} of {all_} {done_by(number, 'are')} old")
    if reason := statistics.due(metadata, upkeep):
        yield Need(step=Step.STATISTICS, reason=reason)
    elif expiring and statistics.columns(metadata, upkeep):
        yield Need(step=Step.STATISTICS, reason="those of snapshots that expire go with them")
    if upkeep.looks and current is not None and aged():
        yield Need(step=Step.ORPHANS, reason=f"files written before {_minute(upkeep.orphaned_before)} are checked")


def _of_files(current: Snapshot, open_table: Callable[[], Table | None], upkeep: Upkeep) -> Iterator[Need]:
    few = 2 if upkeep.force else SMALL_FILES
    if current.number("total-data-files") < few and not current.number("total-delete-files"):
        return
    table = open_table()
    found = None if table is None else _Files.of(table, upkeep.rules.compact_below)
    if found is None:
        return
    if small := sum(count for count in found.small.values() if count >= few):
        reason = f"{small} of {found.data} data files are below {upkeep.rules.compact_below:,} bytes"
        yield Need(step=Step.COMPACT, reason=reason, files=small)
    rows = current.number("total-records")
    share = found.deleted / max(rows, 1)
    if found.deletes >= (1 if upkeep.force else DELETE_FILES) or many_deleted(found.deleted, rows):
        yield Need(step=Step.DELETES, reason=f"{found.deletes} delete files mark {share:.0%} of the rows")
    if found.manifests > (1 if upkeep.force else MANIFESTS):
        yield Need(step=Step.MANIFESTS, reason=f"{found.manifests} manifests")


@dataclass(slots=True, kw_only=True)
class _Files:
    """File counts from the manifests of the visible snapshot.

    Args:
        small: data files below the size, by partition.
        deleted: rows deleted beside their files.
    """

    small: Counter[str]
    data: int
    deletes: int
    deleted: int
    manifests: int

    @classmethod
    def of(cls, table: Table, below: int) -> _Files | None:
        snapshot = table.current_snapshot()
        if snapshot is None:
            return None
        manifests = snapshot.manifests(table.io)
        found = cls(small=Counter(), data=0, deletes=0, deleted=0, manifests=len(manifests))
        for manifest in manifests:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                file = entry.data_file
                if manifest.content != 0:
                    found.deletes += 1
                    found.deleted += file.record_count
                    continue
                found.data += 1
                if file.file_size_in_bytes < below:
                    found.small[f"{manifest.partition_spec_id}:{file.partition}"] += 1
        return found


def expired(metadata: Metadata, upkeep: Upkeep) -> frozenset[int]:
    """The snapshots that are older than the rules keep: all but the newest of main, and the heads of branches."""
    newest = itertools.islice(metadata.ancestors(metadata.main), upkeep.rules.keep)
    kept = {each.id for each in newest} | metadata.heads()
    before = expires_before(metadata, upkeep)
    return frozenset(id_ for id_, made_at in metadata.snapshots().items() if id_ not in kept and made_at < before)


def expires_before(metadata: Metadata, upkeep: Upkeep) -> datetime:
    """Snapshots made before this are old, or more than the rules let stay."""
    made = metadata.snapshots()
    history = [made[each.id] for each in itertools.islice(metadata.ancestors(metadata.main), upkeep.rules.keep_at_most)]
    full = len(history) == upkeep.rules.keep_at_most
    return max(upkeep.expires_before, history[-1]) if full else upkeep.expires_before


def carried(metadata: Metadata, expiring: frozenset[int]) -> Mapping[str, str]:
    """Every mark of the program that main's history shows, if an expiry would take one of them; else nothing."""
    marks: dict[str, str] = {}
    lost = False
    for each in metadata.ancestors(metadata.main):
        own = {name: value for name, value in each.summary.items() if name.startswith(MARKS)}
        lost = lost or (each.id in expiring and bool(own.keys() - marks.keys()))
        marks = {**own, **marks}
    return _still_true(metadata, marks) if lost else {}


def _still_true(metadata: Metadata, marks: Mapping[str, str]) -> Mapping[str, str]:
    """The marks, and of each position whether others have changed the table since: it is the newest one from now on."""
    found = {name: value for name, value in marks.items() if not name.endswith(TOUCHED)}
    uids = (name.removeprefix(MARKS).removesuffix(POSITION) for name in found if name.endswith(POSITION))
    return {**found, **{touched_name(uid): "true" for uid in uids if not metadata.as_loaded(uid)}}


@dataclass(frozen=True, kw_only=True)
class Keeper:
    """The procedures, on one table in one session.

    Args:
        load: the table's metadata as of now, read without Spark.
        store: opens what lies below the table's location.
    """

    session: SparkSession
    upkeep: Upkeep
    load: Callable[[], Metadata | None]
    warehouse: str | None
    store: Callable[[str], Store]

    def do(self, step: Step) -> str:
        """The step; what it did, for people.

        Raises:
            CommitConflict: another writer came in between, or the table is gone.
        """
        steps: Mapping[Step, Callable[[], str]] = {
            Step.BRANCHES: self._drop_branches,
            Step.LAYOUT: self._lay_out,
            Step.COMPACT: self._compact,
            Step.DELETES: self._remove_deletes,
            Step.MANIFESTS: self._rewrite_manifests,
            Step.EXPIRE: self._expire,
            Step.STATISTICS: self._count_distinct,
            Step.ORPHANS: self._remove_orphans,
        }
        current = self._metadata.snapshot(self._metadata.main)
        if current is None or current.number("total-data-files") <= FEW_FILES:
            for name, value in SETTINGS.items():
                self.session.conf.set(name, value)
        with translated(f"maintaining {self.upkeep.target} ({step})", self.warehouse):
            return steps[step]()

    @cached_property
    def _metadata(self) -> Metadata:
        found = self.load()
        if found is None:
            raise CommitConflict(f"table {self.upkeep.target} no longer exists", hint="Run again.")
        return found

    def _drop_branches(self) -> str:
        left = self._metadata.left(branch_prefix(self.upkeep.uid))
        drop_leftovers(self.session, self.upkeep.target, left, self.warehouse)
        return f"{len(left)} dropped"

    def _lay_out(self) -> str:
        for statement in layout.evolve(self.upkeep.target, self._metadata, self.upkeep.partition_by):
            self.session.sql(statement)
        return f"new rows are partitioned by {', '.join(self.upkeep.partition_by)}"

    def _compact(self) -> str:
        below = int(self.upkeep.rules.compact_below)
        target = max(int(self._metadata.properties.get("write.target-file-size-bytes", 512 * 2**20)), 2 * below)
        options = {
            "min-file-size-bytes": below,
            "target-file-size-bytes": target,
            "max-file-size-bytes": 2 * target,
            "min-input-files": 2 if self.upkeep.force else SMALL_FILES,
            "remove-dangling-deletes": "true",
        }
        return self._rewrite(options)

    def _remove_deletes(self) -> str:
        """Rewrites files with many deleted rows, and compacts the remaining delete files."""
        thresholds = {"delete-file-threshold": 1} if self.upkeep.force else {"delete-ratio-threshold": DELETED_SHARE}
        # Sizes within which every file is left alone, but for its deletes.
        options = {"min-file-size-bytes": 0, "max-file-size-bytes": 2**62, "target-file-size-bytes": 512 * 2**20}
        results = [self._rewrite({**options, **thresholds, "remove-dangling-deletes": "true"})]
        if self._metadata.raw.get("format-version", 2) < FORMAT_WITH_VECTORS:
            done = self._call("rewrite_position_delete_files", options=_map({"rewrite-all": "true"}))
            results.append(
                f"{done['rewritten_delete_files_count']} delete files rewritten into {done['added_delete_files_count']}"
            )
        return "; ".join(results)

    def _rewrite(self, options: Mapping[str, Any]) -> str:
        done = self._call("rewrite_data_files", options=_map(options))
        rewritten = f"{done['rewritten_data_files_count']} data files rewritten into {done['added_data_files_count']}"
        removed = done["removed_delete_files_count"]
        return f"{rewritten}, {removed} delete files removed" if removed else rewritten

    def _rewrite_manifests(self) -> str:
        done = self._call("rewrite_manifests")
        return f"{done['rewritten_manifests_count']} manifests rewritten into {done['added_manifests_count']}"

    def _expire(self) -> str:
        carry = carried(self._metadata, expired(self._metadata, self.upkeep))
        if carry:
            self._carry(carry)
        done = self._call(
            "expire_snapshots",
            older_than=_timestamp(expires_before(self._metadata, self.upkeep)),
            retain_last=str(self.upkeep.rules.keep),
            stream_results="true",
        )
        files = sum(value for name, value in done.items() if name.startswith("deleted_") and value)
        return f"{counted(files, 'file')} deleted" + ("; the position was re-stamped" if carry else "")

    def _carry(self, marks: Mapping[str, str]) -> None:
        """Re-stamps positions in a commit without rows, fenced: on a branch, then by fast-forward."""
        target, base = self.upkeep.target, self._metadata.main
        branch = f"{branch_prefix(self.upkeep.uid)}{new_load_id()[:12]}"
        name = sql.table(target)
        self.session.sql(f"ALTER TABLE {name} CREATE BRANCH {sql.quote(branch)} AS OF VERSION {base}")
        try:
            writer: Any = self.session.sql(f"SELECT * FROM {name} LIMIT 0").writeTo(sql.table(target, branch))
            for mark, value in marks.items():
                writer = writer.option(f"{PROPERTY}{mark}", value)
            writer.append()
            self._call("fast_forward", branch=sql.string(MAIN), to=sql.string(branch))
        finally:
            drop_branch(self.session, target, branch, self.warehouse)

    def _count_distinct(self) -> str:
        if statistics.due(self._metadata, self.upkeep) is None:
            return "those that are there remain"
        names = statistics.columns(self._metadata, self.upkeep)
        self._ask("compute_table_stats", columns=f"array({', '.join(map(sql.string, names))})")
        return f"distinct values of {counted(len(names), 'column')} counted"

    def _remove_orphans(self) -> str:
        before = {"older_than": _timestamp(self.upkeep.orphaned_before)}
        if (self._metadata.location or "").startswith("s3"):
            before["prefix_listing"] = "true"  # listed by the table's own client: Spark need not know the store
        names = [row[0] for row in self._ask("remove_orphan_files", **before)]
        self._need_gone(names)
        return f"{counted(len(names), 'file')} deleted"

    def _need_gone(self, names: Sequence[str]) -> None:
        """Iceberg names the files that it wanted to delete, and only logs that a store refused."""
        location = (self._metadata.location or "").rstrip("/")
        there: set[str] = set()
        with contextlib.suppress(WriteError):  # it cannot be listed from here
            there = {f"{location}/{each.path}" for each in stored(location, self.store)} if names else there
        if left := len(there.intersection(names)):
            raise WriteError(
                f"{left} of {counted(len(names), 'file')} that belong to no version of {self.upkeep.target} could not "
                "be deleted",
                hint="Allow the login of the lake's store to delete files.",
            )

    def _call(self, procedure: str, **given: str) -> Mapping[str, Any]:
        rows = self._ask(procedure, **given)
        found: Mapping[str, Any] = rows[0].asDict() if rows else {}
        return found

    def _ask(self, procedure: str, **given: str) -> Sequence[Any]:
        target = self.upkeep.target
        arguments = {"table": sql.string(sql.table(target)), **given}
        listed = ", ".join(f"{name} => {value}" for name, value in arguments.items())
        return self.session.sql(f"CALL {sql.quote(target.lake)}.system.{procedure}({listed})").collect()


def _map(options: Mapping[str, Any]) -> str:
    return f"map({', '.join(f'{sql.string(name)}, {sql.string(str(value))}' for name, value in options.items())})"


def _timestamp(moment: datetime) -> str:
    # The session's time zone is UTC, see `LOAD_CONF`.
    return f"TIMESTAMP {sql.string(f'{moment:%Y-%m-%d %H:%M:%S.%f}')}"


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}Z"
