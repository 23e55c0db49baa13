"""A server for tests that speaks Snowflake's protocol: fakesnow with Time Travel, started on first use.

The drivers of Python and Java are the real ones.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from snowflake import connector

from support.lake_servers import free_port

TESTS = Path(__file__).parents[1]


@dataclass(kw_only=True)
class SnowflakeServer:
    """One server, with the database DB and its schema S."""

    port: int = field(default_factory=free_port)
    _names: Iterator[int] = field(default_factory=itertools.count)

    @property
    def url(self) -> str:
        """The URL of the schema, as a project file holds it."""
        return f"snowflake://tester:s3cr3t@127.0.0.1:{self.port}/DB/S?warehouse=LOAD_WH"

    def run(self, *statements: str) -> list[Any]:
        """Statements of another user; the rows of the last one."""
        where = {"host": "127.0.0.1", "port": self.port, "protocol": "http", "account": "test"}
        with connector.connect(**where, user="writer", password="x", database="DB", schema="S") as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return [tuple(row) for row in cursor.fetchall()]

    def logins(self) -> list[Any]:
        """What the drivers asked for when they logged in as the tester of `url` or the writer of `run`, in order."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/logins") as answer:
            return json.load(answer)

    def create_schema(self) -> str:
        """The URL of a new schema."""
        name = f"S{next(self._names)}"
        self.run(f"CREATE SCHEMA {name}")
        return self.url.replace("/DB/S?", f"/DB/{name}?")

    def table(self, columns: str, *rows: str) -> str:
        """A new table with these rows, each what stands behind SELECT; its name."""
        name = f"T{next(self._names)}"
        self.run(f"CREATE TABLE {name} ({columns})", *(f"INSERT INTO {name} SELECT {row}" for row in rows))
        return name


@pytest.fixture(scope="session")
def snowflake_server() -> Iterator[SnowflakeServer]:
    """The server of the session."""
    with running() as server:
        yield server


@contextlib.contextmanager
def running() -> Iterator[SnowflakeServer]:
    """A server."""
    server = SnowflakeServer()
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-W", "ignore", "-m", "support.snowflake_server", str(server.port)]
        process = subprocess.Popen(command, cwd=TESTS, stdout=output, stderr=output)
        try:
            _wait(server.port, process)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=30)


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        assert process.poll() is None, "the server ended"
        time.sleep(0.1)
    raise TimeoutError(port)
