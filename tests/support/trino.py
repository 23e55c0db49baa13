"""A real Trino server for tests: fetched once, started on first use, ended with the session, alone in its own folder.

Asked for by the tests of Trino as a source, marked `servers`. Must never touch a server that it did not start.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from trino.dbapi import Connection
from trino.exceptions import TrinoQueryError

from support.lake_servers import fetching, free_port
from tidegate.spark import jars

VERSION = "476"
SHA256 = "cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f"
NEEDS_JAVA = 24
PLUGINS = ("iceberg", "memory")
IVY = f"""<ivy-module version="2.0"><info organisation="tidegate" module="trino"/>
<configurations><conf name="default"/></configurations><dependencies>
<dependency org="io.trino" name="trino-server" rev="{VERSION}" transitive="false" conf="default->master">
  <artifact name="trino-server" type="tar.gz" ext="tar.gz"/></dependency></dependencies></ivy-module>"""
OPTIONS = (
    "-Xmx2G",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.attach.allowAttachSelf=true",
    "-Duser.timezone=UTC",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "--add-modules=jdk.incubator.vector",
)
READERS = Path(__file__).parents[2] / "docs" / "lakes" / "readers.md"
ICEBERG = """connector.name=iceberg
iceberg.catalog.type=TESTING_FILE_METASTORE
hive.metastore.catalog.dir=local:///warehouse
fs.native-local.enabled=true
local.location={folder}
"""


@dataclass(kw_only=True)
class TrinoServer:
    """One server: its folder, its port, and the catalogs `memory` and `iceberg`."""

    folder: Path
    port: int = field(default_factory=free_port)
    _names: Iterator[int] = field(default_factory=itertools.count)

    def url(self, catalog: str = "memory", schema: str = "default") -> str:
        """The URL of a schema, as a project file holds it."""
        return f"trino://tester@127.0.0.1:{self.port}/{catalog}/{schema}"

    def create_schema(self) -> str:
        """The URL of a schema of the catalog `iceberg` that is not there yet, and that nobody else is told."""
        return self.url("iceberg", f"s{next(self._names)}")

    def run(self, *statements: str) -> list[Any]:
        """Statements of another user; the rows of the last one."""
        rows: list[Any] = []
        connection = Connection(host="127.0.0.1", port=self.port, user="writer", catalog="memory", schema="default")
        with contextlib.closing(connection):
            for statement in statements:
                cursor = connection.cursor()
                cursor.execute(statement)
                rows = cursor.fetchall()
                cursor.close()
        return rows

    def table(self, columns: str, *rows: str) -> str:
        """A new table in memory with these rows, each the inside of VALUES (…); its name."""
        name = f"t{next(self._names)}"
        inserts = [f"INSERT INTO {name} VALUES {', '.join(f'({row})' for row in rows)}"] if rows else []
        self.run(f"CREATE TABLE {name} ({columns})", *inserts)
        return name


@pytest.fixture(scope="session")
def trino_server() -> Iterator[TrinoServer]:
    """The server of the session."""
    with running() as server:
        yield server


@contextlib.contextmanager
def running(catalogs: Mapping[str, str] | None = None, rules: str | None = None) -> Iterator[TrinoServer]:
    """A server of one's own.

    Args:
        catalogs: further ones by name, each the text of its properties.
        rules: who may do what, as JSON of Trino's file-based access control; everybody everything unless given.
    """
    server, command = configured(catalogs, rules)
    with started(server, command):
        yield server
    shutil.rmtree(server.folder)


def configured(catalogs: Mapping[str, str] | None = None, rules: str | None = None) -> tuple[TrinoServer, list[str]]:
    """A server that does not run yet, and the command that starts it; see `running`."""
    java, home = newest_java(), distribution()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-trino-"))
    server = TrinoServer(folder=folder)
    _configure(folder, server.port, home)
    for name, text in (catalogs or {}).items():
        (folder / "catalog" / f"{name}.properties").write_text(text)
    if rules is not None:
        (folder / "rules.json").write_text(rules)
        properties = folder / "access-control.properties"
        properties.write_text(f"access-control.name=file\nsecurity.config-file={folder / 'rules.json'}\n")
        with (folder / "config.properties").open("a") as config:
            config.write(f"access-control.config-files={properties}\n")
    here = [f"-Dnode.data-dir={folder / 'data'}", "-Dnode.id=test", "-Dnode.environment=test"]
    # Nobody else may ask it: it knows no passwords.
    here += ["-Dnode.bind-ip=127.0.0.1", "-Dnode.internal-address=127.0.0.1"]
    here += ["-Dconfig=config.properties", "-Dlog.levels-file=log.properties"]
    return server, [str(java), *OPTIONS, *here, "-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"]


@contextlib.contextmanager
def started(server: TrinoServer, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The server until the block ends, with the tables of `iceberg` that it had before."""
    with (server.folder / "output").open("w+") as output:
        process = subprocess.Popen(command, cwd=server.folder, stdout=output, stderr=output)
        try:
            _wait(server.port, process, server.folder / "output")
            yield process
        finally:
            process.terminate()
            process.wait(timeout=60)


