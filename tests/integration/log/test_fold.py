"""What events leave of each key, beside what was applied before; asked of the fold alone, without a load."""

from __future__ import annotations

import pytest

from tidegate.core.batch import Fence
from tidegate.core.log import CLEARS, REFUSED, UNKNOWN
from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.spark.dataframe_ops import DELETED, ORDER, TWICE, of_keys
from tidegate.spark.latest_events import APPLIED, KNOWN, WAS_DELETED, LatestEventsSpec

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = Schema(columns=(Column(name="id", type=BIGINT), Column(name="a", type=TEXT), Column(name="b", type=TEXT)))
EVENT = (
    f"id bigint, a string, b string, {DELETED} boolean, {ORDER} string, {UNKNOWN} array<string>, "
    f"{CLEARS} boolean, {REFUSED} string"
)
RECORD = f"id bigint, {APPLIED} string, {WAS_DELETED} boolean, {KNOWN} map<string, string>"
JUNK = "not available"


def put(key, order, a="a", b="b"):
    unknown = [name for name, value in (("a", a), ("b", b)) if value == JUNK]
    return (key, a, b, False, order, unknown, False, None)


def end(key, order):
    return (key, None, None, True, order, [], False, None)


@pytest.fixture
def fold(spark):
    def make(events, *, records=(), present=(), **more):
        given = spark.createDataFrame(events, EVENT)
        known = spark.createDataFrame(list(records), RECORD) if records else None
        there = spark.createDataFrame(list(present), "id bigint, a string, b string")
        horizon, emptied = more.get("horizon"), more.get("emptied")
        records = None if known is None else lambda keys: known if keys is None else of_keys(known, keys, ("id",))
        fence = Fence(
            records=records, newest=more.get("newest"), horizon=horizon, present=(lambda: there) if present else None
        )
        return LatestEventsSpec(columns=COLUMNS, key=("id",), fence=fence, emptied=emptied), given

    return make


def told(rows):
    return sorted((row["id"], row["a"], row["b"], row[DELETED], row[ORDER], row[KNOWN] or {}) for row in rows.collect())


def test_whole_events(fold):
    events = [put(1, "5", "new"), put(1, "3", "old"), put(2, "4"), put(2, "4"), put(3, "6"), end(3, "7"), put(4, "2")]
    events += [put(5, "9"), put(5, "9", "other"), put(6, "1"), put(7, "3")]
    records = [(4, "2", False, None), (5, "9", False, None), (6, "2", True, None), (9, "1", False, None)]
    for newest in (None, "9"):
        folded, given = fold(events, records=records, horizon="2", newest=newest)
        rows = folded.simple(folded.gathered(given))
        assert told(rows) == [
            (1, "new", "b", False, "5", {}),
            (2, "a", "b", False, "4", {}),
            (3, None, None, True, "7", {}),
            (7, "a", "b", False, "3", {}),
        ], newest
        assert not rows.where(TWICE).collect(), "what is fenced off is not looked at"
    differing = fold([put(5, "9"), put(5, "9", "other"), put(6, "9"), put(6, "9")])
    assert [row["id"] for row in differing[0].simple(differing[0].gathered(differing[1])).where(TWICE).collect()] == [5]
    late = fold([put(8, "2")], horizon="2")
    assert late[0].simple(late[0].gathered(late[1])).count() == 0, "of a key of which nothing is kept"


def test_columns_that_an_event_does_not_carry(fold):
    present = [(1, "a1", "b1"), (2, "a2", "b2"), (3, "a3", None), (5, "a5", "b5")]
    records = [(2, "6", False, None), (3, "6", False, {"b": "4"}), (4, "6", True, None), (5, "6", False, {"b": "4"})]
    events = [
        put(1, "8", b=JUNK),  # of a bulk load: the table's own value
        put(2, "7", "new", JUNK),
        put(2, "5", "old", "never"),  # older than the value that was applied
        put(3, "5", JUNK, "late"),  # newer than what is known of b, older than the row
        put(4, "5"),
        put(4, "9", "back", JUNK),  # nothing from before its end
        end(5, "5"),  # late: what b was before it does not count
        put(6, "3", b="told"),
        put(6, "4", "newest", JUNK),
        end(7, "5"),
        put(7, "4", "x", "y"),
        put(7, "6", "again", JUNK),
    ]
    folded, given = fold(events, records=records, present=present)
    assert told(folded.by_column(given)) == [
        (1, "a", "b1", False, "8", {"b": ""}),
        (2, "new", "b2", False, "7", {"b": "6"}),
        (3, "a3", "late", False, "6", {"b": "5"}),
        (4, "back", None, False, "9", {"b": "6"}),
        (5, "a5", None, False, "6", {"b": "5"}),
        (6, "newest", "told", False, "4", {"b": "3"}),
        (7, "again", None, False, "6", {"b": "5"}),
    ]


def test_a_row_that_a_repair_put_back_after_the_end_of_its_key_counts(fold):
    folded, given = fold(
        [put(1, "4", "new", JUNK), end(2, "4"), put(2, "5", "new", JUNK), put(3, "1", "late", JUNK)],
        records=[(key, "2", True, None) for key in (1, 2, 3)],
        present=[(key, "old", "long") for key in (1, 2, 3)],
    )
    assert told(folded.by_column(given)) == [
        (1, "new", "long", False, "4", {"b": "2"}),
        (2, "new", None, False, "5", {"b": "4"}),
    ]


def test_an_event_that_empties_the_table(fold):
    present = [(1, "a", "b"), (2, "a", "b"), (3, "a", "b"), (4, "a", "b")]
    records = [(2, "3", False, None), (3, "9", False, None)]
    folded, given = fold([put(4, "8")], records=records, present=present, emptied="5")
    cleared = folded.cleared(folded.simple(folded.gathered(given)))
    assert sorted(row["id"] for row in cleared.collect()) == [1, 2], "3 is newer, 4 has come again"
    old, given = fold([put(4, "8")], records=records, present=present, emptied="5", horizon="7")
    assert [row["id"] for row in old.cleared(old.simple(old.gathered(given))).collect()] == [2], (
        "nobody knows how old the others are"
    )
    partial, given = fold([put(2, "6", "a", JUNK)], records=records, present=present, emptied="5")
    assert told(partial.by_column(given)) == [(2, "a", None, False, "6", {"b": ""})], "its value went with the others"
