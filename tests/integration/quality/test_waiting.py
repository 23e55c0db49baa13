"""Which rows still wait, for many random histories at once, against a model in plain Python."""

import random
import struct
from dataclasses import dataclass, field
from decimal import Decimal

import pytest

from tidegate.core.batch import Fence
from tidegate.core.quarantine import FIELDS
from tidegate.core.schema import BIGINT, DOUBLE, INT, REAL, TEXT, Column, Schema, array, decimal
from tidegate.dialects.spark.row_text import row_text
from tidegate.spark import dataframe_ops, quarantined_rows, validation
from tidegate.spark.latest_events import APPLIED, KNOWN

pytestmark = pytest.mark.spark

KEPT = (
    "load bigint, load_id string, at timestamp, until bigint, last boolean, rule string, reason string, origin string, "
    "row string, raw string, log_order string, lacks string, ended timestamp"
)
COLUMNS = Schema(columns=(Column(name="id", type=INT), Column(name="cursor", type=INT), Column(name="name", type=INT)))

WHOLE = row_text(COLUMNS).pack


@dataclass(kw_only=True)
class Kept:
    """A row of a quarantine."""

    load: int
    key: int
    cursor: int | None = None
    name: int = 0
    order: str | None = None
    lacks: list[str] = field(default_factory=list)

    @property
    def told(self):
        return (self.load, self.key, self.cursor, self.name)

    def row(self):
        values = {"id": self.key, "cursor": self.cursor, "name": self.name}
        values = dict(sorted(values.items(), reverse=self.load % 2 == 0))  # texts list them in any order
        text = "{" + ",".join(f'"{n}":' + ("null" if v is None else f'"{v}"') for n, v in values.items()) + "}"
        lacks = "[" + ",".join(f'"{each}"' for each in self.lacks) + "]" if self.lacks else None
        return (self.load, "l", None, None, True, "r", "", None, text, None, self.order, lacks, None)


def unpacked(spark, rows):
    return validation.unpacked(spark.createDataFrame([one.row() for one in rows], KEPT), row_text(COLUMNS))


def waits(rows):
    found = rows.where(validation.WAITS).select(f"{validation.META}load", "id", "cursor", "name").collect()
    return sorted((tuple(row) for row in found), key=str)


def test_a_row_waits_as_what_it_is_also_where_its_columns_are_widened_meanwhile(spark):
    def read(columns, packed):
        """What Spark makes of packed rows, by the types that their columns have now."""
        found = row_text(columns)
        texts = spark.createDataFrame([(text,) for text in packed], "row string")
        parsed = texts.selectExpr(f"{found.parse} AS {FIELDS}")
        return [tuple(row) for row in parsed.selectExpr(*found.values).collect()]

    def of(*kinds):
        return Schema(columns=tuple(Column(name=f"c{n}", type=kind) for n, kind in enumerate(kinds)))

    narrow = of(INT, REAL, decimal(4, 2), array(REAL), TEXT)
    floats = [struct.unpack("f", struct.pack("f", each))[0] for each in (2.2, -0.0, 1e-45, 3.4028234e38, 16777217)]
    rows = [(n, each, Decimal("1.50"), [each, None], "2.2") for n, each in enumerate(floats)]
    rows.append((None, None, None, None, None))
    frame = spark.createDataFrame(rows, ", ".join(f"{each.name} {each.type.spark}" for each in narrow))
    packed = [row[0] for row in frame.selectExpr(row_text(narrow).pack).collect()]
    assert read(narrow, packed) == rows
    assert read(of(BIGINT, DOUBLE, decimal(9, 2), array(DOUBLE), TEXT), packed) == rows


@pytest.mark.parametrize("order", [(), ("cursor",), ("cursor", "name")])
def test_of_each_key_the_greatest_row_waits_unless_a_greater_one_came(spark, order):
    chance = random.Random(7)
    kept, others = [], []
    for key in range(200):
        loads = chance.sample(range(1, 9), chance.randrange(1, 5))
        rows = [
            Kept(load=load, key=key, cursor=chance.choice((None, 1, 2, 3)), name=chance.randrange(3)) for load in loads
        ]
        good = [one for one in rows if chance.random() < 0.4]
        kept += [one for one in rows if one not in good]
        others += good

    def place(one):
        values = {"cursor": -1 if one.cursor is None else one.cursor, "name": one.name}
        return (*(values[name] for name in order), one.load)

    expected = [
        one.told
        for one in kept
        if not any(other.key == one.key and place(other) > place(one) for other in [*kept, *others])
    ]
    theirs = spark.createDataFrame(
        [(one.key, one.cursor, one.name, one.load) for one in others],
        f"id int, cursor int, name int, {dataframe_ops.NUMBER} bigint",
    )
    found = quarantined_rows.by_order(unpacked(spark, kept), theirs, key=["id"], order=order, number=9)
    assert waits(found) == sorted(expected, key=str)
    assert 0 < len(expected) < len(kept)


