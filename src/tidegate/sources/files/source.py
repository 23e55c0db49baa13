"""The source `files`: reads Parquet, CSV, JSON, Avro or ORC files with Spark.

Chosen by `source: {path: …}`. Reads only listed files, and a row that does not fit never becomes NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.bounds import BoundRequest
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.flavours import Flavour
from tidegate.core.origin import Origin, StoredFiles
from tidegate.core.ports.source import Source, SparkProvider
from tidegate.core.schema import Schema
from tidegate.core.slices import Files as Chosen
from tidegate.core.slices import Slice
from tidegate.errors import ConfigError, FileUnreadable, InternalError
from tidegate.sources.files.probe import FilesProbe
from tidegate.sources.shared.files.options import checked, csv_of, texts_of
from tidegate.sources.shared.files.reader import OWN
from tidegate.sources.shared.files.shape import SUFFIXES, FileFormat, format_of
from tidegate.sources.shared.files.store import check_path, on_s3, place
from tidegate.sources.shared.files.types import stated
from tidegate.sources.shared.frame_probe import LazySpark, reading
from tidegate.spark import jars, temporary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files(Source[FilesProbe]):
    """Parquet, CSV, JSON, Avro or ORC files of a folder, a pattern or one path.

    Args:
        path: a file, a folder with everything below it, or a pattern: `*` and `?` in a name, `**` for any folders.
        format: `parquet`, `csv`, `json`, `avro` or `orc`; taken from the path's suffix unless given.
        options: how the files are written, such as `sep` or `encoding` of CSV.
        columns: exact types where the files do not state them: `{amount: "decimal(20,4)"}`.
        include: read only these columns; a name with `*` or `?` stands for every one that matches.
        exclude: do not read these columns.
        file_name: the name of an extra column that holds the path of each row's file, relative to the folder.
        settle: ignore files that were written less than this ago.
        follow_links: read links that lead out of the folder, too.
    """

    kind: ClassVar[str] = "files"
    reads: ClassVar[frozenset[type]] = frozenset({Chosen})

    path: str
    format: FileFormat | None = None
    options: Mapping[str, str | int | float | bool | list[str]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    file_name: str | None = None
    settle: timedelta = timedelta(0)
    follow_links: bool = False

    def __post_init__(self) -> None:
        check_path(self.path)
        stated(self.columns)
        own = sorted(name for name in self.options if name.lower() in OWN)
        if own:
            raise ConfigError(f"options: {own[0]} cannot be set: it could silently lose or change rows")
        if self.form is None:
            known = ", ".join(sorted(SUFFIXES))
            raise ConfigError(f"path: {self.path!r} has no suffix that shows its format ({known}); set `format:`")
        checked(self.form, texts_of(self.options))
        self._check_selection(self.form)

    def _check_selection(self, form: FileFormat) -> None:
        """Refuses a choice of columns that contradicts other keys."""
        selection = self.selection
        unread = next((name for name in self.columns if not selection.takes(name)), None)
        if unread is not None:
            raise ConfigError(f"columns: a type is stated for {unread!r}, which `include` or `exclude` leaves out")
        headed = form is not FileFormat.CSV or csv_of(texts_of(self.options)).header
        if not headed and not selection.whole:
            raise ConfigError(
                "`include:` and `exclude:` need names, and CSV with `header: false` has none: its columns are known by "
                "their place; write the files with a header"
            )

    @property
    def selection(self) -> ColumnSelection:
        """The columns that are read, beside `file_name`."""
        return ColumnSelection(include=self.include, exclude=self.exclude)

    @property
    def form(self) -> FileFormat | None:
        """The format, stated or told by the suffix."""
        return FileFormat(self.format) if self.format else format_of(self.path)

    @staticmethod
    def flavours() -> Iterator[Flavour]:
        """Two for each format: without and with the name of a row's file in a column."""
        for form in FileFormat:
            yield _flavour(form)
            yield replace(_flavour(form), name=f"{form} with file_name", carries=True)

    @property
    def flavour(self) -> Flavour:
        """That of the format."""
        found = _flavour(self.form or FileFormat.PARQUET)
        return found if self.file_name is None else replace(found, name=f"{found.name} with file_name", carries=True)

    def origin(self) -> Origin:
        """The files."""
        return StoredFiles(path=self.path, made=(self.file_name,) if self.file_name is not None else ())

    @contextmanager
    def probe(self, sparks: SparkProvider | None = None, bound: BoundRequest | None = None) -> Iterator[FilesProbe]:
        """Opens the folder without Spark; what only Spark can tell starts one."""
        if self.form is None:
            raise InternalError("files without a format")
        spark, folders = LazySpark(sparks), ExitStack()
        where = place(self.path, follow_links=self.follow_links)
        probe = FilesProbe(
            where,
            self.form,
            spark,
            options=texts_of(self.options),
            types=stated(self.columns),
            selection=self.selection,
            carrier=self.file_name,
            settle=self.settle,
            copies=cache(lambda: folders.enter_context(temporary.folder())),
        )
        try:
            probe.bound = bound
            yield probe
        except FileUnreadable as error:
            found = probe.located(error)
            if found is error:
                raise
            raise found from error
        finally:
            folders.close()
            spark.close()

    def read(self, session: SparkSession, probe: FilesProbe, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The rows of the slices, from exactly the files that were listed.

        Rows: the columns of `schema` in order, with exactly its stored types; NULL where a file lacks a column.
        """
        with reading(self.path):
            return probe.read(session, parts, schema)

    def jars(self) -> tuple[str, ...]:
        """Spark's reader of Avro and Hadoop's of S3, which it does not come with."""
        return (*((AVRO,) if self.form is FileFormat.AVRO else ()), *(jars.S3A if on_s3(self.path) else ()))

    def spark_conf(self) -> Mapping[str, str]:
        """None."""
        return {}


def _flavour(form: FileFormat) -> Flavour:
    return Flavour(name=str(form), reads=Files.reads)
