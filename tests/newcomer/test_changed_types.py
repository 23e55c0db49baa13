"""A column of the source has another type: what stops, what goes on, and what readers see, on Iceberg and Delta."""

import dataclasses
import datetime as dt

import deltalake
import pytest

from support.workspace import SqliteShop, Workspace
from tidegate.errors import SchemaRefused, TidegateError

pytestmark = pytest.mark.spark


@dataclasses.dataclass
class Table:
    """The table `lake.s.t`, read by PyIceberg or delta-rs."""

    workspace: Workspace
    form: str

    @property
    def _delta(self):
        return self.workspace.folder / "warehouse" / "s" / "t"

    def rows(self, version=None):
        if self.form == "delta":
            found = deltalake.DeltaTable(str(self._delta), version=version).to_pyarrow_table()
        else:
            found = self.workspace.table("s.t").scan(snapshot_id=version).to_arrow()
        return sorted(found.to_pylist(), key=lambda row: row["id"])

    @property
    def version(self):
        if self.form == "delta":
            return deltalake.DeltaTable(str(self._delta)).version()
        return self.workspace.table("s.t").current_snapshot().snapshot_id

    @property
    def required(self):
        if self.form == "delta":
            return {
                field.name for field in deltalake.DeltaTable(str(self._delta)).schema().fields if not field.nullable
            }
        return {field.name for field in self.workspace.table("s.t").schema().fields if field.required}

    @property
    def key(self):
        return set() if self.form == "delta" else self.workspace.table("s.t").schema().identifier_field_names()

    @property
    def columns(self):
        if self.form == "delta":
            return [field.name for field in deltalake.DeltaTable(str(self._delta)).schema().fields]
        return [field.name for field in self.workspace.table("s.t").schema().fields]


@pytest.fixture
def shop(tmp_path):
    shop = SqliteShop(path=tmp_path / "shop.db")
    make(shop, "INTEGER", "1, 10", "2, 20")
    return shop


def make(shop, kind, *rows):
    shop.sql(
        "DROP TABLE IF EXISTS t",
        f"CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, amount {kind})",
        *(f"INSERT INTO t VALUES ({row})" for row in rows),
    )


@pytest.fixture
def table(request, tmp_path):
    """An Iceberg table, unless a test wants others."""
    return Table(Workspace(folder=tmp_path), getattr(request, "param", "iceberg"))


each_format = pytest.mark.parametrize("table", ["iceberg", "delta"], indirect=True)


def state(table, shop, contract=None, **more):
    stream = {
        "source": {"connection": "shop", "table": "t"},
        "target": "lake.s.t",
        "key": ["id"],
        "strategy": {"kind": "sequence", "column": "id"},
        "write": "merge",
        "contract": contract or {},
        **more,
    }
    lakes = {"lake": {"format": table.form}}
    table.workspace.write({"t": stream}, connections={"shop": {"url": shop.url}}, lakes=lakes)


def run(table, spark, **options):
    (outcome,) = table.workspace.run(spark=spark, **options).streams
    return outcome


@each_format
def test_a_full_refresh_accepts_any_new_type(table, shop, spark):
    state(table, shop)
    assert run(table, spark).verified
    old = table.version
    make(shop, "TEXT", "1, 'ten'", "3, '030'")

    refused = run(table, spark)
    assert refused.error.code == "schema_refused"
    assert "`contract: {type_change: replace | widen | cast | rescue | discard}`" in refused.error.hint
    assert "`tidegate run t --full-refresh --yes`" in refused.error.hint
    assert table.rows() == [{"id": 1, "amount": 10}, {"id": 2, "amount": 20}]

    with table.workspace.project(spark) as project:
        (plan,) = project.plan(full_refresh=True).streams
    assert plan.error is None
    assert [(each["kind"], each["old"], each["new"]) for each in plan.schema_changes] == [
        ("type_change", "bigint", "string")
    ]

    done = run(table, spark, full_refresh=True)
    assert (done.error, done.verified) == (None, True)
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (2, 0, 2), "on both formats the same"
    assert table.rows() == [{"id": 1, "amount": "ten"}, {"id": 3, "amount": "030"}]
    assert table.columns == ["id", "amount"]
    assert table.rows(table.version) == table.rows()
    assert table.rows(old) == [{"id": 1, "amount": 10}, {"id": 2, "amount": 20}]

    shop.sql("INSERT INTO t VALUES (4, '4')")
    later = run(table, spark)
    assert (later.error, later.verified, later.rows_read) == (None, True, 1)
    assert table.rows()[-1] == {"id": 4, "amount": "4"}
    assert run(table, spark).outcome == "unchanged"

    with table.workspace.project(spark) as project:
        (report,) = project.verify(level="rows").streams
        assert report.equal
        if table.form == "iceberg":
            with pytest.raises(SchemaRefused, match="from before the type of amount was replaced"):
                project.rollback("t", str(old))
        else:
            project.rollback("t", str(old))
            assert table.rows() == [{"id": 1, "amount": 10}, {"id": 2, "amount": 20}]


