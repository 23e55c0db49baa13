"""Columns that are left out are no difference, whatever happens to them; what is read is proven."""

from __future__ import annotations

import pytest
import yaml

from newcomer.conftest import Newcomer

pytestmark = [pytest.mark.spark, pytest.mark.postgres]


def write(newcomer: Newcomer, **sources: dict) -> None:
    def stream(name: str, source: dict) -> dict:
        about = {"source": {"connection": "shop", "table": f"public.{name}", **source}, "target": f"lake.shop.{name}"}
        strict = {"add_column": "stop", "drop_column": "stop"}
        return {**about, "key": ["id"], "strategy": "snapshot_diff", "write": "merge", "contract": strict}

    streams = {name: stream(name, source) for name, source in sources.items()}
    project = {"connections": {"shop": {"url": newcomer.url}}, "streams": streams}
    (newcomer.folder / "tidegate.yaml").write_text(yaml.safe_dump(project), encoding="utf-8")


def test_what_is_left_out_is_never_seen(newcomer: Newcomer, spark: object) -> None:
    text = {"lasts": "text", "zoned": "text"}
    write(newcomer, shifts={"columns": text, "exclude": ["loc*"]}, totals={"include": ["id", "gross"]})
    newcomer.streams("run")
    assert newcomer.table("shop.shifts").schema.names == ["id", "lasts", "starts", "zoned", "day"]
    assert newcomer.table("shop.totals").schema.names == ["id", "gross"]

    newcomer.change(
        "UPDATE shifts SET local = NULL",
        "ALTER TABLE shifts ALTER COLUMN local TYPE text",
        "ALTER TABLE totals ADD COLUMN more xml",
        "UPDATE totals SET net = net + 0.001",
    )
    plan = newcomer.streams("plan")
    assert {name: each["outcome"] for name, each in plan.items()} == dict.fromkeys(plan, "unchanged")

    # A column that the table has, and that is left out from now on, is not gone at the source.
    write(
        newcomer,
        shifts={"columns": {"zoned": "text"}, "exclude": ["loc*", "lasts"]},
        totals={"include": ["*d", "gross"]},
    )
    newcomer.change("UPDATE shifts SET starts = '09:00' WHERE id = 1")
    run = newcomer.streams("run")
    assert (run["shifts"]["verified"], run["totals"]["outcome"]) == (True, "unchanged")
    assert newcomer("verify").exit_code == 0

    # One that was renamed may be the one that must not be read.
    write(newcomer, shifts={"columns": text, "exclude": ["local"]})
    newcomer.change("ALTER TABLE shifts RENAME COLUMN local TO secret")
    said = newcomer("plan", "--json")
    assert said.exit_code != 0
    assert "no column 'local'" in said.error["message"]
