"""A dimension: what was changed without a word, by another project file or while a load was interrupted."""

import pytest

from integration.engine.conftest import on_both
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

WATERMARK = {"kind": "watermark", "column": "at"}
TRACKED = {"kind": "scd2", "track_history": ["city"]}


def versions(bench):
    found = [
        (
            row["id"],
            row["city"],
            f"{row['valid_from']:%m-%d}",
            row["valid_to"] and f"{row['valid_to']:%m-%d}",
            row["is_current"],
        )
        for row in bench.rows()
    ]
    return sorted(found, key=lambda row: (row[0], row[2]))


@on_both
def test_a_dimension_through_its_life(bench):
    bench.sql(
        "create table t (id integer primary key, city text, at timestamp)",
        "insert into t values (1, 'Bern', '2025-01-01'), (2, 'Genf', '2025-01-01'), (3, 'Chur', '2025-01-02')",
    )
    bench.write(WATERMARK, "scd2")
    bench.loaded()
    bench.sql("update t set city = 'Basel', at = '2025-02-01 00:00:00' where id = 1")
    bench.crashed(Stage.VERIFY, Moment.START)
    bench.workspace.forget_registry()
    assert bench.run().error is None
    others = [(2, "Genf", "01-01", None, True), (3, "Chur", "01-02", None, True)]
    assert versions(bench) == [(1, "Bern", "01-01", "02-01", False), (1, "Basel", "02-01", None, True), *others]
    assert bench.run().outcome is Result.UNCHANGED
    assert bench.verify(level="rows").equal is True
    # Changed without a word: a comparison finds it, and a repair dates it by itself.
    bench.sql("update t set city = 'Zug' where id = 2")
    assert bench.verify(level="rows").equal is False
    assert bench.verify(repair=True).error is None
    assert bench.verify(level="rows").equal is True
    assert [row[1] for row in versions(bench) if row[0] == 2] == ["Genf", "Zug"]

    # What is found gone ends when the source was looked at, and is current again once it comes back.
    bench.sql("delete from t where id = 3")
    assert bench.verify(repair=True).repaired_rows == 1
    (gone,) = (row["valid_to"] for row in bench.rows() if row["id"] == 3)
    assert gone.microsecond == 999999, "the bound of the source, below which nothing comes any more"
    bench.sql("insert into t values (3, 'Chur', '2025-01-03 00:00:00')")
    bench.write({**WATERMARK, "lookback": "10000d"}, "scd2")
    bench.loaded()
    assert [row[1] for row in versions(bench) if row[0] == 3 and row[-1]] == ["Chur"]
    assert bench.verify(level="rows").equal is True
    bench.write(WATERMARK, "scd2")

    # Other options are refused until the table is loaded anew.
    before = bench.rows()
    bench.sql("update t set city = 'Thun', at = '2025-02-02 00:00:00' where id = 1")
    bench.write(WATERMARK, TRACKED)
    assert "--full-refresh" in bench.refused()[2]
    bench.write(WATERMARK)
    assert "another writer" in bench.refused()[1]
    assert bench.rows() == before
    bench.write(WATERMARK, TRACKED)
    assert bench.run(full_refresh=True).error is None
    assert [row[1] for row in versions(bench)] == ["Thun", "Zug", "Chur"]
    bench.sql("update t set at = '2025-03-01 00:00:00' where id = 1")
    bench.loaded()
    assert len(versions(bench)) == 3, "what is not tracked is updated in place"
