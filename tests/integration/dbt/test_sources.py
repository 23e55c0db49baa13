"""`tidegate export dbt-sources` over tables of a catalog, and dbt reading it."""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pytest
import yaml
from pyiceberg.catalog.sql import SqlCatalog

from integration.cli.terminal import Terminal
from support.workspace import Workspace

PROFILE = """tidegate: {target: dev, outputs: {dev: {type: trino, method: none, user: dbt, host: 127.0.0.1, port: 9,
  database: lake, schema: marts, threads: 1}}}"""
PROJECT = "name: shop\nversion: '1.0'\nprofile: tidegate\nmodel-paths: [models]\n"


@pytest.fixture
def workspace(tmp_path):
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
def tidegate(workspace, capfd):
    return Terminal(folder=workspace.folder, capfd=capfd)


@pytest.fixture
def exported(workspace, tidegate):
    (workspace.folder / ".tidegate").mkdir()
    place = {"uri": f"sqlite:///{workspace.folder}/.tidegate/catalog.db", "warehouse": f"{workspace.folder}/warehouse"}
    number, text, amount = pa.int64(), pa.string(), pa.decimal128(10, 2)
    orders = [("state", text), ("amount", amount), ("customer", number)]
    with closing(SqlCatalog("lake", **place)) as catalog:
        catalog.create_namespace("shop")
        key = pa.field("id", number, nullable=False)
        catalog.create_table("shop.orders", schema=pa.schema([key, *(pa.field(*each) for each in orders)]))
        catalog.create_table("shop.customers", schema=pa.schema([key]))
    done = tidegate("export", "dbt-sources", "--output", str(workspace.folder / "models/sources.yml"))
    assert done.exit_code == 0, done.err
    return (workspace.folder / "models/sources.yml").read_text(encoding="utf-8")


def test_tables_become_sources(workspace, tidegate, exported):
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
    again = tidegate("export", "dbt-sources", "--output", str(workspace.folder / "models/sources.yml"))
    assert again.exit_code == 0, again.err
    (workspace.folder / "own.yml").write_text("version: 2\n")
    refused = tidegate("export", "dbt-sources", "--output", str(workspace.folder / "own.yml"))
    assert refused.exit_code == 2
    assert "was not written by this command" in " ".join(refused.err.split())
    printed = tidegate("export", "dbt-sources", "--database", "iceberg", "customers").out
    assert yaml.safe_load(printed)["sources"][0]["database"] == "iceberg"


@pytest.mark.servers
def test_dbt_parses_it(workspace, exported):
    from support.dbt import dbt

    (workspace.folder / "dbt_project.yml").write_text(PROJECT)
    (workspace.folder / "profiles.yml").write_text(PROFILE)
    done = dbt(workspace.folder, "--warn-error", "parse")
    assert done.returncode == 0, done.stdout + done.stderr
