"""A table is left alone only where it is proven to be what the source holds, and made up for otherwise."""

from __future__ import annotations

import pyarrow as pa
import pytest

from integration.engine.conftest import on_both
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.engine.proof import Proven

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),
]
OTHERS = "others have changed the table since the last load"


@pytest.fixture
def countries(bench):
    bench.sql("create table t (id integer primary key, name text, area double)")
    bench.sql("insert into t values (1, 'Malta', 0.1), (2, 'Chad', null)")
    return bench


def by_writing(bench):
    rows = pa.table({"id": pa.array([9], pa.int64()), "name": ["Oz"], "area": [1.5]})
    table = bench.workspace.table("out.t")
    schema = table.schema().as_arrow()
    table.append(rows.select(schema.names).cast(schema))


def by_dropping_a_column(bench):
    with bench.workspace.table("out.t").update_schema() as change:
        change.delete_column("name")


def by_partitioning(bench):
    with bench.workspace.table("out.t").update_spec() as change:
        change.add_identity("id")


def maintained(bench):
    with bench.project() as project:
        assert project.maintain("t", force=True).streams[0].error is None


def reason(bench):
    with bench.project() as project:
        plan = project.plan("t").streams[0]
    return plan.slices[0].reason if plan.slices else plan.notes[0]


def is_equal(bench):
    assert bench.rows("id", "name", "area") == bench.source()


def test_what_others_changed_is_made_up_for_and_floats_are_compared_by_the_sources_own_answers(countries):
    source = {"source": {"connection": "shop", "table": "t"}, "maintenance": {"expire_after": "1s", "keep": 1}}
    countries.write("full", "replace", key=(), **source)
    countries.loaded()
    maintained(countries)
    before = countries.workspace.snapshots("out.t")
    countries.unchanged()
    assert countries.workspace.snapshots("out.t") == before
    assert reason(countries).endswith("is the loaded one, and the table is as the last load left it")
    countries.sql("update t set area = 0.10000000000000002 where id = 1")
    assert reason(countries) == "every row is read: the source's own fingerprint is not the loaded one"
    assert countries.loaded().notes == ("not covered by the fingerprint: area",)
    is_equal(countries)
    for change, why in (
        (by_writing, OTHERS),
        (lambda bench: bench.workspace.table("out.t").delete("id = 1"), OTHERS),
        (by_dropping_a_column, "the table's columns are not those of the source"),
        (by_partitioning, "the table's partitioning has changed"),
    ):
        change(countries)
        assert reason(countries).endswith(f": {why}")
        countries.loaded()
        is_equal(countries)
        countries.unchanged()
    by_writing(countries)
    maintained(countries)  # which says the position again, on top of what others wrote
    countries.loaded()
    is_equal(countries)
    countries.write("full", "replace", key=(), **source, verify="counts")
    assert reason(countries).endswith(": settings of the stream have changed")


@pytest.mark.parametrize("bench", ["delta"], indirect=True)
def test_delta_tables_are_left_alone_only_when_the_last_load_was_proven(countries):
    countries.write("full", "replace", key=())
    countries.loaded()
    countries.unchanged()
    countries.by_hand("DELETE FROM {table} WHERE id = 1")
    countries.loaded()
    is_equal(countries)
    countries.by_hand("OPTIMIZE {table}")
    countries.unchanged()
    countries.workspace.forget_registry()
    countries.loaded()  # nobody remembers whether it was verified
    countries.write("full", "replace", key=(), verify="none")
    assert [countries.run().outcome for _ in range(2)] == [Result.LOADED] * 2


@on_both
def test_a_strategy_that_keeps_the_table_says_that_others_have_changed_it(bench):
    bench.sql("create table t (id integer primary key, name text)", "insert into t values (1, 'Malta'), (2, 'Chad')")
    bench.write({"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 2})

    def proven():
        with bench.workspace.project() as project:
            return project.proof("t").streams[0].proven

    bench.loaded()
    bench.verify(level="checksum")
    assert (bench.run().notes, proven()) == ((), Proven.EQUAL)
    bench.by_hand("DELETE FROM {table} WHERE id = 1")
    said = "others have changed the table since its last load: `tidegate verify t` compares it with its source"
    outcome = bench.run()
    assert (outcome.outcome, outcome.notes, proven()) == (Result.UNCHANGED, (said,), Proven.CHANGED)
    bench.sql("insert into t values (3, 'Peru')")
    assert bench.loaded().notes == (said,)
    bench.verify(level="checksum")
    assert proven() is Proven.DIFFERENT


@on_both
def test_a_source_without_rows_gets_its_table_once_also_after_a_crash(bench):
    bench.sql("create table t (id integer primary key, name text not null, at timestamp not null, area text)")
    watermark, rows = {"kind": "watermark", "column": "at"}, {"row_count": 1}  # of a load that brings rows
    bench.write(watermark, layout={"partition_by": ["name"]}, checks=[rows])
    with bench.project() as project:
        plan = project.plan("t").streams[0]
    assert (plan.outcome, plan.create) == ("changed", True)
    if bench.form == "iceberg":  # on Delta the load has been published by then
        bench.crashed(Stage.ADVANCE, Moment.START)
    bench.crashed(Stage.ADVANCE, Moment.PUBLISHED)
    assert bench.run().error is None
    bench.unchanged()
    assert bench.rows() == []
    bench.sql("insert into t values (1, 'a', '2025-01-01', null), (2, 'b', '2025-01-02', null)")
    bench.loaded()
    assert bench.rows("id", "area") == [(1, None), (2, None)]


@pytest.mark.postgres
def test_only_what_is_read_of_postgresql_counts(pg_bench):
    pg_bench.sql(
        "CREATE TABLE t (id int PRIMARY KEY, name text, born date, pay numeric(10,2), at timestamptz, ssn text)"
    )
    source = {"connection": "shop", "query": "SELECT * FROM t", "exclude": ["ssn"]}
    pg_bench.write("full", "replace", key=(), source=source)
    pg_bench.run()
    assert [field.name for field in pg_bench.workspace.table("out.t").schema().fields] == [
        "id", "name", "born", "pay", "at",
    ]  # fmt: skip
    pg_bench.sql(
        "INSERT INTO t VALUES (1, 'Ada', '1815-12-10', 1.5, '2025-01-01', 'a'), (2, 'Bo', NULL, NULL, NULL, NULL)"
    )
    pg_bench.loaded()
    before = pg_bench.workspace.snapshots("out.t")
    for statement in (
        "UPDATE t SET ssn = 'b'",
        "ALTER TABLE t ALTER ssn TYPE bytea USING ssn::bytea",
        "ALTER TABLE t ALTER ssn TYPE interval USING NULL",
    ):
        pg_bench.sql(statement)
        pg_bench.unchanged()
    assert pg_bench.workspace.snapshots("out.t") == before
    pg_bench.sql("UPDATE t SET pay = 1.51 WHERE id = 1")
    pg_bench.loaded()
    assert [(key, str(pay)) for key, pay in pg_bench.rows("id", "pay")] == [(1, "1.51"), (2, "None")]
    pg_bench.sql("ALTER TABLE t DROP COLUMN ssn")
    code, message, _ = pg_bench.refused()
    assert (code, "'ssn'" in message) == ("config", True)
