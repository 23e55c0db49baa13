"""Random histories of a source whose partitions are compared: after each run the table equals the source."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = "day date, shop text, amount integer"
METHODS = {
    "whole_table": {},
    "by_integer": {"column": "id", "modulus": 7},
    "by_date": {"column": "day", "period": "week"},
    "by_substr": {"column": "shop", "length": 2},
}
IDS = [-(2**63), -14, -8, -7, -1, 0, 1, 6, 7, 8, 13, 14, 2**31, 2**63 - 1]
DAYS = [None, "0001-01-01", "1999-12-31", "2024-12-30", "2025-01-05", "2025-01-06", "9999-12-31"]
SHOPS = [None, "", "a", "ab", "abc", "AB", "~", "~N", "~0", "it's", "a|b", "ä", "🚲", "%_", "\\"]
ROWS = st.tuples(st.sampled_from(IDS), st.sampled_from(DAYS), st.sampled_from(SHOPS), st.integers(0, 9))
CHANGES = st.one_of(
    st.tuples(st.just("insert"), ROWS),
    st.tuples(st.just("move"), ROWS),
    st.tuples(st.just("touch"), ROWS),
    st.tuples(st.just("delete"), ROWS),
    st.tuples(st.just("empty"), ROWS),
    st.tuples(st.just("renumber"), ROWS),
)
HISTORIES = st.fixed_dictionaries(
    {
        "method": st.sampled_from(sorted(METHODS)),
        "write": st.sampled_from(["replace", "merge", "replace without a key"]),
        "first": st.lists(ROWS, max_size=12),
        "steps": st.lists(st.lists(CHANGES, min_size=1, max_size=6), min_size=1, max_size=3),
    }
)
SAMPLE = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


class Story:
    """A source in SQLite and the lake that follows it."""

    def __init__(self, history: dict, spark) -> None:
        folder = Path(tempfile.mkdtemp())
        self.spark = spark
        self.keyed = history["write"] != "replace without a key"
        self.shop = SqliteShop(path=folder / "shop.db")
        self.shop.sql(f"create table sales (id integer {'primary key' if self.keyed else ''}, {COLUMNS})")
        self.workspace = Workspace(folder=folder)
        stream = {
            "source": {"connection": "shop", "table": "sales"},
            "target": "lake.shop.sales",
            "deletes": {"max_fraction": 1},  # a history may delete every row
            "strategy": {"kind": "checksum", "method": history["method"], **METHODS[history["method"]]},
            "write": history["write"].split()[0],
        }
        stream |= {"key": ["id"]} if self.keyed else {}
        self.workspace.write({"sales": stream}, connections={"shop": {"url": self.shop.url}})

    def insert(self, row: tuple) -> None:
        self.shop.sql(f"insert or replace into sales values ({', '.join(map(literal, row))})")

    def change(self, kind: str, row: tuple) -> None:
        number, day, shop, amount = row
        some = f"(select rowid from sales where id >= {number} order by id limit 3)"
        match kind:
            case "insert":
                self.insert(row)
            case "move":
                self.shop.sql(f"update sales set day = {literal(day)}, shop = {literal(shop)} where rowid in {some}")
            case "touch":
                self.shop.sql(f"update sales set amount = amount + {amount} where rowid in {some}")
            case "delete":
                self.shop.sql(f"delete from sales where rowid in {some}")
            case "empty":
                self.shop.sql(f"delete from sales where day is {literal(day)} or shop is {literal(shop)}")
            case _:
                self.shop.sql(f"update or replace sales set id = id / 2 + {amount} where rowid in {some}")

    def run(self) -> Result:
        outcome = self.workspace.run("sales", spark=self.spark).streams[0]
        assert outcome.error is None, outcome.error
        assert outcome.verified in (True, None)
        return outcome.outcome

    def check(self) -> None:
        source = Counter(self.shop.rows("select id, day, shop, amount from sales"))
        rows = self.workspace.table("shop.sales").scan().to_arrow().to_pylist()
        table = Counter((row["id"], row["day"] and row["day"].isoformat(), row["shop"], row["amount"]) for row in rows)
        assert table == source


def literal(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def tell(history: dict, spark) -> None:
    story = Story(history, spark)
    for row in history["first"]:
        story.insert(row)
    story.run()
    story.check()
    for step in history["steps"]:
        for kind, row in step:
            story.change(kind, row)
        story.run()
        story.check()
    before = story.workspace.snapshots("shop.sales")
    story.spark = None  # what is equal needs none
    assert story.run() is Result.UNCHANGED
    assert story.workspace.snapshots("shop.sales") == before


FULL = [(number, DAYS[number % 6 + 1], SHOPS[number % 14 + 1], 1) for number in range(-9, 20)]
NULLS = [(number, None, None, 2) for number in (100, 101)]
WRITES = ["merge", "replace", "replace without a key"]


@pytest.mark.parametrize(("method", "write"), [(method, WRITES[n % 3]) for n, method in enumerate(METHODS)])
def test_a_history_of_everything(method, write, spark):
    """One of each change, in partitions that stay, come, go and trade rows."""
    steps = [
        [("move", (-9, "2025-01-06", "ab", 0)), ("touch", (3, None, None, 5)), ("delete", (7, None, None, 0))],
        [("empty", (0, None, "~N", 0)), ("insert", (2**63 - 1, "9999-12-31", "~", 1)), ("renumber", (5, "", "", 3))],
    ]
    tell({"method": method, "write": write, "first": FULL + NULLS, "steps": steps}, spark)


@settings(SAMPLE, max_examples=2, derandomize=True)
@given(history=HISTORIES)
def test_histories(spark, history):
    tell(history, spark)


@pytest.mark.exhaustive
@pytest.mark.timeout(3000)
@settings(SAMPLE, max_examples=60)
@given(history=HISTORIES)
def test_many_histories(spark, history):
    tell(history, spark)
