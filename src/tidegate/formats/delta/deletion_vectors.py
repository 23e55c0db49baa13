"""Deletion vectors: which rows of a data file are deleted, and where that is stored.

Anything damaged or unknown is an error, never a guess.

Source: Delta transaction log protocol, "Deletion Vectors" and "Deletion Vector Format"; ZeroMQ RFC 32, Z85.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.storage import Store

if TYPE_CHECKING:
    from pyroaring import BitMap64

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
ENCODED_UUID = 20
RELATIVE, INLINE = "u", "i"
FILE_VERSION = 1
MAGIC = 1681511377
"""Of a portable bitmap of 64-bit numbers, which all current writers store."""


def file_of(vector: Mapping[str, Any]) -> str | None:
    """The file that holds the vector, relative to the table; None where it does not lie below the table.

    Example:
        >>> file_of({"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"})
        'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    if vector.get("storageType") != RELATIVE:
        return None
    text = str(vector["pathOrInlineDv"])
    folder = text[:-ENCODED_UUID]
    name = f"deletion_vector_{uuid.UUID(bytes=_decoded(text[-ENCODED_UUID:]))}.bin"
    return f"{folder}/{name}" if folder else name


def places(store: Store, vector: Mapping[str, Any]) -> BitMap64:
    """The places of the deleted rows in their data file, counted from 0.

    Raises:
        ValueError: it is damaged, of an unknown kind, or lies outside the table.
        OSError, WriteError: its file cannot be read.
    """
    from pyroaring import BitMap64  # noqa: PLC0415 - few tables have any

    data = _stored(store, vector)
    (magic,) = struct.unpack_from("<i", data)
    if magic != MAGIC:
        raise ValueError(f"a deletion vector begins with {magic}")
    found = BitMap64.deserialize(data[4:])
    if len(found) != vector["cardinality"]:
        raise ValueError(f"a deletion vector has {len(found)} rows, and its file's entry says {vector['cardinality']}")
    return found


def _stored(store: Store, vector: Mapping[str, Any]) -> bytes:
    size = int(vector["sizeInBytes"])
    if vector["storageType"] == INLINE:
        return _decoded(str(vector["pathOrInlineDv"]))[:size]
    if (path := file_of(vector)) is None:
        raise ValueError(f"a deletion vector of kind {vector['storageType']!r}")
    with store.open(path) as file:
        if file.read(1) != bytes([FILE_VERSION]):
            raise ValueError(f"{path} is of an unknown version")
        file.seek(int(vector["offset"]))
        (length,) = struct.unpack(">i", file.read(4))
        data = file.read(size)
        (checksum,) = struct.unpack(">I", file.read(4))
    if length != size or zlib.crc32(data) != checksum:
        raise ValueError(f"{path} is damaged")
    return data


def _decoded(text: str) -> bytes:
    """Z85: five characters stand for four bytes."""
    data = b""
    for start in range(0, len(text), 5):
        value = 0
        for char in text[start : start + 5]:
            value = value * 85 + Z85.index(char)
        data += value.to_bytes(4, "big")
    return data
