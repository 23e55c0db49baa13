"""What a file's own bytes tell of its columns, and what the columns of several files are together."""

from __future__ import annotations

import gzip
import json
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from tidegate.core.schema import BIGINT, DATE, DOUBLE, INT, JSON, REAL, TEXT, TIMESTAMP, TIMESTAMPTZ, array, decimal
from tidegate.errors import ConfigError, FileUnreadable, SchemaRefused
from tidegate.sources.files import Files
from tidegate.sources.shared.files.shape import FileFormat, shape_of
from tidegate.sources.shared.files.store import folder_of
from tidegate.sources.shared.files.types import castable, merged_schema, of_avro


def shape(path: Path, form: FileFormat, nested=(), **options):
    return shape_of(folder_of(str(path.parent)), path.name, form, options, dict.fromkeys(nested, JSON))


def types(path: Path, form: FileFormat, nested=()) -> dict:
    found = shape(path, form, nested)
    return dict(zip(found.names, found.types, strict=True))


def test_parquet_tells_its_types(tmp_path):
    table = pa.table(
        {
            "small": pa.array([1], pa.int8()),
            "huge": pa.array([1], pa.uint64()),
            "amount": pa.array([None], pa.decimal128(9, 2)),
            "local": pa.array([datetime.fromisoformat("2025-01-01")], pa.timestamp("us")),
            "moment": pa.array([None], pa.timestamp("ms", "Europe/Berlin")),
            "words": pa.array([["a"]], pa.list_(pa.string())),
            "kind": pa.array(["x"]).dictionary_encode(),
            "nothing": pa.nulls(1),
        }
    )
    parquet.write_table(table, tmp_path / "a.parquet")
    assert types(tmp_path / "a.parquet", FileFormat.PARQUET) == {
        "small": INT,
        "huge": decimal(20, 0),
        "amount": decimal(9, 2),
        "local": TIMESTAMP,
        "moment": TIMESTAMPTZ,
        "words": array(TEXT),
        "kind": TEXT,
    }
    parquet.write_table(table.select(["local"]), tmp_path / "b.parquet", use_deprecated_int96_timestamps=True)
    assert types(tmp_path / "b.parquet", FileFormat.PARQUET) == {"local": TIMESTAMPTZ}


def test_what_is_nested_is_refused_unless_it_is_kept_as_json(tmp_path):
    parquet.write_table(pa.table({"id": [1], "inner": [{"a": 1}]}), tmp_path / "a.parquet")
    with pytest.raises(SchemaRefused, match="'inner'") as caught:
        shape(tmp_path / "a.parquet", FileFormat.PARQUET)
    assert "json" in caught.value.hint
    assert shape(tmp_path / "a.parquet", FileFormat.PARQUET, ["inner"]).nested == {"inner": "struct<`a`: bigint>"}


def test_parquet_of_types_that_no_table_has(tmp_path):
    """They are read as what they are stored as; a duration only where that is stated."""
    arrays = {
        "at": pa.array([1], pa.timestamp("ns")),
        "clock": pa.array([1], pa.time32("ms")),
        "own": pa.array([b"0123456789abcdef"], pa.uuid()),
        "half": pa.array([1.5], pa.float16()),
        "doc": pa.array(["{}"], pa.json_()),
        "pair": pa.array([[1, 2]], pa.list_(pa.int8(), 2)),
        "nanos": pa.array([1], pa.time64("ns")),
        "span": pa.array([1], pa.duration("ms")),
        "inner": [{"a`b": 1, "l": [b"x"]}],
    }
    parquet.write_table(pa.table(arrays), tmp_path / "a.parquet")
    stated = {"nanos": BIGINT, "span": BIGINT, "inner": JSON}
    found = shape_of(folder_of(str(tmp_path)), "a.parquet", FileFormat.PARQUET, {}, stated)
    assert dict(zip(found.names, found.types, strict=True)) == {
        "at": TIMESTAMP,
        "clock": TEXT,
        "own": TEXT,
        "half": REAL,
        "doc": TEXT,
        "pair": array(INT),
        "nanos": BIGINT,
        "span": BIGINT,
        "inner": JSON,
    }
    assert {name: each.stored for name, each in found.encoded.items()} == {
        "at": "bigint",
        "clock": "int",
        "own": "binary",
        "half": "binary",
    }
    assert found.nested == {"inner": "struct<`a``b`: bigint, `l`: array<binary>>"}


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (pa.duration("us"), "`source: {columns: {x: bigint}}` loads the number of its microseconds"),
        (pa.decimal256(50, 2), "`source: {exclude: [x]}`"),
        (pa.list_(pa.timestamp("ns")), "`source: {exclude: [x]}`"),
        (pa.struct([("t", pa.time64("us"))]), "`source: {exclude: [x]}`"),
        (pa.map_(pa.string(), pa.int8()), "`source: {columns: {x: json}}`"),
    ],
    ids=str,
)
def test_a_type_that_is_refused_has_a_way_out(tmp_path, kind, hint):
    parquet.write_table(pa.table({"x": pa.array([None], kind)}), tmp_path / "a.parquet")
    with pytest.raises(SchemaRefused, match=r"'x' of a\.parquet") as refused:
        shape(tmp_path / "a.parquet", FileFormat.PARQUET)
    assert hint in refused.value.hint
    assert ("json" in refused.value.hint) is (hint.endswith("json}}`"))


