"""Maintenance of Delta tables: which steps are worthwhile, and the statements that carry them out.

The log never loses the position, and files that may belong to a running writer are never deleted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidegate.core.display import counted, done_by
from tidegate.core.policies.maintenance import DELETE_FILES, SAFE_AGE, SMALL_FILES, Need, Step, Upkeep, many_deleted
from tidegate.errors import CommitConflict, ConfigError
from tidegate.formats.delta import deletion_vectors, table
from tidegate.formats.delta.ddl import by_path
from tidegate.formats.delta.log import FOLDER, Log, Snapshot
from tidegate.formats.shared.small_write import SETTINGS
from tidegate.formats.shared.storage import stored
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEW_FILES = 1_000
LARGEST = 512 * 2**20
# Fifty and ten thousand tasks, for a log and a folder of a few files.
SMALL = {
    **SETTINGS,
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}
OPTIMIZE = "spark.databricks.delta.optimize."
# Delta leaves out a commit without files unless it is told not to.
EMPTY_COMMITS = "spark.databricks.delta.skipRecordingEmptyCommits"
RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


def survey(log: Log, location: str, upkeep: Upkeep) -> Iterator[Need]:
    """The steps that are worth doing, in order.

    Raises:
        ConfigError: the layout names other partitions than the table has.
    """
    snapshot = log.snapshot()
    if (reason := layout_differs(snapshot, upkeep.partition_by)) is not None:
        # Delta would have to rewrite every file.
        raise ConfigError(
            f"table {upkeep.target}: {reason}, and Delta cannot change that of an existing table",
            hint="Use another `target:` and `tidegate run STREAM`, or restore the previous `layout:`.",
        )
    few = 2 if upkeep.force else SMALL_FILES
    small = Counter(
        json.dumps(file["partitionValues"], sort_keys=True)
        for file in snapshot.files
        if file["size"] < upkeep.rules.compact_below
    )
    if found := sum(count for count in small.values() if count >= few):
        reason = f"{found} of {len(snapshot.files)} data files are below {upkeep.rules.compact_below:,} bytes"
        yield Need(step=Step.COMPACT, reason=reason, files=found)
    vectors = [int(file["deletionVector"].get("cardinality") or 0) for file in snapshot.files if _vector(file)]
    rows = (snapshot.rows or 0) + sum(vectors)
    share = sum(vectors) / max(rows, 1)
    if len(vectors) >= (1 if upkeep.force else DELETE_FILES) or many_deleted(sum(vectors), rows):
        yield Need(
            step=Step.DELETES,
            reason=f"{counted(len(vectors), 'file', 'contain')} deleted rows, {share:.0%} of all rows",
        )
    if position_ages(log, upkeep):
        yield Need(step=Step.POSITION, reason="the commit with the position is old, and the log will drop it")
    if (old := _unused(log, snapshot, location, upkeep)) or upkeep.force:
        yield Need(
            step=Step.EXPIRE,
            reason=f"{counted(old, 'file')} that the table no longer needs {done_by(old, 'are')} old enough to delete",
        )


def live(snapshot: Snapshot) -> tuple[int, int]:
    """Files and bytes that the version shows: its data files, and the files of their deletion vectors."""
    vectors = [file["deletionVector"] for file in snapshot.files if _vector(file)]
    kept = [each for each in vectors if each["storageType"] != deletion_vectors.INLINE]
    files = {each["pathOrInlineDv"] for each in kept}
    size = sum(file["size"] for file in snapshot.files) + sum(each.get("sizeInBytes", 0) for each in kept)
    return len(snapshot.files) + len(files), size


def layout_differs(snapshot: Snapshot, wanted: Sequence[str]) -> str | None:
    """Why the table is not partitioned like that; None where it is."""
    have = tuple(snapshot.metadata.get("partitionColumns") or ())
    if not wanted or tuple(each.strip() for each in wanted) == have:
        return None
    return f"the table is partitioned by {', '.join(have) or 'nothing'}, but layout says {', '.join(wanted)}"


def position_ages(log: Log, upkeep: Upkeep) -> bool:
    """Whether the position's commit is older than the rules keep versions."""
    landed = table.landed(log, log.snapshot(), upkeep.uid)
    commit = None if landed.version is None else log.commit(landed.version)
    return commit is not None and made_at(commit.info) < upkeep.expires_before


def retained(log: Log, upkeep: Upkeep) -> timedelta:
    """How long files that the table does not need stay: by age, and as long as one of the newest versions needs them.

    A version is whole as long as no file is deleted that was removed after it was made. A writer that has not committed
    yet is protected by nothing but the age of its files, so many versions shorten it to no less than a day.
    """
    rules = upkeep.rules
    longest = rules.expire_after
    if (age := _age(log, log.version - rules.keep_at_most + 1, upkeep.now)) is not None:
        longest = min(longest, max(age, SAFE_AGE))
    return max(longest, _age(log, max(log.version - rules.keep + 1, 0), upkeep.now) or timedelta(0))


