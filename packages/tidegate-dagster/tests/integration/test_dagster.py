"""Loads in Dagster's own process: what it is told of them, and what PyIceberg and delta-rs read."""

import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import entry_points

import dagster as dg
import pytest

from support.lake import delta_rows
from support.workspace import SqliteShop, Workspace
from tidegate.service.place import Place
from tidegate_dagster import TidegateProject, TidegateResource, tidegate_assets

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(400)]
ORDERS = dg.AssetKey("orders")


class Site(Workspace):
    """A project whose lake is of either format."""

    def rows(self, name):
        if not (self.folder / "delta").exists():
            return super().rows(name)
        return sorted(delta_rows(self.location(name)), key=lambda row: row["id"])

    def location(self, name):
        if (self.folder / "delta").exists():
            return str(self.folder / "delta" / name.replace(".", "/"))
        return self.table(name).location().removeprefix("file://")


@pytest.fixture(params=["iceberg", "delta"])
def site(tmp_path, request):
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, customer TEXT, amount INT, updated_at DATETIME)",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY NOT NULL)",
        "INSERT INTO orders VALUES (1, 'a', 1, '2025-01-01 10:00:00'), (2, 'b', -2, '2025-01-02 10:00:00')",
        "INSERT INTO notes VALUES (1)",
    )
    orders = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": {"kind": "watermark", "column": "updated_at", "clock": "database"},
        "write": "merge",
        "checks": [{"not_null": "customer"}, {"expression": "amount >= 0", "on_fail": "quarantine", "name": "paid"}],
    }
    notes = {
        "source": {"connection": "shop", "table": "notes"},
        "target": "lake.shop.notes",
        "strategy": "full",
        "write": "replace",
    }
    workspace = Site(folder=tmp_path)
    lakes = {"iceberg": {}, "delta": {"lakes": {"lake": {"format": "delta", "warehouse": "./delta"}}}}
    if request.param == "delta":
        (tmp_path / "delta").mkdir()
    workspace.write({"orders": orders, "notes": notes}, connections={"shop": {"url": shop.url}}, **lakes[request.param])
    return shop, workspace


@dg.asset(deps=["orders", "notes"])
def report():
    """What depends on both streams."""


class Dagster:
    """An instance, and what its runs have said."""

    def __init__(self, workspace, instance, **options):
        project = TidegateProject(folder=workspace.folder, select=tuple(options.pop("select", ())))

        @tidegate_assets(project=project, **options)
        def shop(context: dg.AssetExecutionContext, tidegate: TidegateResource):
            yield from tidegate.run(context)

        self.assets, self.instance = shop, instance
        self.resource = TidegateResource(project_dir=str(workspace.folder), retries=0)

    def run(self, *others, **options):
        """Events by kind and asset, and results of checks by name."""
        done = dg.materialize(
            [self.assets, *others],
            resources={"tidegate": self.resource},
            instance=self.instance,
            raise_on_error=False,
            **options,
        )
        self.said = "\n".join(entry.user_message for entry in self.instance.all_logs(done.run_id))
        told, checks = {}, {}
        for event in done.all_events:
            match event.event_type_value:
                case "ASSET_MATERIALIZATION":
                    found = event.step_materialization_data.materialization
                    told["materialized", found.asset_key.to_user_string(), found.partition] = found.metadata
                case "ASSET_OBSERVATION":
                    found = event.asset_observation_data.asset_observation
                    told["observed", found.asset_key.to_user_string(), found.partition] = found.metadata
                case "ASSET_CHECK_EVALUATION":
                    found = event.event_specific_data
                    checks[f"{found.asset_key.to_user_string()}.{found.check_name}"] = (
                        found.passed,
                        found.severity.value,
                    )
        return done.success, told, checks


@pytest.fixture
def dagster():
    with dg.DagsterInstance.ephemeral() as instance:
        yield lambda workspace, **options: Dagster(workspace, instance, **options)


def test_what_dagster_is_told_is_what_the_table_holds(site, dagster):
    shop, workspace = site
    made = dagster(workspace)

    success, told, checks = made.run(report)
    assert success
    assert set(told) == {("materialized", name, None) for name in ("orders", "notes", "report")}
    of_orders = {name: each.value for name, each in told["materialized", "orders", None].items()}
    assert [row["id"] for row in workspace.rows("shop.orders")] == [1]
    assert of_orders["dagster/row_count"] == 1, "the other one is in quarantine"
    assert of_orders["tidegate/rows_quarantined"] == 1
    assert of_orders["tidegate/verified"] is True
    assert of_orders["dagster/table_name"] == "lake.shop.orders"
    assert workspace.location("shop.orders") in of_orders["dagster/uri"]
    columns = told["materialized", "orders", None]["dagster/column_schema"].schema.columns
    assert [each.name for each in columns] == list(workspace.rows("shop.orders")[0])
    assert checks == {
        "orders.not_null_customer": (True, "ERROR"),
        "orders.paid": (False, "WARN"),
        "orders.verified": (True, "ERROR"),
        "notes.verified": (True, "ERROR"),
    }

    # Nothing has changed, then one of two streams: what depends on both runs each time.
    success, told, checks = made.run(report)
    assert success
    assert set(told) == {("observed", "orders", None), ("observed", "notes", None), ("materialized", "report", None)}
    assert checks == {}
    shop.sql("INSERT INTO notes VALUES (2)")
    success, told, checks = made.run(report)
    assert set(told) == {
        ("observed", "orders", None),
        ("materialized", "notes", None),
        ("materialized", "report", None),
    }
    assert checks == {"notes.verified": (True, "ERROR")}

    # A rule stops the load of one stream; the other one is loaded, and what depends on them waits.
    shop.sql("INSERT INTO orders VALUES (3, NULL, 3, '2025-01-03')", "INSERT INTO notes VALUES (3)")
    success, told, checks = made.run(report)
    assert not success
    assert set(told) == {("observed", "orders", None), ("materialized", "notes", None)}
    assert told["observed", "orders", None]["tidegate/error"].value == "check_failed"
    assert checks == {"orders.not_null_customer": (False, "ERROR"), "notes.verified": (True, "ERROR")}
    assert [row["id"] for row in workspace.rows("shop.orders")] == [1]

    # The check alone compares the whole table with the source, which has a row that its cursor has passed over.
    shop.sql("INSERT INTO orders VALUES (9, 'z', 1, '2020-01-01')")
    only = dg.AssetSelection.checks(dg.AssetCheckKey(ORDERS, "verified"))
    success, told, checks = made.run(selection=only)
    assert not success
    assert told == {}
    assert checks == {"orders.verified": (False, "ERROR")}


