"""Reads files as Arrow tables with exact column types, plus each file's path and folder columns.

A missing column or file is never ignored.
"""

from __future__ import annotations

import bz2
import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any
from urllib.parse import unquote

import pyarrow as pa  # type: ignore[import-untyped]

from tidegate.core.manifest import LOAD, LOADED
from tidegate.core.schema import Column, Schema
from tidegate.errors import FileUnreadable, TidegateError
from tidegate.sources.shared.reference import delimited, documents, typed
from tidegate.sources.shared.reference.values import (
    UNLIKE,
    TextRules,
    ValueRefused,
    arrow_type,
    of_arrow,
    of_texts,
    of_untyped,
)
from tidegate.storage import Store

CODED = re.compile("(?:[^%]|%[0-9A-Fa-f]{2})*")
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"
UNPACKED: Mapping[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".zst": lambda content: pa.CompressedInputStream(pa.PythonFile(content), "zstd"),
}
TYPED: Mapping[str, Callable[[IO[bytes], frozenset[str]], Iterator[Mapping[str, Any]]]] = {
    "parquet": typed.parquet,
    "orc": typed.orc,
    "avro": typed.avro,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """How files of one source are read a second time.

    Args:
        form: `parquet`, `csv`, `json`, `avro` or `orc`.
        options: as the source states them.
        carrier: the column that holds each row's path; None for none.
        partitions: columns whose values are in the folders' names, where a file has no column of that name.
        loads: the number of the load that read each file, which is the column `LOADED`.
        stated: the columns of CSV and JSON whose types somebody has stated, see `of_untyped`; None for all of them.
    """

    store: Store
    form: str
    options: Mapping[str, str]
    schema: Schema
    carrier: str | None = None
    partitions: tuple[str, ...] = ()
    loads: Mapping[str, int] = field(default_factory=dict)
    stated: frozenset[str] | None = None

    def tables(self, paths: Sequence[str], names: Sequence[str]) -> Iterator[pa.Table]:
        """The rows of these files, in pieces of some thousands.

        Args:
            names: of the columns that are wanted.

        Raises:
            FileUnreadable: a file that cannot be read exactly; it is named.
        """
        wanted = [column for column in (*self.schema, LOAD) if column.name in set(names)]
        for path in paths:
            try:
                yield from self._file(path, wanted)
            except TidegateError:
                raise
            except (OSError, EOFError, ValueError, ArithmeticError, LookupError, TypeError, zlib.error) as error:
                raise self._unreadable(path, error) from error

    def _file(self, path: str, wanted: Sequence[Column]) -> Iterator[pa.Table]:
        outside: dict[str | None, str | None] = {self.carrier: path, LOADED: str(self.loads.get(path, 0))}
        folders = {name: _of_folder(path, name) for name in self.partitions}
        inside = [column for column in wanted if column.name not in outside]
        rules = TextRules.of(self._options)
        for rows, found in self._batches(path, inside, folders):
            made = []
            for column in wanted:
                text = outside.get(column.name, folders.get(column.name))
                if column.name in found:
                    made.append(found[column.name])
                elif text is None:
                    made.append(pa.nulls(rows, arrow_type(column.type)))
                else:
                    one = of_texts(pa.array([text], pa.string()), column.type, rules)
                    made.append(pa.repeat(one[0], rows))
            names = [column.name for column in wanted]
            # A table without columns has no rows: the column without a name keeps their number.
            yield pa.table([*made, pa.nulls(rows)], names=[*names, ""])

    def _batches(
        self, path: str, wanted: Sequence[Column], folders: Mapping[str, str | None]
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """How many rows, and of the columns of the file itself those that it has."""
        match self.form:
            case "csv":
                yield from self._delimited(path, wanted)
            case "json":
                read = documents.batches(lambda: self.opened(path), wanted, self._options, folders, stated=self.stated)
                for documented in read:
                    yield len(documented[""]), documented
            case form:
                names = frozenset(column.name for column in wanted)
                with self.store.open(path) as content:
                    for found in TYPED[form](content, names):
                        inside = [column for column in wanted if column.name in found]
                        made = {column.name: self._typed(found[column.name], column) for column in inside}
                        yield len(next(iter(found.values()))), made

    def _delimited(self, path: str, wanted: Sequence[Column]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        convention, rules = delimited.Convention.of(self._options), TextRules.of(self._options)
        outside = {self.carrier, *self.partitions}
        in_order = [column.name for column in self.schema if column.name not in outside]
        for header, table in delimited.batches(lambda: self.opened(path), convention):
            if header is None and table.num_columns != len(in_order):
                raise ValueError(f"rows of {table.num_columns} values instead of {len(in_order)}")
            if header is not None and len(set(header)) < len(header):
                raise ValueError("two columns have the same name")
            names = in_order if header is None else [name or f"_c{at}" for at, name in enumerate(header)]
            found = {}
            for column in wanted:
                if column.name in names:
                    texts = table.column(names.index(column.name)).combine_chunks()
                    convert = of_texts if self.stated is None or column.name in self.stated else of_untyped
                    found[column.name] = _converted(convert, texts, column, rules)
            yield table.num_rows, found

    def _typed(self, values: Any, column: Column) -> Any:
        try:
            return of_arrow(values, column.type, TextRules.of(self._options))
        except (ValueError, ArithmeticError, LookupError, OverflowError) as error:
            raise typed.refused(values.type, column) from error

    @contextmanager
    def opened(self, path: str) -> Iterator[IO[bytes]]:
        """The content, unpacked where the name says that it is packed."""
        unpack = next((opener for suffix, opener in UNPACKED.items() if path.lower().endswith(suffix)), None)
        with self.store.open(path) as content:
            if unpack is None:
                yield content
                return
            with unpack(content) as unpacked:
                yield unpacked

    @property
    def _options(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.options.items()}

    def _unreadable(self, path: str, error: Exception) -> FileUnreadable:
        reason = f": {error}" if isinstance(error, ValueRefused) else ""
        if "out of range for nanosecond resolution" in str(error):
            reason = ": it holds a timestamp before 1677 or after 2262, and ORC timestamps are read in nanoseconds"
        hint = ""
        if isinstance(error, ValueRefused):
            hint = error.hint or "Correct the value, or state under `columns:` and `options:` how it is written."
        return FileUnreadable(
            f"{path} cannot be read a second time for verification{reason}",
            hint=hint
            or "The file is damaged, or does not match `format:`, `options:` and `columns:`; correct one of them.",
            file=path,
        )


def _converted(convert: Callable[..., Any], values: Any, column: Column, rules: TextRules) -> Any:
    try:
        return convert(values, column.type, rules)
    except (ValueError, ArithmeticError, LookupError, OverflowError) as error:
        if convert is not of_untyped:
            raise ValueRefused(f"column {column.name!r} has a value that is not a valid {column.type}") from error
        raise ValueRefused(
            f"column {column.name!r} has a value that is not written as a {column.type}, and that type was inferred",
            hint=UNLIKE.format(name=column.name),
        ) from error


def _of_folder(path: str, name: str) -> str | None:
    found = re.search(rf"(?:^|/){re.escape(name)}=([^/]*)/", path)
    text = found[1] if found else ""
    # One `%` that begins no code, and the name is none that Hive or Spark has written.
    value = unquote(text) if CODED.fullmatch(text) else text
    return None if value in ("", NO_PARTITION) else value
