"""The comparison with other tools: what it takes for a right table, and every job of every tool on a small one."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from bench import lakes, rivals_page
from bench.source import COLUMNS, ROWS, TABLE, Orders
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

ROOT = Path(__file__).parents[3]
DAYS = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
TYPES = [pa.int64(), pa.int64(), pa.string(), pa.decimal128(12, 2), pa.int32(), pa.bool_(), pa.string(), pa.string()]


def _table(orders: Orders) -> pa.Table:
    orders.ask(TABLE)
    orders.ask(ROWS, 1, 300)
    rows = zip(*orders.ask(f"SELECT {', '.join(COLUMNS)} FROM orders"), strict=True)
    return pa.table(
        dict(zip(COLUMNS, (pa.array(row, kind) for row, kind in zip(rows, [*TYPES, *DAYS], strict=True)), strict=True))
    )


def _write(table_format: str, folder: Path, rows: pa.Table) -> None:
    if table_format == "delta":
        write_deltalake(folder / "orders", rows)
        return
    folder.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/lake.db", warehouse=f"file://{folder}")
    catalog.create_namespace("bench")
    catalog.create_table("bench.orders", rows.schema).append(rows)
    catalog.engine.dispose()


@pytest.mark.postgres
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_table_with_one_wrong_value_is_not_the_source(postgres, tmp_path, table_format):
    orders = Orders(url=postgres.create_database(f"bench_{table_format}"), rows=300)
    rows = _table(orders)
    expected = tuple(int(value) for value in orders.ask(lakes.OF_POSTGRES)[0])
    _write(table_format, tmp_path / "right", rows)
    assert lakes.sums(table_format, tmp_path / "right") == expected
    for column, other in (("note", "other"), ("amount", None), ("updated_at", rows["updated_at"][0].as_py())):
        at, kind = rows.column_names.index(column), rows[column].type
        changed = pc.if_else(pc.equal(rows["id"], 300), pa.scalar(other, kind), rows[column])
        _write(table_format, tmp_path / column, rows.set_column(at, column, changed))
        assert lakes.sums(table_format, tmp_path / column) != expected
    _write(table_format, tmp_path / "twice", pa.concat_tables([rows, rows.slice(0, 1)]))
    assert lakes.sums(table_format, tmp_path / "twice") != expected


@pytest.mark.servers
@pytest.mark.timeout(1800)
def test_every_job_of_every_tool(tmp_path):
    subprocess.run(["sh", "scripts/rivals.sh"], cwd=ROOT, check=True)
    command = [sys.executable, "-m", "bench.rivals", "--rows", "50000", "--rounds", "1", "--work", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # 1 says that a goal is missed, as is usual for so few rows.
    assert done.returncode in (0, 1), done.stdout + done.stderr
    document = json.loads((ROOT / "bench" / "out" / "rivals.json").read_text(encoding="utf-8"))
    assert [len(seconds) for seconds in document["seconds"].values()] == [7, 7, 7, 7], done.stdout + done.stderr
    assert "ingestr to Iceberg" in rivals_page.table(document)
    assert not list(tmp_path.iterdir())
