"""What a process that the supervisor forked does: one command for a caller, the schedule, or Spark itself."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tidegate.core.visible import visible
from tidegate.engine.observers import observe
from tidegate.errors import INTERRUPTED, TidegateError
from tidegate.service import wire
from tidegate.service.events import teller
from tidegate.service.place import Place
from tidegate.spark import shared
from tidegate.spark.jvm import Jvm
from tidegate.spark.shared import JvmSpec, java_environment

Run = Callable[[Sequence[str]], int]
"""A command by its words, in this process; returns its exit code."""

PARENT_DIES = 1  # PR_SET_PDEATHSIG


def command(request: Mapping[str, Any], files: Sequence[int], place: Place, run: Run) -> int:
    """Runs a command as its caller would have run it: its terminal, folder and environment."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    encoding = request["encoding"]
    sys.stdin = open(0, encoding=encoding, closefd=False)  # noqa: SIM115 - open for as long as the process
    sys.stdout = open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
    _belong(place)
    try:
        return run(request["words"])
    finally:
        gc.collect()  # Java keeps what Python has not let go of
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # the terminal may be gone
                stream.flush()


def own(words: Sequence[str], place: Place, run: Run) -> int:
    """Runs a command for the service itself."""
    _belong(place)
    return run(words)


def silence() -> None:
    """From here on nobody sees what this process prints."""
    with Path(os.devnull).open("w") as nothing:
        for number in (1, 2):
            os.dup2(nothing.fileno(), number)


def warm(place: Place, profile: str | None, *, trusted: bool) -> int:
    """Has Spark started, so that the first load finds it."""
    from tidegate.api import Project  # noqa: PLC0415 - imported by the supervisor, before the first fork

    _belong(place)
    opened = Project.load
    with contextlib.suppress(TidegateError), opened(place.project, profile=profile, trusted=trusted) as project:
        session = project.sessions.load_session()
        session.sql("SELECT 1").collect()
        project.sessions.release(session)
    return 0


def keep_spark(wanted: JvmSpec, log: Path, tell: Callable[[Mapping[str, Any]], None]) -> int:
    """Starts a JVM and keeps it until SIGTERM, or until it ends by itself.

    Args:
        tell: takes how to reach it, or why there is none.
    """
    for name in java_environment(os.environ):
        del os.environ[name]  # of whoever started the service; Java sees those of who asked
    os.environ.update(wanted.environment)
    jvm = Jvm()
    try:
        jvm.start(wanted.conf, log, wanted.jars)
    except Exception as error:  # noqa: BLE001 - whoever asked starts its own, and says what is wrong with it
        tell({"refused": str(error)})
        return 1
    tell({"port": jvm.port, "secret": jvm.secret, "pid": jvm.process.pid})
    # Its own handlers would only end the JVM of a command that is interrupted.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: _leave(jvm))
    jvm.process.wait()  # a JVM that was killed is noticed here, and reaped
    return 1


def _leave(jvm: Jvm) -> None:
    jvm.clean()
    os._exit(0)  # Java ends with the pipe that this process holds


def forked(work: Callable[[], int], *, dies_by: int = signal.SIGTERM) -> int:
    """The number of a new process that does the work, gets that signal when the supervisor dies, and cannot return."""
    parent = os.getpid()
    # A signal that came before the new process has its own handlers would be lost in the supervisor's.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return pid
    code = 1
    try:
        ctypes.CDLL(None).prctl(PARENT_DIES, dies_by)
        os.setpgid(0, 0)  # Ctrl-C in the service's terminal is for the supervisor alone
        if os.getppid() != parent:
            os._exit(1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        code = work()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last border: a process that ends says why
        with contextlib.suppress(OSError):
            sys.stderr.write(visible(f"error[internal]: {type(error).__name__}: {error}\n"))
            sys.stderr.flush()
    finally:
        # Not `sys.exit`: what the supervisor registered to do at its end is not this process's to do.
        os._exit(code)


def _belong(place: Place) -> None:
    """This process takes its Spark from the service, and tells it of each event."""
    environment = java_environment(os.environ)  # as it is before PySpark adds variables of its own
    shared.provide(
        lambda wanted: _Leased.of(place, replace(wanted, environment=environment)), warm=lambda: _is_warm(place)
    )
    tell = cache(lambda: teller(place))
    observe(lambda _: tell())


def _is_warm(place: Place) -> bool:
    """Whether the service's Spark runs; False also where nobody answers."""
    connection = place.connect()
    if connection is None:
        return False
    with connection, contextlib.suppress(OSError):
        wire.send(connection, {"ask": "state"})
        message = wire.receive(connection)
        return message is not None and message[0]["spark"] is not None
    return False


class _Leased:
    """The service's JVM for this process; the open connection is the right to use it."""

    def __init__(self, connection: Any, port: int, secret: str) -> None:
        self._connection = connection
        self.port = port
        self.secret = secret

    @classmethod
    def of(cls, place: Place, wanted: JvmSpec) -> _Leased | None:
        connection = place.connect()
        if connection is None:
            return None
        asked = {
            "ask": "spark",
            "conf": dict(wanted.conf),
            "user": dict(wanted.user),
            "jars": list(map(str, wanted.jars)),
            "environment": dict(wanted.environment),
        }
        with contextlib.suppress(OSError):
            wire.send(connection, asked)
            message = wire.receive(connection)
            if message is not None and "port" in message[0]:
                return cls(connection, message[0]["port"], message[0]["secret"])
        connection.close()
        return None

    @property
    def held(self) -> bool:
        """The service ends the connection when its JVM has ended, and otherwise says nothing more."""
        try:
            self._connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def end(self, *, well: bool = True) -> None:
        if well:
            with contextlib.suppress(OSError):
                wire.send(self._connection, {"done": True})
        self._connection.close()
