"""Records of an API become columns by a rule that changes no value."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("dlt")

from tidegate.errors import SchemaRefused, SourceError
from tidegate.sources._api.rows import Number, like, table_of
from tidegate.sources.shared.files.types import stated

NOON = datetime.fromisoformat("2025-01-01T12:00:00")


def rows(*records, **columns):
    return table_of([list(records)], stated(columns)).to_pylist()


@pytest.mark.parametrize(
    ("values", "kind", "kept"),
    [
        ([True, None, False], pa.bool_(), [True, None, False]),
        ([1, 2**63 - 1, None], pa.int64(), [1, 2**63 - 1, None]),
        ([1, Number("1.5")], pa.float64(), [1.0, 1.5]),
        ([Decimal("1.10"), None], pa.decimal128(38, 9), [Decimal("1.10"), None]),
        (["2025-01-01", "7"], pa.string(), ["2025-01-01", "7"]),
        ([date(2025, 1, 1)], pa.date32(), [date(2025, 1, 1)]),
        ([NOON], pa.timestamp("us"), [NOON]),
        ([datetime(2025, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"), [datetime(2025, 1, 1, tzinfo=UTC)]),
        ([b"\x00"], pa.binary(), [b"\x00"]),
        ([{"a": [1, Number("1.10")], "b": "é"}, []], pa.string(), ['{"a":[1,1.10],"b":"é"}', "[]"]),
    ],
)
def test_a_type_follows_from_the_values(values, kind, kept):
    table = table_of([{"v": value} for value in values], {})
    assert (table.schema.field("v").type, table.column("v").to_pylist()) == (kind, kept)


@pytest.mark.parametrize(
    "values",
    [
        ["1", 1],
        [True, 1],
        [2**53 + 1, Number("0.5")],
        [2**63],
        [NOON, NOON.replace(tzinfo=UTC)],
        [{"a": 1}, 1],
        [Decimal("0.0123456789")],
        [Decimal("NaN")],
        [Number("1e400")],
        [Number("-1e309")],
        [1, Number("1e-400")],
        [Number("1e99999999")],
        [pd.Timestamp(1)],
    ],
    ids=str,
)
def test_values_without_a_common_type_are_refused(values):
    with pytest.raises(SchemaRefused, match="'v'") as caught:
        table_of([{"v": value} for value in values], {})
    assert "columns: {v:" in caught.value.hint


def test_pages_without_a_common_type_are_refused():
    with pytest.raises(SchemaRefused, match="'v' of the API holds int64 and string"):
        table_of([pa.table({"v": [1]}), pa.table({"v": ["1"]})], {})
    with pytest.raises(SchemaRefused, match="too long for a double"):
        table_of([pa.table({"v": [2**53 + 1]}), pa.table({"v": [0.5]})], {})


@pytest.mark.parametrize(
    ("pages", "kind", "kept"),
    [
        ([pd.DataFrame({"v": ["a"]}), {"v": "b"}], pa.string(), ["a", "b"]),
        ([pa.table({"v": pa.array(["a"], pa.large_string())}), {"v": "b"}], pa.string(), ["a", "b"]),
        ([pd.DataFrame({"v": pd.Series(["a"], dtype="category")}), {"v": "b"}], pa.string(), ["a", "b"]),
        ([pa.table({"v": pa.array([1], pa.int32())}), {"v": 2**40}], pa.int64(), [1, 2**40]),
        ([pa.table({"v": pa.array([1], pa.uint64())}), {"v": -1}], pa.int64(), [1, -1]),
        ([pa.table({"v": pa.array([0.5], pa.float32())}), {"v": 1}], pa.float64(), [0.5, 1.0]),
        ([pa.table({"v": pa.nulls(1)}), pa.table({"v": pa.nulls(1)})], pa.null(), [None, None]),
        ([pa.table({"v": pa.array([b"a"], pa.large_binary())}), {"v": b"b"}], pa.large_binary(), [b"a", b"b"]),
        (
            [pa.table({"v": pa.array([NOON], pa.timestamp("ns", "Europe/Berlin"))}), {"v": NOON.replace(tzinfo=UTC)}],
            pa.timestamp("us", "UTC"),
            [NOON.replace(tzinfo=UTC)] * 2,
        ),
        ([pa.table({"v": pa.array([NOON], pa.timestamp("ns"))})], pa.timestamp("us"), [NOON]),
    ],
    ids=str,
)
def test_types_of_one_kind_have_a_common_one(pages, kind, kept):
    table = table_of(pages, {})
    assert (table.schema.field("v").type, table.column("v").to_pylist()) == (kind, kept)


def test_a_stated_type_unites_what_has_no_common_one():
    pages = [pa.table({"v": pa.array([1], pa.int32())}), pa.table({"v": ["x"]}), {"v": True}, {"w": 1}]
    assert table_of(pages, stated({"v": "text"})).column("v").to_pylist() == ["1", "x", "true", None]
    with pytest.raises(SchemaRefused, match="'v' of the API has a value that is no bigint"):
        table_of(pages, stated({"v": "bigint"}))
    with pytest.raises(SchemaRefused, match="'v' of the API holds"):
        table_of([pa.table({"v": pa.array([2**63], pa.uint64())}), {"v": -1}], {})


@pytest.mark.parametrize(
    "page",
    [
        pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["v", "v"]),
        pd.DataFrame([[1, 2]], columns=["v", "v"]),
        {"v": 1, "w": 2} | {1: 1, "1": 2},
    ],
    ids=lambda page: type(page).__name__,
)
def test_two_columns_of_one_name_are_refused(page):
    with pytest.raises(SchemaRefused, match="two columns of the name"):
        table_of([page], {})


@pytest.mark.parametrize(
    ("record", "types"),
    [
        ({"v": "\ud83d"}, {}),
        ({"v": {"n": ["\ud83d"]}}, {}),
        ({"v": {"\ud83d": 1}}, {}),
        ({"v": "a\udc00"}, {"v": "text"}),
        ({"v": ["\ud83d"]}, {"v": "json"}),
        ({"\ud83d": 1}, {}),
    ],
    ids=ascii,
)
def test_half_of_a_surrogate_pair_is_refused(record, types):
    for page in (record, json.loads(json.dumps(record))):
        with pytest.raises(SchemaRefused, match="half of a surrogate pair"):
            table_of([page], stated(types))


@pytest.mark.parametrize(
    "page",
    [
        pd.DataFrame({"v": ["ada@example.com", 1]}),
        pd.DataFrame({"v": [object()]}),
        pa.table({"v": pa.array([1], pa.timestamp("ns"))}),
    ],
    ids=["mixed", "object", "nanoseconds"],
)
def test_a_table_that_the_files_cannot_hold_is_refused_without_a_value_of_it(page):
    with pytest.raises(SchemaRefused, match="'v'") as caught:
        table_of([page], {})
    assert "ada@" not in f"{caught.value} {caught.value.hint}"


def test_values_of_numpy_and_pandas_are_the_values_that_they_stand_for():
    frame = pd.DataFrame({"a": [1], "b": [0.5], "c": [True]})
    (found,) = rows({**frame.iloc[0].to_dict(), "d": pd.NA, "e": pd.NaT, "f": frame["a"].to_numpy()[0]})
    assert found == {"a": 1, "b": 0.5, "c": True, "f": 1}


def test_a_stated_type_takes_the_digits_as_they_stand_in_the_answer():
    written = '{"id": 1, "amount": 12345678901234567.89, "at": "2025-01-01T05:06:07.5+02:00", "u": 5}'
    record = json.loads(written, parse_float=Number)
    (found,) = rows(record, amount="decimal(38,2)", at="timestamptz", u="text")
    assert found == {
        "id": 1,
        "amount": Decimal("12345678901234567.89"),
        "at": datetime(2025, 1, 1, 3, 6, 7, 500000, tzinfo=UTC),
        "u": "5",
    }


@pytest.mark.parametrize(
    ("value", "kind"), [("x", "bigint"), (1.5, "int"), ("2025-02-30", "date"), (1.234, "decimal(5,2)")]
)
def test_a_value_that_a_stated_type_does_not_hold_is_refused(value, kind):
    with pytest.raises(SchemaRefused, match="'v' of the API has a value that is no"):
        rows({"v": value}, v=kind)


def test_bytes_in_a_text_are_base64_and_read_back_as_bytes():
    assert rows({"v": b"\x00\xff", "n": {"b": b"\x00"}}, v="text") == [{"v": "AP8=", "n": '{"b":"AA=="}'}]
    assert rows({"v": b"\x00\xff"}, {"v": "AP8="}, v="binary") == [{"v": b"\x00\xff"}] * 2


def test_what_is_no_record_is_refused():
    with pytest.raises(SourceError, match="one is int"):
        table_of([[1, 2]], {})
    with pytest.raises(SchemaRefused, match="no values yet"):
        rows({"a": None})


def test_tables_and_frames_are_taken_as_they_are():
    arrow = pa.table({"id": pa.array([1], pa.int32())})
    assert table_of([arrow], {}).schema == arrow.schema
    assert table_of([pd.DataFrame({"id": [1, 2]})], {}).to_pylist() == [{"id": 1}, {"id": 2}]
    both = table_of([{"id": 7}, pa.table({"id": pa.array([8], pa.int64())}), {"id": 9, "x": "y"}], {})
    assert both.to_pylist() == [{"id": 7, "x": None}, {"id": 8, "x": None}, {"id": 9, "x": "y"}]


def test_a_column_without_values_stays_what_it_was():
    before = table_of([{"id": 1, "free": Number("1.5"), "note": "a"}], {}).schema
    found = like(table_of([{"id": 2, "free": 3}], {}), before)
    assert (found.schema, found.to_pylist()) == (before, [{"id": 2, "free": 3.0, "note": None}])


scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
nested = st.recursive(scalars, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=5)


@given(st.lists(st.fixed_dictionaries({"id": st.integers(0, 9), "v": nested}), min_size=1))
def test_no_value_is_changed_or_lost(records):
    """Against json alone: what is accepted reads back as it was."""
    try:
        found = table_of([records], {}).to_pylist()
    except SchemaRefused:
        assert len({type(each["v"]) for each in records} - {type(None)}) > 1
        return
    for record, row in zip(records, found, strict=True):
        value = row.get("v")
        assert row["id"] == record["id"]
        assert (json.loads(value) if isinstance(record["v"], dict | list) else value) == record["v"]
