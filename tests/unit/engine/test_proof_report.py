"""What is proven of a table, and what is not, by what the registry recorded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.core.ports.format import SinceLoad, TableState
from tidegate.engine.proof import ProofReport, Proven, proof
from tidegate.registry.store import Registry
from tidegate.registry.values import Status
from unit.registry.loads import UID, load, publish

PRINT = "tg1:7:1:2:3:4"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def registry(tmp_path):
    with Registry.open(f"sqlite:///{tmp_path}/registry.db") as opened:
        opened.register(uid=UID, name="orders <b>", source="shop: public.orders", target="lake.shop.orders")
        yield opened


def done(registry, kind, **payload):
    registry.finish_task(registry.start_task(UID, kind), Status.OK, payload)


def compared(registry, *, equal, level="checksum", snapshot="77"):
    sides = {"source_fingerprint": PRINT, "table_fingerprint": PRINT, "columns_not_covered": ["shape"]}
    done(registry, "measure_partition", equal=equal, level=level, snapshot=snapshot, **sides)


def made(registry, table=None):
    (found,) = proof(registry, registry.status(), {"orders <b>": table}, NOW).streams
    return found


def table(snapshot, *, as_loaded):
    return TableState(exists=snapshot is not None, snapshot=snapshot, since_load=SinceLoad(same_rows=as_loaded))


def test_what_others_have_changed_is_not_proven_any_more(registry):
    publish(registry, load(), verified=True)
    compared(registry, equal=True)
    unread = made(registry)
    assert (unread.proven, unread.snapshot, unread.table_read) == (Proven.EQUAL, "77", False)
    assert unread.exceptions[-1] == "the table was not read: others may have changed it"
    for snapshot in ("77", "compacted"):
        found = made(registry, table(snapshot, as_loaded=True))
        assert (found.proven, found.snapshot, found.table_read) == (Proven.EQUAL, snapshot, True)
        assert found.exceptions == ("column shape: no fingerprint",)
    for snapshot in ("foreign", None):
        found = made(registry, table(snapshot, as_loaded=False))
        assert (found.proven, found.shown_comparison, found.proven_at) == (Proven.CHANGED, None, None)
    compared(registry, equal=True, snapshot="foreign")
    assert made(registry, table("foreign", as_loaded=False)).proven is Proven.EQUAL
    assert made(registry, table("compacted", as_loaded=False)).proven is Proven.CHANGED
    compared(registry, equal=False, snapshot="foreign")
    assert made(registry, table("foreign", as_loaded=False)).proven is Proven.DIFFERENT


def test_nothing_is_proven_of_what_nobody_compared(registry):
    assert made(registry).proven is Proven.UNPROVEN
    publish(registry, load())
    compared(registry, equal=True, level="counts")
    assert made(registry).proven is Proven.UNPROVEN
    done(registry, "load", rows=7, snapshot="77", verified=None)
    found = made(registry)
    assert (found.proven, found.proven_at, found.snapshot) == (Proven.UNPROVEN, None, "77")


def test_a_verified_load_proves_the_rows_that_it_moved(registry):
    publish(registry, load(), verified=True)
    done(registry, "load", rows=7, snapshot="77", verified=True, level="moved", source_fingerprint=PRINT)
    done(registry, "load", rows=7, snapshot="77", verified=None)
    found = made(registry)
    assert (found.proven, found.moved.level, found.moved.source) == (Proven.MOVED, "moved", PRINT)


def test_a_load_that_was_rolled_back_proves_nothing_of_the_version_before(registry):
    publish(registry, load(), verified=True)
    done(registry, "load", rows=7, snapshot="77", verified=True, level="moved", source_fingerprint=PRINT)
    compared(registry, equal=True, snapshot="76")
    done(registry, "rollback", version="70")
    found = made(registry, table("70", as_loaded=True))
    assert (found.proven, found.shown_comparison, found.proven_at) == (Proven.UNPROVEN, None, None)
    compared(registry, equal=True, snapshot="70")
    assert made(registry, table("70", as_loaded=True)).proven is Proven.EQUAL
    done(registry, "load", rows=7, snapshot="78", verified=True, level="moved", source_fingerprint=PRINT)
    assert made(registry, table("78", as_loaded=True)).proven is Proven.MOVED


def test_a_whole_comparison_proves_the_version_that_it_looked_at(registry):
    position = publish(registry, load())
    compared(registry, equal=True)
    found = made(registry)
    assert (found.proven, found.whole.table, found.whole.not_covered) == (Proven.EQUAL, PRINT, ("shape",))
    done(registry, "measure_partition", partitions=7, rows=9)  # which is no comparison
    assert made(registry).proven is Proven.EQUAL
    registry.save_plan(later := load(position, through="20"), "run-2")
    registry.advance(later, snapshot="78", table_uuid="t-1", verified=None)
    assert made(registry).proven is Proven.UNPROVEN


def test_a_comparison_that_failed_later_is_named_until_another_one_or_a_load_is_proven(registry):
    publish(registry, load(), verified=True)
    compared(registry, equal=True)
    error = {"code": "write", "message": "Spark failed (EOFException) while reading lake.shop.orders", "hint": "h"}
    registry.finish_task(registry.start_task(UID, "measure_partition"), Status.ERROR, {"error": error})
    found = made(registry, table("77", as_loaded=True))
    assert found.proven is Proven.EQUAL
    assert "failed: write: Spark failed (EOFException) while reading lake.shop.orders" in found.exceptions[-1]
    assert found.to_dict()["whole"]["then_failed"] == found.exceptions[-1]
    assert found.exceptions[-1] in ProofReport(made_at=NOW, version="1", streams=(found,)).to_html()
    compared(registry, equal=True)
    assert made(registry, table("77", as_loaded=True)).exceptions == ("column shape: no fingerprint",)


def test_a_difference_stays_until_it_is_repaired_or_found_no_more(registry):
    publish(registry, load(), verified=True)
    compared(registry, equal=False)
    assert made(registry).proven is Proven.DIFFERENT
    done(registry, "repair", rows=3, snapshot="77", left=2)
    assert made(registry).proven is Proven.DIFFERENT
    done(registry, "repair", rows=3, snapshot="77", left=0)
    found = made(registry)
    assert (found.proven, found.repaired_rows) == (Proven.EQUAL, 3)
    compared(registry, equal=False)
    assert made(registry).proven is Proven.DIFFERENT
    compared(registry, equal=True)
    assert made(registry).proven is Proven.EQUAL


def test_counts_that_agree_do_not_end_a_difference(registry):
    publish(registry, load(), verified=True)
    compared(registry, equal=False)
    different = made(registry)
    compared(registry, equal=True, level="counts")
    found = made(registry)
    assert (found.proven, found.proven_at) == (Proven.DIFFERENT, different.whole.at)
    (facts,) = registry.facts().values()
    assert facts.compared["equal"] is False
    compared(registry, equal=False, level="counts")
    compared(registry, equal=True)
    assert made(registry).proven is Proven.EQUAL


def test_a_load_that_was_only_counted_is_no_comparison(registry):
    publish(registry, load(), verified=True)
    done(registry, "load", rows=7, snapshot="77", verified=True, level="counts", source_fingerprint="tg1:7:0:0:0:0")
    found = made(registry)
    assert (found.proven, found.moved.level, found.moved.source) == (Proven.COUNTED, "counts", None)


def test_what_a_comparison_leaves_open_is_named(registry):
    publish(registry, load())
    begin = {"column": "day", "value": "2025-01-01"}
    open_ends = {"columns_not_covered": ["shape"], "columns_excluded": ["note"], "rows_quarantined": 7, "begin": begin}
    done(registry, "measure_partition", equal=True, level="checksum", snapshot="77", **open_ends)
    words = (
        "7 rows of the source are in quarantine",
        "only rows from day = 2025-01-01 on",
        "column note: not read",
        "column shape: no fingerprint",
    )
    found = made(registry)
    assert (found.proven, found.shown_comparison.exceptions) == (Proven.EQUAL, words)
    page = proof(registry, registry.status(), {}, NOW).to_html()
    assert all(word in page for word in words)


def test_the_report_is_a_page_without_scripts_and_a_document(registry):
    publish(registry, load())
    compared(registry, equal=True)
    report = proof(registry, registry.status(), {}, NOW)
    page = report.to_html()
    assert "orders &lt;b&gt;" in page
    assert PRINT in page
    assert "<script" not in page
    found = report.to_dict()
    assert found["version"]
    assert found["streams"][0]["position"]["loaded_through"] == "10"
    assert found["streams"][0]["whole"]["equal"] is True
