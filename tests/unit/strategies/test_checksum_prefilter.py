"""What the checksum strategy decides by the hash of the source's own engine, and what it says of equal partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core.changes import Action
from tidegate.core.ledger import Ledger
from unit.strategies.partitions import BY_DAY, lake


def test_an_equal_quick_hash_asks_for_no_fingerprint() -> None:
    one = lake(replace(BY_DAY, prefilter=True), hashes=True)
    one.run()
    assert one.table.asked == [("quick_hashes",), ("partitions",)]
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",)]
    one.table.put(2, day="2025-03-10", code="changed")
    one.table.put(50, day="2025-03-13", code="new")
    del one.table.rows["0"], one.table.rows["1"]
    changes = one.detect()
    assert one.table.asked == [("quick_hashes",), ("partitions", "20250310", "20250313")]
    assert changes.observed.skipped == 3
    assert one.run() == {"20250310": "RELOAD", "20250313": "LOAD", "20250309": "DELETE"}
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",)]


@pytest.mark.parametrize("prefilter", [False, True])
def test_partitions_that_are_equal_are_named_beside_those_that_are_not(prefilter: bool) -> None:
    one = lake(replace(BY_DAY, prefilter=prefilter), hashes=True)
    one.run()
    one.table.put(2, day="2025-03-10", code="changed")
    changes = one.detect()
    assert {part.slice.label: str(part.action) for part in changes.parts} == {
        "20250309": "SKIP",
        "20250310": "RELOAD",
        "20250311": "SKIP",
        "20250312": "SKIP",
        "~N": "SKIP",
    }
    assert [part.rows for part in changes.parts] == [
        one.ledger.entries[part.slice.label].fingerprint.rows for part in changes.parts
    ]


def test_a_quick_hash_that_is_not_known_decides_nothing() -> None:
    one = lake(hashes=True)
    one.run()
    one.replace(prefilter=True)
    changes = one.detect()
    assert one.table.asked == [("quick_hashes",), ("partitions",)]
    assert changes.slices == ()
    assert {part.action for part in changes.parts} == {Action.SKIP}
    assert all(part.quick for part in changes.parts)
    assert changes.observed.skipped == 5
    one.run()
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",)]


def test_a_quick_hash_that_differs_where_the_rows_do_not_moves_nothing() -> None:
    one = lake(replace(BY_DAY, prefilter=True), hashes=True)
    one.run()
    entries = dict(one.ledger.entries)
    one.ledger = Ledger(entries=entries | {"20250310": replace(entries["20250310"], quick="of another version")})
    assert one.run() == {"20250310": "SKIP"}
    assert one.table.asked == [("quick_hashes",), ("partitions", "20250310")]


def test_a_source_without_a_hash_of_its_own_is_asked_for_fingerprints() -> None:
    one = lake(replace(BY_DAY, prefilter=True))
    one.run()
    assert one.run() == {}
    assert one.table.asked == [("quick_hashes",), ("partitions",)]
