"""What the source says of its columns is declared in the table, and given up where the source gives it up."""

from __future__ import annotations

import deltalake
import pytest

from integration.engine.conftest import DuckdbShop, on_both
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def declared(bench):
    """The required columns, the comments of a column and of the table, and the columns of the key."""
    if bench.form == "delta":
        table = deltalake.DeltaTable(str(bench.location))
        fields = {field.name: field for field in table.schema().fields}
        required = {name for name, field in fields.items() if not field.nullable}
        return required, fields["name"].metadata["comment"], table.metadata().description
    table = bench.workspace.table("out.t")
    assert table.schema().identifier_field_names() == {"id"}
    required = {field.name for field in table.schema().fields if field.required}
    return required, table.schema().find_field("name").doc, table.properties["comment"]


@on_both
def test_required_columns_comments_and_the_key(bench):
    bench.shop = DuckdbShop(path=bench.folder / "shop.duckdb")
    bench.sql(
        "create table t (id bigint primary key, name varchar not null, note varchar, code integer not null)",
        "comment on table t is 'Orders of the shop''s site'",
        "comment on column t.name is 'Who ordered\nit'",
    )
    bench.write("snapshot_diff", deletes={"apply": "soft"})
    assert bench.run().outcome is Result.LOADED, "created without rows"
    bench.sql("insert into t values (1, 'a', null, 7)")
    bench.loaded()
    assert declared(bench) == ({"id", "name", "code"}, "Who ordered\nit", "Orders of the shop's site")
    bench.sql("comment on column t.name is 'Somebody'")
    bench.unchanged()
    # A row that goes is marked, a promise that is withdrawn is withdrawn, and a column that is gone has no value.
    bench.sql("delete from t", "alter table t alter name drop not null", "alter table t drop column code")
    bench.sql("insert into t values (2, null, 'x')")
    bench.loaded()
    found = {row["id"]: (row["name"], row["code"], row["deleted_at"] is None) for row in bench.rows()}
    assert found == {1: ("a", 7, False), 2: (None, None, True)}
    assert declared(bench)[0] == {"id"}
