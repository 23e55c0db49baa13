"""Texts of files: every one is loaded exactly, or the load stops and names the file, the line and the column."""

from __future__ import annotations

import csv
import io
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from integration.files.landing import loaded, stream
from tidegate.core.schema import TEXT, Column, Schema, array
from tidegate.dialects.spark import json_rows
from tidegate.dialects.spark.exact_text import TextRules, exact
from tidegate.sources.shared.files.reader import Reader
from tidegate.sources.shared.files.shape import FileFormat, shape_of
from tidegate.sources.shared.files.store import folder_of
from tidegate.sources.shared.files.types import stated

pytestmark = pytest.mark.spark

NASTY = [
    'say "hi"',
    "C:\\dir\\",
    'a"b',
    "two\nlines",
    "two\r\nlines",
    "mac\rline",
    ",;|\t",
    " blank ",
    "",
    "\\",
    '"',
    '""',
    "é€😀\ufffd",
    "NULL",
    "#no comment",
    "'",
    "\x1a",
    "\\N",
    "ends with\r",
    "\r",
]


def written(rows, **dialect) -> bytes:
    encoding = dialect.pop("encoding", "utf-8")
    out = io.StringIO()
    csv.writer(out, **{"lineterminator": "\n", **dialect}).writerows(rows)
    return out.getvalue().encode(encoding)


DIALECTS = {
    "lf": ({}, {}),
    "crlf": ({"lineterminator": "\r\n"}, {}),
    "cr": ({"lineterminator": "\r"}, {}),
    "excel": ({"lineterminator": "\r\n", "encoding": "utf-8-sig", "delimiter": ";"}, {"sep": ";"}),
    "all": ({"quoting": csv.QUOTE_ALL}, {}),
    "tab": ({"delimiter": "\t"}, {"sep": "\\t"}),
    "pipe": ({"delimiter": "|", "quotechar": "'"}, {"sep": "|", "quote": "'"}),
    "backslash": ({"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}, {"escape": "\\"}),
    "utf16": ({"encoding": "utf-16"}, {"encoding": "utf-16"}),
}


def loaded_by(spark, folder, form, options, **told):
    """The rows of all files of a folder, by the reader alone."""
    store, types = folder_of(str(folder)), stated(told)
    paths = sorted(file.name for file in folder.iterdir())
    shapes = {path: shape_of(store, path, form, options, frozenset()) for path in paths}
    columns = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in types.items()))
    rows = Reader(store=store, form=form, options=options).rows(spark, shapes, columns)
    return sorted((tuple(row) for row in rows.collect()), key=str)


def test_what_python_writes_is_what_is_loaded(tmp_path, spark):
    """The dialects of Python's csv module, among them Excel's; values with everything that has a meaning in CSV."""
    differ = {}
    for name, (dialect, options) in DIALECTS.items():
        source, folder = random.Random(7), tmp_path / name
        folder.mkdir()
        end = dialect.get("lineterminator", "\n")
        # A line break that is not its own Python leaves without quotes, so that nobody can tell it from a row's end.
        whole = "quoting" in dialect or end == "\r\n"
        values = [text for text in NASTY if whole or not set(text) & (set("\r\n") - set(end))]
        if name == "backslash":  # Python's own reader does not get these back from its own writer
            values = [text for text in values if "\\" not in text]
        rows = [(n, source.choice(values), source.choice(values)) for n in range(200)]
        (folder / "0.csv").write_bytes(written([("id", "a", "b"), *rows], **dialect))
        wanted = rows if "quoting" in dialect else [(n, a or None, b or None) for n, a, b in rows]
        found = loaded_by(spark, folder, FileFormat.CSV, options, id="bigint", a="text", b="text")
        if set(found) != set(wanted) or len(found) != len(wanted):
            differ[name] = set(found) ^ set(wanted)
    assert differ == {}


JSON_LINE = (
    '{"id": 1, "big": 12345678901234567.89, "huge": 123456789012345678901234567890.5, "text": 1.10, '
    '"n": 12345678901234567890, "nested": {"x": 1.10, "b": [1e2]}, "list": [0.10000000000000000001], '
    '"s": "a \\" 1.5e3, \\\\"}'
)
JSON_TYPES = {
    "id": "bigint",
    "big": "decimal(20,2)",
    "huge": "decimal(38,1)",
    "text": "text",
    "n": "decimal(38,0)",
    "nested": "json",
    "list": "json",
    "s": "text",
}
JSON_ROW = (
    1,
    Decimal("12345678901234567.89"),
    Decimal("123456789012345678901234567890.5"),
    "1.10",
    Decimal(12345678901234567890),
    '{"x":1.10,"b":[1e2]}',
    "[0.10000000000000000001]",
    'a " 1.5e3, \\',
)


