"""Decides what a file's columns are, by its footer, header or first bytes, without Spark.

Called by the probe of files. Must never believe a file's suffix.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import IO, Any

from tidegate.core.schema import JSON, TIMESTAMPTZ, Type
from tidegate.errors import FileUnreadable, SchemaRefused
from tidegate.sources._files_place import Store
from tidegate.sources._files_types import of_arrow, of_avro

HEAD = 1024 * 1024


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
        nested: what those hold that are kept as JSON, by name.
        listed: one JSON array rather than a document a line.
        empty: there are no bytes in it, so no rows.
    """

    names: tuple[str, ...] = ()
    types: tuple[Type, ...] = ()
    nested: Mapping[str, str] = field(default_factory=dict, hash=False)
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


def shape_of(store: Store, path: str, form: FileFormat, options: Mapping[str, str], nested: frozenset[str]) -> Shape:
    """The shape of one file.

    Args:
        options: of Spark's reader.
        nested: columns that are kept as JSON, whatever they hold.

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
                    found = _orc(content)
                case _:
                    found = _parquet(content)
    except (FileUnreadable, SchemaRefused):
        raise
    except (OSError, EOFError, ValueError, LookupError, zlib.error) as error:
        raise FileUnreadable(f"{path} is cut short, damaged or not {form}", file=path) from error
    return _typed(path, found, nested)


def _typed(path: str, found: Mapping[str, Type | str], nested: frozenset[str]) -> Shape:
    inner = {name: kind for name, kind in found.items() if isinstance(kind, str)}
    for name, kind in inner.items():
        if name not in nested:
            raise SchemaRefused(
                f"column {name!r} of {path} is {kind[:80]}, which no column of the lake holds exactly",
                hint=f"Keep what is nested as text with `columns: {{{name}: json}}`; write others otherwise.",
                column=name,
            )
    types = tuple(JSON if isinstance(kind, str) else kind for kind in found.values())
    return Shape(names=tuple(found), types=types, nested=inner)


def _parquet(content: IO[bytes]) -> dict[str, Type | str]:
    from pyarrow import parquet  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second, and only where such files are read
    from pyarrow import types as is_  # noqa: PLC0415 - as above

    file = parquet.ParquetFile(content)
    leaves = {file.schema.column(number).path: file.schema.column(number) for number in range(len(file.schema))}
    found: dict[str, Type | str] = {}
    for column in file.schema_arrow:
        leaf = leaves.get(column.name)
        if is_.is_null(column.type):
            continue  # no value in it, so it tells nothing
        # Spark's own writer: a moment, which Arrow shows without its zone.
        old = leaf is not None and leaf.physical_type == "INT96"
        found[column.name] = TIMESTAMPTZ if old else _known(column.type)
    return found


def _orc(content: IO[bytes]) -> dict[str, Type | str]:
    from pyarrow import orc  # noqa: PLC0415 - only where such files are read
    from pyarrow import types as is_  # noqa: PLC0415 - as above

    schema = orc.ORCFile(content).schema
    # Spark reads ORC's timestamp as a moment, and the one that says so ("with local time zone") not at all.
    return {
        each.name: TIMESTAMPTZ if is_.is_timestamp(each.type) and not each.type.tz else _known(each.type)
        for each in schema
    }


def _known(kind: Any) -> Type | str:
    return of_arrow(kind) or str(kind)


def _avro(content: IO[bytes]) -> dict[str, Type | str]:
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
    return {each["name"]: of_avro(each["type"]) or json.dumps(each["type"]) for each in schema["fields"]}


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


def _unpacked(content: IO[bytes], path: str) -> IO[bytes]:
    opened = next((opener for suffix, opener in PACKED.items() if path.lower().endswith(suffix)), None)
    found: IO[bytes] = content if opened is None else opened(content)
    return found


def _csv(content: IO[bytes], path: str, options: Mapping[str, str]) -> Shape:
    unpacked = _unpacked(content, path)
    head = unpacked.read(HEAD)
    if not head:
        return Shape(empty=True)
    if options.get("header", "true").lower() != "true":
        return Shape()
    if b"\0" in head and "encoding" not in options and "charset" not in options:
        raise FileUnreadable(f"{path} is not text, so it is no csv", file=path)
    encoding = options.get("encoding") or options.get("charset") or "utf-8-sig"
    text = head.decode(encoding, errors="replace")
    names = _header(text, options)
    if len(set(names)) < len(names):
        raise SchemaRefused(
            f"two columns of {path} have one name", hint="Correct the header, or read without it: `header: false`."
        )
    return Shape(names=tuple(names))


def _header(text: str, options: Mapping[str, str]) -> list[str]:
    separator = (options.get("sep") or options.get("delimiter") or ",").replace("\\t", "\t")
    comment, quote = options.get("comment"), options.get("quote", '"')
    lines = io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n"), newline="")
    wanted = (line for line in lines if line.strip() and not (comment and line.startswith(comment)))
    if len(separator) > 1:
        names = next(wanted, "").rstrip("\n").split(separator)
    else:
        names = next(csv.reader(wanted, delimiter=separator, quotechar=quote or None, quoting=_quoting(quote)), [])
    return [name or f"_c{number}" for number, name in enumerate(names)]


def _quoting(quote: str) -> Any:
    return csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE


def _json(content: IO[bytes], path: str) -> Shape:
    head = _unpacked(content, path).read(HEAD).removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        return Shape(empty=True)
    if head[:1] not in b"[{":
        raise FileUnreadable(f"{path} is no json: it begins with neither an object nor an array", file=path)
    return Shape(listed=head[:1] == b"[")
