"""A real `dagster dev`: its web server and daemon, asked by GraphQL, of a component that `dg` has scaffolded."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(500)]
BIN = Path(sys.executable).parent
RUN = """query($id: ID!) { runOrError(runId: $id) { ... on Run { status, eventConnection { events {
  __typename
  ... on MaterializationEvent { assetKey { path } metadataEntries { label
    ... on IntMetadataEntry { intValue } ... on TextMetadataEntry { text } } }
  ... on ObservationEvent { assetKey { path } metadataEntries { label ... on TextMetadataEntry { text } } }
  ... on AssetCheckEvaluationEvent { evaluation { checkName success severity } }
  ... on ExecutionStepFailureEvent { error { message } failureMetadata { description } }
} } } ... on Error { message } } }"""
LAUNCH = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on Error { message } } }"""
RUNS = "{ runsOrError { ... on Runs { results { runId status tags { key value } } } } }"
OBSERVED = """{ assetNodes(assetKeys: [{path: ["orders"]}]) { assetObservations {
  metadataEntries { label ... on TextMetadataEntry { text } } } } }"""
SENSOR = """mutation($selector: SensorSelector!) { startSensor(sensorSelector: $selector) {
  __typename ... on Error { message } } }"""


class Site:
    """A project of `dg` with the component, a database, and the server."""

    def __init__(self, folder):
        self.folder = folder
        self.shop = SqliteShop(path=folder / "shop.db")
        self.shop.sql(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, customer TEXT, updated_at DATETIME)",
            "INSERT INTO orders VALUES (1, 'a', '2025-01-01'), (2, 'b', '2025-01-02')",
        )
        orders = {
            "source": {"connection": "shop", "table": "orders"},
            "target": "lake.shop.orders",
            "key": ["id"],
            "strategy": {"kind": "watermark", "column": "updated_at", "clock": "database"},
            "write": "merge",
            "checks": [{"not_null": "customer"}],
        }
        self.workspace = Workspace(folder=folder)
        self.workspace.write({"orders": orders}, connections={"shop": {"url": self.shop.url}})
        self.log = folder / "dagster.log"

    def scaffold(self):
        """The code location: its folders as `dg` expects them, and the component by its own command."""
        root = self.folder / "location"
        (root / "src" / "location" / "defs").mkdir(parents=True)
        (root / "pyproject.toml").write_text(
            '[project]\nname = "location"\nversion = "0"\n[tool.dg]\ndirectory_type = "project"\n'
            '[tool.dg.project]\nroot_module = "location"\n'
        )
        (root / "src" / "location" / "__init__.py").touch()
        (root / "src" / "location" / "definitions.py").write_text(
            "from pathlib import Path\n\nfrom dagster import definitions, load_from_defs_folder\n\n\n"
            "@definitions\ndef defs():\n    return load_from_defs_folder(path_within_project=Path(__file__).parent)\n"
        )
        words = ["scaffold", "defs", "tidegate_dagster.TidegateProjectComponent", "shop"]
        done = subprocess.run(
            [BIN / "dg", *words, "--project", str(self.folder)],
            cwd=root,
            env=self.environment(root),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return root

    def environment(self, root):
        paths = [str(root / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {
            **os.environ,
            "DAGSTER_HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONWARNINGS": "ignore",
            "DAGSTER_DISABLE_TELEMETRY": "1",
        }

    def serve(self, root):
        """Starts the server; it binds to a free port of the loopback, and ends with `stop`."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        (self.folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        words = ["dev", "-m", "location.definitions", "-h", "127.0.0.1", "-p", str(self.port)]
        with self.log.open("wb") as log:
            self.server = subprocess.Popen(
                [BIN / "dagster", *words], cwd=root, env=self.environment(root), stdout=log, stderr=log
            )
        self.until(lambda: self.answers("{ version }"))

    def stop(self):
        self.server.send_signal(signal.SIGINT)
        try:
            self.server.wait(60)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()

    def ask(self, query, **variables):
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", data=body, headers={"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = json.load(answer)
        assert "errors" not in found, found
        return found["data"]

    def answers(self, query):
        assert self.server.poll() is None, self.log.read_text()
        try:
            return self.ask(query)
        except OSError:
            return None

    def until(self, fulfilled, seconds=150):
        deadline = time.monotonic() + seconds
        while not (found := fulfilled()):
            assert time.monotonic() < deadline, self.log.read_text()[-5000:]
            time.sleep(0.3)
        return found

    def where(self):
        query = "{ repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"
        (node,) = self.ask(query)["repositoriesOrError"]["nodes"]
        return {"repositoryName": node["name"], "repositoryLocationName": node["location"]["name"]}

    def launch(self):
        checks = [{"assetKey": {"path": ["orders"]}, "name": name} for name in ("not_null_customer", "verified")]
        selector = {**self.where(), "pipelineName": "__ASSET_JOB", "assetSelection": [{"path": ["orders"]}]}
        params = {"selector": {**selector, "assetCheckSelection": checks}, "runConfigData": {}, "mode": "default"}
        launched = self.ask(LAUNCH, params=params)["launchRun"]
        assert launched["__typename"] == "LaunchRunSuccess", launched
        return self.ended(launched["run"]["runId"])

    def ended(self, run_id):
        """Status, events by kind, and results of checks of a run, once it has ended."""

        def found():
            run = self.ask(RUN, id=run_id)["runOrError"]
            return run if run["status"] in ("SUCCESS", "FAILURE", "CANCELED") else None

        run = self.until(found)
        events = {}
        for event in run["eventConnection"]["events"]:
            events.setdefault(event["__typename"], []).append(event)
        results = {
            each["evaluation"]["checkName"]: (each["evaluation"]["success"], each["evaluation"]["severity"])
            for each in events.get("AssetCheckEvaluationEvent", [])
        }
        return run["status"], events, results

    def observations(self):
        (asset,) = self.ask(OBSERVED)["assetNodes"]
        return [values(each) for each in asset["assetObservations"]]

    def runs(self):
        return {run["runId"]: run for run in self.ask(RUNS)["runsOrError"]["results"]}


def values(event):
    """The metadata of an event, by key."""
    return {each["label"]: each.get("text", each.get("intValue")) for each in event["metadataEntries"]}


def test_runs_checks_and_a_sensor_in_a_real_dagster(tmp_path):
    site = Site(tmp_path)
    root = site.scaffold()
    file = root / "src" / "location" / "defs" / "shop" / "defs.yaml"
    file.write_text(file.read_text().replace("arrivals: false", "arrivals: true\n  select: [orders]"))
    site.serve(root)
    try:
        status, events, checks = site.launch()
        assert status == "SUCCESS", events.get("ExecutionStepFailureEvent")
        (materialized,) = events["MaterializationEvent"]
        assert values(materialized)["dagster/row_count"] == 2
        assert values(materialized)["dagster/table_name"] == "lake.shop.orders"
        assert len(site.workspace.rows("shop.orders")) == 2
        assert checks == {"not_null_customer": (True, "ERROR"), "verified": (True, "ERROR")}

        status, events, checks = site.launch()
        assert status == "SUCCESS"
        assert "MaterializationEvent" not in events
        (observed,) = events["ObservationEvent"]
        assert values(observed)["tidegate/outcome"] == "unchanged"
        assert checks == {}

        # The daemon's sensor notices the row, and the run that it asks for is stopped by the rule.
        site.shop.sql("INSERT INTO orders VALUES (3, NULL, '2025-01-03')")
        before = site.runs()
        started = site.ask(SENSOR, selector={**site.where(), "sensorName": "shop_arrivals"})["startSensor"]
        assert started["__typename"] == "Sensor", started
        (asked,) = site.until(lambda: site.runs().keys() - before.keys())
        tags = {each["key"]: each["value"] for each in site.runs()[asked]["tags"]}
        assert tags["dagster/sensor_name"] == "shop_arrivals"
        status, events, checks = site.ended(asked)
        assert status == "FAILURE"
        assert "MaterializationEvent" not in events
        assert checks == {"not_null_customer": (False, "ERROR")}
        assert len(site.workspace.rows("shop.orders")) == 2
    finally:
        site.stop()


def test_a_failed_run_and_a_tick_in_a_real_dagster(tmp_path):
    site = Site(tmp_path)
    site.shop.sql("DROP TABLE orders")
    root = site.scaffold()
    file = root / "src" / "location" / "defs" / "shop" / "defs.yaml"
    file.write_text(file.read_text().replace("incidents: false", "incidents: true"))
    site.serve(root)
    try:
        status, events, checks = site.launch()
        assert status == "FAILURE"
        assert "MaterializationEvent" not in events
        assert checks == {}
        assert values(events["ObservationEvent"][0])["tidegate/outcome"] == "failed"
        assert "hint: " in events["ExecutionStepFailureEvent"][0]["failureMetadata"]["description"]

        # The daemon's sensor reports the incident on the asset.
        site.ask(SENSOR, selector={**site.where(), "sensorName": "shop_incidents"})
        (incident,) = site.until(lambda: [each for each in site.observations() if "tidegate/incident" in each])
        assert (incident["tidegate/incident"], incident["tidegate/moment"]) == ("run_failed", "opened")
    finally:
        site.stop()
