"""Bounds of a microsecond in ORC, whose stripes state theirs in milliseconds."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from pyarrow import orc

from support.lake import QUICK
from support.workspace import Workspace
from tidegate.loaders import TimestampBasedLoader

pytestmark = pytest.mark.spark
AT = datetime.fromisoformat("2025-01-01 12:23:00.182137")
TICK = timedelta(microseconds=1)


def put(path, *times: datetime) -> None:
    path.parent.mkdir(exist_ok=True)
    orc.write_table(pa.table({"id": list(range(len(times))), "at": pa.array(times, pa.timestamp("us"))}), path)


def test_rows_at_the_very_bound_are_loaded(tmp_path, spark):
    put(tmp_path / "in" / "1.orc", AT, AT, AT + TICK, AT + timedelta(minutes=15))
    strategy = {"kind": "watermark", "column": "at", "clock": "application", "time_zone": "UTC"}
    strategy |= {"safety_lag": "15m", "lookback": "1h"}
    stream = {"source": {"path": "in/*.orc"}, "target": "lake.out.t", "key": ["id"], "write": "merge"}
    workspace = Workspace(folder=tmp_path)
    workspace.write({"t": stream | {"strategy": strategy}}, connections={}, spark={"conf": QUICK})
    (outcome,) = workspace.run("t", spark=spark).streams
    assert (outcome.error, outcome.verified, outcome.rows_read) == (None, True, 2)
    assert [row["id"] for row in workspace.rows("out.t")] == [0, 1]


def test_loader_takes_the_rows_one_microsecond_after_its_watermark(tmp_path, spark):
    paths = {"source_path": str(tmp_path / "in"), "target_path": str(tmp_path / "out")}
    load = TimestampBasedLoader(spark, source_format="orc").load_incremental
    for number in range(3):
        put(tmp_path / "in" / f"{number}.orc", AT + number * TICK)
        result = load(timestamp_column="at", watermark_path=str(tmp_path / "marks"), **paths)
        assert result.records == 1
