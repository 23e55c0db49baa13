"""The self-test of the loaders: sample data, and the expected results.

Writes only to the folder it is given.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tidegate.loaders.cdc import CDCLoader
from tidegate.loaders.cursors import SequenceBasedLoader, TimestampBasedLoader
from tidegate.loaders.differences import CHANGES, DeltaDiffLoader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Sequence[Any]
ORDERS = "id bigint, name string, modified_date string"
EVENTS = "id bigint, name string, age int, operation string, sequence_num bigint"
CUSTOMERS = "id bigint, name string"
LOGS = "sequence_id bigint, message string"


class SelfTest:
    """The four patterns on a few rows.

    Args:
        folder: an empty folder, as the session sees it.
        tell: takes each line of the report.
    """

    def __init__(self, spark: SparkSession, folder: str, tell: Callable[[str], object]) -> None:
        self.spark = spark
        self._folder = folder
        self._tell = tell
        self._failed = 0

    def run(self) -> bool:
        """Whether every pattern loaded what it should."""
        for pattern in (self.timestamps, self.change_events, self.differences, self.sequences):
            pattern()
        return not self._failed

    def timestamps(self) -> None:
        """New rows by a time, and none twice."""
        loader = TimestampBasedLoader(self.spark)
        source, target, marks = self._paths("orders")

        def load() -> int:
            return loader.load_incremental(source, target, marks, "modified_date", "orders").records

        self._write(source, ORDERS, [(1, "Alice", "2024-01-15 10:00:00"), (2, "Bob", "2024-01-15 11:00:00")])
        loaded = [load()]
        self._write(source, ORDERS, [(3, "Carol", "2024-01-15 11:00:00"), (4, "Dan", "2024-01-16 09:00:00")])
        loaded += [load(), load()]
        self._compare("timestamps", (loaded, self._ids(loader.read(target))), ([2, 2, 0], [1, 2, 3, 4]))

    def change_events(self) -> None:
        """Events in any order, each key as its latest event says."""
        loader = CDCLoader(self.spark)
        source, target, marks = self._paths("customers")

        def load() -> int:
            return loader.process_cdc(source, target, marks, "id", "customers").records

        first = [(1, "Alice", 30, "INSERT", 1), (2, "Bob", 40, "INSERT", 2), (1, "Alice", 31, "UPDATE", 3)]
        self._write(source, EVENTS, first)
        loaded = [load()]
        self._write(source, EVENTS, [(2, None, None, "DELETE", 4), (3, "Carol", 50, "INSERT", 5)])
        loaded += [load(), load()]
        found = sorted((row["id"], row["age"]) for row in loader.read(target).collect())
        self._compare("change events", (loaded, found), ([2, 2, 0], [(1, 31), (3, 50)]))

    def differences(self) -> None:
        """Inserts, updates and deletes between two snapshots."""
        loader = DeltaDiffLoader(self.spark)
        source, target, marks = self._paths("persons")

        def detect() -> list[list[int]]:
            changes = loader.detect_changes(source, target, marks, "id", "persons")
            return [self._ids(changes[kind]) for kind in CHANGES]

        self._write(source, CUSTOMERS, [(1, "Alice"), (2, "Bob"), (3, "Carol")])
        found = [detect()]
        self._write(source, CUSTOMERS, [(1, "Alice"), (2, "Bobby"), (4, "Dan")], mode="overwrite")
        found += [detect(), detect(), [self._ids(loader.read(target))]]
        wanted = [[[1, 2, 3], [], []], [[4], [2], [3]], [[], [], []], [[1, 2, 4]]]
        self._compare("differences", found, wanted)

    def sequences(self) -> None:
        """New rows by a number, and how many numbers are missing."""
        loader = SequenceBasedLoader(self.spark)
        source, target, marks = self._paths("logs")

        def load() -> tuple[int, int | None]:
            result = loader.load_incremental(source, target, marks, "sequence_id", "logs")
            return result.records, result.gaps

        self._write(source, LOGS, [(1, "start"), (2, "work")])
        loaded = [load()]
        self._write(source, LOGS, [(5, "end")])
        loaded += [load(), load()]
        found = sorted(row["sequence_id"] for row in loader.read(target).collect())
        self._compare("sequences", (loaded, found), ([(2, 0), (1, 2), (0, 0)], [1, 2, 5]))

    def _paths(self, name: str) -> tuple[str, str, str]:
        source, target = (posixpath.join(self._folder, kind, name) for kind in ("sources", "targets"))
        return source, target, posixpath.join(self._folder, "watermarks")

    def _write(self, path: str, ddl: str, rows: Sequence[Row], mode: str = "append") -> None:
        self.spark.createDataFrame([tuple(row) for row in rows], ddl).coalesce(1).write.mode(mode).parquet(path)

    def _ids(self, rows: DataFrame) -> list[int]:
        return sorted(row["id"] for row in rows.select("id").collect())

    def _compare(self, what: str, found: object, wanted: object) -> None:
        if found == wanted:
            self._tell(f"ok      {what}: {found}")
        else:
            self._failed += 1
            self._tell(f"FAILED  {what}: {found}, expected {wanted}")
