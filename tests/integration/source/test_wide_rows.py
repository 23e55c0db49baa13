"""Rows of a mebibyte, of which many more come than Java has room for, and of more columns than Iceberg measures."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from support.workspace import Workspace

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

ROWS = 640
COLUMNS = 110
SHORT = 40
"""The first rows are short: nobody can tell from them how wide the others are."""


def test_rows_that_grow_are_read_in_smaller_trips(tmp_path: Path, pg_url: str) -> None:
    """The first attempt ends at the driver's limit, not with Java."""
    workspace = Workspace(folder=tmp_path)
    with psycopg.connect(pg_url, autocommit=True) as shop:
        stamps = ", ".join(f"stamp_{number} int" for number in range(COLUMNS))
        shop.execute(f"CREATE TABLE letters ({stamps}, id int PRIMARY KEY, body text NOT NULL)".encode())
        shop.execute(
            "INSERT INTO letters (id, body) SELECT n, CASE WHEN n <= %s THEN 'short' ELSE repeat(md5(n::text), 32768) "
            "END FROM generate_series(1, %s) n",
            (SHORT, ROWS),
        )
        shop.execute("ANALYZE letters")
    letters = {"source": {"connection": "shop", "table": "public.letters", "slices": 1}, "key": ["id"]}
    workspace.write(
        {"letters": {**letters, "target": "lake.o.letters", "strategy": "full", "write": "merge"}},
        connections={"shop": {"url": pg_url}},
        lakes={"lake": {"format": "iceberg"}},
        spark={"master": "local[2]", "conf": {"spark.driver.memory": "512m"}},
    )
    said = workspace.cli("run")
    assert said.returncode == 0, said.stderr
    assert "attempt 2 of 3 after out_of_memory" in said.stderr
    written = workspace.table("o.letters").scan(selected_fields=("id",))
    assert sorted(written.to_arrow()["id"].to_pylist()) == list(range(1, ROWS + 1))
    key = workspace.table("o.letters").schema().find_field("id").field_id
    assert all(key in (task.file.lower_bounds or {}) for task in written.plan_files())
