"""By what the rows of a load take the place of those that wait: by what the load means, not by how it is written."""

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.quarantine import Superseding, everything, superseding
from tidegate.core.slices import Everything, Files, Keys, LogRange, Meaning, Partition, Range

ALL = (Everything(),)
DAY = (Partition(column="day", label="1", low="2025-01-01", high="2025-01-02"),)
WINDOW = (Range(cursor=("at",), after="1", upto="2"),)
FILES = (Files(paths=("a.csv",)),)
CARRIED = (Files(paths=("a.csv",), carrier="file"),)
MERGE = {"one_a_key": True, "history": False, "applies_events": False, "unique": True}
PLAIN = {**MERGE, "one_a_key": False}
HISTORY = {**MERGE, "history": True}


@pytest.mark.parametrize(
    ("slices", "meaning", "writer", "expected"),
    [
        (ALL, Meaning.ALL, MERGE, Superseding.KEY),
        (ALL, Meaning.ALL, {**MERGE, "unique": False}, Superseding.KEY),
        (ALL, Meaning.ALL, PLAIN, Superseding.NOTHING),
        (DAY, Meaning.ALL, MERGE, Superseding.SLICES),
        (DAY, Meaning.ALL, PLAIN, Superseding.SLICES),
        ((Keys(columns=("id",), values=(("1",),)),), Meaning.ALL, MERGE, Superseding.SLICES),
        (WINDOW, Meaning.UPSERTS, MERGE, Superseding.KEY),
        (WINDOW, Meaning.UPSERTS, {**MERGE, "unique": False}, Superseding.ORDER),
        (WINDOW, Meaning.NEW, {**MERGE, "unique": False}, Superseding.ORDER),
        (WINDOW, Meaning.UPSERTS, PLAIN, Superseding.NOTHING),
        (FILES, Meaning.NEW, PLAIN, Superseding.NOTHING),
        (CARRIED, Meaning.UPSERTS, PLAIN, Superseding.SLICES),
        (CARRIED, Meaning.UPSERTS, MERGE, Superseding.SLICES),
        (ALL, Meaning.CHANGELOG, MERGE, Superseding.KEY),
        ((LogRange(part="0", after=None, upto="9"),), Meaning.CHANGELOG, {**MERGE, "applies_events": True}, "event"),
        (ALL, Meaning.ALL, HISTORY, Superseding.VERSION),
        (WINDOW, Meaning.UPSERTS, HISTORY, Superseding.VERSION),
        (ALL, Meaning.CHANGELOG, {**HISTORY, "applies_events": True}, Superseding.VERSION),
    ],
)
def test_each_load_has_one_order(slices, meaning, writer, expected):
    assert superseding(ChangeSet(slices=slices, meaning=meaning), **writer) == expected


def test_only_what_is_read_whole_is_everything():
    assert everything(ChangeSet(slices=ALL, meaning=Meaning.ALL))
    assert not everything(ChangeSet(slices=ALL, meaning=Meaning.CHANGELOG))
    assert not everything(ChangeSet(slices=DAY, meaning=Meaning.ALL))
