"""The least and the greatest value of every type, as plain Python, and readers of files that are not Spark.

Read back from tables of both formats. Must never take a value from Spark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_scenarios.samples import BYTES, DAYS, MOMENTS, NINES

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

COLUMNS: dict[str, tuple[str, Sequence[Any]]] = {
    "tiny": ("tinyint", (-128, 127)),
    "small": ("smallint", (-32768, 32767)),
    "whole": ("int", (-(2**31), 2**31 - 1)),
    "big": ("bigint", (-(2**63), 2**63 - 1)),
    "dec": ("decimal(38,0)", (Decimal(f"-{NINES}"), Decimal(NINES))),
    "frac": ("decimal(38,10)", (Decimal(f"-{NINES}E-10"), Decimal(f"{NINES}E-10"), Decimal("0E-10"))),
    "tenth": ("decimal(4,3)", (Decimal("-9.999"), Decimal("9.999"))),
    "flt": ("float", (-3.4028234663852886e38, 1.401298464324817e-45, math.nan, math.inf, -math.inf, -0.0)),
    "dbl": ("double", (-1.7976931348623157e308, 5e-324, math.nan, math.inf, -math.inf, -0.0)),
    "yes": ("boolean", (False, True)),
    "day": ("date", DAYS),
    "ntz": ("timestamp_ntz", MOMENTS),
    "ltz": ("timestamp", tuple(each.replace(tzinfo=UTC) for each in MOMENTS)),
    "txt": ("string", ("", "\U0010ffff\U0001f600", "\x00", " \r\n\t", "é")),
    "bin": ("binary", BYTES),
}
SPARK_TYPES = {name: kind for name, (kind, _) in COLUMNS.items()}


def rows() -> list[dict[str, Any]]:
    """One row for each value of the longest column, and one of NULL."""
    most = max(len(values) for _, values in COLUMNS.values())
    found: list[dict[str, Any]] = [{"n": 0, **dict.fromkeys(COLUMNS)}]
    for number in range(most):
        row = {name: values[number % len(values)] for name, (_, values) in COLUMNS.items()}
        found.append({"n": number + 1, **row})
    return found


ARROW = {
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "bigint": "int64",
    "float": "float32",
    "double": "float64",
    "boolean": "bool_",
    "date": "date32",
    "string": "string",
    "binary": "binary",
}


def arrow_table() -> pa.Table:
    """The rows in types of their own."""
    import pyarrow as pa

    def kind(name: str) -> pa.DataType:
        if name.startswith("decimal"):
            return pa.decimal128(*map(int, name[8:-1].split(",")))
        if name.startswith("timestamp"):
            return pa.timestamp("us", tz=None if name.endswith("_ntz") else "UTC")
        return getattr(pa, ARROW[name])()

    fields = [pa.field("n", pa.int64()), *(pa.field(name, kind(each)) for name, each in SPARK_TYPES.items())]
    return pa.Table.from_pylist(rows(), schema=pa.schema(fields))


def comparable(row: dict[str, Any]) -> dict[str, str]:
    """Values as texts that tell -0.0 from 0.0 and a time of UTC from one without a zone."""
    return {name: repr(_plain(value)) for name, value in row.items()}


def same(found: Sequence[dict[str, Any]], *, zero: str = "-0.0") -> None:
    """Fails with the column where the rows that somebody read are not these.

    Args:
        zero: how the negative zero may come: Spark makes it 0.0 wherever rows are grouped.
    """
    wanted = rows()
    assert len(found) == len(wanted)
    for mine, theirs in zip(wanted, sorted(found, key=lambda row: row["n"]), strict=True):
        for name in ("n", *COLUMNS):
            value = comparable(mine)[name]
            assert comparable(theirs)[name] == (zero if value == "-0.0" else value), f"column {name}, row {mine['n']}"


def arrow_files(paths: Sequence[str]) -> list[dict[str, Any]]:
    """What PyArrow reads of the data files themselves."""
    from pyarrow import parquet

    found: list[dict[str, Any]] = []
    for path in paths:
        found += values(parquet.ParquetFile(path).read())
    return found


def duckdb_files(paths: Sequence[str]) -> list[dict[str, Any]]:
    """What DuckDB reads of the data files themselves."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return values(connection.sql(f"SELECT * FROM read_parquet({list(paths)!r})").to_arrow_table())


def values(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as Python's values; Arrow's own conversion of times goes through a zone's local time."""
    import pyarrow as pa

    for field in table.schema:
        if pa.types.is_timestamp(field.type):
            assert field.type.unit == "us", f"{field.name} is in {field.type.unit}"
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def physical_types(paths: Sequence[str]) -> set[str]:
    """The physical types of the columns in the files."""
    from pyarrow import parquet

    found = set()
    for path in paths:
        schema = parquet.ParquetFile(path).schema
        columns = [schema.column(place) for place in range(len(schema.names))]
        found |= {
            each.physical_type
            for each in columns
            if each.physical_type == "INT96" or "TIME" in str(each.logical_type).upper()
        }
    return found


def parquet_below(folder: Path) -> list[str]:
    """Every Parquet file below a folder, checkpoints of a log left out."""
    return sorted(str(path) for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value
