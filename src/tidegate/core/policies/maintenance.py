"""The `maintenance:` of a stream, the maintenance steps, and the versions of a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tidegate.core.bounds import back
from tidegate.core.display import Shown
from tidegate.core.ids import Target

SIDE = "__tidegate_"
"""Between the name of a stream's table and the rest of the names of the tables that belong to it."""
SMALL_FILES = 5
"""So many small files in one partition are worth a rewrite."""
DELETE_FILES = 10
"""So many files of deletes are worth a rewrite."""
DELETED_SHARE = 0.1
DELETED_ROWS = 10_000
"""So great a part of the rows, and so many of them, deleted beside their files, are worth a rewrite."""
MANIFESTS = 50
"""So many manifests are worth a rewrite."""
CHANGED_SHARE = 0.1
"""So great a part of the rows changed since the last statistics is worth new ones."""
ORPHANS_EVERY = timedelta(days=1)
"""A look for orphan files lists every file of the table, so it is not taken at each maintenance."""
SAFE_AGE = timedelta(days=1)
"""What is younger may belong to a writer that has not committed yet."""


PLACE = "{table}"
"""Where a query that is measured names the table."""


class Bytes(int):
    """A number of bytes, written in the project file like `32MB`."""


SMALL = Bytes(32_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """The maintenance rules of a stream's table; the `maintenance:` of a stream.

    Args:
        compact_below: data files below this size count as small and are compacted.
        expire_after: versions of the table older than this are expired, with the files that only they need.
        keep: this many of the newest versions are kept, however old they are.
        keep_at_most: no more than this many versions are kept, however young they are; each makes every commit slower.
        orphans_after: files that belong to no version are removed once they are older than this; at least a day.
        every: how often `watch` maintains the table, after a load; never unless it is given.
        measure_query: run a query before and after the table is compacted, to tell how much faster readers are: one
            that reads `{table}`; `true` reads every row and column. In Spark's SQL, or in that of `measure_by`.
        measure_by: the connection, of Trino, that runs the query; Spark without one.
        statistics: count the distinct values of these columns, or of all with `true`, for the planners of readers such
            as Trino; Iceberg only. It reads the columns whole, so it is off by default.
    """

    compact_below: Bytes = SMALL
    expire_after: timedelta = timedelta(days=7)
    keep: int = 20
    keep_at_most: int = 300
    orphans_after: timedelta = timedelta(days=3)
    every: timedelta | None = None
    measure_query: bool | str = False
    measure_by: str | None = None
    statistics: bool | tuple[str, ...] = False

    def __post_init__(self) -> None:
        if isinstance(self.measure_query, str) and PLACE not in self.measure_query:
            raise ValueError(f"measure_query must be true, false, or a query that reads {PLACE}")
        if self.measure_by is not None and not isinstance(self.measure_query, str):
            raise ValueError(f"measure_by needs a measure_query that reads {PLACE}")
        if self.keep < 1:
            raise ValueError("keep must be 1 or more: the newest version is the table itself")
        if self.keep_at_most < self.keep:
            raise ValueError("keep_at_most must not be less than keep")
        if self.orphans_after < SAFE_AGE:
            raise ValueError("orphans_after must be 1d or more: newer files may belong to a load that is still running")


class Step(StrEnum):
    """The steps of maintenance, in this order."""

    RETAIN = "retain"
    """Rows that `retain:` keeps no more are dropped."""

    BRANCHES = "branches"
    """Branches that crashed loads left behind are dropped."""

    LAYOUT = "layout"
    """New rows are partitioned as `layout:` says."""

    COMPACT = "compact"
    """Small files become few."""

    DELETES = "deletes"
    """Rows that were deleted beside their files leave them."""

    MANIFESTS = "manifests"
    """Small manifests become few."""

    POSITION = "position"
    """The stream's position is carried on into a version that stays."""

    EXPIRE = "expire"
    """Old versions go, and the files that only they need."""

    STATISTICS = "statistics"
    """Distinct values are counted for query planners; after old versions, which take their statistics along."""

    ORPHANS = "orphans"
    """Files that no version knows go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """One maintenance of one table.

    Args:
        uid: the stream whose table it is.
        partition_by: of the stream's layout; empty leaves the table's partitions as they are.
        now: the time; ages are counted back from it.
        force: run every step that has something to do, whatever its threshold.
        looked_at: when orphan files were last searched for; None if never.
    """

    target: Target
    uid: str
    rules: Maintenance
    now: datetime
    partition_by: tuple[str, ...] = ()
    force: bool = False
    looked_at: datetime | None = None

    @property
    def expires_before(self) -> datetime:
        """Versions made before this are old."""
        return back(self.now, self.rules.expire_after)

    @property
    def orphaned_before(self) -> datetime:
        """Files written before this belong to no writer at work."""
        return back(self.now, self.rules.orphans_after)

    @property
    def looks(self) -> bool:
        """Whether it is time to look for orphan files."""
        return self.force or self.looked_at is None or self.now - self.looked_at >= ORPHANS_EVERY


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A step that is worthwhile, and why.

    Args:
        files: small files that compacting would take away; 0 of the other steps.
    """

    step: Step
    reason: str
    files: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The storage of a table.

    Args:
        files, bytes: data and deletes of the visible version, which every reader opens.
        older_files, older_bytes: what else lies in the table's folder: older versions, metadata and orphan files; None
            where it cannot be listed.
    """

    files: int
    bytes: int
    older_files: int | None = None
    older_bytes: int | None = None

    def less(self, other: Usage) -> Usage:
        """What this one has more than the other."""
        return Usage(
            files=self.files - other.files,
            bytes=self.bytes - other.bytes,
            older_files=_less(self.older_files, other.older_files),
            older_bytes=_less(self.older_bytes, other.older_bytes),
        )


def _less(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def many_deleted(deleted: int, rows: int) -> bool:
    """Whether so many rows are deleted beside their files that readers notice.

    Example:
        >>> many_deleted(1, 10), many_deleted(20_000, 100_000), many_deleted(20_000, 1_000_000)
        (False, True, False)
    """
    return deleted >= DELETED_ROWS and deleted / max(rows, 1) >= DELETED_SHARE


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(Shown):
    """One version of a table that was visible to readers.

    Args:
        id: the snapshot or version, as `rollback --to` takes it.
        made_at: when it became the visible one.
        load: the number of the newest load whose rows it shows; None for none of this stream.
        rows: that it holds; None when not known.
        operation: what made it, in the format's word.
        readable: its files are there.
        current: it is what people see now.
    """

    id: str
    made_at: datetime
    load: int | None
    rows: int | None
    operation: str
    readable: bool = True
    current: bool = False
