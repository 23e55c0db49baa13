"""Finds the columns of a file from its footer, header or first bytes, without Spark.

A file's suffix is never trusted.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import IO, Any

from tidegate.core.schema import BIGINT, BINARY, INT, JSON, TIMESTAMPTZ, Type, every
from tidegate.errors import FileUnreadable, SchemaRefused
from tidegate.sources.shared.files.csv_scan import Rows, bare, rows_of
from tidegate.sources.shared.files.json_scan import LARGE, LARGE_PACKED
from tidegate.sources.shared.files.options import CsvDialect, csv_of
from tidegate.sources.shared.files.types import Encoding, encoding_of, nested_in_spark, of_arrow, of_avro
from tidegate.storage import Store

HEAD = 1024 * 1024
REWRITE = "Write the file again with a unique name for each column."


@dataclass(frozen=True, slots=True, kw_only=True)
class Untyped:
    """A column of a type that no column of a lake has.

    Args:
        text: the type, for people.
        spark: Spark's name of a nested type whose values can be written as JSON; None where Spark infers it.
        stored: the type as which a column that states it gets the values as they are stored; None for none.
        means: what these are.
        keeps: whether it is nested, and JSON keeps it.
    """

    text: str
    spark: str | None = None
    stored: Type | None = None
    means: str = ""
    keeps: bool = True


Columns = Mapping[str, Type | Encoding | Untyped | None]
"""By name: the type, how it is read that Spark has no type for, or what it is; None for a column without a value."""


class FileFormat(StrEnum):
    """How rows are written in a file."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    AVRO = "avro"
    ORC = "orc"


