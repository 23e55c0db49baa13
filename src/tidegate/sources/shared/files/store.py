"""Lists and opens the files of a `path:`, on disk or in an object store.

Hidden files, such as `_SUCCESS` or `.part.crc`, are never listed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

from tidegate.errors import ConfigError, EnvironmentMissing, SourceError, SourceRefused, SourceUnavailable

WILD = re.compile(r"[*?\[]")
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
UNFINISHED = re.compile(r"\.(tmp|temp|part|partial|filepart|crdownload|inprogress|_COPYING_|crc|swp)$", re.IGNORECASE)
TAGS = ("ETag", "etag", "md5Hash", "content_md5")
TIMES = ("LastModified", "last_modified", "mtime", "created")
FOR_SPARK = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}
LACKING = {"s3": "s3", "s3a": "s3"}
SERVED = frozenset(
    {"file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "hdfs", "webhdfs", "oss", "cos", "obs"}
)
"""Schemes of stores that can be listed by fsspec and read by one of Hadoop's file systems."""
UNLISTED = frozenset({"http", "https", "ftp", "ftps", "sftp", "ssh", "smb", "data", "memory", "zip", "tar", "github"})
"""Schemes that fsspec knows, and Spark either does not or cannot list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A file as its store shows it.

    Args:
        path: relative to the root.
        modified: seconds since 1970.
        stamp: changes with every write, but for those within the clock's own step; empty where there is none.
        tag: the store's own of the content.
    """

    path: str
    size: int
    modified: float
    stamp: str = ""
    tag: str | None = None


class Store(Protocol):
    """Where files are."""

    @property
    def root(self) -> str:
        """The folder, without a scheme."""

    def walk(self, depth: int | None) -> Iterator[Seen]:
        """Every file below the root, to a depth if one is given, in no order."""

    def look(self, path: str) -> Seen | None:
        """The file as it is now; None when it is gone."""

    def open(self, path: str) -> IO[bytes]:
        """The content."""

    def uri(self, path: str) -> str:
        """The file for Spark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store and which of its files are meant.

    Args:
        pattern: of paths below the root; None for all of them.
        depth: of folders below the root; None for any.
    """

    text: str
    store: Store
    pattern: re.Pattern[str] | None
    depth: int | None

    def seen(self) -> tuple[list[Seen], list[str]]:
        """The files that are meant, and the paths of those whose name says that they are not finished.

        Raises:
            SourceRefused: there is nothing at that place, or it cannot be read.
            SourceError: a name that is no text in UTF-8.
        """
        ready, unfinished = [], []
        for each in self.store.walk(self.depth):
            if hidden(each.path):
                continue
            name = UNFINISHED.sub("", each.path)
            if self.pattern is not None and not (self.pattern.fullmatch(each.path) or self.pattern.fullmatch(name)):
                continue
            if name != each.path:
                unfinished.append(each.path)
            elif not _is_text(each.path):
                raise SourceError(
                    f"a file below {self.store.root} has a name that is not valid UTF-8",
                    hint="Rename it, or select the other files with a pattern in `path:`.",
                )
            else:
                ready.append(each)
        return sorted(ready, key=lambda each: each.path), sorted(unfinished)


def place(text: str) -> Place:
    """The place that a `path:` names: a file, a folder with everything below it, or a pattern with `*`, `?`, `**`.

    Raises:
        SourceRefused: there is nothing at that place.
        EnvironmentMissing: no package for stores of that kind is installed.
    """
    found = SCHEME.match(text)
    local = found is None or found[1] == "file"
    rest = text.removeprefix("file://") if local else text[found.end() :] if found else text
    folder, pattern = _split(rest)
    if pattern is not None:
        depth = None if "**" in pattern else pattern.count("/")
        return Place(text=text, store=_store(text, folder, local=local), pattern=translated(pattern), depth=depth)
    store = _store(text, rest.rstrip("/") or "/", local=local)
    if store.look("") is None:
        return Place(text=text, store=store, pattern=None, depth=None)
    parent, _, name = rest.rpartition("/")
    return Place(
        text=text, store=_store(text, parent or "/", local=local), pattern=re.compile(re.escape(name)), depth=0
    )


