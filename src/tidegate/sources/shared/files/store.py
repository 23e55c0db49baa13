"""The files that a `path:` names, on disk or in an object store.

Hidden files, such as `_SUCCESS` or `.part.crc`, are never listed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tidegate import extras
from tidegate.errors import ConfigError, EnvironmentMissing, SourceError, SourceRefused, SourceUnavailable
from tidegate.storage import FOR_SPARK, FileInfo, Store, by_fsspec, on_disk

WILD = re.compile(r"[*?\[]")
PLAIN = re.compile(r"\[([*?\[])\]")
"""One of these characters that stands for itself."""
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
UNFINISHED = re.compile(r"\.(tmp|temp|part|partial|filepart|crdownload|inprogress|_COPYING_|crc|swp)$", re.IGNORECASE)
LACKING = {"s3": "s3", "s3a": "s3"}
SERVED = frozenset(
    {"file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "hdfs", "webhdfs", "oss", "cos", "obs"}
)
"""Schemes of stores that can be listed by fsspec and read by one of Hadoop's file systems."""
UNLISTED = frozenset({"http", "https", "ftp", "ftps", "sftp", "ssh", "smb", "data", "memory", "zip", "tar", "github"})
"""Schemes that fsspec knows, and Spark either does not or cannot list."""


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

    def seen(self) -> tuple[list[FileInfo], list[str]]:
        """The files that are meant, and the paths of those whose name says that they are not finished.

        Raises:
            SourceRefused: there is nothing at that place, it cannot be read, or a link leads out of it.
            SourceError: a name that is no text in UTF-8.
        """
        ready, unfinished = [], []
        found = self.store.walk(self.depth, skip=hidden)
        if not found and not self.store.there():
            raise SourceRefused(
                f"there is no file or folder {self.store.where}", hint="Correct `path:` in tidegate.yaml."
            )
        for each in found:
            if hidden(each.path):
                continue
            if each.outside:
                self._refuse_link(each.path)
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

    def _refuse_link(self, path: str) -> None:
        """Refuses a link that leads out of the folder, if it or what it leads to may be meant.

        Whoever can write to the folder could have any file read that way.
        """
        whole = f"{self.store.root.rstrip('/')}/{path}"
        if self.pattern is not None and not self.pattern.fullmatch(path) and not Path(whole).is_dir():
            return
        raise SourceRefused(
            f"{whole} is a link that leads out of {self.store.root}",
            hint="Remove it; or, if only people whom you trust can write to the folder, set `source: {follow_links: "
            "true}`.",
        )


def place(text: str, *, follow_links: bool = False) -> Place:
    """The place that a `path:` names: a file, a folder with everything below it, or a pattern with `*`, `?`, `**`.

    Args:
        follow_links: on disk, also those that lead out of the folder.

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
        store = _store(text, folder, local=local, follow=follow_links)
        return Place(text=text, store=store, pattern=translated(pattern), depth=depth)
    rest = folder
    store = _store(text, rest.rstrip("/") or "/", local=local, follow=follow_links)
    if store.look("") is None:
        return Place(text=text, store=store, pattern=None, depth=None)
    parent, _, name = rest.rpartition("/")
    above = _store(text, parent or "/", local=local, follow=follow_links)
    return Place(text=text, store=above, pattern=re.compile(re.escape(name)), depth=0)


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
    first = next((number for number, part in enumerate(parts) if WILD.search(PLAIN.sub("", part))), None)
    if first is None:
        return PLAIN.sub(r"\1", text), None
    return PLAIN.sub(r"\1", "/".join(parts[:first])) or "/", "/".join(parts[first:])


def _store(text: str, root: str, *, local: bool, follow: bool) -> Store:
    if local:
        return on_disk(root, _refusal, follow=follow)
    try:
        return by_fsspec(text, root, _refusal)
    except (ImportError, ValueError) as error:
        scheme = text.partition("://")[0]
        extra = LACKING.get(scheme)
        raise EnvironmentMissing(
            f"no installed package can read {scheme}://",
            hint=extras.hint(extra) if extra else f"Install fsspec's package for {scheme}://.",
        ) from error


def folder_of(root: str) -> Store:
    """The files of a folder on disk."""
    return on_disk(root, _refusal)


def _refusal(where: str, error: Exception) -> SourceError:
    """What a source raises where files cannot be listed or read. Raises what is no answer of a file system."""
    if not isinstance(error, OSError):
        raise error
    if "://" not in where:
        return SourceRefused(f"{where} cannot be read: {error.strerror}", hint="Correct its permissions.")
    if isinstance(error, PermissionError | FileNotFoundError):
        return SourceRefused(f"{where} cannot be read", hint="Correct `path:` or the permissions of the credentials.")
    return SourceUnavailable(f"{where} cannot be reached")


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
