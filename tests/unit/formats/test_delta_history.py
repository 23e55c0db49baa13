"""What a Delta table's log tells of a range, from commits written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate.core.change_feed import FeedContent, Span
from tidegate.errors import HistoryGone
from tidegate.formats.delta.change_feed import between
from tidegate.formats.delta.log import Log
from tidegate.formats.delta.table import PHYSICAL
from tidegate.formats.shared.storage import store_of
from unit.formats.delta_logs import write_log

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}


def table(fed: bool = True, **columns: str) -> dict:
    fields = [{"name": name, "type": kind, "nullable": True} for name, kind in (columns or {"id": "long"}).items()]
    configuration = {"delta.enableChangeDataFeed": "true"} if fed else {}
    return {"metaData": {"id": "a", "schemaString": json.dumps({"fields": fields}), "configuration": configuration}}


def mapped(**physical: str) -> dict:
    """The table where each of these columns of integers is known by a physical name."""
    fields = [
        {"name": name, "type": "long", "nullable": True, "metadata": {PHYSICAL: known}}
        for name, known in physical.items()
    ]
    made = table()["metaData"]
    return {"metaData": {**made, "schemaString": json.dumps({"fields": fields})}}


def add(name: str, rows: int = 2, *, moves: bool = True) -> dict:
    return {
        "add": {"path": name, "partitionValues": {}, "dataChange": moves, "stats": json.dumps({"numRecords": rows})}
    }


def remove(name: str, *, moves: bool = True) -> dict:
    return {"remove": {"path": name, "dataChange": moves}}


def cdc(name: str) -> dict:
    return {"cdc": {"path": name}}


class Folder:
    """A table of commits and empty files."""

    def __init__(self, root: Path, *commits: list[dict]) -> None:
        self.root = root
        write_log(root / "_delta_log", *commits)
        for action in (action for actions in commits for action in actions):
            for kind in action.keys() & {"add", "cdc"}:
                path = root / action[kind]["path"]
                path.parent.mkdir(exist_ok=True)
                path.touch()

    def told(self, after: int, upto: int) -> Span:
        log = Log.open(store_of(f"file://{self.root}"))
        assert log is not None
        return between(log, str(after), str(upto))


@pytest.mark.parametrize(
    ("passed", "told"),
    [
        ([[add("b"), add("c", 3)]], Span(content=FeedContent.APPENDS, rows=5)),
        ([[remove("a", moves=False), add("b", moves=False)]], Span(content=FeedContent.NOTHING)),
        ([[remove("a"), add("b"), cdc("_change_data/c")]], Span(content=FeedContent.CHANGES)),
        ([[add("b")], [remove("a")]], Span(content=FeedContent.CHANGES)),
        ([[add("b"), cdc("_change_data/c")]], Span(content=FeedContent.CHANGES)),
    ],
)
def test_what_a_range_tells(tmp_path, passed, told):
    folder = Folder(tmp_path, [PROTOCOL, table(), add("a")], *passed)
    assert folder.told(0, len(passed)) == told


def test_the_feed_has_to_be_there_for_every_version_that_moved_rows(tmp_path):
    unfed = table(fed=False)
    folder = Folder(tmp_path, [PROTOCOL, unfed, add("a")], [add("b")], [table()], [add("c")], [unfed], [add("d")])
    assert "not enabled for version 1" in folder.told(0, 3).reason
    assert folder.told(1, 3).content is FeedContent.APPENDS
    assert "not enabled for version 5" in folder.told(1, 5).reason


def test_columns_may_come_but_not_go(tmp_path):
    old, new = table(id="long", name="string"), table(id="long", name="string", more="long")
    folder = Folder(tmp_path, [PROTOCOL, old, add("a")], [add("b")], [new], [add("c")], [table(id="string")])
    assert folder.told(0, 3).content is FeedContent.APPENDS
    assert folder.told(0, 4).content is FeedContent.UNKNOWN


def test_columns_that_exchanged_their_names_are_not_read_from_the_feed(tmp_path):
    old, new = mapped(id="id", net="net", tax="tax"), mapped(id="id", net="tax", tax="net")
    folder = Folder(tmp_path, [PROTOCOL, table(id="long", net="long", tax="long"), add("a")], [old, add("b")], [new])
    assert folder.told(0, 1).content is FeedContent.APPENDS, "giving columns physical names changes none"
    assert "has the name that another one had in version 0" in folder.told(0, 2).reason


def test_a_range_whose_columns_are_not_those_of_the_version_before_it_is_compared(tmp_path):
    old, new = mapped(id="id", note="a"), mapped(id="id", note="b")
    folder = Folder(tmp_path, [PROTOCOL, old, add("a")], [mapped(id="id")], [new], [add("b")])
    for upto in (2, 3):  # without a row that moved, too: the new column has none of the values
        assert "has the name that another one had in version 0" in folder.told(0, upto).reason
    assert folder.told(0, 1).content is FeedContent.NOTHING, "a column is only dropped"
    assert folder.told(2, 3).content is FeedContent.APPENDS
    restored = Folder(tmp_path / "restored", [PROTOCOL, old, add("a")], [mapped(id="id", note="a", more="c"), add("b")])
    assert restored.told(0, 1).content is FeedContent.APPENDS
    restored = Folder(tmp_path / "back", [PROTOCOL, mapped(id="id", more="c"), add("a")], [old, remove("a")])
    assert "renamed, dropped or retyped after version 0" in restored.told(0, 1).reason, "a RESTORE takes columns away"


def test_a_feed_that_nobody_can_vouch_for_any_more_is_not_believed(tmp_path):
    folder = Folder(tmp_path, [PROTOCOL, table()], [add("a")], [table(), add("b")])
    assert folder.told(1, 2).content is FeedContent.APPENDS
    # The log is cut off behind version 1: what the table was there, before its properties changed, nobody knows.
    kept = {"metadata": table()["metaData"], "protocol": PROTOCOL["protocol"], "numFiles": 0, "allFiles": []}
    (tmp_path / "_delta_log" / f"{2:020}.crc").write_text(json.dumps({**kept, "setTransactions": []}))
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    span = folder.told(1, 2)
    assert (span.content, "no longer known" in span.reason) == (FeedContent.UNKNOWN, True)


def test_what_is_gone_stops(tmp_path):
    folder = Folder(
        tmp_path,
        [PROTOCOL, table(), add("a b")],
        [remove("a%20b"), add("c")],
        [remove("c"), add("p=1/d"), cdc("_change_data/e")],
    )
    assert folder.told(0, 2).content is FeedContent.CHANGES
    (tmp_path / "c").unlink()
    with pytest.raises(HistoryGone, match=r"version 1 .* \(VACUUM\)"):
        folder.told(0, 2)
    assert folder.told(1, 2).content is FeedContent.CHANGES, "the feed's own file tells what went"
    (tmp_path / "_change_data" / "e").unlink()
    with pytest.raises(HistoryGone, match="version 2"):
        folder.told(1, 2)
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(HistoryGone, match=r"version 1 .* no longer in its log"):
        folder.told(0, 2)
    with pytest.raises(HistoryGone, match="went back in time"):
        folder.told(2, 1)
