"""A real Hive metastore for tests: the server that is among PySpark's own jars, on a Derby database in a folder.

Asked for by tests of tables that Hive knows. Must never know a table of two tests: each takes a database of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape

import pytest
from hive_metastore.ttypes import ShowLocksRequest
from pyiceberg.catalog.hive import HiveCatalog

from support.lake_servers import free_port, running
from tidegate.spark import jars
from tidegate.spark.java import find_java

# What its libraries reach into, as Spark allows it for itself.
OPENED = ("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util")


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL. Hive 2.3 has no setting for the address, so it listens on all of them, on a free port."""
    folder, port = tmp_path_factory.mktemp("hive"), free_port()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"file://{folder / 'warehouse'}",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.async.log.enabled": "false",  # wants a library that is not there
    }
    (folder / "hive-site.xml").write_text(site(settings))
    classes = os.pathsep.join((str(folder), f"{jars._ivy().parent}/*"))
    command = [str(find_java().path), "-Xmx256m", f"-Dderby.stream.error.file={folder / 'derby.log'}"]
    command += [word for name in OPENED for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]
    command += ["-cp", classes, "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    url = f"thrift://127.0.0.1:{port}"
    # In its own tests it makes the tables of its locks, of which Iceberg takes one a commit, and then locks nothing.
    made = running([*command, "--hiveconf", "hive.in.test=true"], folder, {}, port)
    with made, HiveCatalog("first", uri=url)._client as client:
        client.show_locks(ShowLocksRequest())
    with running(command, folder, {}, port):
        yield url


def site(settings: Mapping[str, str]) -> str:
    """A configuration file as Hadoop reads it."""
    named = ((escape(name), escape(value)) for name, value in settings.items())
    parts = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in named]
    return f"<configuration>{''.join(parts)}</configuration>"
