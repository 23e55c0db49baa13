"""Answers questions about the rows of an API: first it keeps what the API answers as files, then it asks these."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.manifest import Listing, Manifest
from tidegate.core.schema import Type
from tidegate.errors import ColumnsUnknown, SourceError
from tidegate.sources._api.batches import BATCH, Batches, Progress, name_of, number_of
from tidegate.sources._api.extraction import Extraction, NotModified
from tidegate.sources._api.rows import like, table_of
from tidegate.sources.files.probe import FilesProbe
from tidegate.sources.shared.files.shape import FileFormat
from tidegate.sources.shared.files.store import Place, folder_of
from tidegate.sources.shared.frame_probe import LazySpark


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """What is asked, and where the answers are kept.

    Args:
        label: how people call it; without a secret.
        identity: see `Probe.identity`.
        stream: the name of the stream.
        extract: one pass over the API from a cursor on; None for its beginning.
        folder: of the answers.
        types: under `columns:`.
        keep: how long answers are kept that a table holds; None for ever.
        increments: each answer is what is new; else each is all there is.
    """

    label: str
    identity: str
    stream: str
    extract: Callable[[str | None], Extraction]
    folder: Path
    types: Mapping[str, Type]
    keep: timedelta | None
    increments: bool


class ApiProbe(FilesProbe):
    """Questions to the answers of an API; a question about rows asks the API first, once.

    Where each answer is what is new, only `fetch` asks it: who compares a table compares it with the answers kept.
    """

    def __init__(self, api: Api, spark: LazySpark) -> None:
        self._api = api
        self._batches = Batches(api.folder, f"{api.identity} of {api.stream}")
        self._batches.prepare()
        self._progress = Progress()
        self._unconditional = False
        self._ahead = 0
        where = Place(text=api.label, store=folder_of(str(api.folder)), pattern=BATCH, depth=0)
        super().__init__(
            where,
            FileFormat.PARQUET,
            spark,
            options={},
            types=api.types,
            selection=ColumnSelection(),
            carrier=None,
            settle=timedelta(0),
        )
        self.frame = replace(self.frame, label=api.label, identity=api.identity)

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """How far the answers go that are kept."""
        return self._progress.to_dict()

    def fetch(self, state: Mapping[str, Any]) -> None:
        """Keeps what came after that answer, beside what was kept before and is in no table yet."""
        with self._looking:
            since = Progress.of(state)
            self._batches.expire(self._api.keep, batch=since.batch)
            last = [since, *self._batches.after(since.batch)][-1]
            self._batches.drop_after(last.batch)
            self._progress = self._next(last)
            self._listing = None  # of whoever asked for columns before
            self._forget_answers()

    def ahead(self) -> int:
        """Records of the answer whose cursor is ahead of the clock."""
        return self._ahead

    def request_unconditionally(self) -> None:
        """Leaves out the validators of the last answer (`ETag`, `Last-Modified`)."""
        self._unconditional = True

    def loaded(self, state: Mapping[str, Any]) -> Manifest | None:
        """The answers up to that one, in the order of their loads; None for a state that names none."""
        if not state:
            return None
        last = Progress.of(state).batch
        files = self.listing(None).ready.files.values()
        return Manifest.of(replace(file, loaded=number) for file in files if (number := number_of(file.path)) <= last)

    def _next(self, last: Progress) -> Progress:
        """With one more answer, if it holds rows and is not the last one again."""
        extraction = self._api.extract(last.cursor)
        try:
            table = table_of(extraction.pages(), self._api.types)
        except NotModified:
            return last
        self._ahead = extraction.ahead
        table = like(table, self._batches.schema(name_of(last.batch)))
        return self._batches.append(table, last, extraction.state()) if len(table) else last

    def listing(self, known: Manifest | None) -> Listing:
        """Every answer that is kept, or the whole one that the API gives now; asked once."""
        with self._looking:
            if self._listing is None and not self._api.increments:
                self._place = replace(self._place, pattern=re.compile(re.escape(self._whole())))
            return super().listing(known)

    def _whole(self) -> str:
        """The name of the file with all rows that the API has now."""
        newest = self._batches.newest()
        extraction = self._api.extract(newest[1].cursor if newest and not self._unconditional else None)
        try:
            table = table_of(extraction.pages(), self._api.types)
        except NotModified:
            if newest is None:
                raise SourceError(
                    f"{self._api.label} says that nothing has changed since an answer it never gave"
                ) from None
            return newest[0]
        before = self._batches.schema(newest[0]) if newest else None
        if not table.num_columns and before is None:
            raise ColumnsUnknown(f"{self._api.label} has answered no rows yet, so its columns are unknown")
        name = self._batches.put(like(table, before), extraction.state())
        self._batches.expire(self._api.keep, snapshot=name)
        return name
