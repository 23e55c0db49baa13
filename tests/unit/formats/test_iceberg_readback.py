"""Rows read back without Spark: what a commit added, unless another file may hold one of its keys."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.formats.iceberg.readback import added

LONG = "a text that is longer than the bounds of a file "
NOON = datetime(2025, 1, 1, 12)  # noqa: DTZ001 - a column without zone
KEYS = {
    "integer": (pa.int64(), range(-2, 4)),
    "text": (pa.string(), [LONG + str(number) for number in range(6)]),
    "decimal": (pa.decimal128(12, 2), [Decimal(number) / 100 for number in range(-2, 4)]),
    "date": (pa.date32(), [date(1969, 12, 30) + timedelta(days=number) for number in range(6)]),
    "timestamp": (pa.timestamp("us"), [NOON + timedelta(microseconds=number) for number in range(6)]),
    "timestamptz": (
        pa.timestamp("us", tz="UTC"),
        [NOON.replace(tzinfo=UTC) + timedelta(microseconds=number) for number in range(6)],
    ),
}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory) -> SqlCatalog:
    folder = tmp_path_factory.mktemp("lake")
    found = SqlCatalog("lake", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=f"file://{folder}")
    found.create_namespace("shop")
    return found


def table_of(catalog, of: pa.DataType, name: str = "orders"):
    """An empty table with a key of two columns, and a commit to it of which the new rows' names are read back."""
    schema = pa.schema([("key", of), ("two", pa.int64()), ("name", pa.string())])
    table = catalog.create_table(f"shop.{name}", schema)

    def come(keys: dict[int, object]) -> list[str] | None:
        rows = [{"key": key, "two": number, "name": f"n{number}"} for number, key in keys.items()]
        table.append(pa.Table.from_pylist(rows, schema=schema))
        found = added(table, table.current_snapshot().snapshot_id, columns=["name"], key=["key", "two"])
        return None if found is None else sorted(found["name"].to_pylist())

    return come


@pytest.mark.parametrize("kind", KEYS)
def test_a_key_that_another_file_holds_is_found_whatever_its_type(catalog, kind):
    of, values = KEYS[kind]
    keys, come = dict(enumerate(values)), table_of(catalog, of, kind)

    def of_numbers(*numbers: int) -> list[str] | None:
        return come({number: keys[number] for number in numbers})

    assert of_numbers(0, 2, 4) == ["n0", "n2", "n4"]
    assert of_numbers(1, 3) == ["n1", "n3"], "between those that are there"
    assert of_numbers(4, 5) is None, "the last of before is there again"
    assert of_numbers(1) is None


def test_nothing_is_said_of_texts_that_no_bound_lies_above(catalog):
    come = table_of(catalog, pa.string())
    assert come({number: "\U0010ffff" * (17 + number) for number in range(3)}) is None
