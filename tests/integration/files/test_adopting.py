"""Files that became an Iceberg table are taken over once they are proven; tables of Hive are in `test_hive.py`."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.files.landing import good, idle, loaded, run, stream
from tidegate.errors import VerifyFailed

pytestmark = pytest.mark.spark


def test_files_that_became_a_table_are_adopted_once_they_are_proven(workspace, tmp_path, spark):
    """Iceberg takes the very files over; the position comes only when the table is what they are."""
    folder = tmp_path / "history"
    folder.mkdir()
    for number in (1, 2):
        rows = pa.table({"id": pa.array([number], pa.int64()), "v": [f"v{number}"]})
        parquet.write_table(rows, folder / f"{number}.parquet")
    workspace.write({"t": stream("history", source={"format": "parquet"})})
    (tmp_path / ".tidegate").mkdir()
    with workspace.project(spark) as project:
        lake = project.sessions.load_session()
        lake.sql("CREATE NAMESPACE lake.s")
        lake.sql("CREATE TABLE lake.s.t (id bigint, v string) USING iceberg")
        lake.sql(f"CALL lake.system.add_files(table => 's.t', source_table => '`parquet`.`{folder}`')").collect()
        assert run(workspace, "t", spark).error.code == "position_missing"
        parquet.write_table(pa.table({"id": pa.array([3], pa.int64()), "v": ["v3"]}), folder / "3.parquet")
        with pytest.raises(VerifyFailed, match="3 rows at the source and 2") as caught:
            project.state.adopt("t")
        assert "--full-refresh" in caught.value.hint
        assert run(workspace, "t", spark).error.code == "position_missing"
        (folder / "3.parquet").rename(tmp_path / "3.parquet")
        assert project.state.adopt("t").agree
    idle(workspace, "t")
    (tmp_path / "3.parquet").rename(folder / "3.parquet")
    assert good(workspace, "t", spark).rows_inserted == 1
    assert loaded(workspace, "t", "id", "v") == [(1, "v1"), (2, "v2"), (3, "v3")]
    with workspace.project(spark) as project:
        parquet.write_table(pa.table({"id": pa.array([4], pa.int64()), "v": ["next"]}), folder / "4.parquet")
        assert project.verify("t").streams[0].equal is True  # a file that is not loaded yet is not missing
