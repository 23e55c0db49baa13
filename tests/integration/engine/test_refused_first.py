"""What a load that its check refuses leaves of the table: nothing where none was, and what was there as it was."""

import pytest
from deltalake import DeltaTable

from integration.engine.conftest import on_both

pytestmark = [pytest.mark.spark]


def metadata(bench):
    """All that a table says of itself, as PyIceberg or delta-rs reads it."""
    if bench.form == "delta":
        table = DeltaTable(str(bench.location))
        return table.version(), table.schema().to_json(), table.metadata().configuration
    found = bench.workspace.table("out.t").metadata
    return found.current_snapshot_id, found.current_schema_id, found.properties, found.refs


@on_both
def test_a_refused_load_leaves_no_table_and_no_column(bench):
    bench.sql("create table t (id integer primary key, price int)", "insert into t values (1, 10), (2, -5)")
    bench.write("full", checks=[{"expression": "price >= 0"}])
    assert bench.refused()[0] == "check_failed"
    assert not bench.location.parent.exists()
    bench.sql("update t set price = 5 where id = 2")
    bench.loaded()
    before = metadata(bench)
    bench.sql("alter table t add column colour text", "insert into t values (3, -1, 'red')")
    assert bench.refused()[0] == "check_failed"
    assert metadata(bench) == before
    bench.sql("update t set price = 1 where id = 3")
    bench.loaded()
    assert metadata(bench) != before