def check_path(text: str) -> None:
    """Refuses a `path:` of a scheme that nobody can list or Spark cannot read; without a look at the store.

    Raises:
        ConfigError: it says what to write instead.
    """
    found = SCHEME.match(text)
    scheme = found[1].lower() if found else "file"
    if scheme in SERVED or (scheme not in UNLISTED and _known(scheme)):
        return
    raise ConfigError(
        f"path: files cannot be read from {scheme}://",
        hint="Copy them to a folder or a bucket first and use that, such as `path: landing/*.csv` or "
        "`path: s3://bucket/landing`; gs://, abfss://, hdfs:// and file:// can be read, too.",
    )


def _known(scheme: str) -> bool:
    """Whether fsspec has a file system of that name, if only one that is not installed."""
    import fsspec  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second, and only for unusual schemes

    try:
        fsspec.get_filesystem_class(scheme)
    except ImportError:
        return True
    except ValueError:
        return False
    return True


def on_s3(text: str) -> bool:
    """Whether a `path:` is in S3, which Spark reads as `s3a://`.

    Example:
        >>> on_s3("s3://bucket/in/*.csv"), on_s3("gs://bucket/in"), on_s3("/data/s3")
        (True, False, False)
    """
    scheme = text.partition("://")[0]
    return "://" in text and FOR_SPARK.get(scheme, scheme) == "s3a"


def hidden(path: str) -> bool:
    """Whether a part of the path begins as what writers of files hide; `_year=2025` is a partition.

    Example:
        >>> [hidden(path) for path in ("a/_SUCCESS", "_temporary/0/a.csv", ".a.csv.crc", "_year=2025/a.csv", "a_b.csv")]
        [True, True, True, False, False]
    """
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))


def translated(pattern: str) -> re.Pattern[str]:
    """A pattern of paths: `*` and `?` within a name, `**` over any number of folders, `[abc]` one of these.

    Example:
        >>> pattern = translated("**/day=*/[ab]?.csv")
        >>> [bool(pattern.fullmatch(path)) for path in ("day=1/a1.csv", "x/y/day=2/b2.csv", "a1.csv")]
        [True, True, False]
    """
    tokens = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[!^]?\]?[^\]/]*\])", pattern)
    made = []
    for part in parts:
        if part in tokens:
            made.append(tokens[part])
        elif part.startswith("[") and part.endswith("]"):
            made.append("[" + re.sub(r"^[!^]", "^", part[1:-1]).replace("\\", "\\\\") + "]")
        else:
            made.append(re.escape(part))
    return re.compile("".join(made), re.DOTALL)


def _split(text: str) -> tuple[str, str | None]:
    """The folder before the first wildcard, and the pattern below it; None where there is no wildcard."""
    parts = text.split("/")
    first = next((number for number, part in enumerate(parts) if WILD.search(part)), None)
    if first is None:
        return text, None
    return "/".join(parts[:first]) or "/", "/".join(parts[first:])


def _store(text: str, root: str, *, local: bool) -> Store:
    if local:
        return Local(root=root)
    scheme = text.partition("://")[0]
    return Remote(root=root, scheme=scheme, files=_remote(text, scheme))


