"""Keeps the rows that an API answered as Parquet files in a folder, until a table holds them and for as long as stated.

A file is there whole or not at all. What the next request goes on from is in the file itself, so that rows and state
cannot part.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet

from tidegate.errors import FileUnreadable, SourceRefused
from tidegate.sources._api.extraction import without_validators

ABOUT = b"tidegate"
BATCH = re.compile(r"batch-\d{10}\.parquet")
SNAPSHOT = re.compile(r"rows-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an API was read.

    Args:
        batch: the number of the last batch; 0 before the first.
        cursor: what the next request goes on from, see `Extraction.state`; None for the beginning.
        content: the digest of the last batch's rows; None before the first.
    """

    batch: int = 0
    cursor: str | None = None
    content: str | None = None

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Progress:
        """From `to_dict`; the beginning for nothing."""
        return cls(**{name: found[name] for name in ("batch", "cursor", "content") if name in found})

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Batches:
    """The files of one stream: `batch-N.parquet` of what is new in an answer, `rows-DIGEST.parquet` of a whole one."""

    folder: Path
    owner: str
    """Whose answers these are: those of another source, or of another stream, are never taken for its own."""

    def prepare(self) -> None:
        """Makes the folder, which nobody else can read. Raises SourceRefused."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise SourceRefused(
                f"{self.folder} cannot be created: {error.strerror}",
                hint="Choose another folder with `source: {staging: …}`.",
            ) from error

    def after(self, batch: int) -> Iterator[Progress]:
        """Progress of each batch that follows that one without a gap."""
        there = self._numbered()
        while batch + 1 in there:
            batch += 1
            yield self._about(there[batch])

    def append(self, table: pa.Table, since: Progress, cursor: str) -> Progress:
        """The next batch; `since` where it is that one again, and another process's where that was first.

        An answer whose validators alone differ, such as its date, is the same answer.
        """
        made = Progress(batch=since.batch + 1, cursor=cursor, content=digest(table))
        if made.content == since.content and without_validators(cursor) == without_validators(since.cursor or "{}"):
            return since
        path = self.folder / name_of(made.batch)
        self._publish(table, made, path)
        return self._about(path)

    def put(self, table: pa.Table, cursor: str) -> str:
        """The file of a whole answer, which is named by its rows: equal rows are one file. Returns its name."""
        made = Progress(cursor=cursor, content=digest(table))
        path = self.folder / f"rows-{made.content}.parquet"
        self._publish(table, made, path)
        path.touch()
        return path.name

    def newest(self) -> tuple[str, Progress] | None:
        """Name and progress of its own whole answer that came last; None before the first."""
        found = [path for path in self.folder.glob("rows-*.parquet") if SNAPSHOT.fullmatch(path.name)]
        for path in sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True):
            about = self._read(path)
            if about.get("owner") == self.owner:
                return path.name, Progress.of(about)
        return None

    def schema(self, name: str) -> pa.Schema | None:
        """Columns and types of an answer; None where it is not kept."""
        path = self.folder / name
        return parquet.read_schema(path).remove_metadata() if path.exists() else None

    def drop_after(self, batch: int) -> None:
        """Removes the batches after that one: they are fetched again."""
        for number, path in self._numbered().items():
            if number > batch:
                path.unlink(missing_ok=True)

    def expire(self, keep: timedelta | None, *, batch: int = 0, snapshot: str | None = None) -> None:
        """Removes what is older than `keep`: batches before that one, and whole answers but the named one.

        The last of each stays: it tells the columns of the next.
        """
        if keep is None:
            return
        oldest = time.time() - keep.total_seconds()
        old = [path for number, path in self._numbered().items() if number < batch]
        if snapshot is not None:
            old += [path for path in self.folder.glob("rows-*.parquet") if path.name != snapshot]
        for path in old:
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)

    def _numbered(self) -> dict[int, Path]:
        return {number_of(path.name): path for path in self.folder.iterdir() if BATCH.fullmatch(path.name)}

    def _publish(self, table: pa.Table, about: Progress, path: Path) -> None:
        """The file under its name, unless one of that name is there: the first one counts."""
        draft = self.folder / f".{uuid.uuid4().hex}.parquet"
        metadata = {
            **(table.schema.metadata or {}),
            ABOUT: json.dumps({**about.to_dict(), "owner": self.owner}).encode(),
        }
        try:
            parquet.write_table(table.replace_schema_metadata(metadata), draft)
            with draft.open("rb") as written:
                os.fsync(written.fileno())
            if not path.exists():
                draft.chmod(0o600)
                os.link(draft, path)
        except FileExistsError:
            pass
        except OSError as error:
            raise SourceRefused(
                f"rows of the API cannot be kept in {self.folder}: {error.strerror}",
                hint="Make room, or choose another folder with `source: {staging: …}`.",
            ) from error
        finally:
            draft.unlink(missing_ok=True)

    def _about(self, path: Path) -> Progress:
        found = self._read(path)
        if found.get("owner") != self.owner:
            raise SourceRefused(
                f"{self.folder} holds answers of another source or stream: {found.get('owner')}, not {self.owner}",
                hint="Choose another folder with `source: {staging: …}`, or move these files away and run a full "
                "refresh.",
            )
        return Progress.of(found)

    def _read(self, path: Path) -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = json.loads((parquet.read_metadata(path).metadata or {})[ABOUT])
        except (OSError, ValueError, KeyError) as error:
            raise FileUnreadable(
                f"{path} is damaged or was not written by Tidegate",
                hint="Move it away; its rows are then requested from the API again.",
                file=path.name,
            ) from error
        return found


def name_of(batch: int) -> str:
    """The file of a batch."""
    return f"batch-{batch:010d}.parquet"


def number_of(name: str) -> int:
    """The number of a batch's file."""
    return int(name.removeprefix("batch-").removesuffix(".parquet"))


def digest(table: pa.Table) -> str:
    """Changes when a row, a value, a type or the order of the rows does."""
    sink = pa.BufferOutputStream()
    plain = table.replace_schema_metadata(None).combine_chunks()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return hashlib.blake2b(sink.getvalue(), digest_size=16).hexdigest()
