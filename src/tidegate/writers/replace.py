"""The writer `replace`: the rows that are read replace all rows of the table.

Never accepts only a part of the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.batch import Batch, Checked
from tidegate.core.effects import Effect, Mirror, WriteHint
from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging
from tidegate.core.ports.writer import Writer
from tidegate.writers._modes import MIRROR, as_it_is, choose_for_partitions, one_a_key, put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace(Writer):
    """Replaces every row; duplicates in the source stay duplicates."""

    kind: ClassVar[str] = "replace"
    accepts: ClassVar[frozenset[type[Effect]]] = frozenset({Mirror})
    needs_key: ClassVar[bool] = False
    idempotent: ClassVar[bool] = True
    deletes_by_key: ClassVar[bool] = False

    def choose(self, facts: WriteFacts) -> WriteChoice:
        """Append where nothing is there to be replaced, else overwrite: everything, or the batch's partitions."""
        if facts.table_rows == 0:
            return WriteChoice(mode=Mode.APPEND, reason="the table is empty, so there is nothing to replace")
        match facts.effect:
            case Mirror(of=None, hint=hint) as mirror if facts.keys.columns and facts.reset is None:
                # Where costs decide between the two, both have to leave the same rows.
                if mirror.compares or (hint is WriteHint.REWRITE and facts.unwritten):
                    return MIRROR
            case Mirror(of=grouping) as mirror if grouping is not None and facts.reset is None:
                return choose_for_partitions(facts, mirror, rewrite=not facts.unwritten)
        return WriteChoice(mode=Mode.OVERWRITE, reason="write: replace replaces every row")

    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        """Every row as it is; one a key where the partitions have to be compared by it.

        Raises:
            CheckFailed: a NULL in a key column that rows are compared by.
            DuplicateKeys: two rows of one key that rows are compared by.
        """
        if plan.write.mode is Mode.MERGE_PARTITIONS:
            return one_a_key(rows, plan, batch)
        if plan.write.mode is Mode.MERGE_DIFFERENCES:
            return as_it_is(rows, batch)
        return Checked(frame=rows)

    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """One commit; a pass over the rows without keeping them, unless partitions have to be compared by key."""
        return put(checked, plan, staging)
