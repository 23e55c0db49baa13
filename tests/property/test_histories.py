"""Random histories of a source, its runs, crashes and foreign maintenance: the table always equals the source."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import BOUNDARIES
from tidegate.testing import Crash, crash_at

pytestmark = pytest.mark.slow

STREAMS = {
    "orders": {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "updated_at"},
        "write": "merge",
    }
}


class Histories(RuleBasedStateMachine):
    """The model is the source itself; a tick makes every change later than the one before."""

    spark = None

    @initialize()
    def start(self):
        self.folder = Path(tempfile.mkdtemp())
        self.shop = SqliteShop(path=self.folder / "shop.db")
        self.shop.sql("create table orders (id integer primary key, amount text, updated_at timestamp)")
        self.workspace = Workspace(folder=self.folder)
        self.workspace.write(STREAMS, connections={"shop": {"url": self.shop.url}})
        self.tick = self.ids = self.sequence = self.columns = 0
        self.fresh = False

    def stamp(self) -> str:
        self.tick += 1
        self.fresh = False
        return f"2025-01-01 00:00:{self.tick // 1000:02}.{self.tick % 1000:06}"

    @rule(count=st.integers(1, 30))
    def insert(self, count):
        at = self.stamp()
        for _ in range(count):
            self.ids += 1
            self.shop.sql(f"insert into orders (id, amount, updated_at) values ({self.ids}, 'new', '{at}')")

    @precondition(lambda self: self.ids)
    @rule(modulus=st.integers(1, 7), text=st.sampled_from(["", "~N", "a|b", "née 🚲", "it''s"]))
    def update(self, modulus, text):
        self.shop.sql(f"update orders set amount='{text}', updated_at='{self.stamp()}' where id % {modulus} = 0")

    @precondition(lambda self: self.columns < 3)
    @rule()
    def add_column(self):
        self.columns += 1
        self.shop.sql(f"alter table orders add column extra{self.columns} integer")

    @rule()
    def lose_the_registry(self):
        self.workspace.forget_registry()

    @rule(boundary=st.sampled_from(BOUNDARIES))
    def interrupted_run(self, boundary):
        try:
            self.workspace.run(spark=self.spark, on_event=crash_at(boundary))
        except Crash:
            self.fresh = False

    @rule()
    def run(self):
        outcome = self.workspace.run(spark=self.spark).streams[0]
        assert outcome.error is None, outcome.error
        if self.fresh:
            assert outcome.outcome is Result.UNCHANGED
        if outcome.position:
            assert outcome.position["sequence"] >= self.sequence
            self.sequence = outcome.position["sequence"]
        self.fresh = True

    @invariant()
    def a_fresh_table_equals_the_source(self):
        if not getattr(self, "fresh", False) or not self.sequence:
            return
        source = sorted(self.shop.rows("select id, amount, updated_at from orders"))
        table = sorted(
            (row["id"], row["amount"], row["updated_at"].strftime("%Y-%m-%d %H:%M:%S.%f"))
            for row in self.workspace.rows("shop.orders")
        )
        assert table == source


@pytest.mark.spark
def test_histories(spark):
    Histories.spark = spark
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=4,
            stateful_step_count=14,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )
