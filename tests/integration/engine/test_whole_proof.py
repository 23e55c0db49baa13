"""A run compares the whole table by itself, once the last proof of it is as old as the stream allows."""

from __future__ import annotations

import pytest

from integration.engine.conftest import on_both
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark]


def write(bench, full_every):
    bench.write({"kind": "watermark", "column": "at"}, verify={"full_every": full_every})


def told(outcome):
    return [note for note in outcome.notes if "whole table" in note]


@on_both
def test_what_a_column_hides_is_found_by_the_run_after_which_a_proof_is_due(bench):
    bench.sql(
        "create table t (id integer primary key, at timestamp not null)",
        *(f"insert into t values ({day}, '2025-01-{day:02} 00:00:00')" for day in range(1, 10)),
    )
    write(bench, "7d")
    first = bench.loaded()
    assert told(first) == [], "its first load proves it"
    bench.unchanged()
    write(bench, "1ms")
    again = bench.run()
    assert (again.error, again.outcome, len(told(again))) == (None, Result.UNCHANGED, 1)
    bench.sql("delete from t where id = 3", "insert into t values (10, '2025-01-10 00:00:00')")
    found = bench.run()
    assert (found.error.code, found.error.exit_code, found.rows_read) == ("verify_failed", 3, 1)
    assert "9 rows at the source, 10 in" in found.error.message
    assert [row["id"] for row in sorted(bench.rows(), key=lambda row: row["id"])][-1] == 10, "what was loaded stays"
    assert bench.run().error.code == "verify_failed"
    assert bench.verify(repair=True).repaired_rows == 1
    healed = bench.run()
    assert (healed.error, len(told(healed))) == (None, 1)
    write(bench, "7d")
    bench.unchanged()
