"""A row that is dated ahead of the clock waits until then, is told about, and hides no row that comes meanwhile."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
FAR = "2099-01-01 00:00:00"


def stream(name: str, source: dict[str, Any], **options: Any) -> dict[str, Any]:
    strategy = {"kind": "watermark", "column": "at", **options}
    return {"source": source, "target": f"lake.out.{name}", "key": ["id"], "strategy": strategy, "write": "merge"}


def test_a_row_of_2099_is_held_back_and_told_about_by_runs_that_move_nothing_status_and_verify(lake_of, tmp_path):
    days = tmp_path / "days"
    days.mkdir()
    lake = lake_of(
        {
            "tables": stream("tables", {"iceberg": "lake.src.t"}),
            "files": stream("files", {"path": "days/*.csv", "columns": {"id": "bigint", "at": "timestamp"}}),
            "zoned": stream(
                "zoned",
                {"path": "days/*.csv", "columns": {"id": "bigint", "at": "timestamp"}},
                time_zone="Pacific/Honolulu",
                safety_lag="1h",
            ),
            "sqlite": stream("sqlite", {"connection": "till", "table": "t"}),
        },
        connections={"till": {"url": f"sqlite:///{tmp_path / 'till.db'}"}},
    )
    lake.sql("CREATE TABLE lake.src.t (id BIGINT, at TIMESTAMP) USING iceberg")
    till = sqlite3.connect(tmp_path / "till.db")
    till.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)")
    soon = datetime.now(UTC) - timedelta(hours=2)  # to come in Honolulu

    def put(*rows: tuple[int, str]) -> None:
        values = ", ".join(f"({row}, TIMESTAMP '{at}Z')" for row, at in rows)
        lake.sql(f"INSERT INTO lake.src.t VALUES {values}")
        lines = "".join(f"{row},{at}\n" for row, at in rows)
        (days / f"{rows[0][0]}.csv").write_text("id,at\n" + lines)
        till.executemany("INSERT INTO t VALUES (?, ?)", rows)
        till.commit()

    put((1, "2025-01-01 00:00:00"), (2, FAR))
    put((3, f"{soon:%Y-%m-%d %H:%M:%S}"))
    expected = {"tables": [1, 3], "files": [1, 3], "zoned": [], "sqlite": [1, 3]}
    ahead = {"tables": 1, "files": 1, "zoned": 2, "sqlite": 1}
    for name, rows in expected.items():
        for result in ("loaded", "unchanged"):
            outcome = lake.run(name)
            assert (outcome.outcome, outcome.error) == (result, None), name
            assert outcome.rows_ahead == ahead[name], (name, result)
            assert any("ahead of the clock" in note for note in outcome.notes), (name, result)
        assert sorted(row[0] for row in lake.rows(f"out.{name}")) == rows, name

    put((4, f"{soon + timedelta(minutes=1):%Y-%m-%d %H:%M:%S}"))
    for name, rows in expected.items():
        if not rows:
            continue
        lake.loaded(name)
        assert sorted(row[0] for row in lake.rows(f"out.{name}")) == [*rows, 4], name
        with lake.workspace.project(lake.spark) as project:
            (found,) = project.verify(name).streams
        assert (found.equal, found.rows_ahead, found.to_dict()["rows_ahead"]) == (True, 1, 1), name
    text = lake.workspace.cli("status").stdout
    assert "tables: the cursor of 1 row is ahead of the clock" in text
    assert "files: the cursor of 1 row is ahead of the clock" in text
    told = json.loads(lake.workspace.cli("status", "--json").stdout)["streams"]
    assert {each["stream"]: each["rows_ahead"] for each in told} == ahead
    till.close()
