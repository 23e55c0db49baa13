"""Decides what replace means: the rows read become all that the table holds.

Chosen by `write: replace`; called by the pipeline. Must never accept a part of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.protocols import Batch, Checked, Staging
from tidegate.core.slices import Meaning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Replaces every row; duplicates at the source stay duplicates."""

    kind: ClassVar[str] = "replace"
    accepts: ClassVar[frozenset[Meaning]] = frozenset({Meaning.ALL})
    needs_key: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True

    def choose(self, facts: WriteFacts) -> WriteChoice:
        """Append where nothing is there to be replaced, else overwrite."""
        if facts.table_rows == 0:
            return WriteChoice(mode=Mode.APPEND, reason="the table is empty, so there is nothing to replace")
        return WriteChoice(mode=Mode.OVERWRITE, reason="write: replace replaces every row")

    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:  # noqa: ARG002 - no key, nothing to look for
        """Every row as it is."""
        return Checked(frame=rows)

    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> None:
        """One pass over the rows, without a shuffle of ours and without keeping them."""
        if plan.write.mode is Mode.APPEND:
            staging.append(checked.frame)
        else:
            staging.overwrite(checked.frame)
