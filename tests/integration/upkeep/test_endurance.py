"""Loads without end: rows and positions stay through maintenance, and neither loads nor metadata grow.

24 loads, or as many as TIDEGATE_LOADS says: `make test-endurance` does 1,000, with the rules
that are usual.
"""

import os
import statistics
import time
from pathlib import Path

import pytest

from tidegate.formats.shared.storage import usage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(7200)]

COUNT = int(os.environ.get("TIDEGATE_LOADS", "24"))
MANY = 500
ROWS = 100
NOW = {"expire_after": "0s", "keep": 2}


def metadata_folder(loads) -> Path:
    return loads.folder / ("_delta_log" if loads.kind == "delta" else "metadata")


def plain_loop(loads, count) -> int:
    """What as many plain appends leave in the metadata folder."""
    name = "plain"
    with loads.project() as project:
        session = project.sessions.load_session()
    if loads.kind == "delta":
        folder = loads.workspace.folder / name
        for number in range(count):
            rows = session.range(number * ROWS, (number + 1) * ROWS)
            rows.write.format("delta").mode("append").save(f"file://{folder}")
        return usage(f"file://{folder}/_delta_log").older_bytes
    session.sql(f"CREATE TABLE lake.shop.{name} (id bigint, amount string, updated_at timestamp_ntz) USING iceberg")
    for number in range(count):
        rows = session.range(number * ROWS, (number + 1) * ROWS)
        rows = rows.selectExpr("id", "cast(id as string) amount", "timestamp_ntz'2025-01-01' updated_at")
        rows.writeTo(f"lake.shop.{name}").append()
    return usage(f"file://{loads.workspace.folder}/warehouse/shop/{name}/metadata").older_bytes


def test_loads_without_end(loads, record_property):
    count = COUNT
    every, many = (50, True) if count >= MANY else (max(count // 6, 5), False)
    loads.configure(write="append", maintenance={} if many else NOW)
    took, looks = [], []
    for number in range(1, count + 1):
        loads.change_many(range((number - 1) * ROWS, number * ROWS))
        began = time.perf_counter()
        outcome = loads.run()
        took.append(time.perf_counter() - began)
        assert (outcome.outcome, outcome.rows_inserted) == ("loaded", ROWS), outcome.error
        began = time.perf_counter()
        position = loads.state().position
        looks.append(time.perf_counter() - began)
        assert position.sequence == number
        if number % every == 0:
            done = loads.maintain()
            assert "compact" in loads.steps(done)
            assert loads.state().position == position, "maintenance moves no position"
            now, used = statistics.median(took[-10:]), usage(f"file://{metadata_folder(loads)}")
            print(number, round(now, 2), used)  # noqa: T201 - an hour without a word is long
    assert loads.rows() == loads.orders
    assert loads.run().outcome == "unchanged"
    if many:
        first, last = statistics.median(took[10:20]), statistics.median(took[-10:])
        left, plain = usage(f"file://{metadata_folder(loads)}").older_bytes, plain_loop(loads, count)
        told = {
            "loads 11-20": first,
            "last ten": last,
            "ratio": last / first,
            "metadata": left,
            "plain metadata": plain,
            "position found in": statistics.median(looks[-50:]),
        }
        print(loads.kind, told)  # noqa: T201 - what was measured
        for name, value in told.items():
            record_property(name, value)
        assert last <= 1.25 * first
        if loads.kind == "iceberg":
            assert left <= plain / 5
