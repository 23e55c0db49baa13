"""Identifies the current process, and tells whether the process behind a recorded owner is still alive."""

from __future__ import annotations

import getpass
import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, told apart from every other one on every machine.

    Args:
        host_id: the running machine and its process numbers: hostname, boot and pid namespace.
        process_start: when the process began, in the kernel's own units; empty where the system does not tell.
    """

    user: str
    host: str
    host_id: str
    pid: int
    process_start: str

    def __str__(self) -> str:
        return f"{self.user}@{self.host}:{self.pid}"


def this_process() -> Owner:
    host = socket.gethostname()
    pid = os.getpid()
    return Owner(user=_user(), host=host, host_id=_host_id(host), pid=pid, process_start=_started(pid) or "")


def is_dead(other: Owner, *, seen_by: Owner) -> bool:
    """True only when it is certain: same machine and pid namespace, and no live process of that number and start."""
    if other.host_id != seen_by.host_id:
        return False
    started = _started(other.pid)
    if started is not None:
        return bool(other.process_start) and started != other.process_start
    try:
        os.kill(other.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # it exists and belongs to somebody else
    return _is_zombie(other.pid)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid{os.getuid()}"  # containers run users that no passwd file names


def _host_id(host: str) -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{host}/{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return host


def _stat(pid: int) -> list[str]:
    try:
        # The second field is the command in brackets and may itself hold blanks and brackets.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _started(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else None


def _is_zombie(pid: int) -> bool:
    return _stat(pid)[:1] in (["Z"], ["X"])
