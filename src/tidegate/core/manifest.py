"""The list of files that were loaded into a table, and how the table's commit vouches for it.

Kept by the registry. A file is identified by its content, never by its modification time alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core.position_state import MANIFEST
from tidegate.core.schema import BIGINT, Column

LOADED = "__tidegate_loaded"
"""In an order of rows: the load that read their file."""
LOAD = Column(name=LOADED, type=BIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file as it was listed.

    Args:
        path: relative to the folder that was listed, `/` between its parts.
        size: bytes.
        tag: identifies the content: the store's own tag (`etag:…`), or a hash (`blake2b:…`).
        stamp: modification time and inode; while they are unchanged, the hash holds without reading the file. None to
            read it always.
        loaded: the number of the load that read it last, 0 if not known; of two files with the same key, the one with
            the greater number counts.
    """

    path: str
    size: int
    tag: str
    stamp: str | None = None
    loaded: int = 0

    def same(self, other: File | None) -> bool:
        """Whether path and content are the same; a stamp says nothing about either."""
        return other is not None and (self.path, self.size, self.tag) == (other.path, other.size, other.tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Files by path."""

    files: Mapping[str, File] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Iterable[File]) -> Manifest:
        """Of files, in the order of their paths."""
        return cls(files={file.path: file for file in sorted(files, key=lambda file: file.path)})

    @property
    def digest(self) -> str:
        """Changes when a path or a content does.

        Example:
            >>> one = Manifest.of([File(path="a.csv", size=3, tag="blake2b:1", stamp="7:1")])
            >>> one.digest == Manifest.of([File(path="a.csv", size=3, tag="blake2b:1")]).digest != Manifest().digest
            True
        """
        lines = (f"{path}\0{self.files[path].size}\0{self.files[path].tag}" for path in sorted(self.files))
        return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:16]

    @property
    def bytes(self) -> int:
        """Of all files together."""
        return sum(file.size for file in self.files.values())

    def loaded(self, files: Iterable[File], deleted: Iterable[str] = ()) -> Manifest:
        """The manifest once these files are loaded and the rows of the `deleted` ones are removed."""
        without = {path: file for path, file in self.files.items() if path not in set(deleted)}
        return Manifest.of({**without, **{file.path: file for file in files}}.values())

    def voucher(self) -> dict[str, Any]:
        """The digest that the commit's position carries."""
        return {"files": len(self.files), MANIFEST: self.digest}

    def vouched(self, state: Mapping[str, Any]) -> bool:
        """Whether a commit's position vouches for this manifest."""
        return state.get(MANIFEST) == self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The files of a folder.

    Args:
        ready: the files that can be read.
        waiting: the paths of files that may still be being written.
        postponed: those of them that have their final name, and from when on each can be read, in seconds since 1970.
    """

    ready: Manifest
    waiting: tuple[str, ...] = ()
    postponed: Mapping[str, float] = field(default_factory=dict)
