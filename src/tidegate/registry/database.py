"""Connects to the registry's database, and turns driver errors into clear ones.

Never shows a URL with its password.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import clear_frames
from typing import Any

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, exc, make_url

from tidegate.core.keepalive import LIBPQ
from tidegate.errors import ConfigError, RegistryError, RegistryUnavailable

BUSY_SECONDS = 30
CONNECT_SECONDS = 10
IN_MEMORY = "memdb"
"""SQLite's VFS for a database that this process alone has, in memory; it has no folder."""
SETTING_HINT = "Correct `registry:` in tidegate.yaml, then run `tidegate doctor`."
SHARED_HINT = "Give the registry its own database or schema, then run `tidegate doctor`."


class Database:
    """Transactions on the registry's database; every driver error leaves it as one clear RegistryError.

    Args:
        read_only: the database itself rejects every write, and a file that does not exist is not created.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        parsed = _parse(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.name = f"registry {parsed.database if self.is_sqlite else parsed.render_as_string(hide_password=True)}"
        self._file = parsed.database or ""
        if self.is_sqlite and parsed.query.get("vfs") != IN_MEMORY:
            if read_only:
                self._need_file()
            else:
                self._make_folder()
        self._engine = _engine(parsed)
        if read_only:
            event.listen(self._engine, "connect", _forbid_writes)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that may write: committed at the end, rolled back on any exception."""
        try:
            with self._translated(), self._engine.begin() as connection:
                yield connection
        except KeyboardInterrupt as error:
            # SQLite stays locked until the cursor ends that was interrupted, and the traceback holds it.
            clear_frames(error.__traceback__)
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One transaction that only reads; on SQLite it waits for no writer."""
        with self._translated(), self._engine.connect() as connection:
            yield connection.execution_options(sqlite_begin="BEGIN")

    def _need_file(self) -> None:
        if not Path(self._file).exists():
            raise RegistryError(f"{self.name} does not exist", hint="The first `tidegate run` creates it.")

    def _make_folder(self) -> None:
        try:
            Path(self._file).absolute().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._not_permitted() from error

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except exc.DBAPIError as error:
            raise (self._sqlite(error.orig) if self.is_sqlite else self._postgres(error.orig)) from error
        except exc.TimeoutError as error:
            raise RegistryUnavailable(f"{self.name}: all connections are in use") from error

    def _sqlite(self, error: Any) -> RegistryError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return RegistryError(
                f"{self.name} is damaged or not a SQLite file",
                hint=f"Move {self._file} away (with {self._file}-journal, if there), then run `tidegate state repair`: "
                "it rebuilds the registry from the tables.",
            )
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            return self._not_permitted()
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return RegistryUnavailable(
                f"{self.name} was locked by another process for {BUSY_SECONDS} s",
                hint="Run again when it has finished.",
            )
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            return RegistryUnavailable(f"{self.name}: {error}", hint="Free disk space or repair the disk, run again.")
        return RegistryError(f"{self.name} rejected a statement: {error}", hint=SHARED_HINT)

    def _not_permitted(self) -> RegistryError:
        return RegistryError(
            f"{self.name} cannot be created or written by this user",
            hint=f"Grant write permission on the file and on {Path(self._file).absolute().parent}, "
            "or set another location under `registry:` in tidegate.yaml.",
        )

    def _postgres(self, error: Any) -> RegistryError:
        state = getattr(error, "sqlstate", None) or ""
        text = str(error)
        if state.startswith("28") or "authentication failed" in text:
            return RegistryError(f"{self.name} rejected user or password", hint=SETTING_HINT)
        if state == "3D000" or ("database " in text and "does not exist" in text):
            return RegistryError(
                f"{self.name} does not exist", hint="Create the database, for example with `createdb`."
            )
        if state == "42501":
            return RegistryError(
                f"{self.name}: the user lacks a privilege", hint="Grant it CREATE and USAGE on the schema."
            )
        if not state and ("does not answer" in text or "connection timeout" in text):
            return RegistryUnavailable(
                f"{self.name} does not answer", hint="Run again when it does; `tidegate doctor` tests it."
            )
        if state[:2] in ("", "08", "40", "53", "55", "57"):
            return RegistryUnavailable(f"{self.name} cannot be reached, or the connection was lost")
        return RegistryError(f"{self.name} rejected a statement (SQLSTATE {state})", hint=SHARED_HINT)


def upsert(connection: Connection, table: Table) -> Any:
    """An INSERT into the table that has `on_conflict_do_nothing` and `on_conflict_do_update`."""
    # Imported where it is needed: the dialect that is not used costs as much as everything else here together.
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite  # noqa: PLC0415

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415

    return postgresql.insert(table)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        # The text is not repeated: it may hold a password.
        raise ConfigError("the registry's URL cannot be parsed", hint=SETTING_HINT) from error
    backend = parsed.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise ConfigError(f"a registry must be sqlite:///… or postgresql://…, not {backend}://…", hint=SETTING_HINT)
    if parsed.database in (None, "", ":memory:"):
        raise ConfigError("an in-memory registry would lose every position", hint="Use sqlite:///path/registry.db.")
    return parsed.set(drivername="sqlite+pysqlite")


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    from tidegate.registry import stalls  # noqa: PLC0415 - its driver is imported only where it is used

    arguments = {"connect_timeout": CONNECT_SECONDS, "application_name": "tidegate registry", **LIBPQ}
    # What the URL states would lose to an argument.
    unstated = {word: value for word, value in arguments.items() if word not in url.query}
    engine = create_engine(url, connect_args=unstated, pool_pre_ping=True)
    event.listen(engine, "do_connect", stalls.connect)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself; `_begin_sqlite` does
    connection.execute("PRAGMA foreign_keys = ON")


def _forbid_writes(connection: Any, _record: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.read_only = True


def _begin_sqlite(connection: Connection) -> None:
    # A write takes its lock at once: a read that later turns into a write could not wait for another writer.
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN IMMEDIATE"))
