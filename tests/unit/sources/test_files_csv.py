"""What a CSV file must be before Spark reads it; the line of what is not."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.errors import ConfigError, FileUnreadable, SchemaRefused
from tidegate.sources.files.source import Files
from tidegate.sources.shared.files import csv_scan as files_csv
from tidegate.sources.shared.files.csv_scan import Rows, records, rows_of
from tidegate.sources.shared.files.lines import located
from tidegate.sources.shared.files.options import checked, csv_of
from tidegate.sources.shared.files.reader import Reader
from tidegate.sources.shared.files.shape import FileFormat
from tidegate.sources.shared.files.store import folder_of


def rows(content: bytes, columns: int = 2, **options: str) -> Rows:
    return rows_of(io.BytesIO(content), "x.csv", csv_of(options), columns)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'id,name\n1,a\n2,"b\n3,c\n', 3),
        (b'id,name\n1,a\n2,"', 3),
        (b'id,name\n1,a\n"2" ,b\n', 3),
        (b'id,name\n1,"a"x\n', 2),
        (b"id,name\n1,a\n2,\xff\n", 3),
        (b"id,name\n1,a\n2,\xc3", 3),
        (b"id,name\n1,a\n2,\0\n", 3),
        (b'id,name\n1,"a\nb"\n2,c\r\n', 4),
    ],
)
def test_what_spark_would_take_for_something_else_is_named_with_its_line(content, line):
    with pytest.raises(FileUnreadable, match=f"line {line}"):
        rows(content)


def test_an_empty_line_of_one_column_is_null_or_nothing():
    with pytest.raises(FileUnreadable, match="empty line"):
        rows(b"name\na\n\nb\n", 1)
    assert rows(b'name\na\n""\nb\n', 1) == Rows()
    assert rows(b"id,name\n1,a\n\n2,b\n\n") == Rows()


@pytest.mark.parametrize(
    ("content", "options", "found"),
    [
        (b"a,b\n1,2\r\n3,4\n", {}, Rows(end="", broken=False)),
        (b'a,b\r\n"1\n",2\r\n', {}, Rows(end="\r\n", broken=True)),
        (b'a,b\r1,"2\n"\r', {}, Rows(end="\r", broken=True)),
        (b'a,b\n1,5" pipe\n', {}, Rows()),
        (b"a\tb\n\t\n", {"sep": "\\t"}, Rows(broken=True)),
        (b'a,b\n1,"x\\"y"\n', {"escape": "\\"}, Rows()),
        (b'a,b\n1,"x\n', {"quote": ""}, Rows()),
        ('a,b\n1,"2\n"\n'.encode("utf-16"), {"encoding": "utf-16"}, Rows(broken=True)),
        (b'\xef\xbb\xbf"a","b"\n1,2\n', {}, Rows()),
    ],
)
def test_how_rows_end(content, options, found):
    seen = rows(content, **options)
    assert seen.broken is found.broken
    assert not found.end or seen.end == found.end


@given(
    st.lists(st.lists(st.text(alphabet='ab ",;\n\r\t\\é', max_size=5), min_size=2, max_size=2), max_size=9),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.integers(1, 9),
)
def test_whatever_python_writes_is_well_formed(values, end, piece):
    """Also where a piece ends anywhere; and `broken` is what Python's reader finds."""
    text = io.StringIO()
    csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL).writerows(values)
    content = text.getvalue().encode()
    whole, files_csv.PIECE = files_csv.PIECE, piece
    try:
        found = rows(content)
    finally:
        files_csv.PIECE = whole
    assert [row for _, row in records(io.BytesIO(content), csv_of({}))] == values
    assert found.broken is any("\n" in value or "\r" in value for row in values for value in row)
    assert not values or found.end == end


def test_the_line_of_a_value_is_found(tmp_path):
    columns = Schema(columns=(Column(name="id", type=BIGINT), Column(name="v", type=TEXT)))
    for form, name, content, said in (
        (FileFormat.CSV, "a.csv", 'id,v\n1,"two\nlines"\n1.5,x\n', "a.csv, line 4: the value of column 'id'"),
        (FileFormat.CSV, "a.csv", "id,v\n1\n", "a.csv, line 2, has 1 values"),
        (FileFormat.JSON, "a.json", '{"id": 1}\n\n{"id": 1} 2\n', "a.json, line 3, is not one JSON object"),
        (FileFormat.JSON, "a.json", '{"id": 1}\n{"id": "x"}\n', "a.json, line 2: the value of column 'id'"),
    ):
        (tmp_path / name).write_text(content)
        reader = Reader(store=folder_of(str(tmp_path)), form=form, options={})
        error = located(FileUnreadable("somewhere", file=name), reader, name, columns)
        assert said in error.message


def test_the_line_of_a_value_is_found_that_an_inferred_type_would_change(tmp_path):
    columns = Schema(columns=(Column(name="id", type=BIGINT), Column(name="zip", type=BIGINT)))
    (tmp_path / "a.csv").write_text("id,zip\n1,10115\n007,01067\n")
    reader = Reader(store=folder_of(str(tmp_path)), form=FileFormat.CSV, options={}, stated=frozenset({"id"}))
    error = located(FileUnreadable("somewhere", file="a.csv"), reader, "a.csv", columns)
    assert error.message.startswith("a.csv, line 3: the value of column 'zip' is not written as a bigint")


BEFORE = {"id": "bigint", "name": "string", "file": "string"}


def without_header(folder, **stated):
    """The columns of a later load of files without a header."""
    (folder / "a.csv").write_text("1,x\n")
    source = Files(path=f"{folder}/*.csv", options={"header": False}, columns=stated, file_name="file")
    with source.probe() as probe:
        probe.choose(probe.listing(None).ready.files.values(), BEFORE)
        return probe.schema().names


@pytest.mark.parametrize("stated", [("id", "new", "name"), ("name", "id"), ("id", "new"), ("new", "id", "name")])
def test_columns_without_a_header_keep_their_places(tmp_path, stated):
    with pytest.raises(SchemaRefused) as refused:
        without_header(tmp_path, **dict.fromkeys(stated, "text"))
    assert refused.value.message.endswith(f"were read as id, name, and `columns:` now states {', '.join(stated)}")
    assert "add new ones at the end" in refused.value.hint


@pytest.mark.parametrize("stated", [(), ("id",), ("name",), ("id", "name"), ("id", "name", "new")])
def test_columns_without_a_header_may_be_added_at_the_end(tmp_path, stated):
    names = without_header(tmp_path, **dict.fromkeys(stated, "text"))
    assert names == ("id", "name", *(["new"] if "new" in stated else []), "file")


@pytest.mark.parametrize(
    ("form", "options", "said"),
    [
        ("csv", {"locale": "de"}, "locale is not an option of csv"),
        ("csv", {"encoding": "cp037"}, "encoding"),
        ("csv", {"decimal": ",", "thousands": ","}, "decimal and thousands"),
        ("csv", {"quote": "ab"}, "quote must be one character"),
        ("csv", {"header": "yes"}, "true or false"),
        ("json", {"encoding": "utf-16"}, "JSON must be UTF-8"),
        ("parquet", {"sep": ";"}, "does not apply"),
    ],
)
def test_options_that_cannot_be(form, options, said):
    with pytest.raises(ConfigError, match=said):
        checked(form, options)
