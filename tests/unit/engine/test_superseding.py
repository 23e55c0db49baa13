"""How a load takes the place of rows that wait: by its stream, not by how its rows are written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from support.duck_frame import DuckFrame, connect
from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Apply, Insert, Mirror, Upsert
from tidegate.core.log import EventRules
from tidegate.core.plan import Mode, WriteChoice, WriteFacts
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.position_state import MANIFEST
from tidegate.core.quarantine import Superseding
from tidegate.core.schema import BIGINT, TIMESTAMPTZ, Column, Schema
from tidegate.core.slices import Everything, LogRange, Partition, Range
from tidegate.core.slices import Files as Chosen
from tidegate.engine.planner import PlanInputs, make_plan
from tidegate.engine.quarantine.superseded import Load, how, left, whole
from tidegate.spark.validation import META
from tidegate.strategies.cdc import Cdc
from tidegate.strategies.files import Files
from tidegate.strategies.full import Full
from tidegate.strategies.watermark import Watermark
from tidegate.writers.append import Append
from tidegate.writers.merge import Merge
from tidegate.writers.replace import Replace
from tidegate.writers.scd2 import Scd2
from unit.engine.sqlite_streams import bare

EVENTS = ChangeSet(slices=(LogRange(part="p", after=None, upto="9"),), effect=Apply(rules=EventRules()))
WINDOW = ChangeSet(slices=(Range(cursor=("at",), after="1", upto="2"),), effect=Upsert())
LANDED = ChangeSet(slices=(Chosen(paths=("a.csv",)),), effect=Insert(), state={MANIFEST: "1"})
ALL = ChangeSet(slices=(Everything(),), effect=Mirror())
CDC, FULL, BY_TIME = Cdc(), Full(), Watermark(column="at")


def load(of, changes, **more):
    plan = make_plan(
        of,
        PlanInputs(
            table=TableState(exists=True, snapshot="7", rows=0),
            since=Position(sequence=4, load_id="x", kind=of.strategy.kind, state={}, writer=of.writer.signature),
            changes=changes,
            columns=Schema(columns=(Column(name="id", type=BIGINT), Column(name="at", type=TIMESTAMPTZ))),
            identity="t",
            clock=None,
            witness={},
            facts=WriteFacts(effect=Upsert(), rows=1, table_rows=0),
        ),
        now=datetime(2025, 1, 1, tzinfo=UTC),
    )
    return Load(plan=plan, read=None, **more)


@pytest.mark.parametrize(
    ("strategy", "writer", "changes", "expected"),
    [
        (CDC, Merge(), EVENTS, Superseding.EVENT),
        (CDC, Scd2(), EVENTS, Superseding.VERSION),
        (BY_TIME, Merge(), WINDOW, Superseding.ORDER),
        (BY_TIME, Scd2(), WINDOW, Superseding.VERSION),
        (FULL, Replace(), ALL, Superseding.NOTHING),
        (FULL, Scd2(), ALL, Superseding.VERSION),
        (BY_TIME, Append(), replace(WINDOW, effect=Insert()), Superseding.NOTHING),
    ],
)
def test_each_stream_has_its_order(strategy, writer, changes, expected):
    of = bare(strategy, writer)
    assert how(of, load(of, changes)) is expected


def test_a_source_with_one_row_a_key_needs_no_order():
    of = bare(BY_TIME, Merge())
    assert how(of, load(of, WINDOW, unique=True)) is Superseding.KEY


def test_a_row_of_a_file_that_is_loaded_later_is_later_whatever_order_by_says():
    of = bare(Files(), Merge(order_by=("at",)))
    assert how(of, load(of, LANDED)) is Superseding.KEY


@pytest.mark.parametrize("mode", [Mode.APPEND, Mode.OVERWRITE, Mode.MERGE_DIFFERENCES])
def test_a_table_that_becomes_what_is_read_does_so_however_it_is_written(mode):
    of = bare(FULL, Replace(), key=())
    made = load(of, ALL)
    assert whole(of, replace(made, plan=replace(made.plan, write=WriteChoice(mode=mode, reason=""))))


def test_a_load_of_a_part_leaves_what_waits_elsewhere():
    of = bare(BY_TIME, Merge())
    assert not whole(of, load(of, WINDOW))
    assert whole(of, load(of, WINDOW, full_refresh=True))
    history = bare(FULL, Scd2())
    assert not whole(history, load(history, ALL)), "versions that were read before go on to count"


def test_only_rows_of_earlier_loads_are_superseded():
    of, duck = bare(FULL, Replace(), key=()), connect()
    columns = {"id": "bigint", f"{META}load": "bigint", f"{META}until": "bigint"}
    made = load(of, replace(ALL, slices=(Partition(column="id", label="1", low="1", high="5"),)))
    number = made.plan.position.sequence
    waiting = DuckFrame.of(duck, columns, (2, number - 1, None), (3, number, None), (7, number - 1, None), (2, 1, 2))
    assert how(of, made) is Superseding.SLICES
    assert sorted(left(of, waiting, None, made).collect()) == [
        (2, 1, 2),
        (2, number - 1, number),
        (3, number, None),
        (7, number - 1, None),
    ]
