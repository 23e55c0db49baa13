"""Which streams can fill a new column for the rows that they have, and which say what to do instead."""

from __future__ import annotations

import pytest

from tidegate.core.policies.contract import Mode
from tidegate.core.schema import ChangeKind
from tidegate.engine.column_backfill import incompatibilities
from tidegate.strategies.cdc import Cdc
from tidegate.strategies.checksum import Checksum
from tidegate.strategies.full import Full
from tidegate.strategies.smart import Smart
from tidegate.strategies.table_changes import TableChanges
from tidegate.strategies.watermark import Watermark
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace

FILL = {ChangeKind.ADD_COLUMN: Mode.FILL}
CURSOR = Watermark(column="at")


@pytest.mark.parametrize(
    ("strategy", "writer", "refused"),
    [
        (CURSOR, Merge(), None),
        (Smart(column="at"), Merge(), None),
        (Full(), Replace(), None),
        (Checksum(), Merge(), None),
        (CURSOR, Append(), "write: append cannot do; use merge"),
        (TableChanges(), Merge(), "strategy table_changes reads only changes; use add_column: evolve"),
        (Cdc(), Merge(), "tidegate resync"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_what_reads_every_row_or_a_key_can_fill(strategy, writer, refused):
    found = incompatibilities(strategy, writer, FILL)
    assert (refused is None) == (found == [])
    assert refused is None or refused in found[0]
    assert incompatibilities(strategy, writer, {ChangeKind.ADD_COLUMN: Mode.EVOLVE}) == []
