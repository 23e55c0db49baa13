"""Protocol for writers whose table keeps every version of a row (scd2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tidegate.core.batch import Checked, Latest
from tidegate.core.plan import LoadPlan
from tidegate.core.ports.format import Staging
from tidegate.core.ports.writer import Writer
from tidegate.core.schema import Column, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@runtime_checkable
class VersionedWriter(Protocol):
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

    @property
    def own(self) -> tuple[str, ...]:
        """The names of the writer's own columns."""

    @property
    def known(self) -> str:
        """The last moment that a version tells of, as Spark SQL."""

    def moment(self, cursor: Sequence[str]) -> str | None:
        """When a row of the source took effect, as Spark SQL; None where its load dates it.

        Args:
            cursor: the strategy's.
        """

    def added(self, columns: Schema, cursor: Sequence[str]) -> tuple[Column, ...]:
        """The writer's own columns, beside those of the source.

        Args:
            cursor: the strategy's.

        Raises:
            ColumnMissing: an option names a column that the source does not have.
            SchemaRefused: the source has a column of such a name, or one whose type cannot date a version.
        """

    def moments(self, plan: LoadPlan) -> Type | None:
        """The type of the moments that events of a log state; None where their order alone says which one is later.

        Where they state moments, a late event changes what was before, so every event of a key has to be known. The
        writer's `check` gives the versions of the keys among the events as its `frame`; for rows that are read `reread`
        it derives them in another way, for verification.
        """

    def replayed(  # noqa: PLR0913 - what is known of rows that waited
        self, rows: DataFrame, plan: LoadPlan, cursor: Sequence[str], *, stored: DataFrame, at: str, ended: str
    ) -> DataFrame:
        """Rows that were set aside as changes with moments of their own (`frames.MOMENT`), and their ends.

        Args:
            stored: the versions that the table holds.
            at: when the load was planned that read a row, as SQL.
            ended: when its row was found to be gone; NULL where it was not.
        """

    def unseen(self, checked: Checked, plan: LoadPlan, staging: Staging) -> int:
        """Rows of a checked batch that the committed versions do not show at their moment."""

    def prove(self, checked: Checked, plan: LoadPlan, staging: Staging) -> None:
        """Looks at what was committed: of each key that was touched no versions overlap, and one at most is current.

        Raises:
            VerifyFailed: they do.
        """


@runtime_checkable
class KeepsLatest(Protocol):
    """A writer whose table has one row a key that is meant to be the source's: the last one."""

    def latest(self, key: tuple[str, ...], cursor: tuple[str, ...]) -> Latest:
        """By what it chooses among the source's rows of one key.

        Args:
            cursor: the strategy's.
        """


def mirrored(writer: Writer) -> str:
    """The condition of the rows of a writer's table that are meant to be the source's."""
    return writer.current if isinstance(writer, VersionedWriter) else "true"
