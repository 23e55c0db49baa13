"""Deletion vectors as the protocol writes them, and damaged ones."""

import struct
import zlib

import pytest
from pyroaring import BitMap64

from tidegate.formats.delta.deletion_vectors import MAGIC, Z85, file_of, places
from tidegate.storage import Disk, Store

OLD = {
    "storageType": "i",
    "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 40,
    "cardinality": 6,
}
"""The example of the protocol, "Deletion Vector Descriptor Schema", of a kind that is not written any more."""
RELATIVE = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def raised(path, error):
    raise AssertionError(path) from error


@pytest.fixture
def store(tmp_path):
    return Store(where=str(tmp_path), base=str(tmp_path), files=Disk(), problem=raised)


def stored(path, rows, *, version=1, magic=MAGIC, damage=b""):
    data = struct.pack("<i", magic) + BitMap64(rows).serialize()
    checksum = struct.pack(">I", zlib.crc32(data))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(bytes([version]) + b"..." + struct.pack(">i", len(data)) + (damage or data) + checksum)
    return {**RELATIVE, "sizeInBytes": len(data), "cardinality": len(rows)}


def encoded(data):
    numbers = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(Z85[number // 85**power % 85] for number in numbers for power in (4, 3, 2, 1, 0))


def test_the_examples_of_the_protocol(store):
    assert file_of(RELATIVE) == FILE
    assert file_of(OLD) is None
    with pytest.raises(ValueError, match="begins with"):
        places(store, OLD)


@pytest.mark.parametrize("rows", [[3], [3, 4, 7, 11, 18, 29], [0, 2**33]])
def test_a_vector_in_the_log(store, rows):
    data = struct.pack("<i", MAGIC) + BitMap64(rows).serialize()
    text = encoded(data + b"\0" * (-len(data) % 4))
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(rows)}
    assert list(places(store, vector)) == rows


@pytest.mark.parametrize("rows", [[0], [5, 2**31, 2**32 - 1, 2**32, 2**40 + 7], range(0, 200_000, 3)])
def test_a_vector_in_a_file(store, tmp_path, rows):
    assert list(places(store, stored(tmp_path / FILE, rows))) == list(rows)


@pytest.mark.parametrize(
    "how", [{"version": 2}, {"magic": 1}, {"damage": struct.pack("<i", MAGIC) + BitMap64([1, 2, 4]).serialize()}]
)
def test_nothing_is_guessed(store, tmp_path, how):
    with pytest.raises(ValueError, match=r"version|begins with|damaged"):
        places(store, stored(tmp_path / FILE, [1, 2, 3], **how))


def test_the_entry_and_the_vector_agree(store, tmp_path):
    with pytest.raises(ValueError, match="has 3 rows, and its file's entry says 4"):
        places(store, {**stored(tmp_path / FILE, [1, 2, 3]), "cardinality": 4})
    with pytest.raises(ValueError, match="kind 'p'"):
        places(store, {**stored(tmp_path / FILE, [1]), "storageType": "p"})
