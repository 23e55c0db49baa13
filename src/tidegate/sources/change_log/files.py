"""A change log in files, read in the order of their paths.

A file that was read must not change, and an event that cannot be read never becomes NULL.
"""

from __future__ import annotations

import hashlib
import io
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, cast

from tidegate.core.display import counted
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.log import (
    ORIGIN,
    PLACE,
    RAW,
    REFUSED,
    Lag,
    LogSpan,
    Message,
)
from tidegate.core.ports.envelope import Envelope, MessageEnvelope, RowEnvelope
from tidegate.core.ports.source import SparkProvider
from tidegate.core.schema import TEXT, Column, Schema
from tidegate.core.slices import Everything, LogRange, Slice
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError, HistoryGone, InternalError, SourceMoved
from tidegate.sources.change_log import json_lines, line_sample
from tidegate.sources.change_log.log import OpenLog, columns_known, columns_of, no_event, of_one_table
from tidegate.sources.shared.files.options import checked, texts_of
from tidegate.sources.shared.files.reader import Reader
from tidegate.sources.shared.files.shape import PACKED, SUFFIXES, TYPED, FileFormat, Shape, format_of, shape_of
from tidegate.sources.shared.files.store import Place, check_path, place
from tidegate.sources.shared.files.types import BEFORE, STATED, merged_schema, of_spark, stated
from tidegate.sources.shared.frame_probe import LazySpark, reading
from tidegate.storage import FileInfo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.sources.shared.reference import FileRows

AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"
PIECE = 1 << 20
"""Bytes of a file that are looked at together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLogOptions:
    """What a log of files is, as the project says; see `ChangeLog`."""

    path: str
    envelope: Envelope
    form: FileFormat | None = None
    options: Mapping[str, str | int | float | bool | list[str]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    settle: timedelta = timedelta(0)
    follow_links: bool = False

    def __post_init__(self) -> None:
        check_path(self.path)
        stated(self.columns)
        if self.form is None and format_of(self.path) is None:
            known = ", ".join(sorted(SUFFIXES))
            raise ConfigError(f"path: {self.path!r} has no suffix that shows its format ({known}); set `format:`")
        if self.envelope.needs_registry:
            raise ConfigError(
                f"envelope: {self.envelope.kind} needs a topic's schema registry, and files have none; read it with "
                "`source: {connection: …, topic: …}`"
            )
        if self.envelope.messages and self.format is not FileFormat.JSON:
            raise ConfigError(
                f"envelope: {self.envelope.kind} has one event per line, so its files must be `format: json`"
            )
        checked(self.format, texts_of(self.options))

    @property
    def format(self) -> FileFormat:
        """Stated, or told by the suffix."""
        return FileFormat(self.form or format_of(self.path) or FileFormat.JSON)


def jars(options: FileLogOptions) -> tuple[str, ...]:
    """Spark's reader of Avro, which it does not come with."""
    return (AVRO,) if options.format is FileFormat.AVRO else ()


@contextmanager
def opened(options: FileLogOptions, sparks: SparkProvider | None) -> Iterator[FileLog]:
    """The log as it is now; its files are listed once."""
    spark = LazySpark(sparks)
    try:
        yield FileLog(options, place(options.path, follow_links=options.follow_links), spark)
    finally:
        spark.close()


