"""The snippets that `show` prints for a Delta table read every value, whatever its table and columns are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from support.lake import Lake, make_delta_lake
from tidegate.core.ids import Target
from tidegate.spark.session import Sessions

pytestmark = pytest.mark.spark

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
FIRST = (1, "v", ["a", "b"], [("k", 1)], {"u": 1, "w": "x"})
SECOND = (2, None, None, None, None)


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Lake:
    return make_delta_lake(tmp_path, lambda lake: Sessions(borrowed=spark, lakes=[lake.spark_conf()]).load_session())


def rows_of(engine: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    match engine:
        case "duckdb":
            return names["loaded"].to_pylist()
        case "polars":
            return names["rows"].to_arrow().to_pylist()
        case "pandas":
            return names["rows"].astype(object).where(names["rows"].notna(), None).to_dict("records")
        case _:
            return pa.table(names["rows"]).to_pylist()


def plain(value: Any) -> Any:
    """Entries of a map as pairs, arrays as lists: pandas and Polars have no maps."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [tuple(entry.values()) for entry in value]
    return [tuple(each) if len(each) == 2 else each for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("table", "column", "partitioned"),
    [("orders", "plain", ""), ("x,y z", "two words", "PARTITIONED BY (id)"), ("orders", "a,b", "")],
)
def test_every_snippet_reads_every_value(
    lake: Lake, table: str, column: str, partitioned: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Target(lake="lake", namespace=("shop",), table=table)
    name = lake.sql_name(target)
    nested = "tags ARRAY<STRING>, m MAP<STRING, INT>, st STRUCT<u: INT, w: STRING>"
    mapped = "" if column == "plain" else MAPPED
    lake.session.sql(f"CREATE TABLE {name} (id BIGINT, `{column}` STRING, {nested}) USING delta {partitioned} {mapped}")
    lake.session.sql(
        f"INSERT INTO {name} VALUES (1, 'v', array('a', 'b'), map('k', 1), named_struct('u', 1, 'w', 'x')), "
        "(2, NULL, NULL, NULL, NULL)"
    )
    snippets = lake.format.snippets(target)
    for engine in ("duckdb", "delta-rs", "polars", "pandas"):
        names: dict[str, Any] = {}
        exec(snippets[engine], names)
        found = [{key: plain(value) for key, value in row.items()} for row in rows_of(engine, names)]
        asked = ("id", column, "tags", "m", "st")
        rows = sorted((tuple(row[each] for each in asked) for row in found), key=lambda row: row[0])
        assert rows == [FIRST, SECOND], engine
    assert column in capsys.readouterr().out
