"""SIGKILL between the quarantine's commit and the table's: good and quarantined rows stay what was read, exactly."""

import json

import pytest

from support.kills import kill_at
from support.lake import delta_rows
from support.shops import STREAMS, change, sqlite_shop
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = pytest.mark.slow

BESIDE = "orders__tidegate_quarantine"


@pytest.mark.spark
@pytest.mark.parametrize("lake_format", ["iceberg", "delta"])
def test_kill_between_the_quarantine_and_the_table(tmp_path, spark, lake_format):
    shop, workspace = sqlite_shop(tmp_path), Workspace(folder=tmp_path)
    rule = {"expression": "NOT (amount = 'changed' AND id % 2 = 0)", "on_fail": "quarantine"}
    stream, lakes = {**STREAMS["orders"], "checks": [rule]}, {"lake": {"format": lake_format}}
    workspace.write({"orders": stream}, connections={"shop": {"url": shop.url}}, lakes=lakes)

    def rows(name: str) -> list[dict]:
        if lake_format == "iceberg":
            return workspace.rows(f"shop.{name}")
        return delta_rows(str(tmp_path / "warehouse" / "shop" / name))

    assert workspace.run("orders", spark=spark).streams[0].rows_quarantined == 0
    change(shop, "sqlite")
    kill_at(workspace, "orders", Stage.CHECK, Moment.DONE)
    assert len(rows(BESIDE)) == 25
    # What the retry reads is not what the killed load read.
    shop.sql(
        "update orders set amount = 'mended' where id = 100", "update orders set amount = 'changed' where id = 501"
    )
    outcome = workspace.run("orders", spark=spark).streams[0]
    assert (outcome.error, outcome.outcome, outcome.verified) == (None, Result.LOADED, True)
    assert outcome.rows_quarantined == 24
    kept = [json.loads(row["row"]) for row in rows(BESIDE)]
    read = {row[0]: row[1] for row in shop.rows("select id, amount from orders where updated_at >= '2025-02-01'")}
    good = {row["id"]: row["amount"] for row in rows("orders")}
    bad = {int(row["id"]): row["amount"] for row in kept}
    assert len(kept) == len(bad) == 24
    assert {key: bad.get(key, good[key]) for key in read} == read
    assert {good[key] for key in bad} == {f"a{key}" for key in bad}, "the last good row of each key stays"
    with workspace.project(spark) as project:
        verified = project.verify("orders", level="rows").streams[0]
    assert (verified.equal, verified.rows_quarantined) == (True, 24)
