"""A value stays in its column, whatever the column is called, left out or set aside meanwhile."""

from __future__ import annotations

import os
import shutil

import pytest

from matrix.columns import Columns
from matrix.planned import PlannedColumns

pytest_plugins = ["matrix.grounds"]
SEED = int(os.environ.get("TIDEGATE_MATRIX_SEED", "2"))
HISTORIES = int(os.environ.get("TIDEGATE_MATRIX_COLUMNS", "2"))
PLANNED = 20
"""How many histories are planned for each that is loaded."""


@pytest.mark.spark
@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_value_stays_in_its_column(format, spark, postgres, tmp_path):
    failures = []
    for seed in range(SEED, SEED + HISTORIES):
        (folder := tmp_path / str(seed)).mkdir()
        url = postgres.create_database()
        history = Columns(seed=seed, url=url, folder=folder, spark=spark, format=format)
        found = history.play(phases=3, streams=4)
        if not found:
            shutil.rmtree(folder)
        failures += found
    assert not failures, "\n\n".join(failures[:3])


@pytest.mark.timeout(24 * 3600)
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_value_is_planned_for_its_column(format, tmp_path):
    failures = []
    for seed in range(SEED, SEED + PLANNED * HISTORIES):
        history = PlannedColumns(seed=seed, url="", folder=tmp_path, spark=None, format=format, kinds=("full_merge",))
        failures += history.play(phases=6, streams=3)
    assert not failures, "\n\n".join(failures[:3])
