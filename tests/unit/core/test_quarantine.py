"""By what the rows of a load take the place of those that wait: by what the load means, not by how it is written."""

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Insert, Mirror, Upsert
from tidegate.core.quarantine import Superseding, everything, superseding
from tidegate.core.slices import Everything, Files, Keys, LogRange, Partition, Range

ALL = (Everything(),)
DAY = (Partition(column="day", label="1", low="2025-01-01", high="2025-01-02"),)
WINDOW = (Range(cursor=("at",), after="1", upto="2"),)
FILES = (Files(paths=("a.csv",)),)
CARRIED = (Files(paths=("a.csv",), carrier="file"),)
MERGE = {"one_a_key": True, "history": False, "applies_events": False, "unique": True}
PLAIN = {**MERGE, "one_a_key": False}
HISTORY = {**MERGE, "history": True}


@pytest.mark.parametrize(
    ("slices", "effect", "writer", "expected"),
    [
        (ALL, Mirror(), MERGE, Superseding.KEY),
        (ALL, Mirror(), {**MERGE, "unique": False}, Superseding.KEY),
        (ALL, Mirror(), PLAIN, Superseding.NOTHING),
        (DAY, Mirror(), MERGE, Superseding.SLICES),
        (DAY, Mirror(), PLAIN, Superseding.SLICES),
        ((Keys(columns=("id",), values=(("1",),)),), Mirror(), MERGE, Superseding.SLICES),
        (WINDOW, Upsert(), MERGE, Superseding.KEY),
        (WINDOW, Upsert(), {**MERGE, "unique": False}, Superseding.ORDER),
        (WINDOW, Insert(), {**MERGE, "unique": False}, Superseding.ORDER),
        (WINDOW, Upsert(), PLAIN, Superseding.NOTHING),
        (FILES, Insert(), PLAIN, Superseding.NOTHING),
        (CARRIED, Upsert(), PLAIN, Superseding.SLICES),
        (CARRIED, Upsert(), MERGE, Superseding.SLICES),
        (ALL, Apply(), MERGE, Superseding.KEY),
        ((LogRange(part="0", after=None, upto="9"),), Apply(), {**MERGE, "applies_events": True}, "event"),
        (ALL, Mirror(), HISTORY, Superseding.VERSION),
        (WINDOW, Upsert(), HISTORY, Superseding.VERSION),
        (ALL, Apply(), {**HISTORY, "applies_events": True}, Superseding.VERSION),
    ],
)
def test_each_load_has_one_order(slices, effect, writer, expected):
    assert superseding(ChangeSet(slices=slices, effect=effect), **writer) == expected


def test_only_what_is_read_whole_is_everything():
    assert everything(ChangeSet(slices=ALL, effect=Mirror()))
    assert not everything(ChangeSet(slices=ALL, effect=Apply()))
    assert not everything(ChangeSet(slices=DAY, effect=Mirror()))