TYPED = frozenset({FileFormat.PARQUET, FileFormat.AVRO, FileFormat.ORC})
SUFFIXES = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".tsv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
    ".avro": FileFormat.AVRO,
    ".orc": FileFormat.ORC,
}
PACKED: Mapping[str, Callable[[IO[bytes]], Any]] = {".gz": gzip.open, ".bz2": bz2.open}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is read of a file alike: files of one shape go through one reader.

    Args:
        names: of the columns, in the file's order; none where only reading tells (JSON) or there are none.
        types: of the columns of a format that has types.
        nested: the types of those that are kept as JSON, as Spark calls them; empty where Spark infers them.
        encoded: how those are read that Spark has no type for.
        others: columns of a format that has types, which are not read: left out, or without a value.
        listed: one JSON array rather than a document a line.
        empty: there are no bytes in it, so no rows.
    """

    names: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    nested: Mapping[str, str] = field(default_factory=dict, hash=False)
    encoded: Mapping[str, Encoding] = field(default_factory=dict, hash=False)
    others: tuple[str, ...] = field(default=(), compare=False)
    rows: Rows = field(default_factory=Rows)
    listed: bool = False
    empty: bool = False


def format_of(path: str) -> FileFormat | None:
    """The format that a path's suffix stands for, before `.gz` and `.bz2`; None for an unknown one.

    Example:
        >>> format_of("a/b.csv.gz"), format_of("a/*.csv*"), format_of("notes.txt")
        (<FileFormat.CSV: 'csv'>, <FileFormat.CSV: 'csv'>, None)
    """
    name = path.lower().rstrip("*").rstrip(".")
    for packed in PACKED:
        name = name.removesuffix(packed)
    dot = name.rfind(".")
    return SUFFIXES.get(name[dot:]) if dot >= 0 else None


def shape_of(  # noqa: PLR0913 - what tells how a file is read
    store: Store,
    path: str,
    form: FileFormat,
    options: Mapping[str, str],
    stated: Mapping[str, Type],
    *,
    takes: Callable[[str], bool] = every,
) -> Shape:
    """The shape of one file.

    Args:
        options: of Spark's reader.
        stated: types that the user states.
        takes: whether a column is read; one that is not may hold anything.

    Raises:
        FileUnreadable: it is cut short or not of that format.
        SchemaRefused: a column that no type holds exactly, or two of one name.
    """
    try:
        with store.open(path) as content:
            match form:
                case FileFormat.CSV:
                    return _csv(content, path, options)
                case FileFormat.JSON:
                    return _json(content, path)
                case FileFormat.AVRO:
                    found = _avro(content)
                case FileFormat.ORC:
                    found = _orc(content, path)
                case _:
                    found = _parquet(content, path)
    except (FileUnreadable, SchemaRefused):
        raise
    except (OSError, EOFError, ValueError, LookupError, zlib.error) as error:
        raise FileUnreadable(f"{path} is truncated, damaged or not {form}", file=path) from error
    return _typed(path, found, stated, takes)


def _typed(path: str, found: Columns, stated: Mapping[str, Type], takes: Callable[[str], bool]) -> Shape:
    taken = {name: kind for name, kind in found.items() if kind is not None and takes(name)}
    others = tuple(name for name in found if name not in taken)
    types: list[Type] = []
    nested: dict[str, str] = {}
    encoded: dict[str, Encoding] = {}
    for name, kind in taken.items():
        if isinstance(kind, Type):
            types.append(kind)
        elif isinstance(kind, Encoding):
            # What is stored as a whole number can be kept as one.
            as_stored = stated.get(name) == BIGINT and kind.stored in ("int", "bigint")
            types.append(INT if as_stored and kind.stored == "int" else BIGINT if as_stored else kind.kind)
            encoded |= {} if as_stored else {name: kind}
        elif kind.stored is not None and stated.get(name) == kind.stored:
            types.append(kind.stored)
        elif kind.keeps and stated.get(name) == JSON:
            types.append(JSON)
            nested[name] = kind.spark or ""
        else:
            raise _untyped(path, name, kind)
    return Shape(names=tuple(taken), types=tuple(types), nested=nested, encoded=encoded, others=others)


def _untyped(path: str, name: str, kind: Untyped) -> SchemaRefused:
    hint = f"Leave it out: `source: {{exclude: [{name}]}}`, or write it as another type."
    if kind.stored is not None:
        word = "binary" if kind.stored == BINARY else kind.stored
        hint = f"`source: {{columns: {{{name}: {word}}}}}` loads {kind.means}. {hint}"
    elif kind.keeps:
        hint = f"Keep nested values as text: `source: {{columns: {{{name}: json}}}}`. {hint}"
    return SchemaRefused(
        f"column {name!r} of {path} is {kind.text[:80]}, which no column of the lake can store exactly",
        hint=hint,
        column=name,
    )


def _parquet(content: IO[bytes], path: str) -> Columns:
    from pyarrow import parquet  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second, and only where such files are read
    from pyarrow import types as is_  # noqa: PLC0415 - as above

    file = parquet.ParquetFile(content)
    leaves = {file.schema.column(number).path: file.schema.column(number) for number in range(len(file.schema))}
    found: dict[str, Type | Encoding | Untyped | None] = {}
    _once(file.schema_arrow.names, path, REWRITE)
    for column in file.schema_arrow:
        leaf = leaves.get(column.name)
        if is_.is_null(column.type):
            found[column.name] = None  # no value in it, so it tells nothing
            continue
        # Spark's own writer: a moment, which Arrow shows without its zone.
        old = leaf is not None and leaf.physical_type == "INT96"
        if leaf is not None and leaf.converted_type == "INTERVAL":
            means = "the 12 bytes of each: months, days and milliseconds"
            found[column.name] = Untyped(text="an interval", stored=BINARY, means=means)
            continue
        found[column.name] = TIMESTAMPTZ if old else encoding_of(column.type) or _known(column.type)
    return found


def _orc(content: IO[bytes], path: str) -> Columns:
    from pyarrow import orc  # noqa: PLC0415 - only where such files are read
    from pyarrow import types as is_  # noqa: PLC0415 - as above

    schema = orc.ORCFile(content).schema
    _once(schema.names, path, REWRITE)
    # Spark reads ORC's timestamp as a moment, and the one that says so ("with local time zone") not at all.
    return {
        each.name: TIMESTAMPTZ
        if is_.is_timestamp(each.type) and not each.type.tz
        else of_arrow(each.type) or Untyped(text=str(each.type))
        for each in schema
    }


def _known(kind: Any) -> Type | Untyped:
    """Of Parquet."""
    from pyarrow import types as is_  # noqa: PLC0415 - only where such files are read

    if is_.is_duration(kind):
        units = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
        return Untyped(text="a duration", stored=BIGINT, means=f"the number of its {units[kind.unit]}")
    inner = nested_in_spark(kind)
    return of_arrow(kind) or Untyped(text=str(kind), spark=inner, keeps=is_.is_nested(kind) and inner is not None)


def _avro(content: IO[bytes]) -> Columns:
    if content.read(4) != b"Obj\x01":
        raise ValueError("not Avro")
    about: dict[str, bytes] = {}
    while count := _long(content):
        if count < 0:
            _long(content)
        for _ in range(abs(count)):
            key = content.read(_long(content)).decode()
            about[key] = content.read(_long(content))
    schema = json.loads(about["avro.schema"])
    if schema.get("type") != "record":
        raise ValueError("not records")
    return {each["name"]: of_avro(each["type"]) or Untyped(text=json.dumps(each["type"])) for each in schema["fields"]}


def _long(content: IO[bytes]) -> int:
    """Avro's variable-length, zigzag-coded number."""
    value = shift = 0
    while True:
        byte = content.read(1)
        if not byte:
            raise EOFError
        value |= (byte[0] & 0x7F) << shift
        if not byte[0] & 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7


