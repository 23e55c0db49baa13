"""A folder of Parquet, CSV, JSON or ORC files as a target: new files are written, then published by the manifest.

The manifest never lists files that are not complete, and cleanup never deletes files that a running load may still
publish.
"""

from __future__ import annotations

import contextlib
import functools
import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core.position import Position
from tidegate.errors import SchemaRefused
from tidegate.loaders._batches import aligned, need_kept, refuse, spelled
from tidegate.loaders._handover import handed_over
from tidegate.loaders._manifest import FOLDER, Entry, Manifest
from tidegate.loaders._places import EMPTY_TEXTS, OPTIONS, ddl_of, empty, files
from tidegate.loaders._sink import history_expired, missing, moved
from tidegate.spark.caching import uncached
from tidegate.spark.sql import quote, type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PREFIX = "tidegate_load"
KEPT = 3
"""How many loads' rows are kept beside a folder that each load rewrites."""
_LOADED = re.compile(rf"/{PREFIX}=(\d+)-([0-9a-f]+)/")


class Folder:
    """A folder of files, as it stood when it was first asked; every load's rows lie in a subfolder of their own.

    Args:
        path: of the folder.
        kind: the format of its files, if it is new.
        uid: of the stream.
        name: of the stream, for people.
        partition_by: columns that the files of a load are divided by.
    """

    def __init__(  # noqa: PLR0913 - what a target is
        self, *, spark: SparkSession, path: str, kind: str, uid: str, name: str, partition_by: tuple[str, ...] = ()
    ) -> None:
        self.spark = spark
        self.path = path
        self.kind = kind
        self.uid = uid
        self.name = name
        self.partition_by = partition_by
        self._manifest = Manifest(spark=spark, path=path)

    @property
    def casts(self) -> bool:
        """No: a column of another type is refused."""
        return False

    def position(self) -> Position | None:
        """From the manifest; None while no load was published.

        Raises:
            PositionMissing: files lie there that no load published, or loads of other streams only.
        """
        last = self._last
        if last is None:
            if any(not _LOADED.search(file) for file in files(self.spark, self.path) or ()):
                raise missing(self.path, self.name)
            return None
        if self.uid not in last.positions:
            raise missing(self.path, self.name)
        return Position.from_json(last.positions[self.uid])

    def read(self) -> DataFrame | None:
        """The rows of the published folders; what a crash left behind is not among them."""
        last = self._last
        return None if last is None else published(self.spark, self.path, last)

    def append(self, rows: DataFrame, position: Position) -> None:
        """Adds the rows in a folder of their own, then publishes it. Raises PositionMoved, SchemaRefused."""
        need_kept(rows, self.partition_by)
        self._manifest.need()
        last = self._last
        schema = ddl_of(rows) if last is None else self._widened(last, rows)
        # Columns of a CSV file are read by their place.
        rows = aligned(rows, self.spark.createDataFrame([], schema))
        self._publish(rows, last, last.folders if last else (), schema, position)

    def merge(self, rows: DataFrame, key: Sequence[str], delete_if: str, position: Position) -> None:
        """Rewrites the whole target with the changes, then publishes that. Raises PositionMoved, SchemaRefused."""
        put = rows.where(f"NOT {quote(delete_if)}").drop(delete_if)
        need_kept(put, self.partition_by)
        self._manifest.need()
        last = self._last
        if last is None:
            self._publish(put, None, (), ddl_of(put), position)
            return
        keys = rows.select(*(quote(name) for name in key))
        kept = published(self.spark, self.path, last).join(keys, on=list(key), how="left_anti")
        whole = kept.unionByName(put, allowMissingColumns=True)
        schema = self._widened(last, put)
        self._keep(last, put, position)
        self._publish(whole, last, (), schema, position)

    def loaded(self, load_id: str) -> DataFrame:
        """The rows in the folder of that load; kept beside the target after it was rewritten. Raises HistoryGone."""
        entries = self._manifest.entries()
        entry = next((each for each in entries if each.mark == load_id), None)
        if entry is None:
            raise history_expired(self.path, self.name)
        copy = posixpath.join(self._copies, entry.folders[-1])
        if files(self.spark, copy):
            return uncached(self.spark).schema(entry.schema).parquet(copy)
        if not _added(entries, entry) or entry.folders[-1] not in entries[-1].folders:
            raise history_expired(self.path, self.name)
        return published(self.spark, self.path, replace(entry, folders=entry.folders[-1:]))

    def _keep(self, last: Entry, put: DataFrame, position: Position) -> None:
        """Copies what this load changes, and what of earlier loads it will clear away."""
        entries = self._manifest.entries()
        rows = {_folder(last.sequence + 1, position): put}
        for entry in entries[-KEPT + 1 :]:
            if _added(entries, entry) and entry.folders[-1] in last.folders:
                rows[entry.folders[-1]] = published(self.spark, self.path, replace(entry, folders=entry.folders[-1:]))
        for folder, copied in rows.items():
            with handed_over(copied) as written:
                written.write.mode("overwrite").parquet(posixpath.join(self._copies, folder))

    @property
    def _copies(self) -> str:
        return posixpath.join(self.path, FOLDER, "rows")

    def _publish(
        self, rows: DataFrame, last: Entry | None, kept: tuple[str, ...], schema: str, position: Position
    ) -> None:
        sequence = last.sequence + 1 if last else 1
        folder = _folder(sequence, position)
        kind = last.format if last else self.kind
        self._need_legible(rows, kind)
        with handed_over(rows) as written:
            writer = written.write.format(kind).options(**OPTIONS.get(kind, {})).mode("error")
            writer.partitionBy(*self.partition_by).save(posixpath.join(self.path, folder))
        positions = {**(last.positions if last else {}), self.uid: position.to_json()}
        entry = Entry(
            sequence=sequence,
            mark=position.load_id,
            folders=(*kept, folder),
            format=kind,
            schema=schema,
            positions=positions,
        )
        counted = self._manifest.put(entry)
        # Visible is what counts; what cannot be cleared away now is cleared away by the next load.
        with contextlib.suppress(Exception):
            self._sweep(counted[-1])
        if counted[sequence - 1].mark != entry.mark:
            raise moved(self.path, self.name)

    def _need_legible(self, rows: DataFrame, kind: str) -> None:
        """Raises CheckFailed and SchemaRefused for what would be another row, or none, when it is read."""
        for name, each in rows.dtypes:
            if name in self.partition_by and each == "timestamp":
                raise SchemaRefused(
                    f"column {name!r} is a timestamp and partitions {self.path}, where names of folders are times of a "
                    "session's zone, and other times in the next one; nothing was loaded",
                    hint="Partition by a date, or load into a Delta or Iceberg table.",
                    column=name,
                )
        alone = [name for name in rows.columns if name not in self.partition_by]
        if kind == "csv" and len(alone) == 1:
            # It would be an empty line, which no reader takes for a row.
            problem = f"a NULL in column {alone[0]!r}, the only one of a CSV file; nothing was loaded"
            refuse(rows, f"{quote(alone[0])} IS NULL", problem, "Load into another format (`target_format=`).")

    def _sweep(self, last: Entry) -> None:
        """Empties the folders that no load can publish any more, since their number is taken, and old copies."""
        for folder in self._folders(self.path) - set(last.folders):
            if _number(folder) <= last.sequence:
                empty(self.spark, posixpath.join(self.path, folder))
        for folder in self._folders(self._copies):
            if _number(folder) <= last.sequence - KEPT:
                empty(self.spark, posixpath.join(self._copies, folder))

    def _folders(self, path: str) -> set[str]:
        return {match[0].strip("/") for file in files(self.spark, path) or () if (match := _LOADED.search(file))}

    def _widened(self, last: Entry, rows: DataFrame) -> str:
        there = published(self.spark, self.path, last)
        known, called = dict(there.dtypes), spelled(there)
        for given, kind in rows.dtypes:
            name = called(given) or given
            if known.setdefault(name, kind) != kind:
                raise SchemaRefused(
                    f"column {name!r} is {kind} now and {known[name]} in {self.path}",
                    hint="Read it with its old type (`schema=` of the loader), or load into a new folder.",
                    column=name,
                )
        return ", ".join(f"{quote(name)} {type_name(kind)}" for name, kind in known.items())

    @functools.cached_property
    def _last(self) -> Entry | None:
        """What a load starts from: read once, so that another load in between is noticed."""
        return next(reversed(self._manifest.entries()), None)


def _folder(sequence: int, position: Position) -> str:
    return f"{PREFIX}={sequence}-{position.load_id[:12]}"


def _number(folder: str) -> int:
    return int(folder.removeprefix(f"{PREFIX}=").partition("-")[0])


def _added(entries: Sequence[Entry], entry: Entry) -> bool:
    """Whether the load only added its folder, which then has its rows and no others."""
    before = entries[entry.sequence - 2].folders if entry.sequence > 1 else ()
    return entry.folders[:-1] == before


def published(spark: SparkSession, path: str, entry: Entry) -> DataFrame:
    """The rows that an entry stands for."""
    options = {**OPTIONS.get(entry.format, {}), **(EMPTY_TEXTS if entry.format == "csv" else {})}
    reader = uncached(spark).format(entry.format).schema(entry.schema).options(**options)
    return reader.load([posixpath.join(path, folder) for folder in entry.folders])
