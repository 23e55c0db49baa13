"""What a versioned table (Delta, Iceberg) reports about the changes between two of its versions.

A range of versions that are no longer known is never reported as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from tidegate.core.ids import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

EMPTY = "empty"
"""The version of a table that nobody has written to yet."""


class FeedContent(StrEnum):
    """How much a table reports about a range of its versions."""

    NOTHING = "nothing"
    """No row came, changed or went: compaction, properties."""

    APPENDS = "appends"
    """Rows came; none changed, none went."""

    CHANGES = "changes"
    """Every row that came or went, commit by commit."""

    UNKNOWN = "unknown"
    """Not what happened, but the rows as they are now: only a comparison finds out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The changes between two versions.

    Args:
        reason: why the feed has that content, for people, to go after "because"; empty for what needs no reason.
        rows: that came, where the table counts them.
    """

    content: FeedContent
    reason: str = ""
    rows: int | None = None


class ChangeFeed(Protocol):
    """The part of a format that makes its tables a source."""

    kind: ClassVar[str]

    def between(self, target: Target, after: str, upto: str) -> Span:
        """What happened after one version up to another, from the metadata alone, without Spark.

        Raises:
            HistoryGone: the table cannot even be compared any more with what was loaded.
        """

    def deaf(self, target: Target) -> str:
        """The statement that enables the table's change data feed; empty if it is enabled."""

    def appended(self, session: SparkSession, target: Target, after: str, upto: str) -> DataFrame:
        """The inserted rows, of a range that has nothing else."""

    def changes(self, session: SparkSession, target: Target, after: str, upto: str) -> DataFrame:
        """Every inserted or deleted row.

        Rows: the table's columns; `frames.GONE`, true for a row that went; `frames.ORDER`, a bigint that is greater
        for a later commit, and within one commit for a row that came: of each key the greatest one counts.
        """


@runtime_checkable
class HasPresent(Protocol):
    """A probe of a versioned table that can be asked for rows by key."""

    def present(self, session: SparkSession, keys: DataFrame, key: Sequence[str]) -> DataFrame:
        """The rows of some keys, in the version that is read."""


@runtime_checkable
class Versioned(Protocol):
    """A probe of a table with versions: it knows what happened since one of them."""

    def between(self, after: str) -> Span:
        """What happened after that version up to the one that is read. Raises HistoryGone."""
