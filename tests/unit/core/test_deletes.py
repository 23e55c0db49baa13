"""The `deletes:` of a stream: what it says, and what it does not go together with."""

import pytest

from tidegate.core.compatibility import incompatibilities
from tidegate.core.policies.deletes import Apply, Deletes, Detect, Scope
from tidegate.formats.shared.statements import merge
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.table_changes import TableChanges
from tidegate.strategies.watermark import Watermark
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace

KEY_DIFF = Deletes(detect=Detect.KEY_DIFF)


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_a_fraction_is_a_fraction(fraction):
    with pytest.raises(ValueError, match="between 0 and 1"):
        Deletes(max_fraction=fraction)


@pytest.mark.parametrize(
    ("strategy", "writer", "key", "deletes", "reason"),
    [
        (Watermark(column="at"), Merge(), ("id",), KEY_DIFF, None),
        (SnapshotDiff(), Merge(), ("id",), Deletes(apply=Apply.SOFT), None),
        (SnapshotDiff(), Replace(), ("id",), Deletes(apply=Apply.SOFT), "use merge"),
        (Watermark(column="at"), Append(), ("id",), KEY_DIFF, "use merge"),
        (Watermark(column="at"), Merge(), (), KEY_DIFF, "needs `key:`"),
        (TableChanges(), Merge(), ("id",), KEY_DIFF, "continue from a cursor"),
        (SnapshotDiff(), Merge(), ("id",), Deletes(detect=Detect.KEY_DIFF, scope=Scope.WINDOW), "cursor"),
        (Watermark(column="at"), Merge(), ("id",), Deletes(detect=Detect.KEY_DIFF, scope=Scope.WINDOW), "lookback"),
    ],
)
def test_what_goes_together(strategy, writer, key, deletes, reason):
    found = incompatibilities(strategy=strategy, writer=writer, key=key, deletes=deletes)
    if reason is None:
        assert not found
    else:
        assert any(reason in text for text in found)


def test_the_statement_that_marks():
    text = merge(
        "t", "v", columns=("id", "a"), key=("id",), skip_equal=True, delete_if="g", again="x", marked=("d", "NOW")
    )
    assert "WHEN MATCHED AND s.`x` THEN DELETE" in text
    assert "WHEN MATCHED AND s.`g` AND t.`d` IS NULL THEN UPDATE SET t.`d` = NOW" in text
    # A row that is equal but marked is live again.
    assert "WHEN MATCHED AND NOT s.`g` AND NOT (t.`a` <=> s.`a` AND t.`d` IS NULL) THEN UPDATE SET" in text
    assert "t.`a` = s.`a`, t.`d` = NULL" in text
    assert text.endswith("WHEN NOT MATCHED AND NOT s.`g` THEN INSERT (`id`, `a`) VALUES (s.`id`, s.`a`)")
