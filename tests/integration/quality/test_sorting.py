"""What Spark makes of rules and of rows kept as text, against a model in plain Python."""

import itertools
import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tidegate.checks.not_null import NotNull
from tidegate.core.batch import Latest
from tidegate.core.log import CLEARS, ORIGIN, RAW, REFUSED, UNKNOWN
from tidegate.core.policies.rules import OnFail
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Column,
    Schema,
    array,
    decimal,
)
from tidegate.dialects.spark.row_text import row_text
from tidegate.spark import validation
from tidegate.spark.dataframe_ops import DELETED
from tidegate.spark.validation import Condition

pytestmark = pytest.mark.spark

STAMP = ("7L", "'load'", "TIMESTAMP '2025-01-01 00:00:00+00:00'")
KINDS = {
    "id": BIGINT,
    "it's `odd`.": TEXT,
    "amount": decimal(38, 10),
    "ratio": DOUBLE,
    "paid": BOOLEAN,
    "day": DATE,
    "at": TIMESTAMP,
    "seen": TIMESTAMPTZ,
    "bytes": BINARY,
    "tags": array(TEXT),
    "times": array(TIMESTAMP),
}
COLUMNS = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in KINDS.items()))
ROWS = [
    (
        2**63 - 1,
        'a "quoted" \\ \n \u0000 \U0001f600 text',
        Decimal("1234567890123456789012345678.0000000001"),
        0.1,
        True,
        date(1, 1, 1),
        datetime.fromisoformat("9999-12-31 23:59:59.999999"),
        datetime(2025, 3, 30, 1, 30, 0, 1, tzinfo=UTC),
        b"\x00\xff",
        ["", None, "~|"],
        [datetime.fromisoformat("2025-01-01 00:00:00.000001")],
    ),
    (-(2**63), "", Decimal("-0.0000000001"), math.inf, False, date(9999, 12, 31), None, None, b"", [], None),
    (None,) * len(KINDS),
]


def ddl(columns: Schema) -> str:
    return ", ".join(f"`{each.name.replace('`', '``')}` {each.type.spark}" for each in columns)


def test_a_row_kept_as_text_is_the_same_row_again(spark):
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = spark.createDataFrame(ROWS, ddl(COLUMNS))
        everything = [Condition(rule="r", reason="because", on_fail=OnFail.QUARANTINE, good={(): "false"})]
        kept = validation.bad(
            validation.annotated(rows, everything, refused=OnFail.STOP), row_text(COLUMNS), None, STAMP
        )
        again = validation.unpacked(kept, row_text(COLUMNS))
        back = again.selectExpr(*validation.named(COLUMNS))
        assert back.exceptAll(rows).count() == rows.exceptAll(back).count() == 0
        assert (kept.count(), back.schema.simpleString()) == (3, rows.schema.simpleString())
        # A column that came later was not there.
        wider = Schema(columns=(Column(name="new", type=INT), *COLUMNS))
        assert [row[0] for row in validation.unpacked(kept, row_text(wider)).select("new").collect()] == [None] * 3
        assert validation.repacked(again).exceptAll(kept).count() == 0
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


MODEL = {
    "a > 0": lambda a, _: None if a is None else a > 0,
    "a IS NOT NULL": lambda a, _: a is not None,
    "b = a": lambda a, b: None if None in (a, b) else a == b,
    "a + b < 3": lambda a, b: None if None in (a, b) else a + b < 3,
    "b IN (1, 2)": lambda _, b: None if b is None else b in (1, 2),
}
RULES = list(itertools.product(MODEL, [OnFail.QUARANTINE, OnFail.WARN], [None, "b > 0"]))
VALUES = (None, *range(-3, 4))


def broken(rule, a, b) -> bool:
    good, _, where = rule
    return MODEL[good](a, b) is False and (where is None or (b is not None and b > 0))


