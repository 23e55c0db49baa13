"""What a writer implements: it decides what happens to the rows; the format decides how."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from tidegate.core.batch import Batch, Checked
from tidegate.core.effects import Effect
from tidegate.core.plan import LoadPlan, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Writer(Protocol):
    """Says what happens to the rows; formats say how.

    `accepts` are the effects that it can carry out, `idempotent` says that rows may be written again, `deletes_by_key`
    that it deletes or marks the rows of keys that are gone at the source.
    """

    kind: ClassVar[str]
    accepts: ClassVar[frozenset[type[Effect]]]
    needs_key: ClassVar[bool]
    idempotent: ClassVar[bool]
    deletes_by_key: ClassVar[bool]

    def choose(self, facts: WriteFacts) -> WriteChoice:
        """The mode for such a batch."""

    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        """The rows made ready: for a keyed table one row a key, looked at before anything is written.

        Raises:
            DuplicateKeys: rows of one key that nothing orders.
            CheckFailed: a NULL in a key column.
        """

    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """One commit that carries the plan's position; what was written, or `skipped` where there is no commit."""
