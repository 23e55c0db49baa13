"""The writer `append`: adds every row that is read, and changes no existing row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.batch import Batch, Checked
from tidegate.core.effects import Effect, Insert, Upsert
from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging
from tidegate.core.ports.writer import Writer
from tidegate.errors import PlanError
from tidegate.writers._modes import put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Writer):
    """Adds every row; each version read of a changed row is kept."""

    kind: ClassVar[str] = "append"
    accepts: ClassVar[frozenset[type[Effect]]] = frozenset({Insert, Upsert})
    needs_key: ClassVar[bool] = False
    idempotent: ClassVar[bool] = False
    deletes_by_key: ClassVar[bool] = False

    def choose(self, facts: WriteFacts) -> WriteChoice:
        """Append, or overwrite for a full refresh or changed files.

        Raises:
            PlanError: rows may stand in the table already and nothing tells which ones.
        """
        if facts.reset:
            return WriteChoice(mode=Mode.OVERWRITE, reason="a full refresh replaces every row")
        why = facts.effect.repeats if isinstance(facts.effect, Upsert) else None
        if why is None or facts.table_rows == 0:
            return WriteChoice(mode=Mode.APPEND, reason="write: append adds every row")
        if facts.carried:
            reason = f"{why}, so the table's rows from these files are replaced"
            return WriteChoice(mode=Mode.REPLACE_FILES, reason=reason)
        raise PlanError(
            f"{why}, and write: append would keep their rows twice",
            hint="Run a full refresh with `tidegate run STREAM --full-refresh --yes`; rows that record their file's "
            "name from the first load on (`source: {file_name: source_file}`) are replaced instead.",
        )

    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:  # noqa: ARG002 - no key, nothing to look for
        return Checked(frame=rows)

    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """One pass over the rows, without a shuffle of ours and without keeping them."""
        return put(checked, plan, staging)
