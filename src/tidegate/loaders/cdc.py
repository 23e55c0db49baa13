"""A loader that applies change events: the latest event of each key wins.

Never brings back a row that a later event deleted, nor guesses what an operation means.
"""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.display import counted
from tidegate.core.ids import new_load_id
from tidegate.core.position import Position
from tidegate.errors import CheckFailed
from tidegate.loaders._applying import LoadResult
from tidegate.loaders._batches import DELETED, Batch, key_of, need_columns, not_outdated, one_a_key
from tidegate.loaders._cursor import NUMBERS, Cursor
from tidegate.loaders._handover import handed_over
from tidegate.loaders._places import files, short_name
from tidegate.loaders._sink import Sink, uid_of
from tidegate.loaders.incremental import IncrementalLoader
from tidegate.spark.caching import persisted, uncached
from tidegate.spark.dataframe_ops import count_if, of_keys
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPERATIONS = ("INSERT", "UPDATE", "DELETE")
_FOLDER = "_tidegate/deleted"
_LINK = re.compile(r"/(\d+)-([0-9a-f]+)-([0-9a-f]*)/")
"""The folder of a load's deleted keys: when it was, its mark, and the mark of the one before it."""


class CDCLoader(IncrementalLoader):
    """Applies inserts, updates and deletes in their order; see `IncrementalLoader` for the arguments."""

    kind = "cdc"

    def process_cdc(  # noqa: PLR0913 - what a load is told
        self,
        cdc_source_path: str,
        target_path: str,
        watermark_path: str,
        primary_key: str | Sequence[str],
        table_name: str | None = None,
        *,
        operation_column: str = "operation",
        sequence_column: str = "sequence_num",
        lookback: int | None = None,
        remember_deleted: timedelta = timedelta(days=30),
    ) -> LoadResult:
        """Applies the events at or after the watermark, less the lookback: of each key the latest, once.

        The target keeps the events' columns without the operation: the sequence number of the last event that was
        applied tells which event of a key is older. Of deleted keys it is kept beside the watermarks, and counts only
        if the target's own commits name it: not after a load that failed, nor in a target that was recreated.

        Args:
            cdc_source_path: events, each with INSERT, UPDATE or DELETE (in any case) and a whole number that grows.
            lookback: how many numbers before the watermark are looked at again, for events that come out of order.
            remember_deleted: how long a deleted key is kept from being brought back by an older event.

        Raises:
            CheckFailed: an unknown operation, a NULL in key or number, too many rows.
            DuplicateKeys: events of one key and number differ.
            PositionMissing: the target has rows that no load of this name put there.
            PositionMoved: another load of this name came in between.
        """
        name = table_name or short_name(target_path)
        events = Events(
            spark=self.spark,
            key=key_of(primary_key),
            operation=operation_column,
            sequence=sequence_column,
            lookback=lookback,
            deleted=posixpath.join(watermark_path, _FOLDER, uid_of(name)),
            remember=remember_deleted,
        )
        return self._load(cdc_source_path, target_path, watermark_path, table_name, events.batch, sequence_column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """How events are told apart and what is known of deleted keys.

    Args:
        deleted: where the deleted keys are kept.
        remember: for how long.
    """

    spark: SparkSession
    key: tuple[str, ...]
    operation: str
    sequence: str
    lookback: int | None
    deleted: str
    remember: timedelta

    def batch(self, events: DataFrame, since: Position | None, sink: Sink) -> Batch:
        """What the events that are new do to the rows of the target."""
        present = sink.read()
        need_columns(events, (*self.key, self.operation))
        cursor = Cursor.of(self.sequence, dict(events.dtypes), NUMBERS)
        old = since.loaded_through if since else None
        low = cursor.low(old, self.lookback)
        if low is not None:
            events = events.where(f"{cursor.at_least(low)} OR {cursor.name} IS NULL")
        _need_operations(events, self.operation, self.sequence)
        (seen,) = events.selectExpr(f"{cursor.canonical(f'max({cursor.name})')} AS high").collect()
        latest = self._latest(events)
        if present is not None:
            need_columns(present, (*self.key, self.sequence))
            latest = not_outdated(latest, present, self.key, self.sequence, equal=True)
        last = str(since.state.get("deleted", "")) if since else ""
        if folders := self._remembered(last):
            known = uncached(self.spark).parquet(*folders)
            latest = not_outdated(latest, known, self.key, self.sequence, equal=True)
        load_id = new_load_id()
        if self._remember(latest, f"{int(time.time())}-{load_id}-{last}"):
            last = load_id
        rows = latest.where(f"NOT {DELETED}")
        if present is not None:
            known = present.select(*(quote(column) for column in self.key))
            rows = rows.unionByName(of_keys(latest.where(DELETED), known, self.key))
        state = {"deleted": last} if last else {}
        return Batch(rows=rows, key=self.key, watermark=cursor.latest(old, seen[0]), state=state, load_id=load_id)

    def _latest(self, events: DataFrame) -> DataFrame:
        """The latest event of each key; whatever one that deletes says beside its key does not count."""
        deletes = f"upper(trim({quote(self.operation)})) = 'DELETE'"
        columns = [
            quote(name)
            if name in (*self.key, self.sequence)
            else f"CASE WHEN NOT {deletes} THEN {quote(name)} END AS {quote(name)}"
            for name in events.columns
            if name != self.operation
        ]
        rows = events.selectExpr(*columns, f"{deletes} AS {DELETED}").distinct()
        return one_a_key(rows, Latest(key=self.key, order=(self.sequence,)))

    def _remembered(self, last: str) -> list[str]:
        """The folders of a load's deleted keys and of those before it, as far back as they count."""
        found = (match.groups() for file in files(self.spark, self.deleted) or () if (match := _LINK.search(file)))
        links = {mark: (int(at), before) for at, mark, before in found}
        since, folders = time.time() - self.remember.total_seconds(), []
        while last in links and links[last][0] >= since:
            at, before = links[last]
            folders.append(posixpath.join(self.deleted, f"{at}-{last}-{before}"))
            last = before
        return folders

    def _remember(self, rows: DataFrame, folder: str) -> bool:
        """Whether there are deleted keys. They are kept before the target's commit, and count once it names them."""
        deleted = persisted(rows.where(DELETED))
        try:
            if deleted.isEmpty():
                return False
            with handed_over(deleted.select(*(quote(name) for name in (*self.key, self.sequence)))) as written:
                written.write.parquet(posixpath.join(self.deleted, folder))
            return True
        finally:
            deleted.unpersist()


def _need_operations(events: DataFrame, operation: str, sequence: str) -> None:
    known = ", ".join(f"'{name}'" for name in OPERATIONS)
    unknown, unordered = count_if(
        events,
        f"{quote(operation)} IS NULL OR upper(trim({quote(operation)})) NOT IN ({known})",
        f"{quote(sequence)} IS NULL",
    )
    if unknown:
        raise CheckFailed(
            f"{counted(unknown, 'event', 'have')} an operation in column {operation!r} that is not one of "
            f"{', '.join(OPERATIONS)}; "
            "nothing was loaded",
            hint="Correct them at the source, or use another `operation_column=`.",
            column=operation,
        )
    if unordered:
        raise CheckFailed(
            f"{counted(unordered, 'event', 'have')} a NULL in column {sequence!r}, so their order is unknown; "
            f"nothing was loaded",
            hint="Correct them at the source, or use another `sequence_column=`.",
            column=sequence,
        )
