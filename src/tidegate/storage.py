"""Lists and reads files without Spark: on disk, or in an object store by fsspec or by Arrow.

Never writes, and imports no client of an object store for what is on disk.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, cast

TAGS = ("ETag", "etag", "md5Hash", "content_md5")
TIMES = ("LastModified", "last_modified", "mtime", "created")
FLAT = ("s3://", "s3a://", "s3n://", "gs://", "gcs://")
"""Stores whose clients list everything below a prefix at once."""
FOR_SPARK = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}

Problem = Callable[[str, Exception], Exception]
"""What is raised for an error of a store, by the file or folder that it is about and the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """A file as its store shows it.

    Args:
        path: relative to the root.
        written: when its content was written, in seconds since 1970; a copy may keep the time of its original.
        modified: as `written`, but on disk never before the file came to its place.
        stamp: changes with every write, but for those within the clock's own step; None where there is none.
        tag: the store's own of the content.
        outside: it is a link, to a file or a folder, that leads out of the root.
    """

    path: str
    size: int
    written: float
    modified: float
    stamp: str | None = None
    tag: str | None = None
    outside: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The files below one folder, by paths relative to it.

    Args:
        where: the folder for people; with its scheme unless it is on disk.
        base: the folder as the client names it.
        files: the client: `Disk`, `Fsspec` or `ArrowFiles`.
        problem: what every method raises where the client raises OSError or ValueError.
    """

    where: str
    base: str
    files: Any
    problem: Problem

    @property
    def root(self) -> str:
        """The folder, without a scheme."""
        return self.where.partition("://")[2] or self.where

    def there(self) -> bool:
        """Whether there is such a folder; in an object store it is there as long as it holds a file."""
        with self._translated_errors(""):
            return bool(self.files.exists(self.base))

    def walk(
        self, depth: int | None = None, *, skip: Callable[[str], bool] | None = None, at_work: bool = False
    ) -> list[FileInfo]:
        """Every file below the root, in no order; none where there is no such folder.

        Args:
            depth: of folders below the root; any unless given.
            skip: names of folders on disk that need not be entered; an object store lists all at once.
            at_work: others may remove files meanwhile; these are left out instead of being an error.
        """
        with self._translated_errors(""):
            found = self.files.find(self.base, depth=depth, skip=skip, at_work=at_work)
        base = self.base.strip("/")
        return [_file(name.lstrip("/").removeprefix(base).lstrip("/"), about) for name, about in found.items()]

    def names(self, folder: str) -> tuple[str, ...] | None:
        """Names of what is in the folder; None if there is no such folder."""
        with self._translated_errors(folder), suppress(FileNotFoundError):
            found = self.files.ls(self._whole(folder))
            return tuple(name.rstrip("/").rpartition("/")[2] for name in found)
        return None

    def look(self, path: str) -> FileInfo | None:
        """The file as it is now; None when it is gone, or a folder."""
        with self._translated_errors(path), suppress(FileNotFoundError, NotADirectoryError):
            about = self.files.info(self._whole(path))
            return None if about.get("type") == "directory" else _file(path, about)
        return None

    def open(self, path: str) -> IO[bytes]:
        """The content."""
        with self._translated_errors(path):
            return cast("IO[bytes]", self.files.open(self._whole(path)))

    def read(self, path: str) -> bytes:
        """The whole content."""
        with self._translated_errors(path), self.files.open(self._whole(path)) as content:
            return bytes(content.read())

    def uri(self, path: str) -> str:
        """The file by the scheme that Spark's own file systems have; `file:`, so that no setting gives it another."""
        scheme, found, _ = self.where.partition("://")
        return f"{FOR_SPARK.get(scheme, scheme) if found else 'file'}://{self.root.rstrip('/')}/{path}"

    def _whole(self, path: str) -> str:
        return f"{self.base.rstrip('/')}/{path}" if path else self.base

    @contextmanager
    def _translated_errors(self, path: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            own = "" if "://" in self.where else str(getattr(error, "filename", None) or "")
            raise self.problem(own or (f"{self.where}/{path}" if path else self.where), error) from error


@dataclass(frozen=True, slots=True)
class Disk:
    """This machine's file system, without fsspec, which takes a fifth of a second to import.

    Args:
        follow: enters links that lead out of the folder; else they are listed as files, with `outside`.
    """

    follow: bool = True

    def exists(self, path: str) -> bool:
        """Whether it is a folder."""
        return Path(path).is_dir()

    def ls(self, path: str) -> list[str]:
        """Names of what is in the folder."""
        return os.listdir(path)  # noqa: PTH208 - names are all that is wanted

    def info(self, path: str) -> dict[str, Any]:
        """What the file system tells of a file."""
        return _of_stat(Path(path).stat())

    def open(self, path: str) -> IO[bytes]:
        """The content."""
        return Path(path).open("rb")

    def find(
        self, path: str, *, depth: int | None, skip: Callable[[str], bool] | None, at_work: bool
    ) -> dict[str, dict[str, Any]]:
        """Every file, see `Store.walk`; links are followed, and no folder is entered again on its own way down.

        A link out of the root that is not followed is listed itself, as `outside`, whatever it leads to.
        """
        root = os.path.realpath(path)
        missing = (FileNotFoundError,) if at_work else ()

        def below(folder: str, level: int, above: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, dict[str, Any]]]:
            with suppress(*missing):
                status = Path(folder).stat()
                here = (status.st_dev, status.st_ino)
                if here in above:
                    return
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if not self.follow and entry.is_symlink() and not _within(entry.path, root):
                            yield entry.path, {"outside": True}
                        elif entry.is_dir():
                            if level != depth and not (skip and skip(entry.name)):
                                yield from below(entry.path, level + 1, (*above, here))
                        elif entry.is_file():
                            with suppress(*missing):
                                yield entry.path, _of_stat(entry.stat())

        return dict(below(path, 0, ())) if self.exists(path) else {}


