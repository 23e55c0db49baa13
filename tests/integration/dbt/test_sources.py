"""`tidegate export dbt-sources` over real tables, and dbt reading it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
import yaml

from support.workspace import Workspace

pytestmark = [pytest.mark.spark]

PROFILE = """tidegate: {target: dev, outputs: {dev: {type: trino, method: none, user: dbt, host: 127.0.0.1, port: 9,
  database: lake, schema: marts, threads: 1}}}"""
PROJECT = "name: shop\nversion: '1.0'\nprofile: tidegate\nmodel-paths: [models]\n"


@pytest.fixture
def workspace(tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, state TEXT, amount DECIMAL(10,2), customer INTEGER)"
        )
        shop.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY NOT NULL)")
        shop.execute("INSERT INTO customers VALUES (1)")
        shop.execute("INSERT INTO orders VALUES (1, 'it''s new', 10.50, 1)")
    workspace = Workspace(folder=tmp_path)
    stream = {"key": ["id"], "strategy": "full", "write": "merge"}
    checks = [
        {"not_null": "state", "on_fail": "warn"},
        {"accepted_values": "state", "values": ["it's new", "paid"]},
        {"accepted_values": "amount", "values": [10.5]},
        {"range": "amount", "min": 0},
        {"not_null": "amount", "where": "state = 'paid'"},
        {"references": "customer", "to": "lake.shop.customers", "field": "id", "on_fail": "quarantine"},
    ]
    streams = {
        "shop.orders": {
            "source": {"connection": "shop", "table": "orders", "columns": {"amount": "decimal(10,2)"}},
            "target": "lake.shop.orders",
            "schedule": {"every": "10m"},
            "checks": checks,
            **stream,
        },
        "customers": {
            "source": {"connection": "shop", "table": "customers"},
            "target": "lake.shop.customers",
            **stream,
        },
        "later": {"source": {"connection": "shop", "table": "customers"}, "target": "lake.more.later", **stream},
    }
    workspace.write(streams, connections={"shop": "sqlite:///shop.db"}, loads_table="lake.ops.tidegate_loads")
    return workspace


@pytest.fixture
def exported(workspace, spark):
    with workspace.project(spark) as project:
        project.run("customers").raise_on_failure()
        project.run("shop.orders").raise_on_failure()
    done = workspace.cli("export", "dbt-sources", "--output", str(workspace.folder / "models/sources.yml"))
    assert done.returncode == 0, done.stderr
    return (workspace.folder / "models/sources.yml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_tables_become_sources(workspace, exported):
    shop, more = yaml.safe_load(exported)["sources"]
    assert (shop["name"], shop["database"], shop["schema"], shop["loader"]) == ("shop", "lake", "shop", "tidegate")
    orders, customers = shop["tables"]
    assert orders["config"]["meta"]["dagster"] == {"asset_key": ["shop", "orders"]}
    assert orders["config"]["meta"]["tidegate"]["target"] == "lake.shop.orders"
    assert orders["config"]["freshness"]["warn_after"] == {"count": 35, "period": "minute"}
    assert 'from "lake"."ops"."tidegate_loads" where stream_uid = ' in orders["loaded_at_query"]
    assert "freshness" not in customers["config"]
    columns = {column["name"]: column for column in orders["columns"]}
    assert [columns[name]["data_type"] for name in ("id", "state", "amount")] == ["bigint", "varchar", "decimal(10,2)"]
    assert columns["id"]["data_tests"] == ["not_null", "unique"]
    assert columns["state"]["data_tests"] == [
        {"not_null": {"config": {"severity": "warn"}}},
        {"accepted_values": {"arguments": {"values": ["it''s new", "paid"]}}},
    ]
    assert columns["customer"]["data_tests"] == [
        {"relationships": {"arguments": {"to": "source('shop', 'customers')", "field": "id"}}}
    ]
    assert "data_tests" not in columns["amount"]
    assert "columns" not in more["tables"][0]
    comments = [line for line in exported.splitlines() if line.startswith("# Left out")]
    assert comments == [
        "# Left out: 3 rules of shop.orders that dbt itself has no data test for: accepted_values, not_null, range",
        "# Left out: columns and data tests of later, whose table does not exist yet",
    ]
    again = workspace.cli("export", "dbt-sources", "--output", str(workspace.folder / "models/sources.yml"))
    assert again.returncode == 0, again.stderr
    (workspace.folder / "own.yml").write_text("version: 2\n")
    refused = workspace.cli("export", "dbt-sources", "--output", str(workspace.folder / "own.yml"))
    assert refused.returncode == 2
    assert "was not written by this command" in " ".join(refused.stderr.split())
    printed = workspace.cli("export", "dbt-sources", "--database", "iceberg", "customers").stdout
    assert yaml.safe_load(printed)["sources"][0]["database"] == "iceberg"


@pytest.mark.servers
def test_dbt_parses_it(workspace, exported):
    from support.dbt import dbt

    (workspace.folder / "dbt_project.yml").write_text(PROJECT)
    (workspace.folder / "profiles.yml").write_text(PROFILE)
    done = dbt(workspace.folder, "--warn-error", "parse")
    assert done.returncode == 0, done.stdout + done.stderr
