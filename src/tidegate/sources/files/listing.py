"""Lists the files that are ready to be read, and computes their content hashes.

A modification time never stands for the content, and a file still being written is never listed as ready.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tidegate.core.display import counted
from tidegate.core.manifest import File, Listing, Manifest
from tidegate.errors import SourceMoved
from tidegate.sources.shared.files.store import Place
from tidegate.storage import FileInfo

GRANULE = 2.0
"""Seconds within which two writes may leave the same time on a file system."""
LOOK_AGAIN = 0.25
FRESH = 1.0
"""A file that was written this many seconds ago is looked at twice, `LOOK_AGAIN` seconds apart."""
LAST = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
HASHERS = 4
BLOCK = 1024 * 1024


def listed(place: Place, settle: timedelta, known: Manifest | None, *, now: Callable[[], float] = time.time) -> Listing:
    """Every file that is ready and the paths of those that are not.

    Args:
        settle: how long a file must have been left alone.
        known: contents by path; where a file's stamp is the known one its hash is, too.
    """
    seen, unfinished = place.seen()
    old = [each for each in seen if not settle or now() - each.modified >= settle.total_seconds()]
    hashed = HashedFiles(place, known or Manifest(), now)
    with ThreadPoolExecutor(max_workers=HASHERS, thread_name_prefix="hash") as pool:
        found = list(pool.map(hashed.file, old))
    fresh = [each for each in old if each.tag is None and now() - each.modified < FRESH]
    if fresh:
        time.sleep(LOOK_AGAIN)
    moved = {each.path for each in fresh if place.store.look(each.path) != each}
    ready = [file for file in found if file is not None and file.path not in moved]
    there = {file.path for file in ready}
    postponed = {each.path: each.modified + settle.total_seconds() for each in seen if each.path not in there}
    return Listing(ready=Manifest.of(ready), waiting=tuple(sorted({*unfinished, *postponed})), postponed=postponed)


def refuse_postponed(found: Listing) -> None:
    """For whoever reads all files as one table: rows of files that wait would count as deleted, or never be read.

    Raises:
        SourceMoved: a file with its final name waits.
    """
    if not found.postponed:
        return
    path, until = max(found.postponed.items(), key=lambda each: each[1])
    more = f" and {counted(others, 'other file')}" if (others := len(found.postponed) - 1) else ""
    moment = datetime.fromtimestamp(min(until, LAST), UTC)
    when = f"at {moment:%Y-%m-%d %H:%M:%S} UTC, when `settle:` has passed" if moment > datetime.now(UTC) else "later"
    raise SourceMoved(
        f"{path}{more} may still be being written, and without {'them' if others else 'it'} a table of all files would "
        "miss rows",
        hint=f"Run again {when}: that run loads every file. `strategy: files` loads those that are ready at once.",
    )


class HashedFiles:
    """Files with the content's tag, computed where the store gives none."""

    def __init__(self, place: Place, known: Manifest, now: Callable[[], float] = time.time) -> None:
        self._place = place
        self._known = known
        self._now = now

    def file(self, seen: FileInfo) -> File | None:
        """The file; None when it changed while it was hashed."""
        if seen.tag is not None:
            return self._numbered(File(path=seen.path, size=seen.size, tag=f"etag:{seen.tag}"))
        before = self._known.files.get(seen.path)
        if before is not None and before.stamp is not None and (before.stamp, before.size) == (seen.stamp, seen.size):
            return before
        began = self._now()
        tag = self._hash(seen.path)
        if self._place.store.look(seen.path) != seen:
            return None
        # Within the clock's step another write may leave the same stamp, so it vouches for nothing yet.
        stamp = seen.stamp if began - seen.modified > GRANULE else None
        return self._numbered(File(path=seen.path, size=seen.size, tag=tag, stamp=stamp))

    def _numbered(self, file: File) -> File:
        """The file with the number of the load that read this content of it."""
        before = self._known.files.get(file.path)
        return replace(file, loaded=before.loaded) if before is not None and file.same(before) else file

    def _hash(self, path: str) -> str:
        digest = hashlib.blake2b(digest_size=16)
        with self._place.store.open(path) as content:
            while block := content.read(BLOCK):
                digest.update(block)
        return f"blake2b:{digest.hexdigest()}"


def verify_unchanged(place: Place, files: Iterable[File]) -> None:
    """Looks whether these files are what they were when they were listed.

    Raises:
        SourceMoved: one was changed or is gone.
    """
    hashed = HashedFiles(place, Manifest.of(files := tuple(files)))
    for file in files:
        seen = place.store.look(file.path)
        if seen is None or seen.size != file.size or not file.same(hashed.file(seen)):
            raise SourceMoved(
                f"{file.path} was changed while it was being read",
                hint="Run again once it is written; `source: {settle: 5m}` skips files that are newer.",
            )