def test_numbers_and_nested_values_of_json_keep_every_digit(tmp_path, spark):
    for name, text in (("lines", JSON_LINE), ("array", f"[{JSON_LINE},\n{JSON_LINE}]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(text)
    assert loaded_by(spark, tmp_path / "lines", FileFormat.JSON, {}, **JSON_TYPES) == [JSON_ROW]
    assert loaded_by(spark, tmp_path / "array", FileFormat.JSON, {}, **JSON_TYPES) == [JSON_ROW] * 2


NO_DOCUMENTS = [
    '{"id": 2}{"id": 3}',
    '{"id": 2},{"id": 3}',
    '{"id": 2}],[{"id": 3}',
    '{"id": 2} x',
    '{"id": 2',
    '{"id": 2, "id": 3}',
    '{"id": "\\ud800"}',
    '{"id": "\ufdd0a"}',
    '{"id": "\\ufdd0a"}',
    '{"id": NaN}',
    "[1]",
    "7",
]


def test_a_document_of_json_is_one_object_or_an_array_of_them(spark):
    """Spark's parser takes the first and is silent about the rest."""

    def problems(found, *, listed):
        frame = spark.createDataFrame([(text, n) for n, text in enumerate(found)], "text string, n int")
        rows = json_rows.read(frame, listed=listed).collect()
        return [max((row["problem"] or "" for row in rows if row["n"] == n), default="") for n in range(len(found))]

    assert all(problems(NO_DOCUMENTS, listed=False)), problems(NO_DOCUMENTS, listed=False)
    lists = ['[{"id": 1}] [{"id": 2}]', '[{"id": 1}, 2]', '[{"id": 1}', '[{"id": 1, "id": 1}]', "{}{}"]
    assert all(problems(lists, listed=True)), problems(lists, listed=True)
    good_ones = [JSON_LINE, ' {"a": "\\ud83d\\ude00 \\\\ud800 }{"} ', "{}", "\ufeff{}\r"]
    assert problems(good_ones, listed=False) == [""] * 4
    assert problems([f"[{each.strip()}]" for each in good_ones[:3]] + ["[]"], listed=True) == [""] * 4


def test_an_array_keeps_every_character_of_its_texts(spark):
    """Or it is no value of its column: the mark of numbers is a character that a text may hold, too."""
    texts = ['["\ufdd0a"]', '["\\ufdd0a"]', '["a", "\\ud83d\\ude00 \\\\ud800 é"]']
    frame = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n int, text string")
    rows = frame.selectExpr("n", f"{exact('text', array(TEXT), TextRules())} AS v").orderBy("n").collect()
    assert [row["v"] for row in rows] == [None, None, ["a", "😀 \\ud800 é"]]


FAULTS = {
    "number": ("csv", b'id,v\n1,"a\nb"\n2x,b\n', "line 4: the value of column 'id'"),
    "ragged": ("csv", b"id,v\n1,a\n2,b,c\n", "line 3, has 3 values"),
    "two": ("json", b'{"id": 1}\n{"id": 2}{"id": 3}\n', "line 2, is not one JSON object"),
    "value": ("json", b'{"id": 1}\n{"id": 1.5}\n', "line 2: the value of column 'id'"),
}


def test_what_cannot_be_taken_stops_with_file_line_and_column(workspace, landing, spark):
    streams = {}
    for name, (form, content, _) in FAULTS.items():
        (landing / name).mkdir()
        (landing / name / f"x.{form}").write_bytes(content)
        source = {"format": form, "columns": {"id": "bigint", "v": "text"}}
        streams[name] = stream(f"{landing.name}/{name}", name, source=source)
    for name, form in (("parquet", "parquet"), ("orc", "orc")):
        (landing / name).mkdir()
        streams[name] = stream(f"{landing.name}/{name}", name, source={"format": form})
    parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), landing / "parquet" / "a.parquet")
    fine = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
    orc.write_table(pa.table({"at": fine}), landing / "orc" / "a.orc")
    workspace.write(streams)
    errors = {each.stream: each.error for each in workspace.run(spark=spark).streams}
    for name, (form, _, said) in FAULTS.items():
        assert errors[name] is not None, name
        assert errors[name].code == "file_unreadable", errors[name]
        assert f"x.{form}, {said}" in errors[name].message, errors[name]
    assert (errors["parquet"].code, "'a'" in errors["parquet"].message) == ("schema_refused", True)
    assert errors["orc"].code == "file_unreadable", errors["orc"]
    assert all(part in errors["orc"].message for part in ("a.orc", "column 'at'"))


def test_types_are_guessed_so_that_no_value_changes(tmp_path, spark):
    rows = [
        ("code", "n", "big", "f", "day", "at", "seen", "yes", "long", "mixed", "none"),
        ("007", 1, 10**18, "1.5", "2025-01-01", "2025-01-01 10:00:00", "2025-01-01T10:00:00Z", "true", 10**30, "1", ""),
        (
            "8",
            -2,
            3,
            "-1e3",
            "2025-01-02",
            "2025-01-02",
            "2025-01-01 10:00+02",
            "False",
            1,
            "0.1234567890123456789",
            "",
        ),
    ]
    (tmp_path / "a.csv").write_bytes(written(rows))
    store = folder_of(str(tmp_path))
    shapes = {"a.csv": shape_of(store, "a.csv", FileFormat.CSV, {}, frozenset())}
    ((_, found),) = Reader(store=store, form=FileFormat.CSV, options={}).inferred_types(spark, shapes)
    assert {name: str(kind) for name, kind in found.items()} == {
        "code": "string",
        "n": "bigint",
        "big": "bigint",
        "f": "double",
        "day": "date",
        "at": "timestamp_ntz",
        "seen": "timestamp",
        "yes": "boolean",
        "long": "decimal(38,0)",
        "mixed": "string",
        "none": "string",
    }


def test_a_later_file_never_changes_values_by_an_inferred_type(workspace, landing, spark):
    (landing / "1.csv").write_text("id,zip\n1,10115\n")
    workspace.write({"t": stream(f"{landing.name}/*.csv")})
    assert workspace.run("t", spark=spark).streams[0].error is None
    (landing / "2.csv").write_text("id,zip\n2,01067\n")
    error = workspace.run("t", spark=spark).streams[0].error
    assert error is not None
    assert (error.code, "2.csv, line 2: the value of column 'zip'" in error.message) == ("file_unreadable", True)
    assert "`source: {columns: {zip: text}}`" in error.hint
    assert loaded(workspace, "t", "id", "zip") == [(1, 10115)]
    (landing / "2.csv").write_text("id,zip\n2,1067\n")
    assert workspace.run("t", spark=spark).streams[0].error is None
