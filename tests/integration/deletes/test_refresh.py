"""What a full refresh leaves in the table where the source has fewer rows, none, or another lookback; both formats."""

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

COLUMNS = "id integer primary key, name text, at timestamp"
BY_MONTH = {"kind": "checksum", "method": "by_date", "column": "at", "period": "month"}


def test_an_emptied_source_empties_the_table_only_where_that_is_allowed(bench_of: Any, format_: str):
    bench = bench_of(format_=format_, columns=COLUMNS, strategy={"kind": "watermark", "column": "at"})
    bench.shop.sql("insert into t values (1, 'a', '2025-01-01'), (2, 'b', '2025-01-02')")
    bench.loaded()
    bench.shop.sql("delete from t")
    assert bench.run().outcome == "unchanged"
    refused = bench.run(full_refresh=True)
    assert refused.error is not None
    assert (refused.error.code, refused.whole, bench.ids()) == ("delete_fuse", False, [1, 2])

    emptied = bench.run(full_refresh=True, allow_deletes=True)
    assert (emptied.error, emptied.outcome, emptied.whole, bench.ids()) == (None, "loaded", True, [])
    assert bench.run().outcome == "unchanged"
    bench.shop.sql("insert into t values (3, 'c', '2024-01-01')")
    bench.loaded()
    assert bench.ids() == bench.wanted() == [3]


def test_a_changed_type_rereads_what_the_lookback_leaves_out(bench_of: Any, format_: str):
    options = {"columns": COLUMNS, "contract": {"type_change": "replace"}}
    bench = bench_of(format_=format_, strategy=BY_MONTH, **options)
    bench.shop.sql("insert into t values (1, 'old', '2025-01-01'), (2, 'new', '2025-06-01')")
    bench.loaded()
    bench.shop.sql("alter table t rename to before", f"create table t ({COLUMNS.replace('name text', 'name integer')})")
    bench.shop.sql("insert into t select id, id, at from before")
    bench.loaded(options={"lookback": "20250501"})
    assert [(row["id"], row["name"]) for row in bench.rows()] == [(1, 1), (2, 2)]


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