def documented_catalog(pg_url: str, folder: Path) -> str:
    """The properties that the page about readers shows, for a project in a folder and its catalog in PostgreSQL."""
    page = re.search(r"```properties\n(.*?)```", READERS.read_text(), re.DOTALL)
    parts = re.fullmatch(r"postgresql://([^@]+)@([^/]+)/(.+)", pg_url)
    assert page is not None
    assert parts is not None
    user, host, database = parts.groups()
    settings = page[1].replace("db.example:5432/catalog", f"{host}/{database}").replace("user=lake", f"user={user}")
    settings = re.sub(r"iceberg.jdbc-catalog.connection-password.*\n", "", settings)
    settings = settings.replace("s3://company-lake/tables", f"file://{folder}/warehouse")
    return re.sub(r"fs.native-s3.*", "fs.hadoop.enabled=true", settings, flags=re.DOTALL)


def newest_java(needed: int = NEEDS_JAVA, by: str = f"Trino {VERSION}") -> Path:
    """The newest Java of this machine; the test is skipped where it is older than needed."""
    named = [Path(home) / "bin" / "java" for name, home in os.environ.items() if name.startswith("JAVA_HOME")]
    installed = Path("/usr/lib/jvm").glob("*/bin/java")
    found = {path.resolve(): _version(path) for path in (*named, *installed) if path.is_file()}
    newest = max(found, key=lambda path: found[path], default=None)
    if newest is None or found[newest] < needed:
        pytest.skip(f"{by} needs Java {needed} or later below /usr/lib/jvm or named by JAVA_HOME_…")
    return newest


def _version(java: Path) -> int:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found[1]) if found else 0


def distribution() -> Path:
    """The folder of the server's programs, fetched once: 820 MB, of which half is kept."""
    folder = jars.cache_folder().parent / "servers" / f"trino-{VERSION}"
    if folder.is_dir():
        return folder
    with fetching(IVY, folder, "tar.gz", sha256=SHA256) as temporary:
        with tarfile.open(temporary / "libs" / f"trino-server-{VERSION}.tar.gz") as archive:
            # All of it: a jar that several plugins share is a link to the first of them.
            archive.extractall(temporary, filter="data")
        inside = temporary / f"trino-server-{VERSION}"
        for plugin in (inside / "plugin").iterdir():
            if plugin.name not in PLUGINS:
                shutil.rmtree(plugin)
        with contextlib.suppress(OSError):  # another process was first
            inside.replace(folder)
    return folder


def _configure(folder: Path, port: int, home: Path) -> None:
    for name in ("catalog", "plugin", "warehouse"):
        (folder / name).mkdir()
    for plugin in PLUGINS:
        (folder / "plugin" / plugin).symlink_to(home / "plugin" / plugin)
    settings = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": f"http://127.0.0.1:{port}",
        "plugin.dir": str(folder / "plugin"),
        "catalog.config-dir": str(folder / "catalog"),
    }
    (folder / "config.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    (folder / "log.properties").write_text("io.trino=WARN\n")
    (folder / "catalog" / "memory.properties").write_text("connector.name=memory\n")
    (folder / "catalog" / "iceberg.properties").write_text(ICEBERG.format(folder=folder))


def _wait(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    """Returns once the server answers queries."""
    for _ in range(180):
        if process.poll() is not None:
            raise RuntimeError(f"Trino ended:\n{output.read_text()[-4000:]}")
        if _answers(f"http://127.0.0.1:{port}/v1/info") and _has_a_node(port):
            return
        time.sleep(0.5)
    raise RuntimeError(f"Trino does not answer:\n{output.read_text()[-4000:]}")


def _has_a_node(port: int) -> bool:
    """Whether rows are written in every catalog; each is announced by the node on its own, after the server's start."""
    with Connection(host="127.0.0.1", port=port, user="writer") as connection:
        cursor = connection.cursor()
        try:
            for catalog in PLUGINS:
                for statement in (
                    f"CREATE SCHEMA IF NOT EXISTS {catalog}.ready",
                    f"CREATE TABLE {catalog}.ready.t AS SELECT 1 one",
                    f"DROP TABLE {catalog}.ready.t",
                    f"DROP SCHEMA {catalog}.ready",
                ):
                    cursor.execute(statement)
                    cursor.fetchall()
        except TrinoQueryError:
            return False
        return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return b'"starting":false' in answer.read()
    except OSError:
        return False