def _remote(text: str, scheme: str) -> Any:
    import fsspec  # noqa: PLC0415 - half a second, and most folders are local

    try:
        files, _ = fsspec.core.url_to_fs(text)
    except (ImportError, ValueError) as error:
        extra = LACKING.get(scheme)
        raise EnvironmentMissing(
            f"no installed package can read {scheme}://",
            hint=f"`pip install 'tidegate[{extra}]'`" if extra else f"Install fsspec's package for {scheme}://.",
        ) from error
    return files


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """A folder of this machine's file system, or one that is mounted into it."""

    root: str

    def walk(self, depth: int | None) -> Iterator[Seen]:
        """Every file; links are followed, a folder that was seen on the way down is not seen again."""
        if not Path(self.root).is_dir():
            raise SourceRefused(f"there is no file or folder {self.root}", hint="Correct `path:` in tidegate.yaml.")
        yield from self._walk("", depth, ())

    def look(self, path: str) -> Seen | None:
        """The file as it is now."""
        try:
            found = Path(self.root, path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SourceRefused(
                f"{self.root}/{path} cannot be read: {error.strerror}", hint="Correct its permissions."
            ) from error
        return None if stat.S_ISDIR(found.st_mode) else _of_stat(path, found)

    def open(self, path: str) -> IO[bytes]:
        """The content."""
        try:
            return Path(self.root, path).open("rb")
        except OSError as error:
            raise SourceRefused(
                f"{self.root}/{path} cannot be read: {error.strerror}", hint="Correct its permissions."
            ) from error

    def uri(self, path: str) -> str:
        """With its scheme, so that no setting of Spark takes it for another file system's."""
        return f"file://{self.root.rstrip('/')}/{path}"

    def _walk(self, below: str, depth: int | None, above: tuple[tuple[int, int], ...]) -> Iterator[Seen]:
        folder = Path(self.root, below)
        try:
            status = folder.stat()
            here = (status.st_dev, status.st_ino)
            if here in above:
                return
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = f"{below}/{entry.name}" if below else entry.name
                    if entry.is_dir():
                        if depth != 0 and not hidden(path):
                            yield from self._walk(path, None if depth is None else depth - 1, (*above, here))
                    elif entry.is_file():
                        yield _of_stat(path, entry.stat())
        except OSError as error:
            raise SourceRefused(
                f"{folder} cannot be read: {error.strerror}", hint="Correct its permissions."
            ) from error


def _of_stat(path: str, found: os.stat_result) -> Seen:
    # The time of the inode's change, too: a copy that keeps the time of modification cannot set it.
    changed = max(found.st_mtime, found.st_ctime)
    stamp = f"{found.st_mtime_ns}:{found.st_ctime_ns}:{found.st_dev}:{found.st_ino}"
    return Seen(path=path, size=found.st_size, modified=changed, stamp=stamp)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A folder of an object store or another file system that fsspec reads.

    Args:
        root: without the scheme: bucket and folder.
        files: fsspec's file system.
    """

    root: str
    scheme: str
    files: Any

    def walk(self, depth: int | None) -> Iterator[Seen]:
        """Every file; a folder of an object store is there as long as it holds one."""
        self.files.invalidate_cache()
        limit = {} if depth is None else {"maxdepth": depth + 1}
        try:
            found = self.files.find(self.root, detail=True, **limit)
            if not found and not self.files.exists(self.root):
                raise SourceRefused(
                    f"there is nothing at {self.scheme}://{self.root}", hint="Correct `path:` in tidegate.yaml."
                )
        except OSError as error:
            raise self._refused("", error) from error
        for name, about in found.items():
            yield _of_info(self._relative(name), about)

    def look(self, path: str) -> Seen | None:
        """The file as it is now."""
        self.files.invalidate_cache()
        try:
            about = self.files.info(self._whole(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refused(path, error) from error
        return None if about.get("type") == "directory" else _of_info(path, about)

    def open(self, path: str) -> IO[bytes]:
        """The content."""
        try:
            return cast("IO[bytes]", self.files.open(self._whole(path), "rb"))
        except OSError as error:
            raise self._refused(path, error) from error

    def uri(self, path: str) -> str:
        """By the scheme that Spark's own file systems have."""
        return f"{FOR_SPARK.get(self.scheme, self.scheme)}://{self._whole(path)}"

    def _whole(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _relative(self, name: str) -> str:
        return name.lstrip("/").removeprefix(self.root.strip("/")).lstrip("/")

    def _refused(self, path: str, error: OSError) -> SourceError:
        where = f"{self.scheme}://{self._whole(path)}"
        if isinstance(error, PermissionError | FileNotFoundError):
            return SourceRefused(
                f"{where} cannot be read", hint="Correct `path:` or the permissions of the credentials."
            )
        return SourceUnavailable(f"{where} cannot be reached")


def _of_info(path: str, about: dict[str, Any]) -> Seen:
    tag = next((str(about[name]).strip('"') for name in TAGS if about.get(name)), None)
    modified: Any = next((about[name] for name in TIMES if about.get(name)), 0)
    seconds = modified.timestamp() if hasattr(modified, "timestamp") else float(modified)
    return Seen(path=path, size=int(about.get("size") or 0), modified=seconds, tag=tag)
