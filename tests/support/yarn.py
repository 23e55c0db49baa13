"""A real YARN for tests: a resource manager and one node manager, from the jar that Hadoop tests its clients with.

Asked for by tests marked `servers`. Must never outlive its test session.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.hive import site
from support.lake_servers import free_port, running
from tidegate.spark import jars
from tidegate.spark.java import find_java

# Of Spark's own Hadoop; the others are what its servers need beside that.
JARS = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.2",
    "org.bouncycastle:bcprov-jdk18on:1.78.1",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    "org.bouncycastle:bcutil-jdk18on:1.78.1",
    "javax.xml.bind:jaxb-api:2.3.1",
    "javax.activation:javax.activation-api:1.2.0",
)
SERVERS = "org.apache.hadoop.yarn.server"
SERVICES = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")


@dataclass(frozen=True, kw_only=True)
class Yarn:
    """What a client needs to know, and what the node keeps of the applications that ran on it.

    Args:
        environ: variables of the client's process.
        conf: settings of the client's Spark.
    """

    environ: dict[str, str]
    conf: dict[str, str]
    applications: Path


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """One node of 3 GB."""
    folder, spark = tmp_path_factory.mktemp("yarn"), jars._ivy().parent
    ports = {name: free_port() for name in SERVICES}
    page = free_port()
    applications = folder / "logs"
    settings = {f"yarn.resourcemanager.{name}": f"127.0.0.1:{port}" for name, port in ports.items()} | {
        "yarn.nodemanager.address": "127.0.0.1:0",
        "yarn.nodemanager.localizer.address": "127.0.0.1:0",
        "yarn.nodemanager.webapp.address": f"127.0.0.1:{page}",
        "yarn.nodemanager.local-dirs": str(folder / "local"),
        "yarn.nodemanager.log-dirs": str(applications),
        "yarn.nodemanager.resource.memory-mb": "3072",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
    }
    (folder / "yarn-site.xml").write_text(site(settings))
    (folder / "capacity-scheduler.xml").write_text(site({}))
    (folder / "core-site.xml").write_text(site({"hadoop.tmp.dir": str(folder / "tmp")}))
    java = find_java().path
    classes = os.pathsep.join((str(folder), *map(str, jars.resolve(JARS)), f"{spark}/*"))
    start = [str(java), "-Xmx256m", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", classes]
    environ = {"JAVA_HOME": str(java.resolve().parents[1]), "HADOOP_CONF_DIR": str(folder)}
    with contextlib.ExitStack() as stack:
        for name, port in (
            ("resourcemanager.ResourceManager", ports["resource-tracker.address"]),
            ("nodemanager.NodeManager", page),
        ):
            own = tmp_path_factory.mktemp(name.partition(".")[0])
            stack.enter_context(running([*start, f"{SERVERS}.{name}"], own, environ, port))
        conf = {"spark.yarn.stagingDir": f"file://{folder / 'staging'}", "spark.yarn.jars": f"local:{spark}/*"}
        yield Yarn(environ=environ, conf=conf, applications=applications)