@pytest.mark.parametrize("rules", [RULES, RULES[::7], RULES[3::4]], ids=["all", "some", "others"])
def test_good_and_bad_rows_are_the_rows_that_were_read(spark, rules):
    rows = [*itertools.product(VALUES, VALUES), (1, 1)]
    columns = Schema(columns=(Column(name="a", type=INT), Column(name="b", type=INT)))
    conditions = [
        Condition(rule=f"r{number}", reason=good, on_fail=on_fail, good={(): good}, where=where)
        for number, (good, on_fail, where) in enumerate(rules)
    ]
    read = validation.annotated(spark.createDataFrame(rows, "a int, b int"), conditions, refused=OnFail.STOP)
    good = [tuple(row) for row in validation.good(read, ["a", "b"]).collect()]
    kept = validation.bad(read, row_text(columns), None, STAMP)
    bad = [tuple(row) for row in validation.unpacked(kept, row_text(columns)).select("a", "b").collect()]
    severe = [rule for rule in rules if rule[1] is OnFail.QUARANTINE]
    meant = {row: any(broken(rule, *row) for rule in severe) for row in rows}
    assert Counter(bad) == Counter(row for row in rows if meant[row])
    assert Counter(good) == Counter(row for row in rows if not meant[row])
    counted = validation.measured(read, ["count(*)", *(validation.breaking(each.rule) for each in conditions)])
    assert counted == [len(rows), *(sum(broken(rule, *row) for row in rows) for rule in rules)]


def test_events_are_asked_only_what_they_carry(spark):
    schema = f"id int, a int, {DELETED} boolean, {CLEARS} boolean, {UNKNOWN} array<string>, {REFUSED} string, "
    schema += f"{ORIGIN} string, {RAW} string"
    events = [
        (1, None, False, False, [], None, "o1", None),
        (2, None, True, False, [], None, "o2", None),
        (3, None, False, False, ["a"], None, "o3", None),
        (None, None, False, True, None, None, "o4", None),
        (None, None, None, None, None, "no JSON", "o5", "{broken"),
    ]
    conditions = [Condition(rule="n", reason="no a", on_fail=OnFail.QUARANTINE, good={("a",): "a IS NOT NULL"})]
    read = validation.annotated(spark.createDataFrame(events, schema), conditions, refused=OnFail.QUARANTINE)
    columns = Schema(columns=(Column(name="id", type=INT), Column(name="a", type=INT)))
    kept = validation.bad(read, row_text(columns), Latest(key=("id",), order=()), STAMP).orderBy("origin").collect()
    assert [(row["rule"], row["reason"], row["origin"], row["row"], row["raw"], row["until"]) for row in kept] == [
        ("n", "no a", "o1", '{"id":"1","a":null}', None, None),
        ("bad_event", "no JSON", "o5", None, "{broken", None),
    ]
    assert sorted(row[ORIGIN] for row in validation.good(read, read.columns[:-1]).collect()) == ["o2", "o3", "o4"]


def test_a_column_that_an_event_lacks_leaves_the_others_to_decide(spark):
    schema = f"id int, customer_id int, note string, {UNKNOWN} array<string>"
    events = [(1, None, None, ["note"]), (2, 7, None, ["note"]), (3, None, None, []), (4, None, "x", ["customer_id"])]
    check = NotNull(columns=("customer_id", "note"))
    condition = Condition(rule="n", reason="", on_fail=OnFail.STOP, good=check.conditions(Schema(columns=())))
    read = validation.annotated(spark.createDataFrame(events, schema), [condition], refused=OnFail.STOP)
    found = read.selectExpr("id", f"size({validation.ERRORS})").collect()
    assert {row[0]: row[1] for row in found} == {1: 1, 2: 0, 3: 1, 4: 0}


def test_what_is_replayed_waits_no_more_once_its_load_has_landed(spark):
    columns = Schema(columns=(Column(name="id", type=INT),))
    rows = spark.createDataFrame([(1,), (2,), (None,)], ddl(columns))
    bad = [Condition(rule="r", reason="", on_fail=OnFail.QUARANTINE, good={(): "false"})]
    kept = validation.bad(validation.annotated(rows, bad, refused=OnFail.STOP), row_text(columns), None, STAMP)
    waiting = validation.annotated(validation.unpacked(kept, row_text(columns)), (), refused=OnFail.STOP)
    judged = validation.replayable(waiting, ["id"])
    assert validation.measured(judged, validation.REPLAY_COUNTS) == [2, 1], "a row without a key is never loaded"
    closed = validation.repacked(validation.closed(judged, validation.PASSES, 9))
    assert sorted(row["until"] or 0 for row in closed.collect()) == [0, 9, 9]
    # Of a load that never landed nothing counts, and what it took back waits still.
    assert validation.landed(closed, 6).count() == 0
    assert validation.landed(closed, 8).where("until IS NULL").count() == 3
