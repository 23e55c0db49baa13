"""A real standalone cluster for tests: a master and three workers, each a process with a folder of its own.

Asked for by tests marked `servers`. Must never outlive its test session.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.lake import EXTENSIONS, JARS, QUICK
from support.lake_servers import free_port, running
from tidegate.spark import jars

WORKERS = 3
DELTA = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where the master is, and what its workers keep of the applications that ran on them."""

    url: str
    home: Path
    workers: tuple[Path, ...]

    def submit(self, *words: str, files: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """`spark-submit` of a script with its arguments, as on EMR: the program comes by `--py-files`."""
        settings = {"spark.driver.memory": "768m", "spark.executor.memory": "512m", "spark.ui.enabled": "false"}
        settings |= {"spark.driver.host": "127.0.0.1", **EXTENSIONS, **DELTA, **QUICK}
        command = [str(self.home / "bin/spark-submit"), "--master", self.url]
        command += ["--jars", ",".join(map(str, jars.resolve(JARS))), "--py-files", ",".join(files)]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        python = {"PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(self.home)}
        # Only what is submitted: not the checkout that these tests run from.
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [*command, *words], env={**environ, **python}, capture_output=True, text=True, check=False, timeout=400
        )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and three workers of one core each."""
    home = jars._ivy().parent.parent
    start = [str(home / "bin/spark-class")]
    port = free_port()
    settings = {"SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}
    with contextlib.ExitStack() as stack:
        master = [*start, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
        master += ["--port", str(port), "--webui-port", str(free_port())]
        stack.enter_context(running(master, tmp_path_factory.mktemp("master"), settings, port))
        folders = []
        for _ in range(WORKERS):
            folder, own, page = tmp_path_factory.mktemp("worker"), free_port(), free_port()
            worker = [*start, "org.apache.spark.deploy.worker.Worker", "-c", "1", "-m", "1g", "--host", "127.0.0.1"]
            worker += ["--port", str(own), "--webui-port", str(page), f"spark://127.0.0.1:{port}"]
            applications = folder / "applications"
            where = {**settings, "SPARK_WORKER_DIR": str(applications)}
            stack.enter_context(running(worker, folder, where, page))
            folders.append(applications)
        yield Cluster(url=f"spark://127.0.0.1:{port}", home=home, workers=tuple(folders))
