"""Decides what a writer owes the engine whose table keeps every version of a row, beside being a writer.

Implemented by such writers, asked by the planner, the pipeline and every comparison. Must never be asked of a table
that holds just what its source holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tidegate.core.batch import Checked
from tidegate.core.plan import LoadPlan
from tidegate.core.protocols import Staging, Writer
from tidegate.core.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@runtime_checkable
class Historic(Protocol):
    """A writer whose table has versions of rows, in columns of the writer's own."""

    @property
    def current(self) -> str:
        """The condition of the rows that the source holds now, as Spark SQL."""

    @property
    def signature(self) -> str:
        """A short text that changes with every option that says what a version is or where it stands."""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """What a new table is laid out by, where the stream does not say."""

    def added(self, columns: Schema, cursor: Sequence[str]) -> tuple[Column, ...]:
        """The writer's own columns, beside those of the source.

        Args:
            cursor: the strategy's.

        Raises:
            ColumnMissing: an option names a column that the source does not have.
            SchemaRefused: the source has a column of such a name, or one whose type cannot date a version.
        """

    def left(self, checked: Checked, plan: LoadPlan) -> DataFrame:
        """The rows that a checked batch of a log leaves current, one a key."""

    def prove(self, checked: Checked, plan: LoadPlan, staging: Staging) -> None:
        """Looks at what was committed: of each key that was touched no versions overlap, and one at most is current.

        Raises:
            VerifyFailed: they do.
        """


def mirrored(writer: Writer) -> str:
    """The condition of the rows of a writer's table that are meant to be the source's."""
    return writer.current if isinstance(writer, Historic) else "true"
