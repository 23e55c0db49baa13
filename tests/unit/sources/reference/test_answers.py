"""What the reference answers of rows: slices, partitions, buckets, the latest row of each key."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass

import pytest

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import Period, Periods, Prefixes, Ranges, Steps, Whole
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, TIMESTAMPTZ, Column, Schema
from tidegate.core.slices import Everything, Keys, Partition, Range
from tidegate.sources.shared.reference import Answers
from unit.sources.reference.files import answers, of, written


@pytest.fixture
def some(tmp_path) -> tuple[Answers, list[tuple[int | None, str | None]]]:
    chance = random.Random(7)
    rows = [(n if n % 7 else None, chance.choice(["a", "ab", "b", "", "~", None])) for n in range(-500, 500)]
    text = "id,v\n" + "".join(
        f"{'' if k is None else k},{'' if v is None else chr(34) + v + chr(34)}\n" for k, v in rows
    )
    return answers(tmp_path, written(tmp_path, text.encode())), rows


def texts(row) -> tuple[str | None, ...]:
    return tuple(None if value is None else str(value) for value in row)


def test_slices_hold_the_rows_that_sql_would_find(some):
    found, rows = some
    for part, wanted in (
        (Range(cursor=("id",), after="-3", upto="10"), lambda k, _: k is not None and -3 < k <= 10),
        (Range(cursor=("id",), after=None, upto="10", nulls=True), lambda k, _: k is None or k <= 10),
        (Range(cursor=("id",), after=None, upto=None, nulls=True), lambda k, _: k is None),
        (Partition(column="id", label="", low="0", high="9", nulls=True), lambda k, _: k is None or 0 <= k < 9),
        (Partition(column="id", label=""), lambda k, _: k is None),
        (Partition(column="v", label="", prefix="a", length=1), lambda _, v: v is not None and v[:1] == "a"),
        (Partition(column="v", label="", prefix="", length=1), lambda _, v: v == ""),
        (Keys(columns=("id",), values=(("1",), ("5",), ("5000",))), lambda k, _: k in (1, 5)),
        (Keys(columns=("id", "v"), values=(("1", "a"), ("2", "ab"))), lambda k, v: (k, v) in ((1, "a"), (2, "ab"))),
    ):
        matching = [texts(row) for row in rows if wanted(*row)]
        assert found.fingerprint(part) == of(*matching), part
        assert found.count(part) == len(matching)


def test_partitions_add_up_and_are_where_sql_puts_them(some):
    found, rows = some
    grouping = Steps(column="id", width=100)
    wanted: dict[str, list] = {}
    for key, value in rows:
        wanted.setdefault("~N" if key is None else str(key // 100), []).append(texts((key, value)))
    parts = found.partitions(grouping, (Everything(),))
    assert {part.label: each for part, each in parts.items()} == {label: of(*each) for label, each in wanted.items()}
    ranges = found.partitions(Ranges(column="id", cuts=("0", "7")), (Everything(),))
    assert {part.label: each.rows for part, each in ranges.items()} == {
        "~N": sum(key is None for key, _ in rows),
        "<0": sum(key is not None and key < 0 for key, _ in rows),
        "0": 6,
        "7": sum(key is not None and key >= 7 for key, _ in rows),
    }
    prefixes = found.partitions(Prefixes(column="v", length=1), (Everything(),))
    assert {part.label for part in prefixes} == {"~N", "~0", "", "a", "b"}
    assert sum(found.partitions(Whole(), (Everything(),)).values(), Fingerprint()) == of(*map(texts, rows))
    only = [part for part in parts if part.label in ("0", "~N")]
    assert found.partitions(grouping, only) == {part: parts[part] for part in only}


def test_periods_by_the_calendar(tmp_path):
    schema = Schema(columns=(Column(name="t", type=TIMESTAMPTZ),))
    content = b"t\n2025-01-01T00:30:00+01:00\n2025-01-01T00:30:00Z\n\n"
    found = answers(tmp_path, written(tmp_path, content), schema=schema)
    parts = found.partitions(Periods(column="t", period=Period.DAY), (Everything(),))
    assert {part.label: each.rows for part, each in parts.items()} == {"20241231": 1, "20250101": 1}


@pytest.mark.parametrize("key", [("id",), ("v", "id"), ()])
def test_buckets_lead_to_the_rows(some, key):
    found, rows = some
    everything = of(*map(texts, rows))
    for keys in (False, True) if key else (False,):
        buckets = found.spread(Everything(), key, Buckets(count=16, keys=keys))
        assert sum(each.rows for each in buckets.values()) == len(rows)
        assert keys or sum(buckets.values(), Fingerprint()) == everything
    name = sorted(buckets)[3]
    finer = found.spread(Everything(), key, Buckets(count=64, within=(name,), among=16))
    assert sum(each.rows for each in finer.values()) == buckets[name].rows
    part = Range(cursor=("id",), after=None, upto="0", nulls=True)
    digests = found.digests(part, key, Buckets(count=16, within=(name,), among=16))
    assert len(digests) == buckets[name].rows
    at = {"id": 0, "v": 1}
    by = {hashlib.md5(row_text(texts(row)).encode()).hexdigest(): row for row in rows}
    for each in digests:
        row = by[each.digest]
        assert each.key == tuple(texts(row)[at[name]] for name in key)
        assert each.inside == (row[0] is None or row[0] <= 0)


def test_ranges_of_keys_count_and_sum(tmp_path):
    content = b"id,v\n" + b"".join(b"%d,x\n" % n for n in (-11, -10, -1, 0, 9, 10))
    found = answers(tmp_path, written(tmp_path, content)).spread(
        Everything(), ("id",), Buckets(count=1, keys=True, width=10)
    )
    assert {name: (each.rows, each.s0) for name, each in found.items()} == {"-10": (2, -1), "0": (3, 8), "10": (1, 0)}


def test_of_each_key_the_latest_row(tmp_path):
    chance = random.Random(3)
    schema = Schema(columns=tuple(Column(name=n, type=k) for n, k in (("id", BIGINT), ("t", TIMESTAMP), ("v", TEXT))))
    rows = [(chance.randint(0, 99), n if n % 5 else None, f"v{n}") for n in range(1_000)]
    chance.shuffle(rows)
    moment = "2025-01-01 00:00:00.{:06}"
    lines = [f"{k},{'' if t is None else moment.format(t)},{v}" for k, t, v in rows]
    names = [written(tmp_path, ("id,t,v\n" + "\n".join(lines[n::20])).encode(), f"{n}.csv") for n in range(20)]
    best: dict[int, tuple] = {}
    for row in rows:
        if row[0] not in best or (row[1] or -1) > (best[row[0]][1] or -1):
            best[row[0]] = row
    found, rule = answers(tmp_path, *names, schema=schema), Latest(key=("id",), order=("t",))
    wanted = of(*((str(k), t if t is None else moment.format(t), v) for k, t, v in best.values()))
    assert found.fingerprint(Everything(), latest=rule) == wanted
    assert found.count(Everything(), latest=rule) == len(best)
    spread = found.spread(Everything(), ("id",), Buckets(count=4), latest=rule)
    assert sum(spread.values(), Fingerprint()) == wanted
    told = found.digests(Everything(), ("id",), Buckets(count=4, within=tuple(spread), among=4), latest=rule)
    assert len(told) == len({each.key for each in told}) == len(best)


@dataclass(frozen=True, kw_only=True)
class Rule(Latest):
    """As the engine states it: a cursor of which the first value counts, and the keys that are asked for."""

    cursor: tuple[str, ...] = ()
    touched: tuple = ()


def test_of_keys_that_a_slice_touches_the_latest_row_by_a_cursor(tmp_path):
    schema = Schema(columns=tuple(Column(name=name, type=BIGINT) for name in ("id", "a", "b")))
    content = b"id,a,b\n1,5,1\n1,,7\n2,1,\n2,2,9\n3,,\n3,4,\n"
    found = answers(tmp_path, written(tmp_path, content), schema=schema)
    rule = Rule(key=("id",), order=(), cursor=("a", "b"))
    assert found.fingerprint(Everything(), latest=rule) == of(("1", None, "7"), ("2", "2", "9"), ("3", "4", None))
    touched = (Range(cursor=("a",), after=None, upto="1"), Range(cursor=("a",), after="3", upto="4"))
    rule = Rule(key=("id",), order=(), cursor=("a", "b"), touched=touched)
    assert found.fingerprint(Everything(), latest=rule) == of(("2", "2", "9"), ("3", "4", None))
    part = Range(cursor=("a", "b"), after=None, upto="5", nulls=True)
    told = found.digests(
        part, ("id",), Buckets(count=1, keys=True), latest=Rule(key=("id",), order=(), cursor=("a", "b"))
    )
    assert sorted((each.key, each.inside) for each in told) == [
        (("1",), False),
        (("1",), True),
        (("2",), True),
        (("3",), True),
    ]
