"""What the next load of a run knows of the table once a load of some partitions has failed."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tidegate.core.changes import Action, ChangeSet, Part
from tidegate.core.effects import Mirror
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Steps
from tidegate.core.ledger import Ledger
from tidegate.core.outcome import Result
from tidegate.core.ports.format import TableState
from tidegate.core.position_state import WHOLE_AT
from tidegate.core.schema import BIGINT, TEXT, Column, Schema
from tidegate.core.slices import Partition
from tidegate.engine.context import LoadContext
from tidegate.engine.outcome import Counts, LoadResult, combined
from tidegate.engine.partition_loads import load_each
from tidegate.engine.reconcile import RecoveryState, RegistryRepair
from tidegate.engine.verification.proof import Verdict
from tidegate.errors import CheckFailed, RowsMoved

ID = Column(name="id", type=BIGINT)
BEFORE = TableState(exists=True, uuid="u", snapshot="7", rows=2, schema=Schema(columns=(ID,)))
AFTER = replace(BEFORE, snapshot="8", schema=Schema(columns=(ID, Column(name="note", type=TEXT))))
LOADED = LoadResult(result=Result.LOADED)
PARTS = tuple(
    Part(
        slice=Partition(column="id", label=str(number), low=str(number), high=str(number + 1)),
        action=Action.RELOAD,
        fingerprint=Fingerprint(rows=1),
    )
    for number in (1, 2)
)
CHANGES = ChangeSet(
    slices=tuple(part.slice for part in PARTS), effect=Mirror(of=Steps(column="id", width=1)), parts=PARTS
)


def at_work(table):
    """A stream whose table is found like this after a commit or a failure."""
    lake = SimpleNamespace(state=lambda *_: replace(table, position=None), invisible=True, inspection=None)
    return LoadContext(
        stream=SimpleNamespace(
            format=lake, target="t", uid="u", key=("id",), name="s", ref=None, policies=SimpleNamespace(checks=())
        ),
        context=SimpleNamespace(full_refresh=False, redact=str),
        journal=None,
        probe=SimpleNamespace(unique=lambda _key: True),
        recovered=RecoveryState(table=BEFORE, since=None, repair=RegistryRepair.NOTHING),
    )


@pytest.mark.parametrize("error", [RowsMoved("moved"), CheckFailed("bad")], ids=["rows moved", "check failed"])
def test_the_next_load_sees_new_columns_and_stays_fenced_by_the_version_of_before(error):
    """Somebody else wrote version 8 while the first load failed: a load on top of it would take it for its own."""
    work = at_work(AFTER)
    seen = []

    def load(each, _group):
        seen.append(each.recovered.table)
        if len(seen) == 1:
            raise error
        return LOADED

    assert load_each(work, CHANGES, Ledger(), load).result is Result.LOADED
    assert seen[0] == BEFORE
    assert (seen[1].snapshot, seen[1].schema) == ("7", AFTER.schema)


@pytest.mark.parametrize("refused", [None, "1", "2"])
def test_only_the_last_of_several_commits_says_that_the_whole_table_was_compared(refused):
    """And none of them if a partition was left out."""
    said = []

    def load(_work, group):
        labels = [part.slice.label for part in group.parts]
        if refused is None and len(labels) > 1:
            raise CheckFailed("one by one")
        if refused in labels:
            raise CheckFailed("bad")
        said.append(WHOLE_AT in group.state)
        return LOADED

    load_each(at_work(AFTER), replace(CHANGES, state={WHOLE_AT: "now"}), Ledger(), load)
    assert said == ([False, True] if refused is None else [False])


def test_a_run_whose_last_partitions_had_nothing_to_commit_has_loaded():
    first = replace(LOADED, counts=Counts(rows_inserted=2), verdict=Verdict(equal=True))
    together = combined([first, LoadResult(result=Result.UNCHANGED)], CHANGES)
    assert (together.result, together.counts.rows_inserted, together.verified) == (Result.LOADED, 2, True)
