"""Reads the files of a Delta table without Spark, from disk or an object store.

Never writes, and imports no object store client for a local path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate.errors import WriteError
from tidegate.formats.shared.storage import LOGIN, refused


class Store(Protocol):
    """The files below one folder, by paths relative to it."""

    def names(self, folder: str) -> tuple[str, ...] | None:
        """Names of what lies in the folder; None if there is no such folder.

        Raises:
            WriteError: it cannot be read, or is a file.
        """

    def read(self, path: str) -> bytes:
        """Raises WriteError: it is not there or cannot be read."""


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder of this machine."""

    root: Path

    def names(self, folder: str) -> tuple[str, ...] | None:
        """Names of what lies in the folder; None if there is no such folder."""
        with _told(self.root / folder):
            try:
                return tuple(os.listdir(self.root / folder))  # noqa: PTH208 - names are all that is wanted
            except FileNotFoundError:
                return None

    def read(self, path: str) -> bytes:
        """The file's bytes."""
        with _told(self.root / path):
            return (self.root / path).read_bytes()


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """A folder of a store that Arrow reads: S3, Google Cloud Storage, Azure, HDFS; it finds their credentials itself.

    Args:
        location: `s3://bucket/path`, also in Hadoop's spelling `s3a://`.
    """

    location: str

    def names(self, folder: str) -> tuple[str, ...] | None:
        """Names of what lies in the folder; None if there is no such folder."""
        from pyarrow import fs  # type: ignore[import-untyped]  # noqa: PLC0415 - not for local tables

        where = f"{self.location}/{folder}".rstrip("/")
        with _told(where):
            store, path = fs.FileSystem.from_uri(_arrow(where))
            found = store.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return tuple(each.base_name for each in found) or None

    def read(self, path: str) -> bytes:
        """The file's bytes."""
        from pyarrow import fs  # noqa: PLC0415 - as above

        where = f"{self.location}/{path}"
        with _told(where):
            store, found = fs.FileSystem.from_uri(_arrow(where))
            with store.open_input_stream(found) as file:
                return bytes(file.read())


def store_of(location: str) -> Store:
    """What reads the folder."""
    path = local_path(location)
    return RemoteStore(location) if path is None else LocalStore(path)


def local_path(location: str) -> Path | None:
    """The path of a `file:` location; None for any other."""
    # As Hadoop reads it: nothing in it is percent-encoded.
    return Path("/" + location.removeprefix("file:").lstrip("/")) if location.startswith("file:") else None


def _arrow(location: str) -> str:
    return re.sub(r"^s3[an]://", "s3://", location)


@contextmanager
def _told(where: object) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise WriteError(
            f"the file {where} of a Delta table is missing", hint="Restore it, or load the table again elsewhere."
        ) from error
    except (OSError, ValueError) as error:
        if refused(error):
            raise WriteError(f"the store of {where} denied access", hint=LOGIN) from error
        raise WriteError(
            f"{where} cannot be read: {type(error).__name__}",
            hint="Correct `warehouse:` in tidegate.yaml or its permissions; `tidegate doctor` tests it.",
        ) from error
