"""A loader that compares two snapshots of a source that reports no changes.

Never changes a snapshot once written: the result is read from it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.ids import new_load_id
from tidegate.core.position import Position
from tidegate.loaders._applying import sink_of
from tidegate.loaders._batches import DELETED, Batch, aligned, key_of, need_columns, one_a_key, refuse_twice, spelled
from tidegate.loaders._handover import handed_over
from tidegate.loaders._places import empty, files, short_name
from tidegate.loaders._sink import Sink
from tidegate.loaders.incremental import IncrementalLoader
from tidegate.spark import dataframe_ops
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CHANGES = ("inserts", "updates", "deletes")


class DeltaDiffLoader(IncrementalLoader):
    """Compares whole snapshots row by row; see `IncrementalLoader` for the arguments."""

    kind = "diff"

    def detect_changes(
        self,
        source_path: str,
        target_path: str,
        snapshot_path: str,
        primary_key: str | Sequence[str],
        table_name: str | None = None,
    ) -> dict[str, DataFrame]:
        """Makes the target equal to the source, and gives what changed since the last call.

        The source is copied once, so that the comparison, the target and the answer come from the same rows. Values
        are compared, not hashes of them. The target's commit names the snapshot that it equals: a call that fails
        leaves the last one in force. When the last snapshot lacks a column of the source, every row counts as changed.

        Rows: `inserts` and `updates` as they are now, `deletes` as they were; one a key. They stay readable until the
        call after the next.

        Raises:
            CheckFailed: a NULL in the key, or too many changes.
            DuplicateKeys: rows of one key differ, or did so under the key that the target was loaded with.
            PositionMissing: the target has rows that no load of this name put there.
            PositionMoved: another load of this name came in between.
        """
        key = key_of(primary_key)
        folder = posixpath.join(snapshot_path, table_name or short_name(target_path))
        answer: dict[str, DataFrame] = {}

        def batch_of(source: DataFrame, since: Position | None, _: Sink) -> Batch:  # it equals the last snapshot
            return self._compare(source, since, key, folder, answer)

        self._load(source_path, target_path, posixpath.join(snapshot_path, "_tidegate"), table_name, batch_of)
        self._clear(folder, table_name or short_name(target_path), target_path)
        return answer

    def _compare(
        self, source: DataFrame, since: Position | None, key: tuple[str, ...], folder: str, answer: dict[str, DataFrame]
    ) -> Batch:
        """Copies the source, and fills the answer with what differs from the last copy."""
        need_columns(source, key)
        last = since.state.get("snapshot") if since else None
        number = (since.sequence if since else 0) + 1
        new = f"{number:08d}-{new_load_id()[:12]}"
        copy, spark = posixpath.join(folder, new), self.spark
        with handed_over(source) as written:
            written.write.mode("error").parquet(copy)
        wanted = one_a_key(spark.read.parquet(copy).distinct(), Latest(key=key, order=()))
        before = wanted.limit(0) if last is None else spark.read.parquet(posixpath.join(folder, last))
        # A copy keeps the equal rows of its source, of which the target has one.
        was, known = aligned(before, wanted).distinct(), spelled(before)
        # Of a column that the last extract lacked the target may hold values of one before.
        unknown = any(known(name) is None for name in wanted.columns)
        others = [name for name in wanted.columns if name not in key]
        found = dataframe_ops.differences(wanted, was, key=key, others=others, unknown=unknown)
        if last is not None:
            differing, twice = dataframe_ops.count_if(found, "true", dataframe_ops.TWICE)
            refuse_twice(twice, key)
            if not differing:
                answer.update({kind: was.limit(0) for kind in CHANGES})
                empty(spark, copy)
                return Batch(rows=was.limit(0), watermark=since.loaded_through if since else None)
        deleted = found.where(DELETED).select(*(quote(name) for name in key))
        columns = [quote(name) for name in wanted.columns]
        answer["inserts"] = found.where(f"{dataframe_ops.NEW} AND NOT {DELETED}").select(*columns)
        answer["updates"] = found.where(f"NOT {dataframe_ops.NEW} AND NOT {DELETED}").select(*columns)
        answer["deletes"] = dataframe_ops.of_keys(was, deleted, key).select(*columns)
        state = {"snapshot": new, "before": last}
        return Batch(
            rows=found.drop(dataframe_ops.TWICE, dataframe_ops.NEW), key=key, watermark=str(number), state=state
        )

    def _clear(self, folder: str, name: str, target_path: str) -> None:
        """Empties the snapshots that neither the target's commit names nor the one before it."""
        position = sink_of(self.spark, target_path, name, self._target_format).position()
        if position is None:
            return
        kept = {position.state.get("snapshot"), position.state.get("before")}
        found = {file.rsplit("/", 2)[-2] for file in files(self.spark, folder) or ()}
        for each in found - kept:
            if int(each.partition("-")[0]) <= position.sequence:
                empty(self.spark, posixpath.join(folder, each))