def test_the_contract_replaces_a_changed_type_unless_a_value_could_be_lost(table, shop, spark):
    state(table, shop, {"type_change": "widen"})
    run(table, spark)
    make(shop, "TEXT", "1, '10'")
    with table.workspace.project(spark) as project:
        (plan,) = project.plan().streams
    assert "type_change: widen} replaces every row and the type of amount from bigint to" in plan.slices[0].reason
    assert any("replaces every row" in note for note in plan.notes)
    done = run(table, spark)
    assert (done.error, done.verified, table.rows()) == (None, True, [{"id": 1, "amount": "10"}])
    assert run(table, spark).outcome == "unchanged"

    make(shop, "INTEGER", "1, 10", "2, 20")
    assert run(table, spark).error.code == "schema_refused"
    assert table.rows() == [{"id": 1, "amount": "10"}]
    state(table, shop, {"type_change": "replace"})
    for kind, row, value in (("INTEGER", "1, 10", 10), ("DATE", "1, '2025-03-01'", dt.date(2025, 3, 1))):
        make(shop, kind, row)
        done = run(table, spark)
        assert (done.error, done.verified, table.rows()) == (None, True, [{"id": 1, "amount": value}])


def test_a_column_that_places_rows_is_refused(table, shop, spark):
    state(table, shop, layout={"partition_by": ["amount"]})
    run(table, spark)
    make(shop, "TEXT", "1, 'ten'")
    refused = run(table, spark, full_refresh=True)
    assert refused.error.code == "schema_refused"
    assert "partitioned by amount" in refused.error.message
    assert table.rows() == [{"id": 1, "amount": 10}, {"id": 2, "amount": 20}]


def test_other_columns_come_and_go_with_a_full_refresh(table, shop, spark):
    state(table, shop, {"drop_column": "stop", "add_column": "stop"})
    run(table, spark)
    shop.sql(
        "DROP TABLE t",
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, amount TEXT, note TEXT)",
        "INSERT INTO t VALUES (3, 'ten', 'n')",
    )
    assert run(table, spark).error.code == "schema_refused"
    done = run(table, spark, full_refresh=True)
    assert (done.error, done.verified) == (None, True)
    assert table.rows() == [{"id": 3, "amount": "ten", "note": "n"}]


def test_what_a_killed_load_left_behind_changes_nothing(table, shop, spark):
    """Only on Iceberg: on Delta one commit changes columns and rows."""
    state(table, shop, {"drop_column": "stop"})
    run(table, spark)
    with table.workspace.table("s.t").update_schema() as columns:
        columns.add_column("_tidegate_replacing_amount", columns._schema.find_type("id"))
    shop.sql("INSERT INTO t VALUES (3, 30)")
    assert run(table, spark).error is None
    make(shop, "TEXT", "1, 'ten'")
    assert run(table, spark, full_refresh=True).error is None
    assert table.columns == ["id", "amount"]
    assert table.rows() == [{"id": 1, "amount": "ten"}]


@each_format
def test_what_the_source_promises_of_a_replaced_column(table, shop, spark):
    """The new column allows NULL, and a key column stays a key only where it is not replaced."""
    shop.sql(
        "DROP TABLE t",
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, ref INTEGER NOT NULL, amount INTEGER NOT NULL)",
        "INSERT INTO t VALUES (1, 7, 10)",
    )
    state(table, shop, {"type_change": "replace"}, key=["id", "ref"], strategy="full", write="merge")
    assert run(table, spark).verified
    assert table.required == {"id", "ref", "amount"}
    assert table.form == "delta" or table.key == {"id", "ref"}
    shop.sql(
        "DROP TABLE t",
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, ref TEXT NOT NULL, amount TEXT NOT NULL)",
        "INSERT INTO t VALUES (1, '7', 'ten'), (2, '8', '')",
    )
    done = run(table, spark)
    assert (done.error, done.verified) == (None, True)
    assert table.rows() == [{"id": 1, "ref": "7", "amount": "ten"}, {"id": 2, "ref": "8", "amount": ""}]
    assert table.key == set(), "the rest of a key identifies no row"
    assert table.required == (set() if table.form == "delta" else {"id"})
    shop.sql("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (3, '9', 'x')")
    again = run(table, spark)
    assert (again.error, again.verified) == (None, True)
    assert [row["ref"] for row in table.rows()] == ["8", "9"]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"write": {"kind": "scd2"}, "strategy": "full"}, "write: scd2 keeps versions"),
        ({"write": "append"}, "write: append keeps rows"),
        ({"deletes": {"apply": "soft"}, "strategy": "full"}, "deletes: {apply: soft} keeps rows"),
    ],
)
def test_rows_that_the_source_does_not_have_are_not_replaced(table, shop, more, told):
    state(table, shop, {"type_change": "replace"}, **more)
    with table.workspace.project() as project:
        (checked,) = project.check()
        assert any(told in problem for problem in checked.problems)
        with pytest.raises(TidegateError):
            project.plan()
