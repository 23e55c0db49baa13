"""Events as deep as Spark reads them are loaded; what is beyond is refused one by one."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint", "held": "json"}


def nested(number, levels):
    held = "[" * levels + "]" * levels
    return f'{{"operation": "I", "sequence": {number}, "id": {number}, "held": {held}}}\n'


def test_events_as_deep_as_spark_reads_them_are_loaded_and_deeper_ones_wait(log_of):
    log = log_of(
        source={"path": "events/*.json", "envelope": "rows", "columns": COLUMNS},
        strategy={"kind": "cdc", "bad_events": "quarantine"},
    )
    levels = {1: 2, 2: 500, 3: 980, 4: 1_200, 5: 100_000}
    log.raw("{1}[a]?*.json", "".join(nested(number, each) for number, each in levels.items()).encode())
    outcome = log.loaded()
    assert (outcome.rows_read, outcome.rows_quarantined) == (5, 2)
    assert {row[0]: row[1].count("[") for row in log.rows()} == {1: 2, 2: 500, 3: 980}
