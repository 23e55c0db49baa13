"""Finds the file of a table that is missing, cut or overwritten, after a reader has failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from tidegate.errors import TidegateError
from tidegate.storage import Store

MAGIC = b"PAR1"
LOOKED_INTO = 1_000
"""Files of which the beginning is read, at most."""
_SCHEME = re.compile(r"^\w+:/*")


def damaged(location: str, files: Mapping[str, int], store: Store, said: str) -> str | None:
    """A file of the table and what is wrong with it; None if each of them seems to be as it was written.

    Args:
        files: the files of the version that failed, with their sizes; paths may be relative to the location.
        said: what the reader said: a file that is named there is damaged in a way that only it can see.
    """
    root = _bare(location) + "/"
    sizes = {_bare(path).removeprefix(root): size for path, size in files.items()}
    found = {each.path: each.size for each in store.walk(at_work=True)}
    inside = {path: size for path, size in sizes.items() if not path.startswith("/")}
    for path, size in inside.items():
        if path not in found:
            return f"{path} is missing"
        if found[path] != size:
            return f"{path} has {found[path]:,} bytes, but was written with {size:,}"
    by_name = sorted(inside, key=lambda path: path.rpartition("/")[2] not in said)
    if overwritten := next(_overwritten(store, by_name), None):
        return f"{overwritten} was overwritten"
    named = next((path for path in by_name if path.rpartition("/")[2] in said), None)
    return f"{named} cannot be read" if named else None


def _overwritten(store: Store, paths: list[str]) -> Iterator[str]:
    for path in islice((path for path in paths if path.endswith(".parquet")), LOOKED_INTO):
        try:
            with store.open(path) as content:
                if content.read(len(MAGIC)) != MAGIC:
                    yield path
        except TidegateError:
            yield path


def _bare(path: str) -> str:
    """A path without its scheme, which Spark and Python write in different ways."""
    return "/" + _SCHEME.sub("", path).strip("/") if "://" in path or path.startswith(("/", "file:")) else path
