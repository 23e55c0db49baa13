"""What is kept of partitions: the sum of what was loaded, and a digest by which a commit vouches for it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.changes import Action, Part
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.slices import Everything, Partition

few = settings(max_examples=30, deadline=None)
TEXTS = st.lists(st.sampled_from("abcde"), max_size=4)
TABLES = st.dictionaries(st.sampled_from(["20250101", "20250102", "~N", "", "~0N"]), TEXTS)


def fingerprint(rows: list[str]) -> Fingerprint:
    return Fingerprint.of_texts(row_text([row]) for row in rows)


def parts(table: dict[str, list[str]], action: Action = Action.LOAD) -> list[Part]:
    return [
        Part(slice=Partition(column="c", label=label), action=action, fingerprint=fingerprint(rows))
        for label, rows in table.items()
    ]


@few
@given(TABLES, TABLES)
def test_the_ledger_is_what_the_table_holds(first: dict[str, list[str]], second: dict[str, list[str]]) -> None:
    ledger = Ledger().loaded(parts(first)).loaded(parts(second))
    rows = {label: kept for label, kept in {**first, **second}.items() if kept}
    assert {label: entry.fingerprint for label, entry in ledger.entries.items()} == {
        label: fingerprint(kept) for label, kept in rows.items()
    }
    assert ledger.total == fingerprint([row for kept in rows.values() for row in kept])


@few
@given(TABLES, TABLES)
def test_a_digest_belongs_to_one_ledger(first: dict[str, list[str]], second: dict[str, list[str]]) -> None:
    mine, theirs = Ledger().loaded(parts(first)), Ledger().loaded(parts(second))
    assert (mine.digest == theirs.digest) == (mine.entries == theirs.entries)
    assert mine.vouched(mine.voucher())
    assert mine.vouched(theirs.voucher()) == (mine.entries == theirs.entries)


def test_order_and_quick_hashes_do_not_count() -> None:
    ledger = Ledger().loaded(parts({"1": ["a"], "2": ["b"]}))
    again = Ledger().loaded(parts({"2": ["b"], "1": ["a"]}))
    quick = Ledger(entries={label: replace(entry, quick="pg:1:2") for label, entry in ledger.entries.items()})
    assert ledger.digest == again.digest == quick.digest


def test_rows_that_swap_partitions_change_the_digest_and_not_the_total() -> None:
    one, other = Ledger().loaded(parts({"1": ["a"], "2": ["b"]})), Ledger().loaded(parts({"1": ["b"], "2": ["a"]}))
    assert one.total == other.total
    assert one.digest != other.digest
    assert not one.vouched(other.voucher())


def test_no_position_vouches_by_accident() -> None:
    assert not Ledger().vouched({})
    assert not Ledger().vouched({"ledger": None})
    assert Ledger().total == Fingerprint()


def test_a_part_without_rows_or_without_a_measure_is_forgotten() -> None:
    ledger = Ledger().loaded(parts({"1": ["a"], "2": ["b"]}))
    gone = Part(slice=Partition(column="c", label="1"), action=Action.DELETE, fingerprint=Fingerprint())
    asked = Part(slice=Partition(column="c", label="2"), action=Action.RELOAD)
    assert ledger.loaded([gone]).entries.keys() == {"2"}
    assert ledger.loaded([gone, asked]).entries == {}
    assert ledger.entries.keys() == {"1", "2"}, "a ledger is a value"
    whole = Part(slice=Everything(), action=Action.LOAD, fingerprint=fingerprint(["a"]), quick="q")
    assert Ledger().loaded([whole]).entries == {"everything": Entry(fingerprint=fingerprint(["a"]), quick="q")}
