"""A real Nessie server for tests: fetched once, its tables in the S3 server of the tests, its own catalog in memory.

Asked for by tests marked `servers`; they are skipped where no Java is new enough.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from support.lake_servers import fetching, free_port, running
from support.object_store import ACCESS, REGION, SECRET, ObjectStore
from support.trino import newest_java
from tidegate.spark import jars

VERSION = "0.99.0"
SHA256 = "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417"
IVY = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
<info organisation="tidegate" module="nessie"/><configurations><conf name="default"/></configurations><dependencies>
<dependency org="org.projectnessie.nessie" name="nessie-quarkus" rev="{VERSION}" transitive="false"
  conf="default->master"><artifact name="nessie-quarkus" type="jar" ext="jar" m:classifier="runner"/></dependency>
</dependencies></ivy-module>"""


def program() -> Path:
    """The server's jar, fetched once: 245 MB."""
    path = jars.cache_folder().parent / "servers" / f"nessie-{VERSION}" / "runner.jar"
    if not path.is_file():
        with fetching(IVY, path.parent, "jar", sha256=SHA256) as temporary:
            path.parent.mkdir(exist_ok=True)
            (temporary / "libs" / f"nessie-quarkus-{VERSION}-runner.jar").replace(path)
    return path


@contextlib.contextmanager
def nessie_running(folder: Path, s3: ObjectStore, bucket: str) -> Iterator[str]:
    """Nessie until the block ends; the URL of its Iceberg REST catalog, whose tables lie in the bucket."""
    port, management, store = free_port(), free_port(), "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": str(management),
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.catalog.default-warehouse": "warehouse",
        "nessie.catalog.warehouses.warehouse.location": f"s3://{bucket}/tables",
        f"{store}.endpoint": s3.endpoint,
        f"{store}.region": REGION,
        f"{store}.path-style-access": "true",
        f"{store}.access-key": "urn:nessie-secret:quarkus:tests.s3",
        "tests.s3.name": ACCESS,
        "tests.s3.secret": SECRET,
    }
    (folder / "config").mkdir()
    lines = [f"{name}={value}" for name, value in settings.items()]
    (folder / "config" / "application.properties").write_text("\n".join(lines))
    command = [str(newest_java(21, f"Nessie {VERSION}")), "-Xmx512m", "-jar", str(program())]
    with running(command, folder, {}, port):
        yield f"http://127.0.0.1:{port}/iceberg"
