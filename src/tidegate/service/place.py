"""Where the service of a project is found: a socket and a lock in `.tidegate/`, for its user alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tidegate.service.wire import user_of

SOCKET, LOCK = "service.sock", "service.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What makes a process the service of its project.

    Args:
        lock: the open file; no other process keeps it, and the project has no service once it is closed.
        listening: the socket that commands connect to; they wait until somebody accepts.
    """

    lock: IO[bytes]
    listening: socket.socket

    def numbers(self) -> tuple[int, int]:
        """Of the two open files, for a process that inherits them."""
        return self.lock.fileno(), self.listening.fileno()

    @classmethod
    def inherited(cls, lock: int, listening: int) -> Claim:
        """The claim that another process has made for this one."""
        return cls(lock=os.fdopen(lock, "ab"), listening=socket.socket(fileno=listening))


@dataclass(frozen=True, slots=True)
class Place:
    """The service of one project file.

    Args:
        project: the project's file, resolved.
    """

    project: Path

    @classmethod
    def of(cls, given: str | Path) -> Place:
        """Of `--project`: a folder, or a file in it."""
        path = Path(given).resolve()
        return cls(path / "tidegate.yaml" if path.is_dir() else path)

    @property
    def folder(self) -> Path:
        """`.tidegate/` beside the file."""
        return self.project.parent / ".tidegate"

    def connect(self) -> socket.socket | None:
        """A connection to the service; None where none runs that is this user's."""
        if not (self.folder / SOCKET).exists():
            return None
        connection = _socket()
        try:
            with self._short() as name:
                connection.connect(name)
            if user_of(connection) == os.getuid():
                return connection
        except OSError:
            pass
        connection.close()
        return None

    def listen(self) -> socket.socket:
        """The socket of the service; whoever calls this holds the lock, so one that is there was left behind."""
        (self.folder / SOCKET).unlink(missing_ok=True)
        listening = _socket()
        before = os.umask(0o177)
        try:
            with self._short() as name:
                listening.bind(name)
        finally:
            os.umask(before)
        listening.listen(128)
        return listening

    def claim(self) -> Claim | None:
        """Makes this process the service; None where another one of the project runs."""
        held = self.lock()
        return None if held is None else Claim(lock=held, listening=self.listen())

    def lock(self) -> IO[bytes] | None:
        """Held for as long as the file is open; None where another service of the project runs."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self.folder.chmod(0o700)
        held = (self.folder / LOCK).open("ab")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held.close()
            return None
        return held

    @contextlib.contextmanager
    def _short(self) -> Iterator[str]:
        """The socket by the number of its open folder: a longer path than 107 bytes names no socket."""
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{folder}/{SOCKET}"
        finally:
            os.close(folder)


def _socket() -> socket.socket:
    """One whose messages keep their bounds."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return made
