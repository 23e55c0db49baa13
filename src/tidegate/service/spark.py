"""The one Spark of a service: started when it is first needed, lent to every process that asks, ended when idle."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.service import wire, worker
from tidegate.service.processes import memory
from tidegate.spark.shared import JvmSpec


@dataclass(kw_only=True)
class Spark:
    """At most one JVM, and who uses it.

    Args:
        log: takes what the JVM prints.
        closing: closes, in a new process, what belongs to the supervisor.
        keep: starts a JVM and keeps it; called in a process of its own.
    """

    log: Path
    say: Callable[[str], None]
    closing: Callable[[], None]
    keep: Callable[[JvmSpec, Path, Callable[[Mapping[str, Any]], None]], int] = worker.keep_spark
    _wanted: JvmSpec | None = field(default=None, init=False)
    _keeper: int | None = field(default=None, init=False)
    _message: Mapping[str, Any] | None = field(default=None, init=False)
    _pipe: socket.socket | None = field(default=None, init=False)
    _users: list[socket.socket] = field(default_factory=list, init=False)
    _waiting: list[socket.socket] = field(default_factory=list, init=False)
    _retired: bool = field(default=False, init=False)
    _used: float = field(default_factory=time.monotonic, init=False)

    @property
    def connections(self) -> tuple[socket.socket, ...]:
        return (*self._users, *self._waiting)

    def ask(self, connection: socket.socket, request: Mapping[str, Any]) -> None:
        """Lends the JVM, at once or when it has started; one that wants another JVM than others use starts its own."""
        wanted = JvmSpec(
            conf=request["conf"],
            user=request["user"],
            jars=[Path(jar) for jar in request["jars"]],
            environment=request["environment"],
        )
        if self._keeper is not None and (self._retired or wanted.digest != _digest(self._wanted)):
            if self.connections:
                _answer(connection, {"refused": "others use a Spark with other settings"})
                return
            self.end()
        if self._keeper is None:
            self._start(wanted)
        self._waiting.append(connection)
        self._lend()

    def returned(self, connection: socket.socket, *, well: bool) -> None:
        """Its user has ended; if it was killed, Spark may still be at work for it, and ends with its last user.

        One that waited, or was refused, had no Spark at work.
        """
        if connection in self._users:
            self._users.remove(connection)
            self._retired = self._retired or not well
        elif connection in self._waiting:
            self._waiting.remove(connection)
        connection.close()
        self._used = time.monotonic()
        if self._retired and not self._users:
            self.end()

    def ended(self, pid: int) -> None:
        """A process of the service has ended; if it kept the JVM, the next one who asks starts another."""
        if pid == self._keeper:
            self._keeper = None
            if self._message is not None and "port" in self._message:
                self.say("Spark's process ended; the next load starts it again")
            self._forget({"refused": "Spark ended"})

    def rest(self, now: float, idle_stop: float) -> None:
        """Takes what the keeper says, and ends a JVM that nobody has used for so many seconds."""
        self._lend()
        if self._keeper is not None and not self.connections and now - self._used > idle_stop:
            self.say(f"Spark was idle for {idle_stop:.0f} s and is ended; the next load starts it again")
            self.end()

    def end(self) -> None:
        """Ends the JVM, whatever it is at."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(keeper, signal.SIGKILL)
                os.waitpid(keeper, 0)
            if self._message is not None and "pid" in self._message:
                with suppress(ProcessLookupError):
                    os.kill(self._message["pid"], signal.SIGKILL)
        self._forget({"refused": "Spark ended"})

    def state(self) -> dict[str, Any] | None:
        """The JVM's process, memory in bytes and users; None where none runs."""
        if self._message is None or "pid" not in self._message:
            return None
        return {"pid": self._message["pid"], "memory": memory(self._message["pid"]), "users": len(self._users)}

    def _start(self, wanted: JvmSpec) -> None:
        own_end, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def keep() -> int:
            self.closing()
            own_end.close()
            return self.keep(wanted, self.log, lambda message: wire.send(other_end, message))

        self._keeper = worker.forked(keep, dies_by=signal.SIGKILL)
        other_end.close()
        own_end.settimeout(0)
        self._wanted, self._pipe, self._message, self._retired = wanted, own_end, None, False
        self._used = time.monotonic()

    def _lend(self) -> None:
        if self._message is None and self._pipe is not None:
            with suppress(BlockingIOError):
                message = wire.receive(self._pipe)
                if message is not None:
                    self._message = message[0]
                    warm = "port" in self._message
                    self.say("Spark is warm" if warm else f"Spark did not start: {self._message['refused']}")
        if self._message is None:
            return
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            if "port" in self._message:
                self._users.append(connection)
            _answer(connection, self._message)

    def _forget(self, answer: Mapping[str, Any]) -> None:
        for connection in self._waiting:
            _answer(connection, answer)
        for connection in self._users:  # each notices, and is no user of the next JVM
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._users = []
        if self._pipe is not None:
            self._pipe.close()
        self._pipe, self._message, self._wanted, self._waiting, self._retired = None, None, None, [], False


def _digest(wanted: JvmSpec | None) -> str | None:
    return None if wanted is None else wanted.digest


def _answer(connection: socket.socket, document: Mapping[str, Any]) -> None:
    with suppress(OSError):
        wire.send(connection, document)