def test_partitions_are_backfills_of_exactly_their_range(site, dagster):
    shop, workspace = site
    daily = dg.DailyPartitionsDefinition("2025-01-01", end_offset=1)
    made = dagster(workspace, select=["orders"], partitions_def=daily)
    shop.sql(
        "UPDATE orders SET amount = 2",
        *(f"INSERT INTO orders VALUES ({day}, 'c', {day}, '2025-01-0{day} 12:00:00')" for day in range(3, 7)),
    )

    # The table is not there yet: a run loads everything, and only the partition that was asked for is told of.
    success, told, checks = made.run(partition_key="2025-01-02")
    assert success
    assert set(told) == {("materialized", "orders", "2025-01-02")}
    assert checks["orders.verified"] == (True, "ERROR")
    assert {row["id"] for row in workspace.rows("shop.orders")} == {1, 2, 3, 4, 5, 6}

    # Rows change without their cursor: a range is loaded again, from its first instant to its last, and nothing else.
    shop.sql("UPDATE orders SET amount = amount + 100")
    tags = {"dagster/asset_partition_range_start": "2025-01-03", "dagster/asset_partition_range_end": "2025-01-04"}
    success, told, checks = made.run(tags=tags)
    assert success
    assert set(told) == {("materialized", "orders", "2025-01-03"), ("materialized", "orders", "2025-01-04")}
    metadata = told["materialized", "orders", "2025-01-03"]
    assert metadata["tidegate/from"].value == "2025-01-03 00:00:00.000000"
    assert metadata["tidegate/to"].value == "2025-01-05 00:00:00.000000"
    assert metadata["tidegate/rows_reloaded"].value == 2
    amounts = {row["id"]: row["amount"] for row in workspace.rows("shop.orders")}
    assert amounts == {1: 2, 2: 2, 3: 103, 4: 104, 5: 5, 6: 6}
    with workspace.project() as project:
        assert [(each.begin[:10], each.end[:10]) for each in project.backfills.list("orders")] == [
            ("2025-01-03", "2025-01-05")
        ]

    # A day that is not over: the source cannot have been read to its end, so nobody says that it is complete.
    success, told, _ = made.run(partition_key=datetime.now(UTC).date().isoformat())
    assert not success
    assert told == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux")
def test_the_service_of_the_project_does_the_work(site, dagster):
    shop, workspace = site
    shop.sql("UPDATE orders SET amount = 2")
    words = [
        sys.executable,
        "-m",
        "tidegate",
        "serve",
        "--no-http",
        "--no-schedule",
        "--project",
        str(workspace.folder),
    ]
    with (workspace.folder / "serve.log").open("wb") as log:
        service = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while (connection := Place.of(workspace.folder).connect()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        connection.close()
        made = dagster(workspace, select=["orders"])
        success, told, checks = made.run()
        assert success
        assert told["materialized", "orders", None]["dagster/row_count"].value == 2
        assert checks["orders.verified"] == (True, "ERROR")
        assert "the service of the project runs `tidegate run orders" in made.said
        assert [row["id"] for row in workspace.rows("shop.orders")] == [1, 2]
        shop.sql("INSERT INTO orders VALUES (3, NULL, 3, '2025-01-03')")
        success, told, checks = made.run()
        assert not success
        assert checks == {"orders.not_null_customer": (False, "ERROR")}

        # So are the check alone, and a range of partitions.
        shop.sql("DELETE FROM orders WHERE id = 3", "UPDATE orders SET amount = 7 WHERE id = 2")
        only = dg.AssetSelection.checks(dg.AssetCheckKey(ORDERS, "verified"))
        assert made.run(selection=only)[2] == {"orders.verified": (False, "ERROR")}
        assert "the service of the project runs `tidegate verify orders" in made.said
        daily = dg.DailyPartitionsDefinition("2025-01-01", end_offset=1)
        success, told, checks = dagster(workspace, select=["orders"], partitions_def=daily).run(
            partition_key="2025-01-01"
        )
        assert success
        assert told["materialized", "orders", "2025-01-01"]["tidegate/rows_reloaded"].value == 1
        assert [row["amount"] for row in workspace.rows("shop.orders")] == [2, 2]
    finally:
        service.terminate()
        service.wait(60)


def test_the_entry_point_is_declared():
    found = entry_points(group="dagster_dg_cli.registry_modules")
    assert [each.value for each in found if each.name == "tidegate"] == ["tidegate_dagster"], sys.path
