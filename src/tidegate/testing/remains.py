"""What a process leaves that is killed at one moment: the files of that moment, with nothing cleaned up."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

PLACES = (".tidegate", "warehouse")
"""Where in a project's folder its loads write: registry and catalog, and tables."""
IN_USE = ("-wal", "-shm", "-journal")


class Remains:
    """A copy of what loads have written to a project's folder so far.

    Args:
        folder: the project's, with registry and catalog in SQLite.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copy = tempfile.TemporaryDirectory(prefix="tidegate-")
        for name, path in _files(folder).items():
            _copied(path, self._kept / name)

    @property
    def _kept(self) -> Path:
        return Path(self._copy.name)

    def put_back(self) -> None:
        """Makes the folder what it was. Nothing may be writing to it, but connections to its databases may be open."""
        kept = _files(self._kept)
        for name, path in _files(self._folder).items():
            if name not in kept:
                path.unlink()
        for name, path in kept.items():
            _copied(path, self._folder / name)
        self._copy.cleanup()


def _files(folder: Path) -> dict[str, Path]:
    return dict(_below(folder))


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    for place in PLACES:
        for path in (folder / place).rglob("*"):
            if path.is_file() and not path.name.endswith(IN_USE):
                yield str(path.relative_to(folder)), path


def _copied(path: Path, to: Path) -> None:
    """The files of tables are written once; a database is copied by SQLite, so that its readers notice."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".db":
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(to)) as target:
            source.backup(target)
    elif not to.exists() or to.stat().st_size != path.stat().st_size or to.read_bytes() != path.read_bytes():
        shutil.copy2(path, to)
