"""What is known of deleted keys without Spark: how they are looked for, when nothing can be gone, and the fuse."""

from __future__ import annotations

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.policies.deletes import Deletes, Detect, Scope
from tidegate.core.position_state import KEYS
from tidegate.core.slices import Everything
from tidegate.engine.deletes import delete_guard, key_diff
from tidegate.errors import ColumnMissing, DeleteFuse, PlanError
from tidegate.registry.store import Registry
from unit.engine.sqlite_streams import Shop

KEY_DIFF = Deletes(detect=Detect.KEY_DIFF, max_fraction=0.5)
SOME = ChangeSet(slices=(Everything(),), effect=Upsert(), state={"value": "1"}, rows=3)


@pytest.fixture
def registry(tmp_path):
    with Registry.open(f"sqlite:///{tmp_path}/registry.db") as registry:
        registry.register(uid="a1b2", name="t", source="shop: t", target="lake.out.t")
        yield registry


@pytest.fixture
def shop(tmp_path):
    shop = Shop(folder=tmp_path)
    shop.fill(200)
    shop.loaded()
    return shop


def watched(shop, registry, changes=None, *, rows=200, deletes=KEY_DIFF, **options):
    stream = shop.stream(rows=rows, deletes=deletes)
    with stream.source.probe() as probe:
        work, found = key_diff.watch(shop.work(registry, probe, stream, **options), changes)
        if found is not None:
            delete_guard.guard(work, found)
        return work, found


def test_nothing_is_asked_where_nobody_looks(shop, registry):
    work, found = watched(shop, registry, SOME, deletes=Deletes())
    assert (work.key_diff, found) == (None, SOME)


def test_the_position_vouches_for_the_keys(shop, registry):
    _, found = watched(shop, registry)
    assert found is not None
    assert (found.slices, found.rows, len(found.notes)) == ((), 0, 1)
    shop.loaded(**{KEYS: found.state[KEYS]})
    assert watched(shop, registry)[1] is None
    shop.sql("delete from t where id = 7")
    assert watched(shop, registry)[1] is not None
    shop.sql("insert into t values (7, '2025-01-01')")
    assert watched(shop, registry)[1] is None
    # One lies as far from the beginning of another range.
    shop.sql("update t set id = id + 256 where id = 150")
    assert watched(shop, registry)[1] is not None
    shop.sql("update t set id = id - 256 where id = 406")
    shop.sql("update t set id = 300 where id = 100", "update t set id = -100 where id = 101")
    assert watched(shop, registry)[1] is not None


MANY = 2 * key_diff.FEW_KEYS


def many(shop: Shop) -> None:
    rows = (f"({number}, '2025-01-09')" for number in range(200, MANY))
    shop.sql(f"insert into t values {', '.join(rows)}")


def test_ranges_hashes_and_all_keys(shop, registry, tmp_path):
    work, _ = watched(shop, registry, SOME)
    assert work.key_diff.buckets is None, "few keys are fetched"
    many(shop)
    work, found = watched(shop, registry, SOME, rows=MANY)
    assert work.key_diff.buckets.width == 256
    assert "ranges of 256" in found.notes[-1]
    assert sum(one.rows for one in work.key_diff.source.values()) == MANY
    work, found = watched(shop, registry, SOME, rows=MANY * 2 - 100)
    assert work.key_diff.buckets is None, "most buckets would be fetched anyway"
    (tmp_path / "texts").mkdir()
    texts = Shop(folder=tmp_path / "texts", columns="id text primary key not null, at timestamp")
    texts.fill(200)
    many(texts)
    texts.loaded()
    work, found = watched(texts, registry, SOME, rows=MANY)
    assert work.key_diff.buckets.width is None
    assert "fingerprints" in found.notes[-1]


def test_keys_far_apart_are_hashed(shop, registry):
    many(shop)
    shop.sql("insert into t values (9000000000000000000, '2025-01-01')")
    work, _ = watched(shop, registry, SOME, rows=MANY)
    assert work.key_diff.buckets.width is None


