"""The manifest of a folder target: an ordered log of the published subfolders, each entry written exactly once.

Spark's batch writers cannot create a file only if it does not exist, but its streaming commit log can, so each entry is
one micro-batch of one row. On S3, where that log cannot either, the object store's conditional write is used. An entry
that does not continue the previous one is ignored.
"""

from __future__ import annotations

import json
import posixpath
import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tidegate.errors import WriteError
from tidegate.loaders._handover import like
from tidegate.loaders._objects import Objects, on_s3
from tidegate.loaders._places import files
from tidegate.spark.caching import uncached
from tidegate.spark.sql import string

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = "_tidegate"
PATIENCE = 120.0
# Two loads in one Spark would end each other's query for ever.
_POLITE = {"spark.sql.streaming.stopActiveRunOnRestart": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a target holds after one load.

    Args:
        sequence: counts the target's loads from 1; only the first entry of a number counts.
        mark: of the load that put it there.
        folders: names of the folders whose rows are the target's, in the order they came.
        format: of the files in them.
        schema: the columns, as a schema that Spark reads.
        positions: the position of each stream as its own text, by uid.
    """

    sequence: int
    mark: str
    folders: tuple[str, ...]
    format: str
    schema: str
    positions: Mapping[str, str]

    @classmethod
    def from_json(cls, text: str) -> Entry:
        """The inverse of `to_json`. Raises WriteError when it is damaged."""
        try:
            values = json.loads(text)
            return cls(**{**values, "folders": tuple(values["folders"])})
        except (TypeError, ValueError, KeyError) as error:
            raise WriteError(
                "an entry of the target's manifest cannot be read",
                hint="Use the version of Tidegate that wrote it, or load into another folder.",
            ) from error

    def to_json(self) -> str:
        """One line of ASCII."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))


def replay(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Those of a log's entries, oldest first, that count: each continues the one that counted before it.

    Of two loads that started from the same state the later one was never published.

    Example:
        >>> first = Entry(sequence=1, mark="a", folders=(), format="csv", schema="", positions={})
        >>> late = Entry(sequence=1, mark="b", folders=(), format="csv", schema="", positions={})
        >>> [entry.mark for entry in replay([first, late])]
        ['a']
    """
    counted: list[Entry] = []
    for entry in entries:
        if entry.sequence == len(counted) + 1:
            counted.append(entry)
    return tuple(counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of the target at `path`."""

    spark: SparkSession
    path: str

    def need(self) -> None:
        """Makes sure that an entry could be put, before anything is written for it.

        Raises:
            EnvironmentMissing: the target is in S3, and its client is not installed.
            WriteError: the store refuses the login, or cannot put a file only if it is absent.
        """
        if on_s3(self.path):
            self._objects.need(posixpath.join(self._folder, "asked"))

    def entries(self) -> tuple[Entry, ...]:
        """The entries that count, oldest first; the last one is in force."""
        # Before its first batch is committed, the folder may hold rows of one that never will be.
        committed = self._log if on_s3(self.path) else posixpath.join(self._folder, "checkpoint", "commits")
        if not files(self.spark, committed):
            return ()
        found = uncached(self.spark).schema("number bigint, entry string").json(self._log).collect()
        return replay(Entry.from_json(row[1]) for row in sorted(found, key=lambda row: int(row[0])))

    def put(self, entry: Entry) -> tuple[Entry, ...]:
        """The entries that count once this one was put: the one of its number is this one, or one that was first.

        Raises:
            WriteError: neither came about.
        """
        cause: Exception | None = None
        until = time.monotonic() + PATIENCE
        append = self._put if on_s3(self.path) else self._append
        while time.monotonic() < until:
            try:
                append(entry)
            except WriteError:
                raise
            except Exception as error:  # noqa: BLE001 - Spark names a number that was taken in many ways
                # Whatever it was, the log says whose number it is.
                cause = error
                time.sleep(random.uniform(0.2, 1))  # noqa: S311 - to get out of each other's way
            counted = self.entries()
            if len(counted) >= entry.sequence:
                return counted
        raise WriteError(f"the manifest of {self.path} cannot be written", hint="Run again.") from cause

    def _put(self, entry: Entry) -> None:
        """The entry as a file that is named by its number, unless that number is taken."""
        row = json.dumps({"number": entry.sequence, "entry": entry.to_json()})
        self._objects.put(posixpath.join(self._log, f"{entry.sequence:020d}.json"), f"{row}\n")

    def _append(self, entry: Entry) -> None:
        """One more entry at the end of the log, or none: a batch that a crash left open is finished first."""
        with like(self.spark, _POLITE) as session:
            ticks = session.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
            row = ticks.selectExpr("value AS number", f"{string(entry.to_json())} AS entry")
            checkpoint = posixpath.join(self._folder, "checkpoint")
            writer = row.writeStream.format("json").option("checkpointLocation", checkpoint)
            query = writer.trigger(once=True).start(self._log)
            query.awaitTermination()

    @property
    def _objects(self) -> Objects:
        return Objects(spark=self.spark, path=self.path)

    @property
    def _folder(self) -> str:
        return posixpath.join(self.path, FOLDER)

    @property
    def _log(self) -> str:
        return posixpath.join(self._folder, "log")
