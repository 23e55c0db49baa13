"""The calendar that the days of an ORC file are in, which PyArrow does not tell.

Source: ORC specification, "File Tail": https://orc.apache.org/specification/ORCv1; `orc_proto.proto`.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import IO

import pyarrow as pa  # type: ignore[import-untyped]

GREGORIAN = date(1582, 10, 15).toordinal() - date(1970, 1, 1).toordinal()
"""The first day of the Gregorian calendar, in days since 1970."""
PROLEPTIC = 2
"""The calendar of files whose days before are counted by the same rule; all others have the Julian one there."""


def calendar_of(content: IO[bytes]) -> int:
    """The number of the calendar that the file names, 0 if it names none."""
    content.seek(-1, io.SEEK_END)
    length = content.read(1)[0]
    content.seek(-1 - length, io.SEEK_END)
    about = dict(_numbers(content.read(length)))
    footer, packing = about[1], about.get(2, 0)
    content.seek(-1 - length - footer, io.SEEK_END)
    data = content.read(footer)
    return dict(_numbers(data if packing == 0 else _unpacked(data, UNPACK[packing]))).get(11, 0)


def julian(day: int) -> int:
    """The day that has the same year, month and day of the month in the Gregorian calendar as this one in the Julian.

    Example:
        >>> str(date.fromordinal(julian(GREGORIAN - 1) + date(1970, 1, 1).toordinal()))
        '1582-10-04'
    """
    # Richards, "Calendars": from a Julian day number.
    rest = day + 2440588 + 32082
    years, rest = divmod(4 * rest + 3, 1461)
    months, rest = divmod(5 * (rest // 4) + 2, 153)
    year, month, day = years - 4800 + months // 10, months + 3 - 12 * (months // 10), rest // 5 + 1
    leap = (month, day) == (2, 29) and year % 100 == 0 and year % 400 != 0  # no day there: Java takes the next one
    found = date(year, 3, 1) if leap else date(year, month, day)
    return found.toordinal() - date(1970, 1, 1).toordinal()


def _numbers(message: bytes) -> Iterator[tuple[int, int]]:
    """The fields of a message of protobuf that are whole numbers, by their numbers."""
    data = io.BytesIO(message)
    while data.tell() < len(message):
        field, kind = divmod(_varint(data), 8)
        if kind == 0:
            yield field, _varint(data)
        elif kind in (1, 2, 5):
            data.seek({1: 8, 5: 4}.get(kind) or _varint(data), io.SEEK_CUR)
        else:
            raise ValueError("not a message of ORC")


def _varint(data: IO[bytes]) -> int:
    value = shift = 0
    while True:
        byte = data.read(1)[0]
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value


def _unpacked(data: bytes, unpack: Callable[[bytes], bytes]) -> bytes:
    """The chunks, each after three bytes with its length and whether it is packed."""
    found, at = b"", 0
    while at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + head // 2]
        found += chunk if head & 1 else unpack(chunk)
        at += 3 + head // 2
    return found


def _snappy(data: bytes) -> bytes:
    found: bytes = pa.Codec("snappy").decompress(data, _varint(io.BytesIO(data)), asbytes=True)
    return found


def _zstandard(data: bytes) -> bytes:
    found: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return found


# Not LZO and LZ4, for which PyArrow would have to be told the length: with them a file with such days is refused.
UNPACK: Mapping[int, Callable[[bytes], bytes]] = {1: lambda data: zlib.decompress(data, -15), 2: _snappy, 5: _zstandard}