def test_the_fuse_before_a_row_is_read(shop, registry):
    with pytest.raises(DeleteFuse, match="may delete at most 200"):
        watched(shop, registry, SOME, rows=401)
    watched(shop, registry, SOME, rows=400)
    watched(shop, registry, SOME, rows=401, allow_deletes=True)
    assert [change.new_status for change in registry.changes("a1b2")].count("DELETES ALLOWED") == 1
    with pytest.raises(DeleteFuse, match="may delete at most 22"):
        watched(shop, registry, SOME, rows=223, deletes=Deletes(detect=Detect.KEY_DIFF))
    shop.sql("delete from t where id > 2")
    assert watched(shop, registry, SOME, rows=12, deletes=Deletes(detect=Detect.KEY_DIFF)), "a share of few is nothing"
    with pytest.raises(DeleteFuse, match=r"at most 10 \(10% of the table, but at least 10 rows"):
        watched(shop, registry, SOME, rows=14, deletes=Deletes(detect=Detect.KEY_DIFF))
    shop.sql("delete from t")
    with pytest.raises(DeleteFuse, match="the source is empty"):
        watched(shop, registry, rows=1)
    watched(shop, registry, rows=1, deletes=Deletes(detect=Detect.KEY_DIFF, max_fraction=1))


def repairing(shop, registry, deletes=None, *, gone, source_rows=0, **options):
    stream = shop.stream(rows=200, deletes=deletes or Deletes())
    with stream.source.probe() as probe:
        work = shop.work(registry, probe, stream, **options)
        delete_guard.guard_repair(work, source_rows=source_rows, missing=gone)


def test_a_repair_passes_the_same_fuse(shop, registry):
    repairing(shop, registry, gone=199, source_rows=1)
    repairing(shop, registry, gone=200)  # the rows at the source are later than what was compared
    with pytest.raises(DeleteFuse, match="one repair may delete at most 100"):
        repairing(shop, registry, KEY_DIFF, gone=101, source_rows=99)
    repairing(shop, registry, KEY_DIFF, gone=100, source_rows=100)
    shop.sql("delete from t")
    with pytest.raises(DeleteFuse, match="the source is empty") as caught:
        repairing(shop, registry, gone=200)
    assert "`tidegate verify STREAM --repair --allow-deletes`" in caught.value.hint
    repairing(shop, registry, gone=0)
    repairing(shop, registry, Deletes(max_fraction=1), gone=200)
    assert [change.new_status for change in registry.changes("a1b2")].count("DELETES ALLOWED") == 0
    repairing(shop, registry, gone=200, allow_deletes=True)
    assert [change.new_status for change in registry.changes("a1b2")].count("DELETES ALLOWED") == 1


def test_an_empty_table_is_not_looked_through(shop, registry):
    work, found = watched(shop, registry, SOME, rows=0)
    assert work.key_diff is None
    assert found.state[KEYS]


def test_a_window_alone(shop, registry):
    deletes = Deletes(detect=Detect.KEY_DIFF, scope=Scope.WINDOW)
    work, found = watched(shop, registry, SOME, deletes=deletes)
    assert (work.key_diff.rows, len(found.notes)) == (None, 1)
    assert KEYS not in found.state
    assert watched(shop, registry, deletes=deletes)[1] is None


def test_a_key_that_is_not_there_is_named_before_the_source_is_asked_for_it(shop, registry):
    for key in (("idd",), ("at", "idd")):
        shop.key = key
        with pytest.raises(ColumnMissing, match=r"'idd'.*did you mean 'id'"):
            watched(shop, registry, SOME)
        with shop.stream().source.probe() as probe:
            for question in (probe.quick_hash, probe.unique):
                with pytest.raises(ColumnMissing, match="no column 'idd'; did you mean 'id'"):
                    question(key)


def test_a_key_without_exact_text(tmp_path, registry):
    shop = Shop(folder=tmp_path, columns="id real primary key not null, at timestamp")
    shop.fill(3)
    with pytest.raises(PlanError, match="no exact text"):
        watched(shop, registry, SOME)
