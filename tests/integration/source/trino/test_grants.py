"""The rules of access that the documentation lists are enough for every strategy, and a missing one is named."""

import json
import re
from pathlib import Path

import pytest

from support.trino import running
from support.workspace import Workspace

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
    everything = ["SELECT", "INSERT", "DELETE", "UPDATE", "OWNERSHIP"]
    rules["tables"] += [{"user": "writer", "privileges": everything}]
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
    workspace = Workspace(folder=folder)
    streams = {
        name: {
            "source": {"connection": "tree", "table": f"shop.{table}"},
            "target": f"lake.shop.{name}",
            "key": ["id"],
            "strategy": strategy,
            "write": write,
        }
        for name, (strategy, write) in STRATEGIES.items()
    }
    url = server.url("iceberg", "shop").replace("tester@", f"{user}@")
    workspace.write(streams, connections={"tree": {"url": url}})
    return workspace


def test_they_are_enough(server, spark, tmp_path):
    workspace = project(tmp_path, server, "loader")
    for ids, wanted in (((), 3), ((4,), 4)):
        if ids:
            add(server, *ids)
        report = workspace.run(spark=spark)
        assert [each.error for each in report.streams] == [None] * len(STRATEGIES)
        assert {each.outcome for each in report.streams} == {"loaded"}
        assert {len(workspace.rows(f"shop.{name}")) for name in STRATEGIES} == {wanted}
    with workspace.project(spark) as opened:
        assert opened.verify(level="rows").ok
        assert all(each.ok for each in opened.doctor() if each.name.startswith("source of"))


def test_one_that_is_missing_is_named(server, spark, tmp_path):
    for user, table in (("nobody", "orders"), ("loader", "secrets")):
        (tmp_path / user).mkdir()
        (outcome,) = project(tmp_path / user, server, user, table).run("full", spark=spark).streams
        assert outcome.error.code == "source"
        assert (
            f"Access Denied: Cannot select from columns [amount, id, updated_at] in table or view shop.{table}"
            in (outcome.error.message)
            or f"Cannot select from table iceberg.shop.{table}" in outcome.error.message
        )
        assert "Grant the user SELECT" in outcome.error.hint
