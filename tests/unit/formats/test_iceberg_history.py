"""What an Iceberg table's snapshots tell of a range, from metadata written by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidegate.core.change_feed import FeedContent, Span
from tidegate.core.ids import Target
from tidegate.formats.iceberg.change_feed import Feed, between, restore_reason
from tidegate.formats.iceberg.metadata import Metadata

APPEND = {"operation": "append", "added-records": "3", "total-records": "9"}
NOTHING = {"operation": "append", "total-records": "9"}
REPLACE = {"operation": "replace", "added-records": "9", "deleted-records": "9", "total-records": "9"}
OVERWRITE = {"operation": "overwrite", "added-records": "2", "deleted-records": "3", "total-records": "8"}
BESIDE = {"operation": "overwrite", "added-delete-files": "1", "total-delete-files": "1", "total-records": "9"}
STILL_BESIDE = {**OVERWRITE, "total-delete-files": "1"}
DELETE = {"operation": "delete", "deleted-records": "4", "total-records": "5"}
UNCOUNTED = {"operation": "overwrite"}


def history(*summaries: dict, first: dict = APPEND) -> Metadata:
    """Snapshots 1, 2 … in a line."""
    snapshots = [
        {"snapshot-id": number, "parent-snapshot-id": number - 1 or None, "summary": summary}
        for number, summary in enumerate([first, *summaries], 1)
    ]
    schema = {"schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long"}]}
    return Metadata({"current-snapshot-id": len(snapshots), "snapshots": snapshots, "schemas": [schema]})


@pytest.mark.parametrize(
    ("passed", "told"),
    [
        ([REPLACE], FeedContent.NOTHING),
        ([NOTHING, REPLACE], FeedContent.NOTHING),
        ([APPEND], FeedContent.APPENDS),
        ([APPEND, REPLACE, APPEND], FeedContent.APPENDS),
        ([APPEND, OVERWRITE], FeedContent.CHANGES),
        ([DELETE], FeedContent.CHANGES),
        ([UNCOUNTED], FeedContent.CHANGES),
        ([BESIDE], FeedContent.UNKNOWN),
        ([APPEND, BESIDE, APPEND], FeedContent.UNKNOWN),
        ([STILL_BESIDE], FeedContent.UNKNOWN),
    ],
)
def test_what_a_range_tells(passed, told):
    assert between(history(*passed), "1", str(len(passed) + 1)).content is told


def test_appended_rows_are_counted():
    assert between(history(APPEND, REPLACE, APPEND), "1", "4") == Span(content=FeedContent.APPENDS, rows=6)


def test_rows_deleted_beside_files_before_the_range_count_too():
    before = {**BESIDE, "total-delete-files": "2"}
    assert between(history(DELETE, first=before), "1", "2").content is FeedContent.UNKNOWN
    assert between(history(APPEND, first=before), "1", "2").content is FeedContent.APPENDS, "nothing was taken away"


def test_a_snapshot_that_is_not_an_ancestor_tells_nothing():
    metadata = history(APPEND, APPEND)
    assert "snapshot 77 is not among those" in between(metadata, "77", "3").reason
    undone = Metadata({**metadata.raw, "current-snapshot-id": 2})
    assert between(undone, "3", "2").content is FeedContent.UNKNOWN


class Asked:
    """A session and its DataFrames: what is read, and by which expressions."""

    def __init__(self) -> None:
        self.tables: list[str] = []
        self.columns = ["id"]
        self.schema = SimpleNamespace(fields=[])

    @property
    def read(self):
        return self

    def table(self, name):
        self.tables.append(name)
        return self

    def option(self, *_, **__):
        return self

    selectExpr = where = join = hint = drop = option  # noqa: N815 - Spark's name

    def distinct(self):
        return self


@pytest.mark.parametrize(
    ("passed", "tables"),
    [
        ([APPEND], ["`lake`.`s`.`t`.changes"]),
        ([REPLACE, {**APPEND, "total-delete-files": "1"}], ["`lake`.`s`.`t`", "`lake`.`s`.`t`.all_entries"]),
        ([OVERWRITE], ["`lake`.`s`.`t`.changes"]),
    ],
    ids=["appends", "appends beside deletes", "changes"],
)
def test_changes_are_never_scanned_where_a_version_has_deletes_beside_its_files(passed, tables):
    made = history(*passed)
    schema = {"schema-id": 0, "fields": [{"id": 1, "name": "id", "type": "long"}]}
    metadata = Metadata({**made.raw, "schemas": [schema], "current-schema-id": 0})
    asked = Asked()
    target = Target(lake="lake", namespace=("s",), table="t")
    Feed(lambda _: metadata, asked, target, "1", str(len(passed) + 1)).changes(metadata.schema())
    assert asked.tables == tables


def test_a_snapshot_that_was_rolled_back_is_told_from_one_that_expired():
    told = history(APPEND, APPEND)
    assert restore_reason(told, "1", "3") is None
    assert "snapshot 1, which does not stand on 2" in restore_reason(told, "2", "1")
    told.raw["snapshots"].append({"snapshot-id": 4, "parent-snapshot-id": 1, "summary": APPEND})
    assert "snapshot 4, which does not stand on 3" in restore_reason(told, "3", "4")
    assert restore_reason(told, "1", "4") is None
    assert restore_reason(told, "9", "4") is None, "nothing tells any more what it stood on"


def test_a_column_that_took_the_name_of_a_dropped_one_is_compared_whether_rows_moved_or_not():
    for told in (history(APPEND), history(REPLACE)):
        told.raw["snapshots"][0]["schema-id"] = 0
        told.raw["schemas"].append({"schema-id": 1, "fields": [{"id": 2, "name": "id", "type": "long"}]})
        told.raw["current-schema-id"] = 0
        assert between(told, "1", "2").content is not FeedContent.UNKNOWN
        told.raw["current-schema-id"] = 1
        assert between(told, "1", "2").content is FeedContent.UNKNOWN
