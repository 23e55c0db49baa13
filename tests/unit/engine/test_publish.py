"""What a refused commit, or one whose reply was lost, turns out to be: the table itself decides."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.plan import LoadPlan, Mode, StreamRef, WriteChoice
from tidegate.core.ports.format import Receipt, TableState
from tidegate.core.position import Position
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything
from tidegate.engine.publish import discarded_on_error, publish
from tidegate.errors import CommitConflict, CommitUnknown, PositionMoved, VerifyFailed, WriteError

SINCE = Position(sequence=1, load_id="one", kind="watermark")
OWN, OTHER = replace(SINCE, sequence=2, load_id="own"), replace(SINCE, sequence=2, load_id="other")
RECEIPT = Receipt(snapshot="8", rows_inserted=3)
CONFLICT, UNKNOWN, ENDED = CommitConflict("the table has changed"), CommitUnknown("no answer"), KeyboardInterrupt()
PLAN = LoadPlan(
    stream=StreamRef(name="s", uid="u", target="lake.a.b"),
    created_at=datetime(2025, 1, 1, tzinfo=UTC),
    base="7",
    since=SINCE,
    position=OWN,
    changes=ChangeSet(slices=(Everything(),), effect=Upsert()),
    columns=Schema(columns=()),
    write=WriteChoice(mode=Mode.APPEND, reason=""),
)


def raising(error):
    def ask(*_):
        raise error

    return ask


def published(error, position):
    table = TableState(exists=True, snapshot="8", position=position)
    lake = SimpleNamespace(state=raising(position) if isinstance(position, WriteError) else lambda *_: table)
    return publish(lake, None, PLAN, SimpleNamespace(publish=raising(error), receipt=lambda: RECEIPT))


@pytest.mark.parametrize("error", [CONFLICT, UNKNOWN])
def test_a_load_that_the_table_shows_is_published(error):
    assert published(error, OWN) == RECEIPT


@pytest.mark.parametrize("error", [CONFLICT, UNKNOWN])
@pytest.mark.parametrize("position", [OTHER, None])
def test_a_table_with_another_load_does_not_have_this_one(error, position):
    with pytest.raises(PositionMoved, match="another runner has loaded stream 's'"):
        published(error, position)


@pytest.mark.parametrize("error", [CONFLICT, UNKNOWN])
@pytest.mark.parametrize("position", [SINCE, WriteError("the catalog does not answer")])
def test_where_nobody_has_loaded_or_nobody_can_be_asked_the_error_stays(error, position):
    with pytest.raises(type(error)) as caught:
        published(error, position)
    assert caught.value is error


@pytest.mark.parametrize(
    ("error", "discarded"),
    [(UNKNOWN, []), (CONFLICT, ["load"]), (VerifyFailed("rows differ"), ["load"]), (ENDED, ["load"])],
    ids=lambda each: type(each).__name__,
)
def test_a_load_is_discarded_unless_it_may_be_what_the_table_shows(error, discarded):
    dropped = []
    with (
        pytest.raises(type(error)),
        discarded_on_error(lambda: SimpleNamespace(discard=lambda: dropped.append("load"))),
    ):
        raise error
    assert dropped == discarded
