"""SIGKILL while the type of a column is replaced: one run, and nothing is lost, nothing twice, no column left."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest

from support.kills import kill_at
from support.lake import delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.slow, pytest.mark.spark]
STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.s.t",
    "key": ["id"],
    "strategy": {"kind": "sequence", "column": "id"},
    "write": "merge",
}


class Case:
    def __init__(self, folder: Path, form: str) -> None:
        self.shop, self.workspace, self.form = SqliteShop(path=folder / "shop.db"), Workspace(folder=folder), form
        self.make("INTEGER", "1, 10", "2, 20", "3, NULL")
        self.state()

    def state(self, mode: str = "replace") -> None:
        streams = {"t": {**STREAM, "contract": {"type_change": mode}}}
        lakes = {"lake": {"format": self.form}}
        self.workspace.write(streams, connections={"shop": {"url": self.shop.url}}, lakes=lakes)

    def make(self, kind: str, *rows: str) -> None:
        self.shop.sql(
            "DROP TABLE IF EXISTS t",
            f"CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, amount {kind}, note TEXT)",
            *(f"INSERT INTO t (id, amount) VALUES ({row})" for row in rows),
        )

    def run(self, spark, **options):
        return self.workspace.run("t", spark=spark, **options).streams[0]

    def rows(self) -> list[tuple]:
        if self.form == "delta":
            found = delta_rows(str(self.workspace.folder / "warehouse" / "s" / "t"))
        else:
            found = self.workspace.rows("s.t")
        return sorted((row["id"], row["amount"]) for row in found)

    def columns(self) -> list[str]:
        if self.form == "delta":
            fields = deltalake.DeltaTable(str(self.workspace.folder / "warehouse" / "s" / "t")).schema().fields
        else:
            fields = self.workspace.table("s.t").schema().fields
        return sorted(field.name for field in fields)

    def settled(self, spark) -> None:
        """The table is the source in its new type, and a second run finds nothing to do."""
        assert self.rows() == sorted(self.shop.rows("SELECT id, amount FROM t"))
        assert self.columns() == ["amount", "id", "note"]
        if self.form == "iceberg":
            assert set(self.workspace.table("s.t").metadata.refs) == {"main"}
        assert self.run(spark).outcome is Result.UNCHANGED
        with self.workspace.project(spark) as project:
            assert project.verify("t", level="rows").streams[0].equal is True


# Where what a kill leaves differs most.
KILLS = [
    (form, *boundary)
    for form in ("iceberg", "delta")
    for boundary in [(Stage.WRITE, Moment.DONE), (Stage.ADVANCE, Moment.PUBLISHED)]
]


@pytest.mark.parametrize(("form", "stage", "moment"), KILLS, ids=str)
def test_a_killed_replacement_is_repaired_by_one_run(tmp_path, spark, form, stage, moment):
    case = Case(tmp_path, form)
    assert case.run(spark).verified
    case.make("TEXT", "1, 'ten'", "2, '020'", "4, '4'")
    before = case.rows()
    kill_at(case.workspace, "t", stage, moment)
    if form == "iceberg":
        assert case.rows() == before or (stage is Stage.ADVANCE and moment is not Moment.START)
    assert case.run(spark).error is None
    case.settled(spark)


def test_the_source_goes_back_to_its_type_after_a_kill(tmp_path, spark):
    """No replacement follows that would drop what the killed one has left."""
    case = Case(tmp_path, "iceberg")
    assert case.run(spark).verified
    case.make("TEXT", "1, 'ten'")
    kill_at(case.workspace, "t", Stage.WRITE, Moment.DONE)
    assert "_tidegate_replacing_amount" in case.columns()
    case.make("INTEGER", "1, 10", "2, 20", "3, NULL", "4, 40")
    case.state("stop")
    done = case.run(spark)
    assert (done.error, done.rows_read, done.verified) == (None, 1, True)
    case.settled(spark)
