"""Reads columns of Parquet, ORC and Avro files as Arrow arrays, with PyArrow and fastavro.

Columns are matched by name, and a timestamp that Arrow cannot represent is an error.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import IO, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from tidegate import extras
from tidegate.core.schema import Column, Kind, Type
from tidegate.errors import EnvironmentMissing
from tidegate.sources.shared import hints
from tidegate.sources.shared.reference.orc_calendar import GREGORIAN, PROLEPTIC, calendar_of, julian
from tidegate.sources.shared.reference.values import NUMBERS, ValueRefused

ROWS = 16_384


def parquet(content: IO[bytes], names: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """The columns of these names that the file has, in pieces."""
    from pyarrow import parquet as files  # noqa: PLC0415 - half a second

    # INT96, which Spark and Hive once wrote, wraps around in nanoseconds.
    file = files.ParquetFile(content, coerce_int96_timestamp_unit="us")
    # A column without a type holds nothing: it is read as one that is not there.
    there = [field.name for field in file.schema_arrow if field.name in names and not pa.types.is_null(field.type)]
    _once(field.name for field in file.schema_arrow)
    if not there:
        yield from _without_columns(file.metadata.num_rows)
        return
    # PyArrow takes a dot in a name for a path into a nested column, and then reads the column whole.
    for batch in file.iter_batches(batch_size=ROWS, columns=there, use_threads=False):
        yield {name: batch.column(name) for name in batch.schema.names if name in names}


def orc(content: IO[bytes], names: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """The columns of these names that the file has, in pieces: a stripe each."""
    from pyarrow import orc as files  # noqa: PLC0415 - only where such files are read

    file = files.ORCFile(content)
    _once(file.schema.names)
    there = [name for name in file.schema.names if name in names]
    if not there:
        yield from _without_columns(file.nrows)
        return
    for stripe in range(file.nstripes):
        found = pa.Table.from_batches([file.read_stripe(stripe, columns=there)])
        for batch in found.to_batches(max_chunksize=ROWS):
            yield {name: _days(batch.column(name), content) for name in there}


def refused(kind: Any, column: Column) -> ValueRefused:
    """What is said of a column with a value that its type does not hold."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "ns":
        return ValueRefused(
            f"column {column.name!r} has a time with digits beyond microseconds", hint=hints.of_nanoseconds(column.name)
        )
    types = (of_number(kind), column.type)
    if types[0] is not None and column.type.kind in NUMBERS:
        return ValueRefused(
            f"column {column.name!r} has a value that is not exactly a {column.type}",
            hint=hints.of_number(column.name, (types[0], column.type)),
        )
    return ValueRefused(f"column {column.name!r} has a value that is not a valid {column.type}")


def of_number(kind: Any) -> Type | None:
    """The family of an Arrow type of numbers; None for another one."""
    families = (
        (pa.types.is_floating, Kind.FLOAT),
        (pa.types.is_integer, Kind.INTEGER),
        (pa.types.is_decimal, Kind.DECIMAL),
    )
    return next((Type(kind=family) for test, family in families if test(kind)), None)


def _days(values: Any, content: IO[bytes]) -> Any:
    """The days of an ORC file, by the calendar that it was written in: PyArrow takes any for the Gregorian one."""
    if not pa.types.is_date32(values.type):
        return values
    days = pc.cast(values, pa.int32())
    first = pc.min(days).as_py()
    if first is None or first >= GREGORIAN or calendar_of(content) == PROLEPTIC:
        return values
    made = [each if each is None or each >= GREGORIAN else julian(each) for each in days.to_pylist()]
    return pc.cast(pa.array(made, pa.int32()), pa.date32())


