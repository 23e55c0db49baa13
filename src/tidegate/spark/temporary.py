"""Temporary folders that a killed process does not leave behind: the next one that makes some removes them.

A folder is locked for as long as its process lives, so only folders of dead processes are removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "run-"
TRIES = 20


@contextmanager
def folder(base: Path | None = None) -> Iterator[Path]:
    """An empty folder, which is gone afterwards.

    Args:
        base: the folder in which it is made, for nothing else; that of this user below the system's if None.

    Raises:
        OSError: it cannot be made.
    """
    base = base or _of_user()
    made, lock = _made(base)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(lock)
        with suppress(OSError):  # others are in it
            base.rmdir()


def _of_user() -> Path:
    base = Path(tempfile.gettempdir()) / f"tidegate-{os.getuid()}"
    with suppress(FileExistsError):
        base.mkdir(mode=0o700)
    with suppress(FileNotFoundError):
        found = base.lstat()
        if base.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o022:
            # Somebody else got there first, and could look at or replace what is in it.
            return Path(tempfile.mkdtemp(prefix="tidegate-"))
    return base


def _made(base: Path) -> tuple[Path, int]:
    """A new folder, and the descriptor that holds its lock."""
    for _ in range(TRIES):
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(base):
                _sweep(base)
                made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
                lock = os.open(made, os.O_RDONLY)
                with suppress(OSError):  # a file system without locks: nobody else removes it, either
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return made, lock
        except FileNotFoundError:  # the last one that used the base has just removed it
            continue
    raise FileNotFoundError(f"{base} is removed again and again")


@contextmanager
def _locked(base: Path) -> Iterator[None]:
    """Nobody makes or removes folders in it meanwhile."""
    held = os.open(base, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _sweep(base: Path) -> None:
    for left in base.glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = os.open(left, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(lock)
