"""Two sides compared level by level: what is found, and how few rows travel for it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.engine.verification import drilldown
from tidegate.engine.verification.drilldown import Difference, buckets_for, compare

Row = tuple[int, str]
LEAF_ROWS, MOST_LEAF_ROWS = 32, 512


@pytest.fixture(scope="module", autouse=True)
def small_leaves():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drilldown, "LEAF_ROWS", LEAF_ROWS)
        patch.setattr(drilldown, "MOST_LEAF_ROWS", MOST_LEAF_ROWS)
        yield


@dataclass(kw_only=True)
class Memory:
    """A side in memory: rows of a key and a value; those in `later` lie beyond the slice."""

    rows: list[Row]
    keyed: bool = True
    later: frozenset[int] = frozenset()
    asked: list[Buckets] = field(default_factory=list)

    def bucket(self, row: Row, count: int) -> str:
        return str((row[0] if self.keyed else hash(row)) % count)

    def chosen(self, spread: Buckets) -> list[Row]:
        if spread.within is None:
            return self.rows
        return [row for row in self.rows if self.bucket(row, spread.among) in spread.within]

    def spread(self, spread: Buckets) -> dict[str, Fingerprint]:
        self.asked.append(spread)
        found: defaultdict[str, Fingerprint] = defaultdict(Fingerprint)
        for row in self.chosen(spread):
            if row[0] not in self.later:
                found[self.bucket(row, spread.count)] += Fingerprint.of_texts([row_text(map(str, row))])
        return found

    def digests(self, spread: Buckets) -> list[RowDigest]:
        return [
            RowDigest(key=(str(row[0]),) if self.keyed else (), digest=str(row), inside=row[0] not in self.later)
            for row in self.chosen(spread)
        ]


def found(source: list[Row], target: list[Row], *, keyed: bool = True, to_rows: bool = True) -> Difference:
    sides = (Memory(rows=source, keyed=keyed), Memory(rows=target, keyed=keyed))
    return compare(*sides, rows=len(target), to_rows=to_rows)


def numbers(keys: tuple[tuple[str | None, ...], ...]) -> set[int]:
    return {int(key[0] or 0) for key in keys}


rows = st.lists(st.tuples(st.integers(-20, 20), st.sampled_from("abc")), max_size=40)


@given(source=st.dictionaries(st.integers(-50, 50), st.sampled_from("abc")), target=st.data())
def test_every_differing_key_is_named_and_no_other(source, target):
    other = target.draw(st.dictionaries(st.integers(-50, 50), st.sampled_from("abc")))
    difference = found(list(source.items()), list(other.items()))
    assert numbers(difference.missing) == source.keys() - other.keys()
    assert numbers(difference.extra) == other.keys() - source.keys()
    assert numbers(difference.changed) == {key for key in source.keys() & other.keys() if source[key] != other[key]}
    assert difference.equal == (source == other)
    assert (difference.source_rows, difference.target_rows) == (len(source), len(other))


@given(source=rows, target=rows)
def test_without_a_key_rows_are_compared_as_multisets(source, target):
    difference = found(source, target, keyed=False)
    assert difference.equal == (sorted(source) == sorted(target))
    assert difference.missing_rows - difference.extra_rows == len(source) - len(target)


@given(source=rows, target=rows)
def test_several_rows_of_one_key_are_told_apart(source, target):
    difference = found(source, target)
    assert difference.equal == (sorted(source) == sorted(target))


def test_equal_sides_send_no_row():
    side = [(number, "a") for number in range(10_000)]
    equal = found(side, side)
    source, target = equal.fingerprints
    assert (source, source.rows) == (target, 10_000)
    assert replace(equal, fingerprints=None) == Difference(source_rows=10_000, target_rows=10_000)


def test_few_differing_rows_fetch_no_more_than_their_leaves():
    source = [(number, "a") for number in range(3_000)]
    target = [(number, "b" if number % 300 == 7 else value) for number, value in source]
    difference = found(source, target)
    assert len(difference.changed) == 10
    assert difference.buckets <= 10
    assert difference.fetched <= 2 * LEAF_ROWS * difference.buckets


def test_a_large_bucket_is_divided_before_its_rows_are_fetched():
    rows = 4 * MOST_LEAF_ROWS
    source = Memory(rows=[(number, "a") for number in range(rows)])
    target = Memory(rows=[(number, "a") for number in range(rows) if number != 471])
    difference = compare(source, target, rows=2 * LEAF_ROWS, to_rows=True)  # far fewer than there are
    assert numbers(difference.missing) == {471}
    assert difference.fetched < MOST_LEAF_ROWS
    assert [spread.count for spread in source.asked] == [2, 128]
    assert source.asked[1].within == ("1",)


def test_a_key_that_stands_there_too_often_ends_the_division():
    difference = found([(1, "a")] * (2 * MOST_LEAF_ROWS + 1), [(1, "a")])
    assert numbers(difference.changed) == {1}


def test_a_row_that_changed_since_the_position_is_no_difference():
    source = Memory(rows=[(1, "a"), (2, "new"), (3, "new")], later=frozenset({2, 3}))
    target = Memory(rows=[(1, "a"), (2, "old")])
    difference = compare(source, target, rows=2, to_rows=True)
    assert difference.equal
    assert difference.rows == 0


def test_without_going_to_rows_the_buckets_are_counted():
    difference = found([(1, "a")], [(1, "b")], to_rows=False)
    assert (difference.equal, difference.buckets, difference.rows, difference.fetched) == (False, 1, 0, 0)


def test_buckets_follow_the_rows():
    assert [buckets_for(rows) for rows in (0, LEAF_ROWS, LEAF_ROWS + 1)] == [1, 1, 2]
