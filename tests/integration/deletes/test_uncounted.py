"""Deletes from a table whose metadata does not say how many rows it has."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tidegate.core.policies.deletes import Deletes, Detect
from tidegate.core.schema import BIGINT, TIMESTAMPTZ, Column, Schema
from tidegate.formats.iceberg import Iceberg
from tidegate.strategies.watermark import Watermark
from tidegate.testing import LocalProject, MemorySource
from tidegate.writers.merge import Merge

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Uncounted(Iceberg):
    """Its metadata does not say how many rows a table has, as of a table that another engine wrote."""

    def state(self, *arguments: Any, **options: Any) -> Any:
        return replace(super().state(*arguments, **options), rows=None)


def test_a_limit_counts_the_rows_that_no_metadata_counts(spark: Any, tmp_path: Path):
    columns = (Column(name="id", type=BIGINT, nullable=False), Column(name="at", type=TIMESTAMPTZ))
    rows = [{"id": number, "at": datetime(2025, 1, 1, 0, 0, number, tzinfo=UTC)} for number in range(40)]
    source = MemorySource(schema=Schema(columns=columns), rows=rows, key=("id",))
    parts = {"source": source, "strategy": Watermark(column="at"), "writer": Merge(), "spark": spark, "key": ("id",)}
    lake = Uncounted(name="lake", warehouse="./warehouse", catalog={"type": "sqlite"}, folder=tmp_path)
    with LocalProject(**parts, folder=tmp_path, lake=lake, deletes=Deletes(detect=Detect.KEY_DIFF)) as project:
        assert project.run().error is None
        del source.rows[20:]
        stopped = project.run()
        assert stopped.error is not None
        assert stopped.error.code == "delete_fuse"
        assert project.run(allow_deletes=True).rows_deleted == 20
