"""What only some sources can answer: of a log, of files, of versions, of what their server retains.

A probe or a source has each of them as a property, None where it cannot; see `core/ports/source.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tidegate.core.batch import Latest
from tidegate.core.change_feed import Span
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.log import Lag, LogSpan
from tidegate.core.manifest import File, Listing, Manifest
from tidegate.core.policies.contract import ColumnMapping, Mode
from tidegate.core.position import Position
from tidegate.core.retention import SlotRetention
from tidegate.core.schema import SchemaChange
from tidegate.core.slices import Files, Keys, Slice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ReplicationSlot(Protocol):
    """The log that a server retains for one reader until it is confirmed.

    Only what a table's own position covers may be confirmed.
    """

    def claim(self) -> None:
        """Makes the server retain every change from now on, unless it already does.

        Called before the first load reads a row, so that no change between them is lost.

        Raises:
            ConfigError: the server's log would not identify the changed rows by the stream's key, or cannot be
                retained.
        """

    def acknowledge(self, state: Mapping[str, Any]) -> None:
        """Lets the server drop what a published position covers; may be repeated.

        Args:
            state: the state of that position.

        Raises:
            SourceError: the server does not answer. Nothing is lost: the next run confirms again.
        """

    def retained(self) -> SlotRetention:
        """What the server retains."""

    def release(self) -> None:
        """Drops everything that the server retains; the stream then needs a full refresh."""


class Log(Protocol):
    """What a probe of a log of changes answers.

    Its source reads a range of the log as one row per event: the columns of the schema (all but the key may be NULL for
    a deleted row), `DELETED` and `ORDER` of `dataframe_ops`, and the columns of `core.log.EVENT_COLUMNS`. ORDER is
    a text that sorts, by code points, in the order of commits at the source; two events of the same order are one
    event that was delivered twice. A changed key is two events: the delete of the old key, then the insert of the new.
    """

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """The range of events after a position from an earlier answer; None for the log's beginning.

        Args:
            most: events to read at most; None for all there are.

        Raises:
            HistoryGone: the log lost events after the position, is a different log, or ends before the position.
        """

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """How far a position is behind the log's end, answered without a plan to read anything.

        Raises:
            HistoryGone: as `after` does.
        """

    def read_twice(
        self, session: SparkSession, parts: Sequence[Slice], *, values: bool
    ) -> tuple[Fingerprint, Fingerprint] | None:
        """Fingerprints of these parts' records as Spark reads them and as an independent reader does.

        Args:
            values: compare values, not only the number of records.

        Returns:
            None if there is no other reader.
        """


class ListedFiles(Protocol):
    """What a probe of files answers in addition."""

    @property
    def carrier(self) -> str | None:
        """The column with the path of each row's file; None if rows have none."""

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """How far an API was read whose answers the files are, JSON types only; None for files of somebody else."""
        return None

    def fetch(self, state: Mapping[str, Any]) -> None:  # noqa: ARG002 - by default the files are there
        """Adds as files what an API answers after an earlier `progress`; nothing to do for files of somebody else.

        Raises:
            SourceUnavailable, SourceRefused, SourceError: the API does not answer, or not with records.
        """
        return None  # noqa: RET501 - not abstract

    def request_unconditionally(self) -> None:
        """Makes later requests to an API unconditional, so that it sends every row instead of "not modified".

        Called first by whoever compares a table with the source; nothing to do for files of somebody else.
        """
        return None  # noqa: RET501 - not abstract

    def loaded(self, state: Mapping[str, Any]) -> Manifest | None:  # noqa: ARG002 - by default nothing tells
        """The files that a table of that `progress` holds, as far as they are there; None where that does not tell."""
        return None

    def listing(self, known: Manifest | None) -> Listing:
        """All files, listed once, without Spark.

        Args:
            known: files whose content need not be hashed again if their stamp is unchanged.

        Raises:
            SourceRefused: the folder or file does not exist.
        """

    def choose(self, files: Iterable[File], columns: Mapping[str, str]) -> None:
        """Chooses the files that are read, and that determine the columns from here on.

        Args:
            files: the files; only path and load are used.
            columns: types by name from earlier loads; they also apply if these files show less. A column that was left
                out has an empty type.
        """

    def restored(self, files: Files, keys: Keys, latest: Latest) -> Fingerprint:
        """Fingerprint of the latest row of each of these keys in the `older` files of a slice.

        Used if a load removes the newest row of a key.

        Args:
            latest: its order has `core.manifest.LOADED`.
        """

    def disagreement(self, session: SparkSession, parts: Sequence[Slice], *, values: bool) -> str | None:  # noqa: ARG002 - by default there is one reader
        """In which file, in which columns and how the two readers of the slices differ; None where they do not.

        Asked after a load's rows were found to differ, so that the error tells where. Never names a value.

        Args:
            values: compare values, not only the number of rows.
        """
        return None


class TableVersions(Protocol):
    """What a probe of a table with versions answers."""

    def between(self, after: str) -> Span:
        """The changes after that version, up to the one that is read. Raises HistoryGone."""

    def present(self, session: SparkSession, keys: DataFrame, key: Sequence[str]) -> DataFrame:
        """The rows of some keys, in the version that is read."""


class RescuesColumns(Protocol):
    """Reads some of a table's columns, and packs others into one column."""

    def map_columns(self, mapping: ColumnMapping) -> None:
        """Restricts the probe to the columns that the mapping loads, and `RESCUED` for those that it rescues.

        Called before any other question.
        """

    def left_out(self) -> Mapping[SchemaChange, Mode]:
        """The changes of columns that are dropped, rescued as text in `RESCUED`, or cast to the table's type."""


class DetectsRestore(Protocol):
    """Distinguishes a source that continued from one that was restored from a backup and written to again."""

    def witness(self, cursor: Sequence[str], since: Position | None) -> Mapping[str, Any]:
        """Evidence of the source's state at this moment, stored in the next position; JSON types only."""

    def restore_reason(self, since: Position) -> str | None:
        """Why the source cannot have continued from that position, in a sentence; None without evidence."""

    def follows(self) -> bool:
        """Whether it replicates another server, so that it may just be behind."""
