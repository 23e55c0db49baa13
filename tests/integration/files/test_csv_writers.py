"""CSV as Excel, reports and databases export it, with lines that are no rows, words of their own and any encoding."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from integration.files.landing import good, loaded, run, stream

pytestmark = pytest.mark.spark


def test_lines_words_and_encodings(workspace, landing, spark):
    """Each file holds the same two rows."""
    lines = "id,name,paid\r\n1,ポ表|é,ja\r\n2,n/a,NEIN\r\n"
    tabs = lines.replace(",", "\t")
    options = {"null_values": ["", "NULL", "n/a"], "true_values": ["ja", "yes"], "false_values": ["nein", "no"]}
    written = {
        "excel": (b"sep=;\r\n" + lines.replace(",", ";").encode(), {}),
        "unicode": (f"sep=\t\n{tabs}".encode("utf-16"), {"encoding": "UTF-16"}),
        "marked": (lines.encode("utf-8-sig"), {}),
        "ordered": (("\ufeff" + tabs).encode("utf-16-le"), {"encoding": "UTF-16LE", "sep": "\t"}),
        "japanese": (
            lines.replace("é", "E").replace(",", "|").replace("|E", "=E").encode("shift_jis"),
            {"encoding": "Shift_JIS", "sep": "|"},
        ),
        "western": (lines.replace("ポ表", "ß€").encode("cp1252"), {"encoding": "windows-1252"}),
        "report": (
            gzip.compress(b'Sales, "2025\n\n' + lines.encode() + b"Sum,2\r\n\r\n"),
            {"skip_rows": 2, "skip_footer": 2},
        ),
        "bare": (lines.partition("\r\n")[2].encode(), {"header": False}),
    }
    names = {"japanese": "ポ表=E", "western": "ß€|é"}
    columns = {"id": "bigint", "name": "text", "paid": "boolean"}
    streams = {}
    for name, (content, more) in written.items():
        folder = landing / name
        folder.mkdir()
        (folder / f"10:30.csv{'.gz' if name == 'report' else ''}").write_bytes(content)
        stated = {"columns": columns} if name in ("bare", "western") else {}
        source = {"options": {**options, **more}, "file_name": "file", **stated}
        streams[name] = stream(f"{landing.name}/{name}/*.csv*", name, source=source)
    workspace.write(streams)
    for name in streams:
        good(workspace, name, spark)
        file = f"10:30.csv{'.gz' if name == 'report' else ''}"
        wanted = [(1, names.get(name, "ポ表|é"), True, file), (2, None, False, file)]
        assert loaded(workspace, name, "id", "name", "paid", "file") == wanted, name


def test_words_of_numbers_are_booleans_only_where_that_is_stated(workspace, landing, spark):
    options = {"true_values": ["1"], "false_values": ["0"]}
    (landing / "1.csv").write_text("n,b\n0,0\n1,1\n")
    source = {"options": options, "columns": {"b": "boolean"}}
    workspace.write({"t": stream(f"{landing.name}/*.csv", source=source)})
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "n", "b") == [(0, False), (1, True)]
    (landing / "2.csv").write_text("n,b\n2,true\n")
    error = run(workspace, "t", spark).error
    assert (error.code, error.message) == (
        "file_unreadable",
        "2.csv, line 2: the value of column 'b' is not exactly a boolean",
    )


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (b'a\nid,v\n1,x\n2,"y\n', {"skip_rows": 1}, "line 4, has an unclosed quote"),
        (b"sep=;\nid;v\n1;x\n2;\x00\n", {}, "line 4, holds a zero byte"),
        (b"id,v\n1,\xff\xff\n", {"encoding": "Shift_JIS"}, "line 2, holds a byte that is not"),
        (b"id,v\n", {"skip_rows": 1, "skip_footer": 1}, "fewer lines than"),
    ],
)
def test_a_line_that_is_wrong_is_named_as_the_file_counts_it(workspace, landing, spark, content, options, said):
    (landing / "1.csv").write_bytes(content)
    workspace.write({"t": stream(f"{landing.name}/*.csv", source={"options": options})})
    error = run(workspace, "t", spark).error
    assert error.code == "file_unreadable", error
    assert f"1.csv, {said}" in error.message or f"1.csv has {said}" in error.message


@pytest.mark.parametrize("suffix", ["json", "parquet", "orc"])
def test_a_colon_in_a_name(workspace, landing, spark, suffix):

    table = pa.table({"id": [1, 2]})
    folder = landing / "at=10:00"
    folder.mkdir()
    for path in (folder / f"2025-01-01T10:00:00.{suffix}", landing / f"a:b.{suffix}"):
        if suffix == "json":
            path.write_text('{"id": 1}\n{"id": 2}\n')
        else:
            (parquet if suffix == "parquet" else orc).write_table(table, path)
    workspace.write({"t": stream(f"{landing.name}/**/*.{suffix}", source={"file_name": "file"})})
    good(workspace, "t", spark)
    first, second = f"a:b.{suffix}", f"at=10:00/2025-01-01T10:00:00.{suffix}"
    wanted = [(1, first, None), (1, second, "10:00"), (2, first, None), (2, second, "10:00")]
    assert loaded(workspace, "t", "id", "file", "at") == wanted
