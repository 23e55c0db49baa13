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


@pytest.mark.parametrize("error", [RowsMoved("moved"), CheckFailed("bad")], ids=["rows moved", "check failed"])
def test_the_next_load_sees_new_columns_and_stays_fenced_by_the_version_of_before(error):
    """Somebody else wrote version 8 while the first load failed: a load on top of it would take it for its own."""
    lake = SimpleNamespace(state=lambda *_: AFTER, invisible=True)
    stream = SimpleNamespace(format=lake, target="t", uid="u", key=("id",), name="s")
    work = LoadContext(
        stream=stream,
        context=SimpleNamespace(full_refresh=False),
        journal=None,
        probe=None,
        recovered=RecoveryState(table=BEFORE, since=None, repair=RegistryRepair.NOTHING),
    )
    seen = []

    def load(each, _group):
        seen.append(each.recovered.table)
        if len(seen) == 1:
            raise error
        return LOADED

    assert load_each(work, CHANGES, Ledger(), load).result is Result.LOADED
    assert seen[0] == BEFORE
    assert (seen[1].snapshot, seen[1].schema) == ("7", AFTER.schema)


def test_a_run_whose_last_partitions_had_nothing_to_commit_has_loaded():
    first = replace(LOADED, counts=Counts(rows_inserted=2), verdict=Verdict(equal=True))
    together = combined([first, LoadResult(result=Result.UNCHANGED)], CHANGES)
    assert (together.result, together.counts.rows_inserted, together.verified) == (Result.LOADED, 2, True)
