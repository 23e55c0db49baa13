"""Servers that a lake may stand on: Spark Connect and the Iceberg project's own REST catalog, each started once.

Asked for by the contract tests. Each has its own folder and a free port and is ended by its own process.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.catalog_proxy import TOKENS, Login, in_front_of
from support.lake import EXTENSIONS, JARS, Lake, make_delta_lake, make_lake
from tidegate.spark import jars
from tidegate.spark.java import find_java
from tidegate.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.formats.delta import Delta
    from tidegate.formats.iceberg import Iceberg

NAMES = itertools.count()
REST = "1.10.0"
# What it needs beside for a warehouse in S3.
REST_S3 = (
    "dev.failsafe:failsafe:3.3.2",
    f"org.apache.iceberg:iceberg-aws:{REST}",
    f"org.apache.iceberg:iceberg-aws-bundle:{REST}",
)
# The reference server as the Iceberg project builds it for tests, with what it needs to run.
REST_IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tidegate" module="rest-catalog"/><configurations><conf name="default"/></configurations>
<dependencies defaultconf="default->master,runtime(default),compile(default)">
<dependency org="org.apache.iceberg" name="iceberg-open-api" rev="{REST}" transitive="false" conf="default->master">
  <artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="test-fixtures"/></dependency>
<dependency org="org.apache.iceberg" name="iceberg-core" rev="{REST}">
  <artifact name="iceberg-core" type="jar" ext="jar"/>
  <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/></dependency>
<dependency org="org.eclipse.jetty" name="jetty-servlet" rev="11.0.25"/>
<dependency org="org.apache.hadoop" name="hadoop-client-api" rev="3.4.1"/>
<dependency org="org.apache.hadoop" name="hadoop-client-runtime" rev="3.4.1"/>
<dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0"/>
<dependency org="org.slf4j" name="slf4j-simple" rev="2.0.16"/>
<dependency org="org.assertj" name="assertj-core" rev="3.27.3"/>
<dependency org="org.junit.jupiter" name="junit-jupiter-api" rev="5.12.2"/>
</dependencies></ivy-module>"""


@pytest.fixture(scope="session")
def connect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Spark Connect server with Iceberg on its class path."""
    command, settings, port = connect_command()
    with running(command, tmp_path_factory.mktemp("connect"), settings, port):
        yield f"sc://localhost:{port}"


@pytest.fixture(scope="session")
def rest_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an Iceberg REST catalog."""
    folder = tmp_path_factory.mktemp("rest")
    with rest_running(folder, f"file://{folder / 'warehouse'}") as url:
        yield url


@pytest.fixture(scope="session")
def oauth2_catalog(rest_catalog: str) -> Iterator[dict[str, str]]:
    """The options of the same catalog behind a login: OAuth2 by client credentials, tokens that last 20 seconds."""
    credential, scope = "client:secret", "lake:load"
    with in_front_of(rest_catalog) as proxy:
        proxy.fault = Login(credential=credential, scope=scope, seconds=20)
        server = proxy.url + TOKENS
        yield {"uri": proxy.url, "credential": credential, "scope": scope, "oauth2-server-uri": server}


KEPT: list[SparkSession] = []
"""Sessions that have ended: PySpark shuts its pool when one is collected, for ever if that thread is using the pool."""


@contextlib.contextmanager
def connected(server: str) -> Iterator[Callable[[Iceberg | Delta], SparkSession]]:
    """Gives the session of a load in that lake, from a Spark Connect session that the caller built."""
    from pyspark.sql.connect.session import SparkSession as Remote

    remote = Remote.builder.remote(server).create()
    opened: list[Sessions] = []
    KEPT.append(remote)

    def session_of(lake: Iceberg | Delta) -> SparkSession:
        opened.append(Sessions(borrowed=remote, lakes=[lake.spark_conf()]))
        KEPT.append(opened[-1].load_session())
        return KEPT[-1]

    try:
        yield session_of
    finally:
        for sessions in opened:
            sessions.stop()
        remote.stop()


@pytest.fixture
def connect_delta_lake(connect_server: str, tmp_path: Path) -> Iterator[Lake]:
    with connected(connect_server) as session_of:
        yield make_delta_lake(tmp_path, session_of)


