"""The table of loads: a row for each run, read by PyIceberg and delta-rs; right after kills, never in the way."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from tidegate import Project
from tidegate.engine import loads
from tidegate.engine.events import Moment

pytestmark = [pytest.mark.spark]


def project(form, table="lake.ops.tidegate_loads"):
    return {
        "lakes": {"lake": {"format": form, "warehouse": "warehouse"}},
        "loads_table": table,
        "connections": {"shop": "sqlite:///shop.db"},
        "streams": {
            "orders": {
                "source": {"connection": "shop", "table": "orders"},
                "target": "lake.shop.orders",
                "key": ["id"],
                "strategy": {"kind": "sequence", "column": "id"},
                "write": "append",
            }
        },
    }


def change(folder, *statements):
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        for statement in statements:
            shop.execute(statement)
        shop.commit()


def rows(form, folder):
    """Oldest first."""
    if form == "delta":
        table = DeltaTable(folder / "warehouse/ops/tidegate_loads").to_pyarrow_table()
    else:
        with SqlCatalog("lake", uri=f"sqlite:///{folder / '.tidegate/catalog.db'}") as catalog:
            table = catalog.load_table(("ops", "tidegate_loads")).scan().to_arrow()
    return sorted(table.to_pylist(), key=lambda row: row["loaded_at"])


def is_chained(found):
    befores, afters = [row["version_before"] for row in found], [row["version_after"] for row in found]
    return befores == [None, *afters[:-1]]


@pytest.fixture(params=["iceberg", "delta"])
def form(request, tmp_path):
    change(
        tmp_path,
        "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, amount INTEGER)",
        "INSERT INTO orders VALUES (1, 10), (2, 20)",
    )
    return request.param


def publish(shop):
    """As a run does, but at each look at an unchanged table."""
    streams = [replace(each, loads=replace(each.loads, every=timedelta(0))) for each in shop.streams()]
    loads.publish(streams, shop.registry)


def test_every_load_and_the_last_look_at_an_unchanged_table(form, spark, tmp_path):
    with Project.from_dict(project(form), folder=tmp_path, spark=spark) as shop:
        first = shop.run().raise_on_failure()
        for _ in range(2):
            shop.run().raise_on_failure()
        assert len(rows(form, tmp_path)) == 1, "an unchanged table waits for a quarter of an hour"
        change(tmp_path, "INSERT INTO orders VALUES (3, 30)")
        second = shop.run().raise_on_failure()
        last = shop.run().raise_on_failure()
        publish(shop)
    found = rows(form, tmp_path)
    assert [(row["outcome"], row["rows_inserted"]) for row in found] == [
        ("loaded", 2),
        ("unchanged", 0),
        ("loaded", 1),
        ("unchanged", 0),
    ]
    assert is_chained(found)
    assert [row["version_after"] for row in found[::2]] == [first["orders"].snapshot, second["orders"].snapshot]
    assert [row["load"] for row in found] == [1, 1, 2, 2]
    assert [row["verified"] for row in found] == [True, None, True, None]
    assert all(row["caught_up"] for row in found)
    assert (found[0]["run_id"], found[3]["run_id"]) == (first.run_id, last.run_id)
    assert found[3]["loaded_at"] < last.finished_at, "it was known to be current when the run began, not when it ended"
    assert {row["stream"] for row in found} == {"orders"}
    assert {(row["lake"], row["table_name"]) for row in found} == {("lake", "shop.orders")}


@pytest.mark.parametrize("form", ["iceberg"], indirect=True)
def test_what_a_run_that_ended_did_not_write_is_written_once(form, spark, tmp_path):
    def end(event):
        if event.moment is Moment.PUBLISHED:
            raise KeyboardInterrupt

    with Project.from_dict(project(form), folder=tmp_path, spark=spark) as shop:
        shop.run().raise_on_failure()
        change(tmp_path, "INSERT INTO orders VALUES (3, 30)")
        with pytest.raises(KeyboardInterrupt):
            shop.run(on_event=end)
        assert len(rows(form, tmp_path)) == 1
        change(tmp_path, "INSERT INTO orders VALUES (4, 40)")
        shop.run().raise_on_failure()
        found = rows(form, tmp_path)
        told = [(row["outcome"], row["rows_inserted"]) for row in found]
        assert told == [("loaded", 2), ("recovered", None), ("loaded", 1)]
        assert is_chained(found)
        assert (len({row["version_after"] for row in found}), found[1]["caught_up"]) == (3, False)
        # Ended after the commit and before the registry was told: it knows nothing of what was written.
        with closing(sqlite3.connect(tmp_path / ".tidegate/registry.db")) as registry:
            registry.execute("DELETE FROM tasks WHERE task_type = 'loads_table'")
            registry.commit()
        shop.run().raise_on_failure()
        publish(shop)
    found = rows(form, tmp_path)
    assert [row["outcome"] for row in found] == ["loaded", "recovered", "loaded", "unchanged"]
    assert is_chained(found)


def test_what_cannot_be_written_fails_no_load_and_is_written_later(spark, tmp_path, caplog):
    change(tmp_path, "CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, amount INTEGER)")
    away = {"format": "iceberg", "catalog": {"type": "rest", "uri": "http://127.0.0.1:9"}}
    values = project("iceberg", table="away.ops.tidegate_loads")
    values["lakes"]["away"] = away
    with Project.from_dict(values, folder=tmp_path, spark=spark) as shop:
        assert shop.run().exit_code == 0
        assert "loads_table away.ops.tidegate_loads was not written, a later run writes it" in caplog.text
    with Project.from_dict(project("iceberg"), folder=tmp_path, spark=spark) as shop:
        shop.run().raise_on_failure()
    assert [row["outcome"] for row in rows("iceberg", tmp_path)] == ["loaded", "unchanged"]


@pytest.mark.parametrize("form", ["delta"], indirect=True)
def test_maintain_compacts_it(form, spark, tmp_path):
    with Project.from_dict(project(form), folder=tmp_path, spark=spark) as shop:
        for _ in range(6):
            shop.run().raise_on_failure()
            publish(shop)
        before = rows(form, tmp_path)
        due = shop.maintain(dry_run=True).to_dict()["streams"][-1]
        done = shop.maintain().to_dict()["streams"][-1]
    assert (due["stream"], due["outcome"], done["outcome"]) == ("loads_table", "due", "maintained")
    assert "compact" in [step["step"] for step in done["tables"][0]["steps"]]
    assert rows(form, tmp_path) == before
