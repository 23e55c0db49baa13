"""The process of `tidegate serve`: listens, forks a process for each command, and keeps one Spark for all of them.

It has one thread and runs nothing itself, so that a fork copies a state that is whole, and whatever a command does ends
with its process.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import tidegate
from tidegate.config.environment import FILE, env_file
from tidegate.service import wire, worker
from tidegate.service.place import Claim, Place
from tidegate.service.spark import Spark
from tidegate.service.web.settings import TOKEN
from tidegate.service.worker import Run

TICK = 1.0
"""Seconds between two looks at the clock and at the project file."""
PRELOADED = (
    "pyspark.sql.functions",
    "pyspark.java_gateway",
    "pyspark.sql.classic.dataframe",
    "pyspark.accumulators",
    "sqlalchemy.dialects.sqlite",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "rich.progress",
    "rich.table",
    "yaml",
)
"""Imported once, before the first fork, beside every module of Tidegate and what it imports."""

Say = Callable[[str], None]


AGAIN = 30.0
"""Seconds after which a process that nobody asked to end is started again."""


EVERY = 2.0
"""Seconds between two looks."""
TRY_AGAIN, AT_MOST = 30.0, 600.0
"""Seconds until a file that was not valid is tried again, since its source may have been down: at first, doubled each
time, and at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How long the service keeps what it is not asked for.

    Args:
        idle_stop: seconds without use after which Spark ends; it starts again when it is needed.
        ends_after: seconds without a command after which the service itself ends; None for never.
        schedule: the command that runs streams when they are due; None for no schedule.
        web: the command that serves the dashboard; None for no dashboard.
        profile: of the project; None for the project as it is.
        trusted: the project file may run code.
        warm: starts Spark at once.
    """

    idle_stop: float = 1800.0
    ends_after: float | None = None
    schedule: Sequence[str] | None = None
    web: Sequence[str] | None = None
    profile: str | None = None
    trusted: bool = False
    warm: bool = True


@dataclass(kw_only=True)
class Supervisor:
    """Serves until SIGINT or SIGTERM.

    Args:
        run: runs a command by its words; only called in processes that were forked for it.
        claim: of the place. Who calls before this serves waits, and starts no Spark beside it.
    """

    place: Place
    run: Run
    options: Options
    say: Say
    claim: Claim
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector, init=False)
    _commands: dict[int, socket.socket] = field(default_factory=dict, init=False)
    _kept: list[Kept] = field(default_factory=list, init=False)
    _checking: int | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)
    _used: float = field(default_factory=time.monotonic, init=False)
    _since: float = field(default_factory=time.time, init=False)

    def serve(self) -> int:
        """0 when asked to stop; commands at work have ended by then, as after Ctrl-C."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        _preload()
        self._spark = Spark(log=self.place.folder / "spark.log", say=self.say, closing=self._close_in_child)
        self._bus = Bus()
        self._file = ProjectFile(self.place.project, self.options.profile)
        self._selector.register(self.claim.listening, selectors.EVENT_READ, self._accept)
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(reading, selectors.EVENT_READ, lambda _: os.read(reading, 512))
        self._begin()
        self._used = time.monotonic()  # it took a while to begin, and somebody may wait
        ending = False
        try:
            while not ending or self._commands or any(each.pids for each in self._kept):
                for key, _ in self._selector.select(TICK):
                    key.data(key.fileobj)
                self._reap()
                self._tick()
                if self._stopping and not ending:
                    ending = True
                    self._end_all()
        finally:
            (self.place.folder / "service.sock").unlink(missing_ok=True)
            self._spark.end()
            gc.unfreeze()  # what was imported may be freed in its own order
        return 0

    def _begin(self) -> None:
        words, web = self.options.schedule, self.options.web
        if words is not None:
            self._keep("the schedule", lambda: self._own(words), takes_over=True)
        if web is not None:
            os.environ.setdefault(TOKEN, token_urlsafe(32))  # the same when it is started again
            self._keep("the dashboard", lambda: self._own(web))
        if self.options.warm:
            self._fork(lambda: worker.warm(self.place, self.options.profile, trusted=self.options.trusted))

    def _stop(self, *_: object) -> None:
        """Only notes it: a signal comes at any moment, also between a process's start and the note of its number."""
        self._stopping = True

    def _end_all(self) -> None:
        for kept in self._kept:
            kept.stop()
        for pid in (*self._commands, *([self._checking] if self._checking is not None else [])):
            _terminate(pid)

    def _keep(self, name: str, work: Callable[[], int], *, takes_over: bool = False) -> None:
        kept = Kept(name=name, start=lambda: self._fork(work), end=_terminate, takes_over=takes_over)
        self._kept.append(kept)

    # Callers

    def _accept(self, listening: socket.socket) -> None:
        connection, _ = listening.accept()
        if wire.user_of(connection) != os.getuid():
            connection.close()
            return
        self._selector.register(connection, selectors.EVENT_READ, self._asked)

    def _asked(self, connection: socket.socket) -> None:
        """The first message of a connection says what it is for."""
        message = wire.receive(connection, files=3)
        self._selector.unregister(connection)
        if message is None:
            connection.close()
            return
        request, files = message
        match request.get("ask"):
            case "command" if len(files) == 3:
                self._command(connection, request, files)
            case "spark":
                self._selector.register(connection, selectors.EVENT_READ, self._spark_said)
                self._spark.ask(connection, request)
            case "tell" | "events" as ask:
                (self._bus.tellers if ask == "tell" else self._bus.followers).append(connection)
                self._selector.register(connection, selectors.EVENT_READ, self._event)
            case "state":
                with suppress(OSError):
                    wire.send(connection, self._state())
                connection.close()
            case _:
                connection.close()
        for file in files:
            os.close(file)

    def _event(self, connection: socket.socket) -> None:
        if not self._bus.forward(connection):
            self._selector.unregister(connection)
            self._bus.left(connection)

    def _command(self, connection: socket.socket, request: Mapping[str, Any], files: Sequence[int]) -> None:
        refused = self._refusal(request)
        if refused is not None:
            with suppress(OSError):
                wire.send(connection, {"refused": refused})
            connection.close()
            return
        self._used = time.monotonic()
        with suppress(OSError):  # a caller that is gone is noticed below
            wire.send(connection, {"begun": True})
        # If the service is killed, so is its Spark: the registry then says `crashed` of the run, as of any killed one.
        pid = self._fork(lambda: worker.command(request, files, self.place, self.run), dies_by=signal.SIGKILL)
        self._commands[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ, lambda each: self._caller_said(each, pid))

    def _refusal(self, request: Mapping[str, Any]) -> str | None:
        if self._stopping:
            return "the service of this project is ending"
        if request.get("version") != tidegate.__version__:
            return (
                f"the service of this project is Tidegate {tidegate.__version__}, this is {request.get('version')} "
                "(restart the service to use it)"
            )
        if request.get("project") != str(self.place.project):
            return f"the service of this folder belongs to {self.place.project.name}"
        return None

    def _caller_said(self, connection: socket.socket, pid: int) -> None:
        message = wire.receive(connection)
        number = signal.SIGTERM if message is None else int(message[0].get("signal", 0))
        if message is None:  # the caller is gone: what it asked for is interrupted
            self._selector.unregister(connection)
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def _spark_said(self, connection: socket.socket) -> None:
        message = wire.receive(connection)
        self._selector.unregister(connection)
        self._spark.returned(connection, well=message is not None)
        self._used = time.monotonic()

    def _state(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "version": tidegate.__version__,
            "project": str(self.place.project),
            "since": self._since,
            "commands": len(self._commands),
            "spark": self._spark.state(),
        }

    # Processes and time

    def _fork(self, work: Callable[[], int], *, dies_by: int = signal.SIGTERM) -> int:
        def done() -> int:
            self._close_in_child()
            return work()

        sys.stdout.flush()
        sys.stderr.flush()
        return worker.forked(done, dies_by=dies_by)

    def _close_in_child(self) -> None:
        """A connection ends for its caller, and a lock for everybody, when nobody holds it open."""
        os.close(self.claim.lock.fileno())
        others = (*self._commands.values(), *self._spark.connections, *self._bus.connections)
        for connection in (self.claim.listening, *others):
            connection.close()

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._ended(pid, status)

    def _ended(self, pid: int, status: int) -> None:
        if pid in self._commands:
            connection = self._commands.pop(pid)
            with suppress(KeyError):
                self._selector.unregister(connection)
            code = os.waitstatus_to_exitcode(status)
            if code >= 0:
                with suppress(OSError):
                    wire.send(connection, {"exit": code})
            connection.close()
            self._used = time.monotonic()
        for kept in (each for each in self._kept if pid in each.pids):
            result = kept.ended(pid, time.monotonic(), os.waitstatus_to_exitcode(status))
            if result is not None:
                self.say(result)
        if pid == self._checking and not self._stopping:
            self._checked(os.waitstatus_to_exitcode(status))
        self._spark.ended(pid)

    def _tick(self) -> None:
        now = time.monotonic()
        self._spark.rest(now, self.options.idle_stop)
        ends = self.options.ends_after
        if ends is not None and not self._commands and not self._spark.connections and now - self._used > ends:
            self._stop()
        if self._stopping:
            return
        if self._kept and self._file.changed(now):
            self._check()
        for kept in self._kept:
            kept.tick(now)

    def _own(self, words: Sequence[str]) -> int:
        """A command of the service's own, in a process that was forked for it."""
        from tidegate.config import same_project  # noqa: PLC0415 - in a process of its own, which needs the project

        same = same_project(profile=self.options.profile, trusted=self.options.trusted)
        return worker.own([*words, "--project", str(self.place.project), *same], self.place, self.run)

    def _check(self) -> None:
        """Has the changed project checked by a process of its own, since a source may take its time to answer."""
        if self._checking is not None:  # it is changed again: what is asked of the one before is of no use
            _terminate(self._checking)
        quiet = self._file.again  # what is wrong with it was said already

        def check() -> int:
            if quiet:
                worker.silence()
            return self._own(["check", "--quiet"])

        self._checking = self._fork(check)

    def _checked(self, code: int) -> None:
        self._checking = None
        if code:
            if not self._file.again:
                name = self.place.project.name
                self.say(f"{name} was changed and is not valid: the service keeps using the previous one")
            self._file.refused(time.monotonic())
            return
        self.say(f"{self.place.project.name} was changed: the service goes on with it")
        for kept in self._kept:
            kept.replace(time.monotonic())


