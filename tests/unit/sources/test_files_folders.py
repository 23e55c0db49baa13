"""Columns of folders beside columns of the files themselves, as far as no Spark is needed to tell them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tidegate.core.batch import Latest
from tidegate.core.manifest import LOADED
from tidegate.core.schema import BIGINT, INT, TEXT, Column, Schema
from tidegate.core.slices import Everything, Keys
from tidegate.core.slices import Files as Chosen
from tidegate.errors import FileUnreadable, SchemaRefused
from tidegate.sources.files.source import Files
from unit.sources.reference.files import answers, of

STATED = {"id": "bigint", "day": "date"}


def table(folder: Path, name: str, **columns: Any) -> None:
    path = folder / f"{name}.parquet"
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), path)


def text(folder: Path, name: str, content: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)


def asked(folder: Path, **source: Any) -> tuple[dict[str, str], Any]:
    """The columns, and what the reader that verifies finds in all files."""
    with Files(path=str(folder), **{"format": "parquet", **source}).probe() as probe:
        return {column.name: str(column.type) for column in probe.schema()}, probe.fingerprint(Everything())


def test_each_file_has_its_own_column_or_its_folder_s(tmp_path):
    table(tmp_path, "day=2024-01-01/a", id=[1])
    table(tmp_path, "day=__HIVE_DEFAULT_PARTITION__/b", id=[2])
    table(tmp_path, "day=2024-01-03/c", id=[3, 4], day=["2024-02-29", None])
    table(tmp_path, "day=2024-01-04/d", id=[5], day=pa.nulls(1))  # without a type: not a column that holds anything
    table(tmp_path, "root", id=[6])
    rows = [("1", "2024-01-01"), ("2", None), ("3", "2024-02-29"), ("4", None), ("5", "2024-01-04"), ("6", None)]
    assert asked(tmp_path) == ({"id": "bigint", "day": "string"}, of(*rows))
    assert asked(tmp_path, columns=STATED) == ({"id": "bigint", "day": "date"}, of(*rows))
    assert asked(tmp_path, exclude=("day",)) == ({"id": "bigint"}, of(*((number,) for number, _ in rows)))
    assert asked(tmp_path, include=("day",)) == ({"day": "string"}, of(*((day,) for _, day in rows)))


def test_what_is_no_code_in_a_folder_s_name_stands_for_itself(tmp_path):
    names = {"50%": "50%", "%zz": "%zz", "a%20b": "a b", "a%20b%": "a%20b%", "%": "%", "%2": "%2", "x+%2B": "x++"}
    for number, name in enumerate(names):
        table(tmp_path, f"rate={name}/{number}", id=[number])
    assert asked(tmp_path)[1] == of(*((str(number), text) for number, text in enumerate(names.values())))


def test_a_file_whose_rows_all_have_the_column_leaves_the_folder_out(tmp_path):
    table(tmp_path, "day=2024-01-01/a", day=pa.array([0], pa.date32()), id=[1])
    assert asked(tmp_path) == ({"day": "date", "id": "bigint"}, of(("1970-01-01", "1")))


def test_types_that_differ_name_the_file_and_the_folder(tmp_path):
    table(tmp_path, "day=2024-01-01/a", id=[1])
    table(tmp_path, "day=2024-01-02/b", id=[2], day=pa.array([0], pa.date32()))
    with pytest.raises(SchemaRefused) as refused:
        asked(tmp_path)
    assert "'day' is date in day=2024-01-02/b.parquet" in refused.value.message
    assert "string in the folder of day=2024-01-01/a.parquet" in refused.value.message
    assert "columns:" in refused.value.hint
    assert asked(tmp_path, columns=STATED) == (
        {"id": "bigint", "day": "date"},
        of(("1", "2024-01-01"), ("2", "1970-01-01")),
    )


def test_values_of_csv_make_no_other_type_of_what_a_folder_s_name_is(tmp_path):
    text(tmp_path, "day=7/a.csv", "id\n1\n")
    text(tmp_path, "day=8/b.csv", "id,day\n2,9\n")
    text(tmp_path, "day=9/nothing.csv", "")
    found = asked(tmp_path, format="csv", columns={"id": "bigint"})
    assert found == ({"id": "bigint", "day": "string"}, of(("1", "7"), ("2", "9")))
    typed = asked(tmp_path, format="csv", columns={"id": "bigint", "day": "int"})
    assert typed == ({"id": "bigint", "day": "int"}, of(("1", "7"), ("2", "9")))


def test_a_file_that_was_not_chosen_has_its_folder_s_column_too(tmp_path):
    """As where the rows of a file that is gone are restored from older files."""
    table(tmp_path, "day=2024-01-01/a", id=[1])
    table(tmp_path, "new", id=[2])
    older = Chosen(paths=(), carrier="file", older=((1, "day=2024-01-01/a.parquet"),))
    with Files(path=str(tmp_path), format="parquet", file_name="file").probe() as probe:
        probe.choose([probe.listing(None).ready.files["new.parquet"]], {"id": "bigint", "day": "string"})
        found = probe.restored(older, Keys(columns=("id",), values=(("1",),)), Latest(key=("id",), order=(LOADED,)))
    assert found == of(("1", "2024-01-01", "day=2024-01-01/a.parquet"))


def test_a_text_of_a_folder_that_does_not_fit_is_refused(tmp_path):
    text(tmp_path, "day=x/a.csv", "id\n1\n")
    text(tmp_path, "b.csv", "id,day\n1,2024-01-01\n")
    with pytest.raises(FileUnreadable, match="day=x/a"):
        asked(tmp_path, format="csv", columns=STATED)


def test_each_document_of_json_has_its_own_value_or_its_folder_s(tmp_path):
    text(tmp_path, "day=7/a.json", '{"id": 1}\n{"id": 2, "v": "x"}\n{"v": null, "id": 3}\n')
    schema = Schema(columns=(Column(name="id", type=BIGINT), Column(name="v", type=TEXT), Column(name="day", type=INT)))
    days = answers(tmp_path, "day=7/a.json", schema=schema, form="json", partitions=("day", "v"))
    assert days.fingerprint(Everything()) == of(("1", None, "7"), ("2", "x", "7"), ("3", None, "7"))
    text(tmp_path, "v=7/a.json", '{"id": 1}\n{"id": 2, "v": "x"}\n{"v": null, "id": 3}\n')
    texts = answers(tmp_path, "v=7/a.json", schema=schema, form="json", partitions=("day", "v"))
    assert texts.fingerprint(Everything()) == of(("1", "7", None), ("2", "x", None), ("3", None, None))