def unpacked(content: IO[bytes], path: str) -> IO[bytes]:
    """The content of a file that may be packed, by its suffix."""
    opened = _packed(path)
    found: IO[bytes] = content if opened is None else opened(content)
    return found


def _packed(path: str) -> Callable[[IO[bytes]], Any] | None:
    return next((opener for suffix, opener in PACKED.items() if path.lower().endswith(suffix)), None)


def _csv(content: IO[bytes], path: str, options: Mapping[str, str]) -> Shape:
    stated = csv_of(options)
    whole = unpacked(content, path)
    with bare(whole, path, stated) as (text, dialect):
        head = text.read(HEAD)
        if not head:
            return Shape(empty=True)
        encoding = "utf-8-sig" if dialect.encoding == "utf-8" else dialect.encoding
        decoded = codecs.getincrementaldecoder(encoding)("replace").decode(head)
        names = _header(decoded.removeprefix("\ufeff"), dialect)
        rows = rows_of(text, path, dialect, len(names))
    if text is not whole:
        rows = replace(rows, bare=True, separator=dialect.separator)
    if not dialect.header:
        return Shape(rows=rows)
    named = [name or f"_c{number}" for number, name in enumerate(names)]
    _once(named, path, "Correct the header, or read without it: `header: false`.")
    return Shape(names=tuple(named), rows=rows)


def _header(text: str, dialect: CsvDialect) -> list[str]:
    lines = io.StringIO(text, newline="")
    left_out = ("\r", "\n", dialect.comment) if dialect.comment else ("\r", "\n")
    wanted = (line for line in lines if not line.startswith(left_out))
    if len(dialect.separator) > 1:
        return next(wanted, "").rstrip("\r\n").split(dialect.separator)
    return next(csv.reader(wanted, **dialect.of_python), [])


def _once(names: Sequence[str], path: str, hint: str) -> None:
    """Raises SchemaRefused for two columns of one name, of which Spark would read one."""
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise SchemaRefused(f"two columns of {path} have the same name, {name!r}", hint=hint, column=name)


def _json(content: IO[bytes], path: str) -> Shape:
    head = unpacked(content, path).read(HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        return Shape(empty=True)
    if head[:1] not in b"[{":
        raise FileUnreadable(f"{path} is not JSON: it starts with neither an object nor an array", file=path)
    listed = head[:1] == b"["
    large = listed and content.seek(0, io.SEEK_END) >= (LARGE_PACKED if _packed(path) else LARGE)
    return Shape(listed=listed, rows=Rows(bare=large))
