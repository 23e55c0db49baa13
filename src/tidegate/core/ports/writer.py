"""What a writer implements: it decides what happens to the rows; the format decides how."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.effects import Effect
from tidegate.core.plan import LoadPlan, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging
from tidegate.core.schema import Column, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Writer(Protocol):
    """Decides what happens to the rows; formats decide how. Writers inherit from this class and its defaults.

    `accepts` are the effects that it can carry out, `idempotent` says that the same rows may be written again, and
    `deletes_by_key` that it deletes or marks the rows of keys that no longer exist at the source.
    """

    kind: ClassVar[str]
    accepts: ClassVar[frozenset[type[Effect]]]
    needs_key: ClassVar[bool]
    idempotent: ClassVar[bool]
    deletes_by_key: ClassVar[bool]

    @abstractmethod
    def choose(self, facts: WriteFacts) -> WriteChoice:
        """The write mode for a batch."""

    @property
    def versions(self) -> VersionedWriter | None:
        """What it answers in addition if its table keeps every version of a row; None if it keeps only current ones."""
        return None

    @property
    def current(self) -> str:
        """The condition of the current rows, as Spark SQL."""
        return "true"

    @property
    def signature(self) -> str | None:
        """Changes with every option that changes the meaning of the table's rows; None if no option does."""
        return None

    def renamed(self, names: Mapping[str, str]) -> Writer:  # noqa: ARG002 - by default its options name no column
        """The same writer for a source whose columns have other names; old names to new ones."""
        return self

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partitioning of a new table, if the stream has no `layout:`."""
        return ()

    @property
    def own(self) -> tuple[str, ...]:
        """The names of the writer's own columns."""
        return ()

    def added(self, columns: Schema, cursor: Sequence[str]) -> tuple[Column, ...]:  # noqa: ARG002 - by default none
        """The writer's own columns, beside those of the source.

        Args:
            cursor: the strategy's.

        Raises:
            ColumnMissing: an option names a column that the source does not have.
            SchemaRefused: the source has a column of such a name, or one whose type cannot date a version.
        """
        return ()

    def latest(self, key: tuple[str, ...], cursor: tuple[str, ...]) -> Latest | None:  # noqa: ARG002 - by default none
        """The rule by which it chooses among several rows of a key; None if it keeps them all.

        Args:
            cursor: the strategy's.
        """
        return None

    def moments(self, plan: LoadPlan) -> Type | None:  # noqa: ARG002 - by default there are none
        """The type of the moments that events of a log state; None if only their order says which one is later.

        If events state moments, a late event changes earlier versions, so every event of a key has to be known. The
        writer's `check` then returns the versions of the events' keys as its `frame`; for rows that are `reread` it
        derives them in another way, for verification.
        """
        return None

    @abstractmethod
    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        """Prepares the rows before anything is written; for a keyed table, one row per key.

        Raises:
            DuplicateKeys: several rows of one key without an order.
            CheckFailed: a NULL in a key column.
        """

    @abstractmethod
    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """Makes one commit with the plan's position; returns what was written, or `skipped` without a commit."""


class VersionedWriter(Protocol):
    """A writer that keeps versions of rows, described by columns of its own."""

    @property
    def known(self) -> str:
        """The last moment of a version, as Spark SQL."""

    def moment(self, cursor: Sequence[str]) -> str | None:
        """The moment at which a row of the source took effect, as Spark SQL; None if the load dates it.

        Args:
            cursor: the strategy's.
        """

    def replayed(  # noqa: PLR0913 - what is known of rows that waited
        self, rows: DataFrame, plan: LoadPlan, cursor: Sequence[str], *, stored: DataFrame, at: str, ended: str
    ) -> DataFrame:
        """Quarantined rows as changes with moments of their own (`dataframe_ops.MOMENT`), and their ends.

        Args:
            stored: the versions in the table.
            at: when the load that read a row was planned, as SQL.
            ended: when the row was found to be deleted or replaced; NULL if it was not.
        """

    def currently(self, checked: Checked, plan: LoadPlan, staging: Staging) -> DataFrame:
        """The rows that will be current once a checked batch is written, of rows that are no events."""

    def unseen(self, checked: Checked, plan: LoadPlan, staging: Staging) -> int:
        """The number of rows of a checked batch that the committed versions do not show at their moment."""

    def prove(self, checked: Checked, plan: LoadPlan, staging: Staging) -> None:
        """Verifies the commit: for each touched key, no versions overlap and at most one is current.

        Raises:
            VerifyFailed: this does not hold.
        """