class FileLog(OpenLog):
    """Files of events."""

    def __init__(self, options: FileLogOptions, where: Place, spark: LazySpark) -> None:
        self._options = options
        self._place = where
        self._spark = spark
        self._chosen: Sequence[FileInfo] | None = None
        self._before: Mapping[str, str] = {}
        self._shapes: dict[str, Shape] = {}
        self._named: str | None = None

    @property
    def label(self) -> str:
        """The path."""
        return self._options.path

    def identity(self) -> str:
        """The path: files are distinguished by their names and sizes."""
        return f"log of files:{self._options.path}"

    def clock(self) -> int | None:
        """None."""
        return None

    def now(self) -> datetime:
        """The time."""
        return datetime.now(UTC)

    def notes(self) -> tuple[str, ...]:
        """Whether files wait for a later run."""
        _, waiting = self._listed
        return (f"{waiting} is still being written, so it and all later files wait",) if waiting else ()

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """The files after the one that was read last; all of them again where those before are not what was read.

        Reading a file again changes nothing: no event counts twice.

        Raises:
            HistoryGone: the file that was read last is gone, so others may be, too.
        """
        ready, _ = self._listed
        before = dict(state or {})
        self._before, self._named = dict(before.get("columns", ())), before.get("table")
        after, reason = self._read_before(before)
        waiting = [each for each in ready if after is None or each.path > after]
        chosen, events = self._few(waiting, most)
        self._chosen = chosen
        for cached in ("_columns", "_messages"):  # of the files that were asked for before
            self.__dict__.pop(cached, None)
        if not chosen:
            return LogSpan(slices=(), state=before, reason="no new file")
        messages = self._options.envelope.messages
        if messages and not self._messages and not columns_known(self.schema):
            return LogSpan(slices=(), state=before, events=0, reason="no event of the table yet")
        upto = chosen[-1].path
        position: dict[str, Any] = {"upto": upto, "digest": _digest([each for each in ready if each.path <= upto])}
        if not messages:
            position["columns"] = [[column.name, column.type.spark] for column in self._columns]
        elif (table := self._envelope.table_of(self._messages, self._named)) is not None:
            position["table"] = table
        return LogSpan(
            slices=(LogRange(part=self.label, after=after, upto=upto),),
            state=position,
            events=events,
            taken=len(chosen),
            behind=len(waiting) - len(chosen),
            reason=f"{counted(len(chosen), 'file')} of {reason}",
        )

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """The events of the files that would be read, and the age of the oldest file."""
        ready, _ = self._listed
        after, _ = self._read_before(state or {})
        waiting = [each for each in ready if after is None or each.path > after]
        if not waiting:
            return Lag(events=0, seconds=0)
        age = max(0, int(time.time() - min(each.modified for each in waiting)))
        return Lag(events=self._few(waiting, sys.maxsize)[1], seconds=age)

    def schema(self) -> Schema:
        """The columns of the table, as the files that are read next and those before tell them."""
        if self._options.envelope.messages:
            return columns_of(*self._of_one_table(), self.label)
        return cast("RowEnvelope", self._options.envelope).schema(self._columns)

    def events(self, session: SparkSession, parts: Sequence[Slice], schema: Schema) -> DataFrame:
        """The events of the files in these ranges."""
        paths = self._paths(parts)
        with reading(self.label):
            if self._options.envelope.messages:
                envelope, known = self._of_one_table()
                envelope = envelope if self._chosen is None else envelope.of_columns(known, None)
                return envelope.primed_with(known).events(self._lines(session, paths), schema)
            return cast("RowEnvelope", self._options.envelope).events(self._rows(session, paths), self._columns, schema)

    def read_twice(
        self, session: SparkSession, parts: Sequence[Slice], *, values: bool
    ) -> tuple[Fingerprint, Fingerprint]:
        """Records as Spark reads them and as PyArrow, fastavro or Python does; of messages their number."""
        from tidegate.sources.shared.reference import Answers, FileRows  # noqa: PLC0415 - it imports PyArrow, half a second
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

        json, messages = self._options.format is FileFormat.JSON, self._options.envelope.messages
        paths, options = self._paths(parts), texts_of(self._options.options)
        if json:  # a record is a line, whatever a reader of whole documents would make of the file
            options = {name: text for name, text in options.items() if name.lower() != "multiline"}
        rows = FileRows(
            store=self._place.store,
            form=self._options.format,
            options=options,
            schema=Schema(columns=()) if messages else self._columns,
        )
        other = Answers(rows=rows, paths=tuple(paths))
        with reading(self.label):
            found = self._lines(session, paths) if messages else self._rows(session, paths)
            # The other reader takes a file as a whole: where a record cannot be taken, all are only counted.
            if messages or not values or (json and _any_refused(found)):
                count = sum(_filled(rows, path) for path in paths) if json else other.count(Everything())
                return Fingerprint(rows=found.count()), Fingerprint(rows=count)
            return dataframe_ops.fingerprint(found, Spark().steps(self._columns.columns)), other.fingerprint(
                Everything()
            )

    def verify_unchanged(self) -> None:
        """Raises SourceMoved when a file that was read is another one now."""
        for each in self._chosen or ():
            seen = self._place.store.look(each.path)
            if seen is None or seen.size != each.size:
                raise SourceMoved(
                    f"{each.path} was changed while it was being read",
                    hint="Run again once it is written; `source: {settle: 5m}` skips files that are newer.",
                )

    def _read_before(self, state: Mapping[str, Any]) -> tuple[str | None, str]:
        """The file that was read last, None where all are read once more; and what is read, for people."""
        read = state.get("upto")
        if read is None:
            return None, "events"
        known = [each for each in self._listed[0] if each.path <= read]
        if not known or known[-1].path != read:
            raise HistoryGone(f"{read} was the last file read of {self.label}, and it is missing; others may be, too")
        if _digest(known) == state.get("digest"):
            return str(read), "events"
        return None, "events, earlier ones again, because files arrived in between or have changed"

    @cached_property
    def _listed(self) -> tuple[list[FileInfo], str | None]:
        """The files that can be read, in order, and the first that cannot yet: it ends them."""
        seen, unfinished = self._place.seen()
        young = time.time() - self._options.settle.total_seconds()
        waiting = [*unfinished, *(each.path for each in seen if self._options.settle and each.modified > young)]
        first = min(waiting, default=None)
        return [each for each in seen if first is None or each.path < first], first

    @property
    def _read(self) -> Sequence[FileInfo]:
        """The files that are read next; all of them before anybody has asked."""
        return self._listed[0] if self._chosen is None else self._chosen

    def _few(self, files: list[FileInfo], most: int | None) -> tuple[list[FileInfo], int | None]:
        """As many whole files as hold that many events, at least one, and how many they hold, where that is exact."""
        if most is None or not files:
            return files, None
        total = 0
        chosen: list[FileInfo] = []
        for each in files:
            count = self._count(each.path)
            if chosen and total + count > most:
                break
            chosen.append(each)
            total += count
        exact = self._options.format in (FileFormat.PARQUET, FileFormat.ORC) or not any(
            each.path.lower().endswith(tuple(PACKED)) for each in chosen
        )
        return chosen, total if exact and self._options.format not in (FileFormat.AVRO, FileFormat.CSV) else None

    def _count(self, path: str) -> int:
        """Events of a file: by its footer, else its lines; of packed files and of Avro about how many."""
        with self._place.store.open(path) as content:
            if self._options.format is FileFormat.PARQUET:
                from pyarrow import parquet  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second

                return int(parquet.ParquetFile(content).metadata.num_rows)
            if self._options.format is FileFormat.ORC:
                from pyarrow import orc  # noqa: PLC0415 - as above

                return int(orc.ORCFile(content).nrows)
            return _lines(content)

    @property
    def _envelope(self) -> MessageEnvelope:
        return cast("MessageEnvelope", self._options.envelope)

    def _of_one_table(self) -> tuple[MessageEnvelope, list[Message]]:
        return of_one_table(self._envelope, self._messages, self._named)

    @cached_property
    def _messages(self) -> list[Message]:
        """Messages that tell the columns, the newest last; of files of which nobody has asked only the first ones."""
        paths = [each.path for each in self._read]
        asked = line_sample.FileSample(
            store=self._place.store,
            own=self._envelope.of_table(self._named).own,
            paths=paths,
            earlier=[each.path for each in self._listed[0] if paths and each.path < paths[0]],
            most=line_sample.SAMPLE if self._chosen is None else None,
        )
        return line_sample.messages(asked)

    @cached_property
    def _columns(self) -> Schema:
        """The columns of the files, operation and order among them."""
        types = stated(self._options.columns)
        before = {name: of_spark(text) or TEXT for name, text in self._before.items()}
        paths = [each.path for each in self._read]
        if not paths and not before and not types:
            raise no_event(self.label)
        found = [(BEFORE, before)]
        if self._options.format is FileFormat.JSON:
            if not types:
                uris = self._reader().uris(paths)
                found.append((self.label, json_lines.inferred_types(self._spark.session(), uris)))
        else:
            shapes = {path: self._shape(path) for path in paths}
            if self._options.format in TYPED:
                found += [(path, dict(zip(shape.names, shape.types, strict=True))) for path, shape in shapes.items()]
            elif shapes:
                found += self._reader().inferred_types(self._spark.session(), shapes)
        return merged_schema([*found, (STATED, types)], types)

    def _shape(self, path: str) -> Shape:
        if path not in self._shapes:
            options = texts_of(self._options.options)
            self._shapes[path] = shape_of(self._place.store, path, self._options.format, options, {})
        return self._shapes[path]

    def _reader(self) -> Reader:
        options = texts_of(self._options.options)
        return Reader(store=self._place.store, form=self._options.format, options=options, carrier=PLACE)

    def _paths(self, parts: Sequence[Slice]) -> list[str]:
        return [each.path for each in self._listed[0] if any(_within(part, each.path) for part in parts)]

    def _lines(self, session: SparkSession, paths: Sequence[str]) -> DataFrame:
        return json_lines.lines(session, self._reader().uris(paths))

    def _rows(self, session: SparkSession, paths: Sequence[str]) -> DataFrame:
        columns = self._columns
        if self._options.format is FileFormat.JSON:
            return json_lines.parsed(self._lines(session, paths), columns, self._reader().rules)
        carried = Schema(columns=(*columns.columns, Column(name=PLACE, type=TEXT)))
        rows = self._reader().rows(session, {path: self._shape(path) for path in paths}, carried)
        none = "CAST(NULL AS string)"
        return rows.selectExpr(
            *(Spark().quote(name) for name in columns.names),
            PLACE,
            f"concat('file ', {PLACE}) AS {ORIGIN}",
            f"{none} AS {REFUSED}",
            f"{none} AS {RAW}",
        )


def _any_refused(rows: DataFrame) -> bool:
    """Whether a record cannot be taken; counted, because Spark asks a condition below the parser.

    It would then parse a record again for every name that the condition and its parts look at.
    """
    return bool(rows.selectExpr(f"count_if({REFUSED} IS NOT NULL)").collect()[0][0])


def _filled(rows: FileRows, path: str) -> int:
    """Lines of a file that are not blank."""
    with rows.opened(path) as content, io.TextIOWrapper(content, "utf-8-sig", "replace") as lines:
        return sum(1 for line in lines if line.strip(" \n"))


def _within(part: Slice, path: str) -> bool:
    if not isinstance(part, LogRange):
        raise InternalError("a log is read by ranges")
    return (part.after is None or path > part.after) and path <= part.upto


def _digest(files: Sequence[FileInfo]) -> str:
    lines = "\n".join(f"{each.path}\0{each.size}" for each in files)
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _lines(content: IO[bytes]) -> int:
    count, last = 0, b"\n"
    while piece := content.read(PIECE):
        count, last = count + piece.count(b"\n"), piece
    return count + (not last.endswith(b"\n"))
