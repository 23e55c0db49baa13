"""Answers questions about files: listing, columns, and row data from Spark and from a second reader.

Listing never starts Spark, and only listed files are read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.changes import SliceStats
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.manifest import LOADED, File, Listing, Manifest
from tidegate.core.plan import Prune
from tidegate.core.ports.capabilities import ListedFiles
from tidegate.core.schema import TEXT, Column, Schema, Type
from tidegate.core.slices import Files, Keys, Partition, Slice
from tidegate.dialects.shared.buckets import scope
from tidegate.dialects.spark import Spark
from tidegate.errors import ColumnsUnknown, FileUnreadable, SchemaRefused
from tidegate.sources.files.disagreement import ByReference, BySpark, disagreement
from tidegate.sources.files.listing import listed, refuse_postponed, verify_unchanged
from tidegate.sources.shared.files.lines import located
from tidegate.sources.shared.files.reader import COPY, Reader, folder_columns
from tidegate.sources.shared.files.shape import TYPED, FileFormat, Shape, shape_of
from tidegate.sources.shared.files.store import Place
from tidegate.sources.shared.files.types import BEFORE, STATED, check_places, merged_schema, of_spark
from tidegate.sources.shared.frame_probe import Frame, FrameProbe, LazySpark, reading

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sources.shared.reference import Answers

LOOKERS = 8
PATH = "__tidegate_path"
"""Carries the path of each row's file where no column of the user's does."""


class FilesProbe(FrameProbe, ListedFiles):
    """Questions to the files of one place: to all of them, or to those that were chosen.

    Args:
        types: that the user states, by column.
        selection: the columns that are read.
        settle: how long a file must have been left alone.
        copies: see `Reader`.
    """

    def __init__(  # noqa: PLR0913 - what a source of files is made of
        self,
        place: Place,
        form: FileFormat,
        spark: LazySpark,
        *,
        options: Mapping[str, str],
        types: Mapping[str, Type],
        selection: ColumnSelection,
        carrier: str | None,
        settle: timedelta,
        copies: Callable[[], Path] | None = None,
    ) -> None:
        super().__init__(
            Frame(
                label=place.text,
                identity=f"files:{form}:{place.text}",
                schema=self._described,
                rows=self._all,
                verify_unchanged=self._verify_unchanged,
            ),
            spark,
        )
        self._place = place
        self._form = form
        self._options = options
        self._types = types
        self._selection = selection
        self._carrier = carrier
        self._settle = settle
        self._copies = copies
        self._listing: Listing | None = None
        self._known: Manifest | None = None
        self._chosen: Mapping[str, int] | None = None
        self._before: Mapping[str, str] = {}
        self._shapes: dict[str, Shape] = {}
        self._read: set[str] = set()
        self._looking = threading.RLock()

    @property
    def files(self) -> ListedFiles:
        """Its own."""
        return self

    @property
    def carrier(self) -> str | None:
        """The column that carries the path of each row's file."""
        return self._carrier

    def listing(self, known: Manifest | None) -> Listing:
        """Every file there is, asked once."""
        with self._looking:
            if self._listing is None:
                self._listing = listed(self._place, self._settle, known)
            return self._listing

    def choose(self, files: Iterable[File], columns: Mapping[str, str]) -> None:
        """The files that are read and tell the columns from here on."""
        with self._looking:
            self._chosen, self._before = {file.path: file.loaded for file in files}, dict(columns)
            self._forget_answers()

    def _forget_answers(self) -> None:
        """Of the files that were read until now."""
        self._statements, self._viewed = None, False
        self._stats.clear()
        self.__dict__.pop("_partitioned", None)

    def version(self) -> str:
        """Of the contents of all files."""
        self._refuse_postponed()
        return self.listing(None).ready.digest

    def stats(self, part: Slice) -> SliceStats:
        """Of files their bytes, and rows counted by Spark only where a strategy needs their number."""
        found = super().stats(part)
        return replace(found, bytes=self._bytes())

    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        """Not asked of files that are about to be read: it would read them once more."""
        return None if isinstance(part, Files) else super().key_bounds(part, column)

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        """Of the slice's rows, read by another reader than the one that loads them."""
        return self._second().fingerprint(part, latest=latest)

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the slice, counted by that reader."""
        return self._second().count(part, latest=latest)

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        """Of every partition that has rows, by that reader."""
        found = self._second().partitions(grouping, scope(since, only))
        self._stats |= {part: SliceStats(rows=one.rows) for part, one in found.items()}
        return found

    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Of every bucket of the slice that has rows, by that reader."""
        return self._second().spread(part, key, buckets, latest=latest)

    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets, by that reader."""
        return self._second().digests(part, key, buckets, latest=latest)

    def restored(self, files: Files, keys: Keys, latest: Latest) -> Fingerprint:
        """What the `older` files of a slice hold of these keys: of each the latest row."""
        return self._second({path: number for number, path in files.older}).fingerprint(keys, latest=latest)

    def disagreement(self, session: SparkSession, parts: Sequence[Slice], *, values: bool) -> str | None:
        """In what Spark and the second reader differ."""
        named, columns = {path for part in parts if isinstance(part, Files) for path in part.paths}, self.schema()
        paths = [path for path in self.listing(None).ready.files if path in (named or self._paths())]
        spark = BySpark(rows=lambda some: self._rows(session, some, columns))
        with reading(self.frame.label):
            return disagreement(paths, columns.covered if values else (), spark, ByReference(rows=self._second().rows))

    def condition(self, part: Slice) -> str:
        """The slice in words for people."""
        return ", ".join(part.paths) if isinstance(part, Files) else super().condition(part)

    def has_snapshot(self) -> bool:
        """Never: files can be written while they are read."""
        return False

    def notes(self) -> tuple[str, ...]:
        """The files that wait for a later run."""
        waiting = self._listing.waiting if self._listing else ()
        return tuple(f"{path} is still being written and waits for a later run" for path in waiting)

    def read(self, session: SparkSession, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices in that session; files are those that were listed, also ones that were not chosen.

        Of chosen files the column `LOADED` may be asked for.
        """
        named = [path for part in parts if isinstance(part, Files) for path in part.paths]
        if named or not parts or not self._paths():
            return self._rows(session, named, schema)
        rows = self._numbered(session) if LOADED in schema.names else self._all(session)
        return rows.where(self.statements.among(parts)).select(*(Spark().quote(name) for name in schema.names))

    def _refuse_postponed(self) -> None:
        """Where all files are read, they have to be there; those that were chosen are."""
        if self._chosen is None:
            refuse_postponed(self.listing(None))

    def _all(self, session: SparkSession) -> DataFrame:
        self._refuse_postponed()
        return self._rows(session, self._paths(), self.schema())

    def _numbered(self, session: SparkSession) -> DataFrame:
        """All rows with `LOADED`, by the path of each row's file."""
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

        carrier, spark = self._carrier or PATH, Spark()
        carried = () if self._carrier else (Column(name=PATH, type=TEXT),)
        rows = self._rows(session, self._paths(), Schema(columns=(*self.schema(), *carried)), carrier)
        numbers = [(spark.string(path), f"{number}L") for path, number in self._loads().items()]
        return rows.join(dataframe_ops.listed(session, numbers, (carrier, LOADED)), on=[carrier], how="inner")

    def _rows(
        self, session: SparkSession, paths: Sequence[str], schema: Schema, carrier: str | None = None
    ) -> DataFrame:
        wanted = set(paths)
        there = [path for path in self.listing(None).ready.files if path in wanted]
        self._read |= set(there)
        reader = replace(self._reader(), carrier=carrier or self._carrier)
        return reader.rows(session, {path: self._shape(path) for path in there}, schema)

    def located(self, error: FileUnreadable) -> FileUnreadable:
        """The error with the line of the file, where that can be found."""
        error = _of_original(error)
        name = str(error.context.get("file", ""))
        paths = [path for path in self._shapes if path == name or path.rpartition("/")[2] == name]
        if "line" in error.context or len(paths) != 1:
            return error
        return located(error, self._reader(), paths[0], self.schema())

    def _reader(self) -> Reader:
        return Reader(
            store=self._place.store,
            form=self._form,
            options=self._options,
            carrier=self._carrier,
            partitions=self._foldered,
            selection=self._selection,
            stated=self._stated,
            copies=self._copies,
        )

    @property
    def _stated(self) -> frozenset[str] | None:
        """The columns of which a text becomes what is stated; None where no types are inferred from values."""
        return None if self._form in TYPED else frozenset(self._types)

    def _second(self, loads: Mapping[str, int] | None = None) -> Answers:
        """The reader that verifies: it shares nothing with Spark's but the files.

        Args:
            loads: other files than the chosen ones, and the loads that read them.
        """
        from tidegate.sources.shared.reference import Answers, FileRows  # noqa: PLC0415 - it imports PyArrow, half a second

        if loads is None:
            self._refuse_postponed()
        rows = FileRows(
            store=self._place.store,
            form=self._form,
            options=self._options,
            schema=self.schema(),
            carrier=self._carrier,
            partitions=self._foldered,
            loads=self._loads() if loads is None else loads,
            stated=self._stated,
        )
        return Answers(rows=rows, paths=tuple(self._paths() if loads is None else loads))

    def _loads(self) -> Mapping[str, int]:
        """The load that read each of the chosen files; nothing where none were chosen."""
        return self._chosen or {}

    def _files(self) -> list[File]:
        ready = self.listing(None).ready.files
        return list(ready.values()) if self._chosen is None else [ready[path] for path in self._chosen]

    def _paths(self) -> list[str]:
        return [file.path for file in self._files()]

    def _bytes(self) -> int:
        return sum(file.size for file in self._files())

    def _verify_unchanged(self) -> None:
        ready = self.listing(None).ready.files
        verify_unchanged(self._place, [ready[path] for path in sorted({*self._paths(), *self._read})])

    def _shape(self, path: str) -> Shape:
        with self._looking:
            if path not in self._shapes:
                takes, stated = self._selection.takes, self._types
                self._shapes[path] = shape_of(self._place.store, path, self._form, self._options, stated, takes=takes)
            return self._shapes[path]

    @cached_property
    def _foldered(self) -> tuple[str, ...]:
        """Columns that the names of folders tell of any file, also of one that was not chosen."""
        names = (name for path in self.listing(None).ready.files for name in folder_columns(path))
        return tuple(dict.fromkeys(names))

    @cached_property
    def _partitioned(self) -> Mapping[str, str]:
        """Columns that a file has by its folder's name and not itself, each with the first such file."""
        inside = self._inside()
        found: dict[str, str] = {}
        for path in self._paths():
            shape = self._shape(path)
            # Where others have the column, a file without rows tells nothing of it.
            own = inside if shape.empty else shape.names
            found |= {name: path for name in folder_columns(path) if name not in own and name not in found}
        return found

    def _inside(self) -> set[str]:
        """The columns that any of the files has itself, as far as a file's shape tells them."""
        return {name for path in self._paths() for name in self._shape(path).names}

    def _described(self) -> Schema:
        """The columns of the files that are read, of the loads before, and those that are stated.

        Raises:
            ColumnsUnknown: there is no file to tell them from.
            ConfigError: a column is named that neither these files nor those loaded before have.
        """
        takes = self._selection.takes
        before = {name: of_spark(text) or TEXT for name, text in self._before.items() if text and takes(name)}
        paths = self._paths()
        if not paths and not before and not self._types:
            raise ColumnsUnknown(
                f"there is no file at {self._place.text}, so its columns are unknown",
                hint="Check the path, and that it is mounted; else wait for the first file, or declare its columns: "
                "`source: {columns: …}`.",
            )
        with ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="shape") as pool:
            shapes = dict(zip(paths, pool.map(self._shape, paths), strict=True))
        for path, shape in shapes.items():
            if self._carrier in shape.names and takes(self._carrier):
                raise SchemaRefused(
                    f"{path} has its own column {self._carrier!r}, so that column cannot hold the file's name",
                    hint="Give `file_name:` another name.",
                )
        inside = self._inside()
        shared = {name: path for name, path in self._partitioned.items() if name in inside}
        folders = [name for name in self._partitioned if name not in shared]
        outside = {self._carrier, *folders}
        kept = {name: kind for name, kind in {**before, **self._types}.items() if name not in outside}
        if self._form is FileFormat.CSV and not self._reader().dialect.header:
            check_places(*([name for name in each if name not in outside] for each in (before, self._types)))
        found = [(BEFORE, {name: kind for name, kind in before.items() if name in kept})]
        if self._form in TYPED:
            found += [(path, dict(zip(shape.names, shape.types, strict=True))) for path, shape in shapes.items()]
        else:
            # A folder's name is text, and so is what such a file has: values alone make no other type of it.
            found += self._inferred(shapes, {**dict.fromkeys(shared, TEXT), **kept})
        found += [(f"the folder of {path}", {name: TEXT}) for name, path in shared.items()]
        there = [name for shape in shapes.values() for name in (*shape.names, *shape.others)]
        there += [name for _, types in found for name in types]
        left_out = self._left_out([*self._before, *there, *self._types, *self._partitioned])
        taken = {name for _, types in found for name in types if name not in folders and takes(name)}
        found = [(file, {name: kind for name, kind in types.items() if name in taken}) for file, types in found]
        stated = {name: kind for name, kind in self._types.items() if name in kept}
        columns = merged_schema([*found, (STATED, stated)], stated).columns
        outer = [Column(name=name, type=self._types.get(name, TEXT)) for name in folders if takes(name)]
        carried = (Column(name=self._carrier, type=TEXT, nullable=False),) if self._carrier else ()
        return Schema(columns=(*columns, *outer, *carried), excluded=left_out)

    def _left_out(self, names: Sequence[str]) -> tuple[str, ...]:
        """Those of the names that are left out. Raises ConfigError for one that is chosen and unknown."""
        known = tuple(dict.fromkeys(name for name in names if name != self._carrier))
        taken = frozenset(self._selection.of(self._place.text, known)) if known else frozenset(known)
        return tuple(name for name in known if name not in taken)

    def _inferred(self, shapes: Mapping[str, Shape], kept: Mapping[str, Type]) -> list[tuple[str, dict[str, Type]]]:
        """Of formats without types: what Spark infers, but for columns of which the type is known."""
        filled = {path: shape for path, shape in shapes.items() if not shape.empty}
        takes = self._selection.takes
        names = {name for shape in filled.values() for name in shape.names if takes(name)}
        if self._form is FileFormat.CSV and kept and names <= set(kept):
            return [(path, {name: kept[name] for name in shape.names if takes(name)}) for path, shape in filled.items()]
        if not filled:
            return []
        try:
            inferred = self._types_by_value(filled)
        except FileUnreadable:
            for path, shape in filled.items() if len(filled) > 1 else ():
                self._types_by_value({path: shape})  # Spark does not say which one it was
            raise
        return [(path, {name: kept.get(name, kind) for name, kind in types.items()}) for path, types in inferred]

    def _types_by_value(self, shapes: Mapping[str, Shape]) -> list[tuple[str, dict[str, Type]]]:
        try:
            with reading(self.frame.label):
                return self._reader().inferred_types(self._spark.session(), shapes)
        except FileUnreadable as copied:
            error = _of_original(copied)
            name = next(iter(shapes)) if len(shapes) == 1 else "a file"
            raise FileUnreadable(error.message.replace("a file", name, 1), hint=error.hint, file=name) from error


def _of_original(error: FileUnreadable) -> FileUnreadable:
    """The error of the file itself, where Spark has read a copy."""
    name = str(error.context.get("file", ""))
    if not name.endswith(COPY):
        return error
    file = name.removesuffix(COPY)
    return FileUnreadable(error.message.replace(name, file, 1), hint=error.hint, **{**error.context, "file": file})