def _age(log: Log, version: int, now: datetime) -> timedelta | None:
    """How long ago a version was made; None for one that the log lacks, and for the newest: it needs no old file."""
    commit = log.commit(version) if 0 <= version < log.version else None
    return None if commit is None else now - made_at(commit.info)


def made_at(info: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(int(info.get("inCommitTimestamp") or info.get("timestamp") or 0) / 1000, UTC)


@dataclass(frozen=True, kw_only=True)
class Keeper:
    """The statements, on one table in one session.

    Args:
        load: the table's log as of now, read without Spark.
    """

    session: SparkSession
    upkeep: Upkeep
    load: Callable[[], Log | None]
    location: str

    def do(self, step: Step) -> str:
        """The step; what it did, for people.

        Raises:
            CommitConflict: another writer came in between, or the table is gone.
        """
        steps: Mapping[Step, Callable[[], str]] = {
            Step.COMPACT: self._compact,
            Step.DELETES: self._purge,
            Step.POSITION: self._carry,
            Step.EXPIRE: self._vacuum,
        }
        if len(self._log().snapshot().files) <= FEW_FILES:
            for name, value in SMALL.items():
                self.session.conf.set(name, value)
        with translated(f"maintaining {self.upkeep.target} ({step})", self.location):
            return steps[step]()

    def _compact(self) -> str:
        below = int(self.upkeep.rules.compact_below)
        self.session.conf.set(f"{OPTIMIZE}minFileSize", str(below))
        self.session.conf.set(f"{OPTIMIZE}maxFileSize", str(max(LARGEST, 2 * below)))
        return self._rewritten(f"OPTIMIZE {by_path(self.location)}")

    def _purge(self) -> str:
        return self._rewritten(f"REORG TABLE {by_path(self.location)} APPLY (PURGE)")

    def _rewritten(self, statement: str) -> str:
        metrics = self._ask(statement)[0]["metrics"]
        return f"{metrics['numFilesRemoved']} data files rewritten into {metrics['numFilesAdded']}"

    def _carry(self) -> str:
        """One commit of no rows that says the position again; without its number, which the table knows already.

        It says where it found the position, so that it counts for nothing after a load that comes in between.
        """
        log = self._log()
        landed = table.landed(log, log.snapshot(), self.upkeep.uid)
        if landed.position is None:
            return "nothing to re-stamp"
        nothing = self.session.read.format("delta").load(self.location).limit(0)
        columns = landed.source_columns
        metadata = table.user_metadata(
            self.upkeep.uid,
            landed.position,
            columns=None if columns is None else columns.to_json(table.ids(log.snapshot())),
            repeated=log.version,
            touched=not landed.as_loaded,
        )
        self.session.conf.set(EMPTY_COMMITS, "false")
        nothing.write.format("delta").option("userMetadata", metadata).mode("append").save(self.location)
        log = self._log()
        now = table.landed(log, log.snapshot(), self.upkeep.uid).position
        if now != landed.position:
            return "nothing re-stamped: a load or a RESTORE came in between"
        return f"load {landed.position.sequence} was re-stamped"

    def _vacuum(self) -> str:
        keep = retained(self._log(), self.upkeep)
        # The check refuses less than a week; the rules say how long, and the lease that no load of ours is at work.
        self.session.conf.set(RETENTION_CHECK, "false")
        before = {each.path for each in stored(self.location)}
        self._ask(f"VACUUM {by_path(self.location)} RETAIN {keep.total_seconds() / 3600:.4f} HOURS")
        left = {each.path for each in stored(self.location)}
        return f"{counted(len(before - left), 'file')} deleted"

    def _ask(self, statement: str) -> Sequence[Any]:
        return self.session.sql(statement).collect()

    def _log(self) -> Log:
        log = self.load()
        if log is None:
            raise CommitConflict(f"table {self.upkeep.target} no longer exists", hint="Run again.")
        return log


def _vector(file: Mapping[str, Any]) -> bool:
    return bool((file.get("deletionVector") or {}).get("pathOrInlineDv"))


def _unused(log: Log, snapshot: Snapshot, location: str, upkeep: Upkeep) -> int:
    """Data files that are older than the rules keep and that the table does not show."""
    live = {unquote(file["path"]) for file in snapshot.files}
    before = upkeep.now - retained(log, upkeep)
    hidden = (f"{FOLDER}/", "_change_data/")
    return sum(
        each.written < before.timestamp() and each.path not in live and each.path.endswith(".parquet")
        for each in stored(location)
        if not each.path.startswith(hidden)
    )
