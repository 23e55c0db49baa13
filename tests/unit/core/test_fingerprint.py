"""The reference of tg1, held by vectors that another program computed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fingerprint import Fingerprint, row_text

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "tg1-vectors.json").read_text())
FIELDS = st.lists(st.none() | st.text("~|N01a", max_size=4), min_size=1, max_size=4)


def test_vectors() -> None:
    expected = VECTORS["fingerprint"]
    found = Fingerprint.of_texts(row["text"] for row in VECTORS["rows"])
    assert (found.rows, found.s0, found.s1, found.s2, found.s3) == tuple(
        expected[name] for name in ("count", "s0", "s1", "s2", "s3")
    )


def test_text_rows_of_the_vectors() -> None:
    for row in VECTORS["rows"]:
        fields = [
            None if part == "~N" else part.replace("~1", "|").replace("~0", "~") for part in row["text"].split("|")
        ]
        assert row_text(fields) == row["text"]


@given(FIELDS, FIELDS)
def test_no_two_rows_share_a_text(one: list[str | None], other: list[str | None]) -> None:
    assert (row_text(one) == row_text(other)) == (one == other)


@given(st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_sums_add_up_in_any_order(one: list[str], other: list[str]) -> None:
    assert Fingerprint.of_texts(one) + Fingerprint.of_texts(other) == Fingerprint.of_texts(reversed(one + other))


def test_duplicates_count() -> None:
    assert Fingerprint.of_texts(["a", "a", "c"]) != Fingerprint.of_texts(["b", "b", "c"])
    assert Fingerprint.of_texts(["a", "a"]) != Fingerprint.of_texts(["a"])


def test_text_and_back() -> None:
    found = Fingerprint.of_texts(["a", "b"])
    assert Fingerprint.parse(str(found)) == found
    for damaged in ("", "tg1:1:2", "tg2:1:a:b:c:d", "tg1:x:a:b:c:d"):
        with pytest.raises(ValueError, match=r".+"):
            Fingerprint.parse(damaged)
    assert Fingerprint.of_sums([0, None, None, None, None]) == Fingerprint()
