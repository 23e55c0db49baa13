"""A real Airflow runs the DAGs of the example: scheduler, API server, DAG processor and triggerer."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidegate.service.place import Place

ROOT = Path(__file__).parents[4]
SERVICES = ("api-server", "scheduler", "dag-processor", "triggerer")
PROJECT = """\
connections: {shop: "sqlite:///shop.db"}
spark: {master: "local[1]", conf: {spark.driver.memory: 1g, spark.ui.enabled: false}}
streams:
  orders: {source: {connection: shop, table: orders}, target: lake.shop.orders, strategy: checksum, write: replace}
  customers:
    {source: {connection: shop, table: customers}, target: lake.shop.customers, strategy: checksum, write: replace}
"""
SERVED = """
from airflow.sdk import DAG
from tidegate_airflow.operators import TidegateRunOperator
from tidegate_airflow.sensors import TidegateFreshSensor

with DAG("served", schedule=None):
    run = TidegateRunOperator(task_id="run", project_dir=PROJECT, streams="orders", deferrable=True)
    run >> TidegateFreshSensor(task_id="fresh", project_dir=PROJECT, stream="orders", mode="reschedule")
"""


class Airflow:
    """Airflow's program and database, and a project with two tables."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "shop"
        self.project.mkdir()
        (self.project / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
        self.sql("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, amount INTEGER)")
        self.sql("CREATE TABLE customers (id INTEGER PRIMARY KEY NOT NULL, name TEXT)")
        self.sql("INSERT INTO orders VALUES (1, 1), (2, 2)")
        dags = folder / "dags"
        dags.mkdir()
        example = (ROOT / "examples/airflow/dags/shop.py").read_text(encoding="utf-8")
        (dags / "shop.py").write_text(example.replace('schedule="@hourly"', "schedule=None"), encoding="utf-8")
        (dags / "served.py").write_text(f"PROJECT = {str(self.project)!r}\n{SERVED}", encoding="utf-8")
        self.home = folder / "home"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        settings = {
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_FOLDER": str(dags),
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
            "API__PORT": str(self.port),
            "API__HOST": "127.0.0.1",
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": "a secret of the tests that is long enough for a signature",
            "CORE__FERNET_KEY": "",
            "CORE__PARALLELISM": "2",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "OPENLINEAGE__DISABLED": "True",
        }
        self.environ = {
            **os.environ,
            "AIRFLOW_HOME": str(self.home),
            "TIDEGATE_PROJECT": str(self.project),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
        }
        self.run("db", "migrate")

    def sql(self, statement):
        with contextlib.closing(sqlite3.connect(self.project / "shop.db")) as database, database:
            database.execute(statement)

    def run(self, *words):
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *words], env=self.environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def ask(self, question, *values):
        with contextlib.closing(sqlite3.connect(self.home / "airflow.db")) as database:
            return database.execute(question, values).fetchall()

    def events(self):
        every = "SELECT a.name FROM asset_event e JOIN asset a ON a.id = e.asset_id ORDER BY e.id"
        return [name for (name,) in self.ask(every)]

    def states(self, dag):
        return [state for (state,) in self.ask("SELECT state FROM dag_run WHERE dag_id = ? ORDER BY id", dag)]

    @contextlib.contextmanager
    def services(self):
        with contextlib.ExitStack() as stack:
            for name in SERVICES:
                log = stack.enter_context((self.home / f"{name}.out").open("w"))
                process = subprocess.Popen(
                    [sys.executable, "-m", "airflow", name],
                    env=self.environ,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                stack.callback(process.wait)
                stack.callback(os.killpg, process.pid, signal.SIGKILL)  # of what it has started, too
            yield

    def until(self, condition, seconds=180):
        end = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > end:
                logs = [f"{name}:\n{(self.home / f'{name}.out').read_text()[-2000:]}" for name in SERVICES]
                raise AssertionError("\n".join(logs))
            time.sleep(0.2)
        return found


@pytest.mark.slow
@pytest.mark.spark
def test_the_example_runs_as_people_try_a_dag(tmp_path):
    airflow = Airflow(tmp_path)
    airflow.run("dags", "test", "shop")
    assert airflow.states("shop") == ["success"]
    assert sorted(airflow.events()) == ["lake.shop.customers", "lake.shop.orders"]


@pytest.fixture(scope="module")
def scheduled(tmp_path_factory):
    """An Airflow with all of its services, which both tests share; the second one begins where the first has ended."""
    airflow = Airflow(tmp_path_factory.mktemp("airflow"))
    with airflow.services():
        airflow.until(lambda: len(airflow.ask("SELECT dag_id FROM dag")) == 3)
        yield airflow


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_scheduler_starts_what_waits_for_tables_only_when_they_have_changed(scheduled):
    scheduled.run("dags", "trigger", "shop")
    scheduled.until(lambda: scheduled.states("shop") == ["success"])
    assert sorted(scheduled.events()) == ["lake.shop.customers", "lake.shop.orders"]
    scheduled.until(lambda: scheduled.states("orders_report") == ["success"])
    scheduled.sql("INSERT INTO customers VALUES (1, 'Ada')")
    scheduled.run("dags", "trigger", "shop")
    scheduled.until(lambda: scheduled.states("shop") == ["success", "success"])
    assert scheduled.events()[2:] == ["lake.shop.customers"]
    assert scheduled.states("orders_report") == ["success"], "no row of orders was new"


@pytest.mark.servers
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_deferred_task_waits_for_the_service_and_holds_no_worker(scheduled):
    scheduled.sql("INSERT INTO orders VALUES (3, 3)")
    before = scheduled.events()
    command = [sys.executable, "-m", "tidegate", "serve", "--no-http", "--no-schedule", "--project"]
    with subprocess.Popen([*command, str(scheduled.project)]) as service:
        try:
            scheduled.until(lambda: Place.of(scheduled.project).connect())
            scheduled.run("dags", "trigger", "served")
            scheduled.until(lambda: ("deferred",) in scheduled.ask("SELECT state FROM task_instance"))
            scheduled.until(lambda: scheduled.states("served") == ["success"])
        finally:
            service.terminate()
    assert scheduled.events()[len(before) :] == ["lake.shop.orders"]
