"""A real S3 server for tests: one process over a folder, each bucket a folder of it, with a login of its own.

Asked for by tests marked `servers`. Must never be told to a test by anything but the environment and the project's own
settings, as a user would.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.lake_servers import free_port, running
from tidegate.spark import jars

VERSION = "1.8.0"
ACCESS, SECRET = "AKIATIDEGATETESTS", "canary/Secret+Key/0123456789abcdefghijkl"
REGION = "us-east-1"


@dataclass(frozen=True, kw_only=True)
class ObjectStore:
    """Where the server listens, and the folder that it keeps its buckets in."""

    endpoint: str
    folder: Path

    def bucket(self, name: str) -> Path:
        """The folder of a new bucket; a file that is put into it is an object."""
        bucket = self.folder / name
        bucket.mkdir()
        return bucket

    @property
    def hadoop(self) -> dict[str, str]:
        """Spark's settings for `s3a://`, without the login: that comes by the environment."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An S3 server without a bucket."""
    folder, port = tmp_path_factory.mktemp("s3"), free_port()
    jars.resolve(jars.S3A)  # 80 MB, once: a command that a test gives four minutes shall not spend them on these
    buckets = folder / "buckets"
    buckets.mkdir()
    login = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    command = [str(program()), "--port", f"127.0.0.1:{port}", "--region", REGION, "posix", str(buckets)]
    with running(command, folder, login, port):
        yield ObjectStore(endpoint=f"http://127.0.0.1:{port}", folder=buckets)


@pytest.fixture
def s3(s3_server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """The server, and its login in the environment as every client of S3 reads it."""
    for name, value in (
        ("AWS_ACCESS_KEY_ID", ACCESS),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_REGION", REGION),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_ENDPOINT_URL", s3_server.endpoint),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    return s3_server


def program() -> Path:
    """The server's program, built once."""
    path = jars.cache_folder().parent / "servers" / f"versitygw-{VERSION}" / "versitygw"
    if not path.is_file():
        script = Path(__file__).parents[2] / "scripts" / "services.sh"
        done = subprocess.run(["sh", str(script), "s3"], capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"no S3 server: {done.stderr[-2000:]}")
    return path