@pytest.fixture
def connect_lake(connect_server: str, tmp_path: Path) -> Iterator[Lake]:
    with connected(connect_server) as session_of:
        yield make_lake(tmp_path, session_of, name=f"lake{next(NAMES)}")


def connect_command() -> tuple[list[str], dict[str, str], int]:
    """What starts a Spark Connect server, as often as wanted at one place: command, environment and port."""
    home = jars._ivy().parent.parent
    port = free_port()
    path = os.pathsep.join(map(str, jars.resolve(JARS)))
    settings = {
        "spark.driver.extraClassPath": path,
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        **EXTENSIONS,
    }
    command = [str(home / "bin/spark-submit"), "--master", "local[2]"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    # The class is in PySpark's own jars; spark-submit wants the name of some resource all the same.
    return [*command, "spark-internal"], {"SPARK_HOME": str(home)}, port


def rest_libraries() -> Path:
    """The folder of the reference server's jars, fetched once."""
    folder = jars.cache_folder().parent / f"iceberg-rest-{REST}"
    if not folder.is_dir():
        # OSError: another process was first.
        with fetching(REST_IVY, folder, "jar", "bundle") as temporary, contextlib.suppress(OSError):
            (temporary / "libs").replace(folder)
    return folder


@contextlib.contextmanager
def fetching(ivy: str, folder: Path, *types: str, sha256: str | None = None) -> Iterator[Path]:
    """A temporary folder beside that one, in whose `libs` are the artifacts of a module of Ivy's.

    Args:
        types: of the artifacts.
        sha256: of the artifact that is the only one.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as name:
        temporary = Path(name)
        (temporary / "ivy.xml").write_text(ivy)
        command = [str(find_java().path), "-jar", str(jars._ivy()), "-warn", "-cache", str(temporary / "cache")]
        settings = os.environ.get(jars.SETTINGS)
        command += ["-settings", settings] if settings else []
        command += ["-ivy", str(temporary / "ivy.xml"), "-confs", "default", "-types", *types]
        pattern = f"{temporary}/libs/[artifact]-[revision](-[classifier]).[ext]"
        subprocess.run([*command, "-retrieve", pattern], check=True, timeout=900, capture_output=True)
        if sha256 is not None:
            (path,) = (temporary / "libs").iterdir()
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != sha256:
                raise RuntimeError(f"{path.name} has the checksum {found}, not {sha256}")
        yield temporary


@contextlib.contextmanager
def rest_running(
    folder: Path, warehouse: str, jars: Sequence[Path] = (), more: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The Iceberg project's own REST catalog until the block ends; its URL.

    Args:
        folder: of its database and its output.
        jars: those that its warehouse needs.
        more: settings beside the usual ones.
    """
    command, settings, port = rest_server(folder, warehouse, jars)
    with running(command, folder, {**settings, **(more or {})}, port):
        yield f"http://127.0.0.1:{port}"


def rest_server(folder: Path, warehouse: str, jars: Sequence[Path] = ()) -> tuple[list[str], dict[str, str], int]:
    """What starts such a catalog, as often as wanted at one place: command, environment and port."""
    port, main = free_port(), "org.apache.iceberg.rest.RESTCatalogServer"
    settings = {
        "CATALOG_CATALOG__IMPL": "org.apache.iceberg.jdbc.JdbcCatalog",
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "CATALOG_JDBC_SCHEMA__VERSION": "V1",
        "CATALOG_WAREHOUSE": warehouse,
        "CATALOG_REST_PORT": str(port),
    }
    libraries = os.pathsep.join([f"{rest_libraries()}/*", *map(str, jars)])
    return [str(find_java().path), "-Xmx256m", "-cp", libraries, main], settings, port


@contextlib.contextmanager
def running(
    command: list[str], folder: Path, settings: Mapping[str, str], port: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The process until the block ends, from the moment its port answers."""
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, **settings}, stdout=output, stderr=output)
        try:
            wait_for(port, process, folder / "output")
            yield process
        finally:
            process.terminate()
            process.wait(timeout=30)


def wait_for(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    """Returns once somebody listens on the port."""
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended:\n{output.read_text()[-4000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server does not answer:\n{output.read_text()[-4000:]}")


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
