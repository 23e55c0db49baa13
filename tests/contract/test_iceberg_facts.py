"""What Tidegate takes from Iceberg and Spark without a promise of theirs: each fact pinned by what really happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from support.lake import Lake
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Mirror, Upsert
from tidegate.core.plan import Mode
from tidegate.core.ports.format import Layout
from tidegate.core.position import property_name
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, Partition, Slice
from tidegate.errors import CommitUnknown, Incompatible
from tidegate.formats.shared.statements import merge
from tidegate.spark import sql
from tidegate.spark.failures import translate
from tidegate.testing.contracts.lake import ROWS, UID, put

if TYPE_CHECKING:
    from tidegate.core.ids import Target

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

A, B, C = (1, "a", None), (2, "b", None), (3, "c", None)
MARK = "spark.sql.iceberg.snapshot-property." + property_name(UID)


def fenced_append(lake: Lake, target: Target, base: str | None, *rows: Any) -> None:
    from pyspark.sql.functions import lit

    writer = lake.rows(*rows).writeTo(sql.table(target)).option("isolation-level", "serializable")
    writer.option("validate-from-snapshot-id", str(base)).overwrite(lit(False))  # noqa: FBT003


def test_a_fenced_append_is_refused_from_a_stale_base_and_passes_after_compaction(lake: Lake) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, A)
    lake.load(target, Mode.APPEND, B)
    base = lake.format.state(target, UID).snapshot
    lake.session.sql(f"CALL lake.system.rewrite_data_files('{'.'.join(target.parts[1:])}')").collect()
    fenced_append(lake, target, base, C)
    metadata = lake.format._where.load(target)
    assert metadata is not None
    newest = metadata.snapshot(metadata.main)
    assert newest is not None
    assert newest.number("added-records") == 1
    assert newest.number("deleted-records") == 0
    assert lake.ids(target) == [1, 2, 3]

    with pytest.raises(Exception, match=r"ValidationException|Found conflicting files") as refused:
        fenced_append(lake, target, base, (4, "d", None))
    assert translate(refused.value, "testing").code == "commit_conflict"
    assert lake.ids(target) == [1, 2, 3]


def test_plain_appends_both_land_so_none_is_made_outside_a_branch(lake: Lake) -> None:
    target = lake.table()
    for _ in range(2):
        lake.rows(A).writeTo(sql.table(target)).append()
    assert lake.ids(target) == [1, 1]


def test_the_conf_property_reaches_a_merge_and_no_other_session_or_statement(lake: Lake) -> None:
    target = lake.table()
    name = sql.table(target)
    other = lake.session.newSession()
    lake.session.conf.set(MARK, "mine")
    merge = (
        f"MERGE INTO {name} t USING (SELECT 1L id, 'x' name, CAST(NULL AS timestamp_ntz) changed_at) s ON t.id = s.id"
    )
    lake.session.sql(f"{merge} WHEN NOT MATCHED THEN INSERT *")
    assert newest_mark(lake, target) == "mine"
    assert other.conf.get(MARK, None) is None
    lake.session.conf.unset(MARK)
    lake.session.sql(f"INSERT INTO {name} VALUES (2, 'y', NULL)")
    assert newest_mark(lake, target) is None


def test_a_stale_merge_lands_on_main_and_is_refused_through_a_staging(lake: Lake) -> None:
    """Why there is a branch: MERGE validates from the snapshot it scans, not from the one a position was read from."""
    target = lake.table()
    lake.load(target, Mode.APPEND, A)
    stale = lake.plan(target, Mode.MERGE_ON_READ)
    staging = lake.format.stage(lake.session, target, stale)
    staging.merge(lake.rows((1, "stale", None)), prune=(), skip_equal=False)
    newer = lake.load(target, Mode.MERGE_ON_READ, (1, "newer", None))

    with pytest.raises(Exception, match="another writer"):
        staging.publish()
    assert [row["name"] for row in lake.oracle(target)] == ["newer"]
    assert lake.format.state(target, UID).position == newer.position

    lake.rows((1, "stale", None)).createOrReplaceTempView("stale_rows")
    lake.session.conf.set(MARK, stale.position.to_json())
    lake.session.sql(
        f"MERGE INTO {sql.table(target)} t USING stale_rows s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    )
    lake.session.conf.unset(MARK)
    assert [row["name"] for row in lake.oracle(target)] == ["stale"], "the bare statement moved rows back"
    assert lake.format.state(target, UID).position == stale.position, "and the position with them"


def test_a_merge_inserts_an_unmatched_key_as_often_as_it_comes(lake: Lake) -> None:
    """Why a batch is deduplicated first, always."""
    target = lake.table()
    lake.load(target, Mode.MERGE_ON_READ, A, (1, "again", None))
    assert lake.ids(target) == [1, 1]


def test_spark_counts_what_a_merge_did(lake: Lake) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, A, B)
    for mode in (Mode.MERGE_ON_READ, Mode.COPY_ON_WRITE):
        plan = lake.plan(target, mode)
        staging = lake.format.stage(lake.session, target, plan)
        staging.merge(
            lake.rows((2, mode.value, None), (mode.value.count("_") + len(mode), "new", None)),
            prune=(),
            skip_equal=False,
        )
        receipt = staging.publish()
        assert (receipt.rows_updated, receipt.rows_inserted) in {(1, 1), (2, 0)}
        assert receipt.rows_inserted == len(lake.ids(target)) - (2 if mode is Mode.MERGE_ON_READ else 3)


def test_pyiceberg_reads_what_the_embedded_catalog_holds(lake: Lake) -> None:
    """The catalog's rows through PyIceberg's own SQL catalog, as another tool would open it."""
    from pyiceberg.catalog.sql import SqlCatalog

    target = lake.table()
    lake.load(target, Mode.APPEND, A, B)
    lake.load(target, Mode.MERGE_ON_READ, (2, "x", None), C)
    properties = {
        "uri": f"sqlite:///{lake.folder}/.tidegate/catalog.db",
        "warehouse": f"file://{lake.folder}/warehouse",
    }
    with SqlCatalog("lake", **properties) as catalog:
        rows = catalog.load_table(("shop", target.table)).scan().to_arrow().to_pylist()
    assert {row["id"]: row["name"] for row in rows} == {1: "a", 2: "x", 3: "c"}
    assert len(rows) == 3


def test_a_pruned_merge_skips_the_files_outside_its_bounds(lake: Lake) -> None:
    """The literals on the target's side reach Iceberg's scan: rows outside are not even read."""
    from tidegate.core.plan import Prune
    from tidegate.core.schema import BIGINT

    target = lake.table()
    lake.load(target, Mode.APPEND, *((number, "old", None) for number in range(10)))
    lake.load(target, Mode.APPEND, *((number, "old", None) for number in range(100, 110)))
    plan = lake.plan(target, Mode.MERGE_ON_READ)
    staging = lake.format.stage(lake.session, target, plan)
    rows = lake.rows((101, "new", None))
    rows.createOrReplaceTempView("pruned")
    prune = (Prune(column="id", type=BIGINT, low="101", high="101"),)
    into = sql.table(target, plan.branch)
    text = merge(into, "pruned", columns=plan.columns.names, key=plan.key, prune=prune)
    explained = lake.session.sql(f"EXPLAIN {text}").collect()[0][0]
    assert "id >= 101" in explained or "id = 101" in explained
    staging.merge(rows, prune=prune, skip_equal=False)
    staging.publish()
    assert sum(row["name"] == "new" for row in lake.oracle(target)) == 1


def newest_mark(lake: Lake, target: Target) -> str | None:
    metadata = lake.format._where.load(target)
    assert metadata is not None
    snapshot = metadata.snapshot(metadata.main)
    assert snapshot is not None
    return snapshot.summary.get(property_name(UID))


@pytest.mark.slow
def test_few_rows_are_read_back_without_spark_or_not_at_all(lake: Lake) -> None:
    target = lake.table()
    lake.load(target, Mode.APPEND, A, B)
    two, some, many = (ChangeSet(slices=(Everything(),), effect=Upsert(), rows=rows) for rows in (2, None, 10**9))
    rows = lake.rows((2, "x", "2025-01-01T00:00:00.000001"), C)

    def written(
        changes: ChangeSet, mode: Mode, by: Mode = Mode.MERGE_ON_READ, columns: Schema = ROWS
    ) -> list[tuple[Any, ...]] | None:
        plan = lake.plan(target, mode, changes=changes, columns=columns)
        staging = lake.format.stage(lake.session, target, plan)
        put(staging, rows, by)
        found = staging.written()
        staging.discard()
        if found is None:
            return None
        return sorted(zip(*(found[name].to_pylist() for name in columns.names), strict=True), key=str)

    came = [(2, "x", datetime.fromisoformat("2025-01-01T00:00:00.000001")), C]
    assert written(two, Mode.MERGE_ON_READ) == came
    assert written(two, Mode.APPEND, by=Mode.APPEND) == came
    assert written(two, Mode.MERGE_ON_READ, by=Mode.APPEND) is None, "the old row of key 2 is still there"
    for rest in (some, many):
        assert written(rest, Mode.MERGE_ON_READ) is None
    turned = Schema(columns=ROWS.columns[::-1])
    assert written(two, Mode.MERGE_ON_READ, columns=turned) == sorted((row[::-1] for row in came), key=str)
    assert written(two, Mode.COPY_ON_WRITE) is None, "files written anew hold other rows, too"


@pytest.mark.slow
def test_rows_are_read_back_beside_files_of_which_rows_are_deleted(lake: Lake) -> None:
    """A key counts where its row is live, in whichever part of a file, and not where it is deleted."""
    target = lake.table()
    lake.load(target, Mode.APPEND, *((number, f"n{number}", None) for number in range(1, 10)))
    changes = ChangeSet(slices=(Everything(),), effect=Upsert(), rows=2)

    def written(*ids: int, by: Mode, publish: bool = False) -> list[int] | None:
        staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.MERGE_ON_READ, changes=changes))
        put(staging, lake.rows(*((number, "x", None) for number in ids)), by)
        found = staging.written()
        staging.publish() if publish else staging.discard()
        return None if found is None else sorted(found["id"].to_pylist())

    assert written(4, 11, by=Mode.MERGE_ON_READ, publish=True) == [4, 11]
    assert written(5, 6, by=Mode.MERGE_ON_READ) == [5, 6]
    assert written(5, 6, by=Mode.APPEND) is None, "they are live in the file of which one row is deleted"
    assert written(4, 10, by=Mode.MERGE_ON_READ, publish=True) == [4, 10], "deleted in two files now"
    assert written(4, 12, by=Mode.APPEND) is None, "live in the newest file"
    assert written(0, 12, by=Mode.APPEND, publish=True) == [0, 12]
    staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.MERGE_ON_READ, changes=changes))
    staging.delete(lake.rows((4, None, None)).select("id"), prune=())
    staging.publish()
    assert written(4, by=Mode.APPEND) == [4], "deleted wherever it was"
    assert written(3, 4, by=Mode.APPEND) is None


def test_few_partitions_are_read_back_without_spark_whoever_wrote_their_files(lake: Lake) -> None:
    target = lake.table(layout=Layout(partition_by=("days(changed_at)",)))
    rows = [(1, "a", "2025-01-01T23:59:59.999999"), (2, "b", "2025-01-02T00:00:00"), (3, "c", None)]
    lake.load(target, Mode.APPEND, *rows)
    day = Partition(column="changed_at", label="d", low="2025-01-02 00:00:00.000000", high="2025-01-03 00:00:00.000000")
    none = Partition(column="changed_at", label="~N")

    def written(*parts: Slice, rows: int | None = 2) -> list[int] | None:
        changes = ChangeSet(slices=parts, effect=Mirror(), rows=rows)
        staging = lake.format.stage(
            lake.session, target, lake.plan(target, Mode.OVERWRITE_PARTITIONS, changes=changes, key=())
        )
        came = lake.rows((4, "d", "2025-01-02T12:00:00"), (5, "e", "2025-01-02T23:59:59.999999"))
        staging.overwrite(came, [day])
        found = staging.written()
        staging.discard()
        return None if found is None else sorted(found["id"].to_pylist())

    assert written(day) == [4, 5]
    assert written(day, none) == [3, 4, 5]
    assert written(replace(day, low="2025-01-01 00:00:00.000000", nulls=True)) == [1, 3, 4, 5]
    assert written(day, rows=None) is None
    assert written(day, rows=10**9) is None
    assert written(Partition(column="name", label="a", prefix="a", length=1)) is None, "texts have another order here"


def test_a_catalog_that_ignores_branches_is_refused_before_a_row_is_written(lake: Lake) -> None:
    target = lake.table()
    before = lake.format._where.load(target)
    staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.APPEND))
    staging.discard()
    # Nessie accepts a branch and keeps none: its metadata go on as if nobody had asked.
    with pytest.raises(Incompatible, match="ignores branches"):
        replace(staging, load=lambda: before).open()
    assert lake.ids(target) == []
    lake.load(target, Mode.APPEND, A)
    filled = lake.format._where.load(target)
    staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.APPEND))
    staging.discard()
    with pytest.raises(Incompatible, match="ignores branches"):
        replace(staging, load=lambda: filled).open()


def test_a_load_that_the_catalog_accepts_and_does_not_make_is_not_done(lake: Lake) -> None:
    target = lake.table()
    staging = lake.format.stage(lake.session, target, lake.plan(target, Mode.APPEND))
    staging.append(lake.rows(A))
    before = lake.format._where.load(target)
    with pytest.raises(CommitUnknown, match="does not show"):
        replace(staging, load=lambda: before).publish()
