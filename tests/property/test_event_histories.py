"""Random histories, carried at least once and in no order: the table always becomes what the source is.

A thousand of them side by side in one table a format, each with keys of its own; an event that empties the table
empties all of them.
"""

from __future__ import annotations

import random
import sys

import pytest

from support.histories import Carrier, Source, cut, lines
from support.lake import QUICK, delta_rows
from support.workspace import Workspace
from tidegate.engine.applied_events import Applied
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

COLUMNS = {
    "operation": "text",
    "lsn": "bigint",
    "place": "bigint",
    "unknown": "json",
    "id": "bigint",
    "name": "text",
    "size": "bigint",
    "big": "text",
}
STREAM = {
    "source": {"path": "events/*.json", "envelope": "partial", "columns": COLUMNS},
    "target": "lake.shop.orders",
    "key": "id",
    "strategy": {"kind": "cdc"},
    "write": "merge",
}


@pytest.fixture(autouse=True)
def partial_envelope(tmp_path_factory, monkeypatch):
    """The envelope of the tests, as another package provides one."""
    folder = tmp_path_factory.mktemp("package")
    about = folder / "partial_envelope-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: partial-envelope\nVersion: 1.0\n", encoding="utf-8")
    entry = "[tidegate.envelopes]\npartial = support.partial:Partial\n"
    (about / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


class Table:
    """A project that loads the log of one source, read back by PyIceberg or delta-rs."""

    def __init__(self, folder, spark, kind):
        (folder / "events").mkdir(parents=True)
        self.folder, self.spark, self.kind, self.files = folder, spark, kind, 0
        self.workspace = Workspace(folder=folder)
        self.workspace.write(
            {"orders": STREAM}, connections={}, lakes={"lake": {"format": kind}}, spark={"conf": QUICK}
        )

    def write(self, events):
        self.files += 1
        (self.folder / "events" / f"{self.files:06}.json").write_text(lines(events), encoding="utf-8")

    def run(self, **options):
        (outcome,) = self.workspace.run(spark=self.spark, **options).streams
        assert outcome.error is None, outcome.error
        return outcome

    def rows(self):
        if self.kind == "iceberg":
            found = self.workspace.rows("shop.orders")
        else:
            found = delta_rows(f"{self.folder}/warehouse/shop/orders")
        return sorted((row["id"], row["name"], row["size"], row["big"]) for row in found)

    def crash(self, monkeypatch, *, between):
        """A run that ends between the two commits, or before what it wrote is published."""
        kept = Applied.keep

        def keep_and_end(self, folded):
            kept(self, folded)
            raise Crash

        with monkeypatch.context() as patch:
            if between:
                patch.setattr(Applied, "keep", keep_and_end)
            with pytest.raises(Crash):
                self.run(on_event=crash_at((Stage.ADVANCE, Moment.START)))


def fold_histories(table, histories, seed, monkeypatch, *, phases):
    """Every phase in two loads, of which the first attempt at one ends between its two commits or just after them."""
    source, chance = Source(histories=histories, seed=seed), random.Random(seed + 1)
    carrier, everything = Carrier(random=chance), []
    for phase in range(phases):
        events = source.phase(4, truncate=1.5 / (4 * histories) if phase % 2 else 0)
        everything += events
        for number, part in enumerate(cut(carrier.deliver(events), chance, 2)):
            table.write(part)
            if number:
                table.crash(monkeypatch, between=phase % 2 == 0)
            outcome = table.run()
            if number and phase % 2 and table.kind == "delta":
                assert outcome.outcome == "unchanged", "what was seen before the end is proven, and not done again"
                continue
            assert outcome.verified
            assert outcome.rows_read == len(part)
        assert table.rows() == source.truth(), f"phase {phase}, seed {seed}"
        if phase == 1:
            if table.kind == "iceberg":  # on Delta nobody could tell whether the last load was ever proven
                table.workspace.forget_registry()
            table.write(carrier.deliver(everything))
            again = table.run()
            assert again.rows_superseded == again.rows_read > len(everything), "a replay changes nothing"
            assert table.rows() == source.truth()
    assert source.truncates
    assert table.run().outcome == "unchanged"


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_the_table_is_the_source(kind, spark, tmp_path, monkeypatch):
    fold_histories(Table(tmp_path, spark, kind), 40, 2066, monkeypatch, phases=2)
