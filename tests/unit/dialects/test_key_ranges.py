"""Conditions on ranges of integer keys: every key of a named range fulfils them and no other one does."""

from __future__ import annotations

import random
import sqlite3

import pytest

from tidegate.core.schema import BIGINT, Column
from tidegate.dialects.shared.buckets import in_key_ranges, key_range
from tidegate.dialects.sqlite import Sqlite

KEY = Column(name="id", type=BIGINT)


@pytest.fixture
def keys():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (id integer)")
    connection.executemany("insert into t values (?)", [(number,) for number in range(-700, 700)])
    yield connection
    connection.close()


@pytest.mark.parametrize("spans", [None, 1, 3, 500])
def test_keys_of_the_named_ranges_and_no_others(keys, spans):
    draw, width = random.Random(7), 8
    named, _ = key_range(Sqlite(), KEY, width)
    for count in (1, 2, 7, 40):
        names = sorted({draw.randrange(-80, 80) * width for _ in range(count)})
        asked = in_key_ranges(Sqlite(), KEY, [str(name) for name in names], width, spans=spans)
        found = {row[0] for row in keys.execute(f"select id from t where {asked}")}
        wanted = {row[0] for row in keys.execute(f"select id from t where {named} in ({str(names)[1:-1]})")}
        assert found == wanted


def test_no_more_intervals_than_asked_for():
    names = [str(1000 * number) for number in range(1, 30)]
    assert in_key_ranges(Sqlite(), KEY, names, 8).count(">=") == 29
    assert in_key_ranges(Sqlite(), KEY, names, 8, spans=4).count(">=") == 1, "four would leave hardly a key out"
    apart = [str(100_000 * far + 16 * near) for far in range(1, 5) for near in range(5)]
    assert in_key_ranges(Sqlite(), KEY, apart, 8, spans=4).count(">=") == 4
    assert in_key_ranges(Sqlite(), KEY, [], 8, spans=4) == "(1 = 0)"
