"""How long is written (`TIDEGATE_MATRIX_SECONDS`), and a table of what became of the rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from matrix.bounds.windows import RESULTS, Sample

SECONDS = float(os.environ.get("TIDEGATE_MATRIX_SECONDS", "2"))


@pytest.fixture(params=[pytest.param(Sample(seconds=SECONDS, writers=4), marks=pytest.mark.slow)])
def sample(request) -> Sample:
    return request.param


@pytest.fixture(scope="module", autouse=True)
def table_of_results(request) -> Iterator[None]:
    """Prints the combinations once all have run."""
    yield
    lines = [f"\n{'source':<12}{'cursor':<24}{'transactions':<16}{'rows':>8}{'lost':>6}{'twice':>6}{'windows':>9}"]
    lines += [
        f"{r.source:<12}{r.cursor:<24}{r.kind:<16}{r.rows:>8}{r.lost:>6}{r.twice:>6}{r.windows:>9}" for r in RESULTS
    ]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n".join(lines))
    RESULTS.clear()
