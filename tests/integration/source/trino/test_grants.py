"""The rules of access that the documentation lists are enough for every strategy, and a missing one is named."""

import json
import re
from pathlib import Path

import pytest

from integration.source.loading import by_each
from support.trino import running

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[4] / "docs" / "sources" / "trino.md"
APPLICATION = {"clock": "application", "time_zone": "UTC", "safety_lag": "1s", "lookback": "1h"}
STRATEGIES = {
    "full": ("full", "replace"),
    "snapshot_diff": ("snapshot_diff", "merge"),
    "checksum": ("checksum", "replace"),
    "watermark": ({"kind": "watermark", "column": "updated_at", **APPLICATION}, "merge"),
}


@pytest.fixture(scope="module")
def server():
    """`loader` may do what the page says, `nobody` may use the catalog alone, `writer` everything."""
    block = re.search(r"```json\n(\{\n  \"catalogs\".*?)```", PAGE.read_text(), re.DOTALL)
    rules = json.loads(block[1].replace('"hive"', '"iceberg"'))
    rules["catalogs"] += [
        {"user": "nobody", "catalog": "iceberg", "allow": "read-only"},
        {"user": "writer", "allow": "all"},
    ]
    rules["tables"] += [{"user": "writer", "privileges": ["SELECT", "INSERT", "DELETE", "UPDATE", "OWNERSHIP"]}]
    with running(rules=json.dumps(rules)) as made:
        made.run(
            "CREATE SCHEMA iceberg.shop",
            "CREATE TABLE iceberg.shop.orders (id bigint, amount integer, updated_at timestamp(6))",
            "CREATE TABLE iceberg.shop.secrets (id bigint)",
        )
        add(made, 1, 2, 3)
        yield made


def add(server, *ids):
    rows = ", ".join(f"({each}, {each}, localtimestamp(6) - interval '1' minute)" for each in ids)
    server.run(f"INSERT INTO iceberg.shop.orders VALUES {rows}")


def project(folder, server, user, table="orders"):
    url = server.url("iceberg", "shop").replace("tester@", f"{user}@")
    return by_each(STRATEGIES, folder, url, table=f"shop.{table}")


def test_they_are_enough(server, spark, tmp_path):
    workspace = project(tmp_path, server, "loader")
    for ids, wanted in (((), 3), ((4,), 4)):
        if ids:
            add(server, *ids)
        report = workspace.run(spark=spark)
        assert {(each.error, each.outcome) for each in report.streams} == {(None, "loaded")}
        assert {len(workspace.rows(f"shop.{name}")) for name in STRATEGIES} == {wanted}
    with workspace.project(spark) as opened:
        assert opened.verify(level="rows").ok
        assert [each for each in opened.doctor() if each.name.startswith("source of") and not each.ok] == []


@pytest.mark.parametrize(("user", "table"), [("nobody", "orders"), ("loader", "secrets")])
def test_one_that_is_missing_is_named(server, tmp_path, user, table):
    with project(tmp_path, server, user, table).project() as opened:
        error = opened.plan("full")["full"].error
    assert error.code == "source"
    assert re.search(
        rf"Cannot select from (columns \[.*\] in table or view|table iceberg\.)\s?shop\.{table}", error.message
    )
    assert "Grant the user SELECT" in error.hint