def avro(content: IO[bytes], names: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """The columns of these names that the file has, in pieces."""
    try:
        import fastavro  # noqa: PLC0415 - only where such files are read
    except ImportError as error:
        raise EnvironmentMissing(
            "verification reads Avro files with fastavro, which is not installed",
            hint=extras.hint("avro"),
        ) from error
    decode: Any = fastavro.schemaless_reader
    head = decode(content, fastavro.parse_schema(HEADER))
    if head["magic"] != b"Obj\x01":
        raise ValueError("not Avro")
    schema = json.loads(head["meta"]["avro.schema"])
    unpack = UNPACKED[head["meta"].get("avro.codec", b"null").decode()]
    fields = {field["name"]: field["type"] for field in schema["fields"] if field["name"] in names}
    plain, framed = fastavro.parse_schema(_without_logical(schema)), fastavro.parse_schema(BLOCK)
    while content.read(1):
        content.seek(-1, io.SEEK_CUR)
        block = decode(content, framed)
        if block["sync"] != head["sync"]:
            raise ValueError("a block that does not end where its header says")
        data = io.BytesIO(unpack(block["data"]))
        rows: Iterator[Any] = (decode(data, plain) for _ in range(block["count"]))
        while some := list(islice(rows, ROWS)):
            made = {name: _column([row[name] for row in some], kind) for name, kind in fields.items()}
            yield made or {"": pa.nulls(len(some))}
        if data.read(1):
            raise ValueError("a block that holds more than its header says")


def _snappy(data: bytes) -> bytes:
    """Avro's frame: raw Snappy, whose first bytes tell the length, then a checksum of the text."""
    length = shift = 0
    for byte in data:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    found: bytes = pa.Codec("snappy").decompress(data[:-4], length, asbytes=True)
    if zlib.crc32(found) != int.from_bytes(data[-4:]):
        raise ValueError("a block with a wrong checksum")
    return found


def _zstandard(data: bytes) -> bytes:
    found: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return found


UNPACKED: Mapping[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": lambda data: zlib.decompress(data, -15),
    "snappy": _snappy,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
    "zstandard": _zstandard,
}
HEADER = {
    "type": "record",
    "name": "header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
BLOCK = {
    "type": "record",
    "name": "block",
    "fields": [
        {"name": "count", "type": "long"},
        {"name": "data", "type": "bytes"},
        {"name": "sync", "type": {"type": "fixed", "name": "sync", "size": 16}},
    ],
}
LOGICAL: Mapping[str, Callable[[], Any]] = {
    "date": pa.date32,
    "timestamp-millis": lambda: pa.timestamp("ms", "UTC"),
    "timestamp-micros": lambda: pa.timestamp("us", "UTC"),
    "local-timestamp-millis": lambda: pa.timestamp("ms"),
    "local-timestamp-micros": lambda: pa.timestamp("us"),
}
PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}


def _column(values: list[Any], kind: Any) -> Any:
    """The values that Avro's binary form holds, with the meaning that the schema gives them."""
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    found: dict[str, Any] = kind if isinstance(kind, dict) else {"type": kind}
    logical, plain = found.get("logicalType", ""), found["type"]
    if logical == "decimal":
        wanted = pa.decimal128(found["precision"], found.get("scale", 0))
        return pa.array([None if each is None else _decimal(each, found.get("scale", 0)) for each in values], wanted)
    if logical in LOGICAL:
        wanted = LOGICAL[logical]()
        return pa.array(values, pa.int32() if logical == "date" else pa.int64()).cast(wanted)
    return pa.array(values, PLAIN[plain]) if plain in PLAIN else _nested(values, found)


def _decimal(value: bytes, scale: int) -> Any:
    from decimal import Context, Decimal  # noqa: PLC0415 - only where such columns are read

    return Decimal(int.from_bytes(value, signed=True)).scaleb(-scale, Context(prec=40))


def _nested(values: list[Any], kind: Mapping[str, Any]) -> Any:
    return pa.array([_in_order(each, kind) for each in values], _arrow(kind))


def _in_order(value: Any, kind: Any) -> Any:
    """The value with the entries of all maps in it in the order of their keys, which Avro does not have."""
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if value is None or not isinstance(kind, dict):
        return value
    match kind["type"]:
        case "record":
            return {field["name"]: _in_order(value[field["name"]], field["type"]) for field in kind["fields"]}
        case "array":
            return [_in_order(each, kind["items"]) for each in value]
        case "map":
            inner = {key: _in_order(each, kind["values"]) for key, each in value.items()}
            return sorted(inner.items(), key=lambda entry: entry[0].encode())
        case dict() | list() as other:
            return _in_order(value, other)
    return value


def _arrow(kind: Any) -> Any:  # noqa: PLR0911 - one answer a type
    """The Arrow type of an Avro type without its logical types."""
    if isinstance(kind, list):
        return _arrow(next((each for each in kind if each != "null"), "null"))
    found = kind if isinstance(kind, dict) else {"type": kind}
    match found["type"]:
        case "record":
            return pa.struct([(field["name"], _arrow(field["type"])) for field in found["fields"]])
        case "array":
            return pa.list_(_arrow(found["items"]))
        case "map":
            return pa.map_(pa.string(), _arrow(found["values"]))
        case str() as plain if plain in PLAIN:
            return PLAIN[plain]
        case "null":
            return pa.null()
        case inner:
            return _arrow(inner)


def _without_logical(kind: Any) -> Any:
    """The schema of the same bytes without a meaning that Python's types could change."""
    if isinstance(kind, list):
        return [_without_logical(each) for each in kind]
    if isinstance(kind, dict):
        return {name: _without_logical(each) for name, each in kind.items() if name != "logicalType"}
    return kind


def _once(names: Any) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError("two columns have the same name")
        seen.add(name)


def _without_columns(rows: int) -> Iterator[Mapping[str, Any]]:
    """Rows of which nobody asks a column."""
    for first in range(0, rows, ROWS):
        yield {"": pa.nulls(min(ROWS, rows - first))}
