"""A value stays in its column, whatever the column is called, left out or set aside meanwhile."""

from __future__ import annotations

import os

import pytest

from matrix.columns import STREAMS, Columns

pytest_plugins = ["matrix.grounds"]
SEED = int(os.environ.get("TIDEGATE_MATRIX_SEED", "2"))
HISTORIES = int(os.environ.get("TIDEGATE_MATRIX_COLUMNS", "1"))
SEEING = tuple(name for name in STREAMS if "watermark" not in name)
"""Streams that notice a change without a cursor."""


@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize("streams", [tuple(STREAMS), SEEING], ids=["all", "seeing"])
def test_a_value_stays_in_its_column(format, streams, spark, postgres, tmp_path):
    failures = []
    for seed in range(SEED, SEED + HISTORIES):
        (folder := tmp_path / str(seed)).mkdir()
        url = postgres.create_database()
        history = Columns(seed=seed, url=url, folder=folder, spark=spark, format=format, streams=streams)
        failures += history.play(phases=6)
    assert not failures, "\n".join(failures[:3])