def _terminate(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _preload() -> None:
    own = pkgutil.walk_packages(tidegate.__path__, "tidegate.", onerror=lambda _: None)
    own_modules = [each.name for each in own if not each.name.startswith(("tidegate.testing", "tidegate.__main__"))]
    for name in (*PRELOADED, *own_modules):
        with suppress(Exception):  # a driver that is not installed is missed by whoever needs it
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


@dataclass(kw_only=True)
class Bus:
    """Passes on what processes of the service tell. Nobody waits for a follower: one that is slow misses events."""

    tellers: list[socket.socket] = field(default_factory=list)
    followers: list[socket.socket] = field(default_factory=list)

    @property
    def connections(self) -> tuple[socket.socket, ...]:
        return (*self.tellers, *self.followers)

    def forward(self, connection: socket.socket) -> bool:
        """Passes on the next event of a teller; False at the end of the connection."""
        message = wire.receive(connection)
        if message is None:
            return False
        data = json.dumps(message[0]).encode()
        for follower in self.followers:
            with suppress(OSError):
                follower.send(data, socket.MSG_DONTWAIT)
        return True

    def left(self, connection: socket.socket) -> None:
        """Closes the connection of one who has ended."""
        for each in (self.tellers, self.followers):
            if connection in each:
                each.remove(connection)
        connection.close()


@dataclass(kw_only=True)
class Kept:
    """One process at work, and those before it that are ending.

    Args:
        name: what it is, for people.
        start: forks it, and returns its number.
        end: asks one to finish what it is at and end.
        takes_over: the next one starts at once; otherwise when the one before has ended.
    """

    name: str
    start: Callable[[], int]
    end: Callable[[int], None]
    takes_over: bool = False
    _pid: int | None = field(default=None, init=False)
    _ending: set[int] = field(default_factory=set, init=False)
    _at: float | None = field(default=0.0, init=False)

    @property
    def pids(self) -> frozenset[int]:
        return frozenset(self._ending if self._pid is None else {*self._ending, self._pid})

    def tick(self, now: float) -> None:
        """Starts the process if it is due."""
        if self._at is not None and now >= self._at and (self.takes_over or not self._ending):
            self._at = None
            self._pid = self.start()

    def replace(self, now: float) -> None:
        """A process that knows the project as it is now takes the place of the one before."""
        self.stop()
        self._at = now
        self.tick(now)

    def stop(self) -> None:
        """Asks the process to end; there will be no other."""
        pid, self._pid, self._at = self._pid, None, None
        if pid is not None:
            self._ending.add(pid)
            self.end(pid)

    def ended(self, pid: int, now: float, code: int) -> str | None:
        """What there is to say of a process that has ended; if nobody asked it to, the next one waits."""
        if pid in self._ending:
            self._ending.remove(pid)
            return None
        self._pid, self._at = None, now + AGAIN
        return f"{self.name} ended with exit code {code}; it starts again in {AGAIN:.0f} s"


class ProjectFile:
    """The files as they were last looked at."""

    def __init__(self, file: Path, profile: str | None) -> None:
        profiles = [env_file(file.parent, profile)] if profile is not None else []
        self._files = (file, file.parent / FILE, *profiles)
        self._seen = self._look()
        self._at = 0.0
        self._due: float | None = None
        self._after = TRY_AGAIN
        self.again = False

    def changed(self, now: float) -> bool:
        """Whether they differ from the last time that this said so; while the file is gone it has not changed.

        Also once a file that was refused is due again; `again` then says so.
        """
        if now - self._at < EVERY:
            return False
        self._at = now
        found = self._look()
        if found[0] is None:
            return False
        if found != self._seen:
            self._seen, self._due, self._after, self.again = found, None, TRY_AGAIN, False
            return True
        self.again = self._due is not None and now >= self._due
        if self.again:
            self._due = None
        return self.again

    def refused(self, now: float) -> None:
        """What was changed is not valid now."""
        self._due, self._after = now + self._after, min(self._after * 2, AT_MOST)

    def _look(self) -> tuple[bytes | None, ...]:
        return tuple(each.read_bytes() if each.is_file() else None for each in self._files)