def test_orc_tells_its_types(tmp_path):
    orc.write_table(pa.table({"id": pa.array([1], pa.int32()), "v": [1.5]}), tmp_path / "a.orc")
    assert types(tmp_path / "a.orc", FileFormat.ORC) == {"id": INT, "v": DOUBLE}


def avro(schema: dict) -> bytes:
    """The header of an Avro file, by the specification."""

    def number(value: int) -> bytes:
        value, out = value << 1, b""
        while value > 0x7F:
            out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
        return out + bytes([value])

    pairs = {"avro.schema": json.dumps(schema).encode(), "avro.codec": b"null"}
    block = b"".join(number(len(k)) + k.encode() + number(len(v)) + v for k, v in pairs.items())
    return b"Obj\x01" + number(len(pairs)) + block + number(0) + bytes(16)


def test_avro_tells_its_types(tmp_path):
    fields = [
        {"name": "id", "type": "long"},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ]
    (tmp_path / "a.avro").write_bytes(avro({"type": "record", "name": "r", "fields": fields}))
    wanted = {"id": BIGINT, "day": DATE, "at": TIMESTAMP, "amount": decimal(9, 2)}
    assert types(tmp_path / "a.avro", FileFormat.AVRO) == wanted
    assert of_avro(["null", "int", "string"]) is None


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ("id,name\n1,a\n", {}, ("id", "name")),
        ('\ufeff"i,d";na me\r\n', {"sep": ";"}, ("i,d", "na me")),
        ("# said\nid\tx\n", {"sep": "\\t", "comment": "#"}, ("id", "x")),
        ("a||b\n", {"sep": "||"}, ("a", "b")),
        ('"two\nlines",\n', {}, ("two\nlines", "_c1")),
        ("1,2\n", {"header": "false"}, ()),
    ],
)
def test_a_header_tells_the_names(tmp_path, text, options, names):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8", newline="")
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert shape(tmp_path / "a.csv", FileFormat.CSV, **options).names == names
    assert shape(tmp_path / "a.csv.gz", FileFormat.CSV, **options).names == names


def test_json_is_lines_or_an_array_whatever_the_suffix(tmp_path):
    for text, listed in (('{"a": 1}', False), ('\n [{"a": 1}]', True)):
        (tmp_path / "a.json").write_text(text)
        assert shape(tmp_path / "a.json", FileFormat.JSON).listed is listed
    (tmp_path / "empty.json").write_text("")
    assert shape(tmp_path / "empty.json", FileFormat.JSON).empty


@pytest.mark.parametrize("form", list(FileFormat))
def test_what_is_something_else_is_named(tmp_path, form):
    other = b"\x00\x01\x02 neither text nor anything" * 9
    for name, content in (("whole", other), ("cut.gz", gzip.compress(other)[:-20])):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileUnreadable, match=name):
            shape(tmp_path / name, form)


@pytest.mark.parametrize("form", [FileFormat.PARQUET, FileFormat.ORC, FileFormat.AVRO])
def test_a_typed_file_without_bytes_is_none(tmp_path, form):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(FileUnreadable):
        shape(tmp_path / "empty", form)


def test_a_parquet_file_cut_short_is_named(tmp_path):
    parquet.write_table(pa.table({"id": list(range(1000))}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:-30])
    with pytest.raises(FileUnreadable, match=r"a\.parquet"):
        shape(tmp_path / "a.parquet", FileFormat.PARQUET)


def test_columns_are_united_by_name_and_widened():
    found = merged_schema([("a", {"id": INT, "x": TEXT}), ("b", {"new": DATE, "id": BIGINT}), ("c", {"id": INT})], {})
    assert {column.name: column.type for column in found} == {"id": BIGINT, "x": TEXT, "new": DATE}
    assert found.names == ("id", "x", "new")


def test_a_contradiction_names_both_files_unless_a_type_is_stated():
    shapes = [("a.parquet", {"id": INT}), ("b.parquet", {"id": TEXT})]
    with pytest.raises(SchemaRefused, match=r"int in a\.parquet and string in b\.parquet"):
        merged_schema(shapes, {})
    assert merged_schema(shapes, {"id": TEXT}).columns[0].type == TEXT
    assert castable(INT, TEXT)


def test_of_numbers_that_no_type_holds_the_first_type_stays():
    for types in ([BIGINT, DOUBLE], [DOUBLE, BIGINT], [decimal(9, 2), decimal(12, 4)], [BIGINT, decimal(9, 2), REAL]):
        shapes = [(str(number), {"n": kind}) for number, kind in enumerate(types)]
        assert merged_schema(shapes, {}).columns[0].type == types[0]
    with pytest.raises(SchemaRefused):
        merged_schema([("a", {"n": REAL}), ("b", {"n": decimal(9, 2)})], {})


def test_a_stated_type_never_rounds():
    assert not castable(decimal(12, 4), decimal(12, 2))
    assert not castable(BIGINT, INT)
    assert not castable(DOUBLE, decimal(9, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "in/*.txt"}, "format"),
        ({"path": "in/*.csv", "options": {"MODE": "PERMISSIVE"}}, "MODE"),
        ({"path": "in/*.csv", "columns": {"a": "money"}}, "money"),
    ],
)
def test_options_that_cannot_be(options, message):
    with pytest.raises(ConfigError, match=message):
        Files(**options)