@dataclass(frozen=True, slots=True)
class Fsspec:
    """A file system of fsspec; nothing that it has cached is believed.

    Args:
        flat: it lists everything below a prefix at once, so that no folder can be left out.
    """

    files: Any
    flat: bool = False

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder."""
        return bool(self.files.exists(path))

    def ls(self, path: str) -> list[str]:
        """Paths of what is in the folder."""
        self.files.invalidate_cache()
        return list(self.files.ls(path, detail=False))

    def info(self, path: str) -> dict[str, Any]:
        """What the store tells of a file."""
        self.files.invalidate_cache()
        return dict(self.files.info(path))

    def open(self, path: str) -> IO[bytes]:
        """The content."""
        return cast("IO[bytes]", self.files.open(path, "rb"))

    def find(self, path: str, *, depth: int | None, **_: Any) -> dict[str, dict[str, Any]]:
        """Every file, see `Store.walk`.

        Folder by folder where the store is not flat: fsspec's own `find` leaves out in silence what cannot be listed.
        """
        self.files.invalidate_cache()
        if self.flat and depth is None:
            return dict(self.files.find(path, detail=True))

        def below(folder: str, depth: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
            try:
                entries = self.files.ls(folder, detail=True)
            except FileNotFoundError:
                if folder != path:
                    raise
                return
            for about in entries:
                name = about["name"].rstrip("/")
                if name.strip("/") == folder.strip("/"):
                    continue
                if about.get("type") != "directory":
                    yield name, about
                elif depth != 0:
                    yield from below(name, None if depth is None else depth - 1)

        return dict(below(path, depth))


@dataclass(frozen=True, slots=True)
class ArrowFiles:
    """A file system of Arrow, for what lakes ask; it takes no other package to read one."""

    files: Any

    def ls(self, path: str) -> list[str]:
        """Paths of what is in the folder; none where there is no such folder."""
        return [each.path for each in self._listed(path)]

    def open(self, path: str) -> Any:
        """The content."""
        return self.files.open_input_stream(path)

    def find(self, path: str, **_: Any) -> dict[str, dict[str, Any]]:
        """Every file; the time of one that the store tells no time of is now."""
        files = (each for each in self._listed(path, recursive=True) if each.is_file)
        return {each.path: {"size": each.size, "mtime": each.mtime or datetime.now(UTC)} for each in files}

    def _listed(self, path: str, *, recursive: bool = False) -> list[Any]:
        from pyarrow import fs  # type: ignore[import-untyped]  # noqa: PLC0415 - not for what is on disk

        return list(self.files.get_file_info(fs.FileSelector(path, recursive=recursive, allow_not_found=True)))


def _within(path: str, root: str) -> bool:
    """Whether a link leads to what is below the root, or to nothing at all."""
    found = os.path.realpath(path)
    return found == root or found.startswith(f"{root.rstrip('/')}/") or not os.path.lexists(found)  # noqa: PTH


def on_disk(root: str, problem: Problem, *, follow: bool = True) -> Store:
    """A folder of this machine, or one that is mounted into it.

    Args:
        follow: see `Disk`.
    """
    return Store(where=root, base=root, files=Disk(follow=follow), problem=problem)


def by_fsspec(text: str, root: str, problem: Problem) -> Store:
    """A folder of an object store or another file system.

    Args:
        text: what tells fsspec which one, with its scheme; the folder or a pattern in it.
        root: the folder, without a scheme.

    Raises:
        ImportError: the package for that scheme is not installed.
        ValueError: no package has that scheme.
    """
    import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415 - a fifth of a second, and most folders are local

    files, _ = fsspec.core.url_to_fs(text)
    client = Fsspec(files, flat=text.startswith(FLAT))
    return Store(where=f"{text.partition('://')[0]}://{root}", base=root, files=client, problem=problem)


def of_lake(location: str, problem: Problem) -> Store:
    """A folder of a lake: on disk, or in a store that Arrow reads, which finds their credentials itself.

    Args:
        location: a path, `file:…`, or `s3://bucket/path`, also in Hadoop's spelling `s3a://`.
    """
    path = local_path(location)
    if path is not None:
        return on_disk(str(path), problem)
    from pyarrow import fs  # noqa: PLC0415 - as above

    try:
        files, base = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", location))
    except (OSError, ValueError) as error:
        raise problem(location, error) from error
    return Store(where=location, base=base, files=ArrowFiles(files), problem=problem)


def local_path(location: str) -> Path | None:
    """The path of a location on this machine's file system; None for any other."""
    # As Hadoop reads it: nothing in it is percent-encoded.
    if location.startswith("file:"):
        return Path("/" + location.removeprefix("file:").lstrip("/"))
    return Path(location) if "://" not in location else None


def _of_stat(found: os.stat_result) -> dict[str, Any]:
    # The time of the inode's change, too: a copy that keeps the time of modification cannot set it.
    changed = max(found.st_mtime, found.st_ctime)
    stamp = f"{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_dev}:{found.st_ino}"
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file"
    return {"type": kind, "size": found.st_size, "mtime": found.st_mtime, "changed": changed, "stamp": stamp}


def _file(path: str, about: dict[str, Any]) -> FileInfo:
    tag = next((str(about[name]).strip('"') for name in TAGS if about.get(name)), None)
    at: Any = next((about[name] for name in TIMES if about.get(name)), 0)
    written = at.timestamp() if hasattr(at, "timestamp") else float(at)
    return FileInfo(
        path=path,
        size=int(about.get("size") or 0),
        written=written,
        modified=about.get("changed", written),
        stamp=about.get("stamp"),
        tag=tag,
        outside=bool(about.get("outside")),
    )
