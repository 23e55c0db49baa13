"""A real PostgreSQL server for tests: started on first use, ended with the session, alone in its own folder.

Asked for by every test marked `postgres`. Must never touch a server that it did not start.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "max_replication_slots": "10",
    "max_wal_senders": "10",
    "synchronous_commit": "off",
    "unix_socket_directories": "",
    "wal_level": "logical",
}


def binaries() -> Path:
    """The folder of the newest PostgreSQL server that Debian installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if not found:
        raise RuntimeError("no PostgreSQL server below /usr/lib/postgresql; run `make services`")
    return found[-1]


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(kw_only=True)
class PostgresServer:
    """One server: its folder, its port, and the databases made on it."""

    folder: Path
    port: int = field(default_factory=free_port)
    _names: Iterator[int] = field(default_factory=itertools.count)

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    @classmethod
    def new(cls, **settings: str) -> PostgresServer:
        """Makes and starts a server; `settings` are added to those above."""
        server = cls(folder=_folder())
        server.run("initdb", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-D", str(server.data))
        server.start(**settings)
        return server

    def standby(self, **settings: str) -> PostgresServer:
        """A streaming standby of this server, started."""
        copy = PostgresServer(folder=_folder())
        source = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres")
        copy.run("pg_basebackup", *source, "-D", str(copy.data), "-R", "-X", "stream", "-c", "fast")
        copy.start(**settings)
        return copy

    def start(self, **settings: str) -> None:
        """Starts it and waits until it answers."""
        options = " ".join(f"-c {name}='{value}'" for name, value in {**SETTINGS, **settings}.items())
        options += f" -p {self.port}"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-t", "60", "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Ends it; the folder stays."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    def copy_to(self, there: Path) -> None:
        """A copy of the data folder, as a backup of its volume is."""
        subprocess.run(["cp", "-a", str(self.data), str(there)], check=True)

    def put_back(self, there: Path) -> None:
        """The data folder becomes what that copy is; the server must not run."""
        shutil.rmtree(self.data)
        subprocess.run(["cp", "-a", str(there), str(self.data)], check=True)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def drop(self) -> None:
        """Ends it if it runs and removes its folder."""
        if (self.data / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder)

    def run(self, program: str, *arguments: str) -> None:
        """Runs one of the server's programs as the user who owns it."""
        command: Sequence[str] = (str(binaries() / program), *arguments)
        if os.geteuid() == 0:
            command = ("runuser", "-u", "postgres", "--", *command)
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        # A file takes the output: the server inherits it and would keep a pipe open for ever.
        with (self.folder / "programs").open("a+") as output:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, stdout=output, stderr=output, check=False, timeout=120
            )
            output.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program} ended with {done.returncode}:\n{output.read()}")

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str = "") -> str:
        """The URL of a database, as a project file holds it."""
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        return f"postgresql://{login}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def connect(self, database: str = "postgres", *, user: str = "postgres") -> psycopg.Connection:
        """A new session in autocommit."""
        return psycopg.connect(self.url(database, user=user), autocommit=True)

    def create_database(self, name: str | None = None) -> str:
        """Makes an empty database and returns its URL."""
        name = name or f"test_{next(self._names)}"
        with self.connect() as admin:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drops a database; sessions and prepared transactions of it are ended."""
        with self.connect() as admin:
            prepared = admin.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", (name,)).fetchall()
        with self.connect(name) as there:
            for (gid,) in prepared:
                there.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
        with self.connect() as admin:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, user="postgres", group="postgres")
    return folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server of the session."""
    server = PostgresServer.new()
    yield server
    server.drop()


@pytest.fixture
def pg_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of a database that lives for one test."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url.rsplit("/", 1)[1])
