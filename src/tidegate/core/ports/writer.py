"""What a writer implements: it decides what happens to the rows; the format decides how."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from tidegate.core.batch import Batch, Checked, Latest
from tidegate.core.effects import Effect
from tidegate.core.plan import LoadPlan, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging
from tidegate.core.schema import Column, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Writer(Protocol):
    """Says what happens to the rows; formats say how. A writer is a subclass: what few writers need has a default here.

    `accepts` are the effects that it can carry out, `idempotent` says that rows may be written again, `deletes_by_key`
    that it deletes or marks the rows of keys that are gone at the source.
    """

    kind: ClassVar[str]
    accepts: ClassVar[frozenset[type[Effect]]]
    needs_key: ClassVar[bool]
    idempotent: ClassVar[bool]
    deletes_by_key: ClassVar[bool]

    @abstractmethod
    def choose(self, facts: WriteFacts) -> WriteChoice:
        """The mode for such a batch."""

    @property
    def versions(self) -> VersionedWriter | None:
        """What else it answers where its table keeps every version of a row; None where it keeps none that ended."""
        return None

    @property
    def current(self) -> str:
        """The condition of the rows that the source holds now, as Spark SQL."""
        return "true"

    @property
    def signature(self) -> str | None:
        """Changes with every option that gives the rows of the table another meaning; None where none does."""
        return None

    @property
    def partition_by(self) -> tuple[str, ...]:
        """What a new table is laid out by, where the stream does not say."""
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
        """By what it chooses the one row of a key that is meant to be the source's; None where it keeps them all.

        Args:
            cursor: the strategy's.
        """
        return None

    def moments(self, plan: LoadPlan) -> Type | None:  # noqa: ARG002 - by default there are none
        """The type of the moments that events of a log state; None where their order alone says which one is later.

        Where they state moments, a late event changes what was before, so every event of a key has to be known. The
        writer's `check` gives the versions of the keys among the events as its `frame`; for rows that are `reread`
        it derives them in another way, for verification.
        """
        return None

    @abstractmethod
    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        """The rows made ready: for a keyed table one row a key, looked at before anything is written.

        Raises:
            DuplicateKeys: rows of one key that nothing orders.
            CheckFailed: a NULL in a key column.
        """

    @abstractmethod
    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """One commit that carries the plan's position; what was written, or `skipped` where there is no commit."""


class VersionedWriter(Protocol):
    """A writer whose table has versions of rows, in columns of the writer's own."""

    @property
    def known(self) -> str:
        """The last moment that a version tells of, as Spark SQL."""

    def moment(self, cursor: Sequence[str]) -> str | None:
        """When a row of the source took effect, as Spark SQL; None where its load dates it.

        Args:
            cursor: the strategy's.
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