def test_of_each_key_the_last_event_waits_and_those_with_a_value_that_is_missing(spark):
    chance = random.Random(11)
    kept, applied = [], {}
    for key in range(300):
        for _ in range(chance.randrange(1, 5)):
            lacks = ["name"] if chance.random() < 0.3 else []
            order = None if chance.random() < 0.05 else f"{chance.randrange(10):02}"
            kept.append(Kept(load=chance.randrange(1, 4), key=key, order=order, lacks=lacks, name=len(kept)))
        if chance.random() < 0.3:  # the same event again
            kept.append(Kept(load=4, key=key, order=kept[-1].order, lacks=kept[-1].lacks, name=kept[-1].name))
        if chance.random() < 0.6:
            known = {"name": f"{chance.randrange(5):02}"} if chance.random() < 0.3 else None
            applied[key] = (f"{chance.randrange(10):02}", known)

    def waits_still(one):
        mine, key = one.order or "", one.key
        last, known = applied.get(key, (None, None))
        fills = any(mine > since and name not in one.lacks for name, since in (known or {}).items())
        if (last is not None and mine <= last and not fills) or mine <= "01" or (one.load == 4 and mine <= "03"):
            return False
        mates = [other for other in kept if other.key == key and other is not one]
        if any((other.order or "") > mine and not other.lacks for other in mates):
            return False
        return not any(
            (other.order or "", other.lacks, other.name) == (mine, one.lacks, one.name) and other.load > one.load
            for other in mates
        )

    expected = sorted((one.told for one in kept if waits_still(one)), key=str)
    records = spark.createDataFrame(
        [(key, *values) for key, values in applied.items()], f"id int, {APPLIED} string, {KNOWN} map<string, string>"
    )
    rows = unpacked(spark, kept)
    found = quarantined_rows.by_event(rows, records, key=["id"], number=4, whole=WHOLE, floor="03", emptied="01")
    assert waits(found) == expected
    assert found.columns == rows.columns
    assert 0 < len(expected) < len(kept)
    alone = quarantined_rows.by_event(rows, None, key=["id"], number=4, whole=WHOLE)
    assert len(waits(alone)) > len(expected)


def test_a_row_that_was_read_of_a_table_stands_directly_behind_what_was_applied_of_its_key(spark):
    known = spark.createDataFrame([(1, "30"), (2, "3")], f"id int, {APPLIED} string")
    rows = spark.createDataFrame([(1,), (2,), (3,), (None,)], "id int")
    for horizon, floor, expected in ((None, None, ("30", "3", "", "")), ("4", "31", ("31", "31", "4", "4"))):
        fence = Fence(records=lambda _: known, horizon=horizon, floor=floor)
        found = quarantined_rows.after_events(rows, fence, key=["id"]).collect()
        orders = {row["id"]: row[dataframe_ops.ORDER] for row in found}
        assert [orders[key].rstrip() for key in (1, 2, 3, None)] == list(expected)
        assert all(last < orders[key] < f"{last} 0" for key, last in zip((1, 2, 3, None), expected, strict=True))


def test_an_event_that_counts_no_more_supersedes_nothing(spark):
    """It came again, after rows were read in bulk and a repair found another one of its key."""
    rows = unpacked(spark, [Kept(load=3, key=1, order="  "), Kept(load=4, key=1, order="02")])
    found = quarantined_rows.by_event(rows, None, key=["id"], number=4, whole=WHOLE, floor="03")
    assert waits(found) == [(3, 1, None, 0)]


def test_a_version_that_is_gone_ends_and_one_that_is_read_again_waits_once(spark):
    kept = [Kept(load=1, key=1, name=5), Kept(load=2, key=1, name=5), Kept(load=1, key=2, name=6)]
    kept.append(Kept(load=2, key=2, name=7))
    rows = unpacked(spark, kept)
    assert waits(quarantined_rows.repeated(rows, key=["id"], whole=WHOLE, number=2)) == [
        (1, 1, None, 5),
        (1, 2, None, 6),
        (2, 2, None, 7),
    ]
    here = spark.createDataFrame([(1,)], "id int")
    asked = {"key": ["id"], "at": "TIMESTAMP '2025-01-01 00:00:00'", "number": 2}
    ended = f"{validation.META}ended IS NOT NULL"
    gone = quarantined_rows.ended(rows, here, among="true", **asked).where(ended)
    assert [row["id"] for row in gone.collect()] == [2]
    assert quarantined_rows.ended(rows, here, among="id < 2", **asked).where(ended).isEmpty()
    gone = spark.createDataFrame([(1, None)], f"id int, {dataframe_ops.ORDER} string")
    found = quarantined_rows.deleted(rows, gone, **asked).where(ended)
    assert [(row["id"], row["name"]) for row in found.collect()] == [(1, 5)]
    # A delete that came again does not end what came after it.
    events = unpacked(spark, [Kept(load=1, key=key, order=f"{key}0") for key in (1, 2, 3)])
    gone = spark.createDataFrame([(1, "15"), (2, "15"), (3, "30")], f"id int, {dataframe_ops.ORDER} string")
    assert [row["id"] for row in quarantined_rows.deleted(events, gone, **asked).where(ended).collect()] == [1]
