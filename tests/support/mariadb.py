"""A real MariaDB server for tests: started on first use, ended by its own pid, alone in its own folder.

Must never touch a server that it did not start.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql
import pytest

from support.postgres import free_port

SETTINGS = {
    "bind-address": "127.0.0.1",
    # Unlike what a load wants, so that whoever forgets to say it is noticed.
    "character-set-server": "latin1",
    "default-time-zone": "-05:00",
    "innodb-buffer-pool-size": "64M",
    "innodb-flush-log-at-trx-commit": "0",
    "innodb-log-file-size": "16M",
    "server-id": "1",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-image": "FULL",
    "sql-mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,ALLOW_INVALID_DATES",
}


@dataclass(kw_only=True)
class MariadbServer:
    """One server: its folder, its port, and the databases made on it."""

    folder: Path
    port: int = field(default_factory=free_port)
    settings: dict[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _names: Iterator[int] = field(default_factory=itertools.count)

    @classmethod
    def new(cls, **settings: str) -> MariadbServer:
        """Makes and starts a server; `settings` are added to those above."""
        server = cls(folder=Path(tempfile.mkdtemp(prefix="tidegate-mariadb-")), settings=settings)
        try:
            server._make()
            server.start()
        except BaseException:
            server.drop()
            raise
        return server

    def drop(self) -> None:
        """Ends it if it runs and removes its folder."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder)

    def url(self, database: str, *, user: str = "root", password: str = "") -> str:
        """The URL of a database, as a project file holds it."""
        login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
        return f"mariadb://{login}@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def connect(self, database: str | None = None, **options: Any) -> pymysql.Connection[pymysql.cursors.Cursor]:
        """A new session in autocommit, with the modes that an application has by default."""
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            charset="utf8mb4",
            autocommit=True,
            sql_mode="",
            **options,
        )

    def run(self, *statements: str, database: str | None = None) -> None:
        """Statements of an administrator."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def create_database(self) -> str:
        """Makes an empty database and returns its name."""
        name = f"test_{next(self._names)}"
        self.run(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return name

    def _make(self) -> None:
        self._program("mariadb-install-db", "--auth-root-authentication-method=normal", "--skip-test-db")

    def kill(self) -> None:
        """Ends it as a failing machine would; the folder stays."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=60)

    def stall(self, seconds: float = 2.0) -> None:
        """It stands still for so long, and goes on by itself."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        threading.Timer(seconds, self._process.send_signal, [signal.SIGCONT]).start()

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        stated = {**SETTINGS, **{name.replace("_", "-"): value for name, value in self.settings.items()}}
        options = [f"--{name}={value}" for name, value in stated.items()]
        command = [_found("mariadbd"), *self._options(), f"--port={self.port}", *options]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
            except pymysql.Error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"mariadbd did not start:\n{(self.folder / 'log').read_text()}") from None
                time.sleep(0.1)
            else:
                return

    def _options(self) -> list[str]:
        socket = [f"--socket={self.folder / 'socket'}", f"--pid-file={self.folder / 'pid'}"]
        owner = ["--user=root"] if os.geteuid() == 0 else []
        return ["--no-defaults", f"--datadir={self.folder / 'data'}", *socket, *owner]

    def _program(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [_found(name), *self._options(), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        if done.returncode:
            raise RuntimeError(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _found(program: str) -> str:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if path is None:
        raise RuntimeError(f"no {program} on this machine; run `make services`")
    return path


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariadbServer]:
    """The server of the session."""
    server = MariadbServer.new()
    yield server
    server.drop()


@pytest.fixture
def maria_database(mariadb: MariadbServer) -> Iterator[str]:
    """The name of a database that lives for one test."""
    name = mariadb.create_database()
    yield name
    mariadb.run(f"DROP DATABASE {name}")


@pytest.fixture
def maria_url(mariadb: MariadbServer, maria_database: str) -> str:
    """Its URL."""
    return mariadb.url(maria_database)
