"""What scd2 asks of its columns and options before any row is read."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.scd2_model import Change, Version, versions
from tidegate.core.changes import ChangeSet, SafeBound
from tidegate.core.compatibility import incompatibilities
from tidegate.core.effects import Mirror, Upsert
from tidegate.core.grouping import Whole
from tidegate.core.maintenance_plan import maintenance_plan
from tidegate.core.plan import Mode, Reset, StreamRef, WriteChoice, WriteFacts
from tidegate.core.policies.deletes import Apply, Deletes, Detect
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, TEXT, TIMESTAMP, TIMESTAMPTZ, Column, Schema, Type
from tidegate.core.slices import Everything
from tidegate.errors import ColumnMissing, ConfigError, SchemaRefused
from tidegate.strategies.full import Full
from tidegate.writers.merge import Merge
from tidegate.writers.scd2 import Scd2
from tidegate.writers.scd2 import validity as dates
from tidegate.writers.scd2.history import History
from tidegate.writers.scd2.versions import ends_at
from unit.engine.sqlite_streams import Shop


def schema(**columns: Type) -> Schema:
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()))


def own(writer: Scd2, cursor: tuple[str, ...] = (), **columns: Type) -> list[tuple[str, Type]]:
    return [(column.name, column.type) for column in writer.added(schema(id=BIGINT, **columns), cursor)]


@pytest.mark.parametrize("kind", [TIMESTAMP, TIMESTAMPTZ, DATE, BIGINT, INT])
def test_moments_have_the_type_of_the_sequence(kind: Type) -> None:
    columns = [("valid_from", kind), ("valid_to", kind), ("is_current", BOOLEAN)]
    assert own(Scd2(), ("at",), at=kind) == columns
    assert own(Scd2(sequence_by=("at",)), ("id",), at=kind) == columns, "what is stated wins over the cursor"


def test_without_a_sequence_the_load_dates_every_change() -> None:
    writer = Scd2(valid_from="von", valid_to="bis", is_current="gilt", version="nr", row_hash="hash")
    assert own(writer) == [("von", TIMESTAMPTZ), ("bis", TIMESTAMPTZ), ("gilt", BOOLEAN), ("nr", INT), ("hash", TEXT)]


@pytest.mark.parametrize(
    ("options", "columns", "error", "match"),
    [
        ({"sequence_by": ("at",)}, {}, ColumnMissing, "sequence_by: 'at', which the source does not have"),
        ({"track_history": ("nam",)}, {"name": TEXT}, ColumnMissing, "track_history: 'nam'"),
        ({"sequence_by": ("at",)}, {"at": TEXT}, SchemaRefused, "cannot date versions by at is string"),
        ({"sequence_by": ("at",)}, {"at": DOUBLE}, SchemaRefused, "cannot date versions"),
        ({"sequence_by": ("at", "day")}, {"at": TIMESTAMP, "day": DATE}, SchemaRefused, "at is .*, day is date"),
        ({"sequence_by": ("n",), "far_date": "9999-12-31"}, {"n": BIGINT}, SchemaRefused, "far_date"),
        ({}, {"Valid_From": DATE}, SchemaRefused, "has a column 'Valid_From'"),
        ({"version": "nr"}, {"nr": INT}, SchemaRefused, "has a column 'nr'"),
    ],
)
def test_columns_that_cannot_be_are_refused_before_anything_is_read(
    options: Any, columns: Any, error: Any, match: str
) -> None:
    with pytest.raises(error, match=match) as caught:
        own(Scd2(**options), **columns)
    assert caught.value.hint


def test_a_column_that_the_source_gets_may_be_left_out_as_the_hint_says(tmp_path: Path) -> None:
    shop = Shop(folder=tmp_path, columns='id integer primary key, at timestamp, "Is_Current" int')
    shop.sql(f"create table t ({shop.columns})")
    source, writer = shop.stream().source, Scd2()
    with source.probe() as probe, pytest.raises(SchemaRefused, match="'Is_Current'") as refused:
        writer.added(probe.schema(), ("at",))
    (written,) = re.findall(r"`source: (\{.*?\})`", refused.value.hint)
    with replace(source, exclude=tuple(yaml.safe_load(written)["exclude"])).probe() as probe:
        assert [column.name for column in writer.added(probe.schema(), ("at",))] == list(writer.own)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"valid_from": "at", "valid_to": "AT"}, "different names"),
        ({"version": "is_current"}, "different names"),
        ({"far_date": "for ever"}, "is not a date"),
    ],
)
def test_options_that_contradict_are_refused(options: Any, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        Scd2(**options)


def test_the_signature_changes_with_every_option() -> None:
    values: dict[str, Any] = {
        "valid_from": "a",
        "valid_to": "b",
        "is_current": "c",
        "far_date": "9999-12-31",
        "version": "d",
        "row_hash": "e",
        "sequence_by": ("f",),
        "track_history": ("g",),
    }
    assert set(values) == {field.name for field in dataclasses.fields(Scd2)}
    signatures = {Scd2().signature, *(Scd2(**{name: value}).signature for name, value in values.items())}
    assert len(signatures) == len(values) + 1
    assert Scd2().signature == Scd2().signature


def test_only_scd2_keeps_history() -> None:
    assert Scd2().versions is not None
    assert Merge().versions is None


def test_a_key_is_needed() -> None:
    assert incompatibilities(strategy=Full(), writer=Scd2(), key=()) == (
        "write: scd2 needs `key:`, the columns that identify a row",
    )


@pytest.mark.parametrize(
    ("deletes", "match"),
    [
        (Deletes(max_fraction=0.2), "closes versions and deletes nothing"),
        (Deletes(apply=Apply.SOFT), "use merge"),
        (Deletes(detect=Detect.KEY_DIFF), "use merge"),
    ],
)
def test_what_is_said_of_deletes_is_refused_for_there_are_none(deletes: Deletes, match: str) -> None:
    found = incompatibilities(strategy=Full(), writer=Scd2(), key=("id",), deletes=deletes)
    assert any(match in reason for reason in found)


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ({"table_rows": 0}, Mode.APPEND),
        ({"reset": Reset()}, Mode.OVERWRITE),
        ({"effect": Mirror()}, Mode.MERGE_DIFFERENCES),
        ({}, Mode.MERGE_ON_READ),
        ({"effect": Mirror(of=Whole())}, Mode.MERGE_ON_READ),
    ],
)
def test_the_mode(given: Any, mode: Mode) -> None:
    choice = Scd2().choose(WriteFacts(**{"effect": Upsert(), "rows": 10, "table_rows": 100, **given}))
    assert choice.mode is mode
    assert choice.reason


@pytest.mark.parametrize(
    ("text", "kind", "canonical"),
    [
        ("9999-12-31", DATE, "9999-12-31"),
        ("9999-12-31", TIMESTAMP, "9999-12-31 00:00:00.000000"),
        ("9999-12-31T12:30:00+01:00", TIMESTAMPTZ, "9999-12-31 11:30:00.000000"),
        ("0999-01-02", DATE, "0999-01-02"),
    ],
)
def test_a_far_date_is_written_like_the_moments(text: str, kind: Type, canonical: str) -> None:
    assert dates.moment(dates.parsed(text), kind) == canonical


def test_a_number_is_no_time() -> None:
    assert dates.moment(datetime.now(UTC), BIGINT) is None


def test_the_model_says_what_a_history_is() -> None:
    a, b = {"name": "a"}, {"name": "b"}
    changes = [Change(9, None), Change(3, b), Change(1, a), Change(12, a), Change(9, None), Change(5, b)]
    assert versions(changes) == [Version(1, 3, a), Version(3, 9, b), Version(12, None, a)]


@pytest.mark.parametrize(
    ("sequence", "edge", "at"),
    [
        (("at",), SafeBound(upto="2025-01-01 08:00:00.000000"), "2025-01-01 08:00:00.000000"),
        (("at",), SafeBound(upto="2025-01-01 08:00:00.000000", final=False), "2025-01-01 09:00:00.000000"),
        (("at",), None, "2025-01-01 09:00:00.000000"),
        (("other",), SafeBound(upto="2025-01-01 08:00:00.000000"), "2025-01-01 09:00:00.000000"),
        ((), SafeBound(upto="2025-01-01 08:00:00.000000"), "2025-01-01 12:00:00.000000"),
    ],
)
def test_what_went_ends_by_the_time_of_the_source_wherever_rows_state_theirs(sequence, edge, at) -> None:
    """The bound of the column that dates rows, below which nothing comes any more; else the time of the snapshot."""
    at_source = datetime(2025, 1, 1, 9, tzinfo=UTC)
    changes = ChangeSet(slices=(Everything(),), effect=Mirror(), edge=edge, read_at=at_source)
    plan = maintenance_plan(
        StreamRef(name="t", uid="u", target="lake.a.t"),
        TableState(exists=True),
        Position(sequence=1, load_id="one", kind="smart", state={"cursor": ["at"]}),
        at=datetime(2025, 1, 1, 12, tzinfo=UTC),
        changes=changes,
        write=WriteChoice(mode=Mode.MERGE_DIFFERENCES, reason="compared"),
        columns=schema(id=BIGINT, at=TIMESTAMP, other=TIMESTAMP),
    )
    history = History(
        columns=plan.columns,
        key=("id",),
        tracked=("id",),
        sequence=sequence,
        type=TIMESTAMP,
        valid_from="since",
        valid_to="until",
        is_current="now",
    )
    assert ends_at(plan, history) == at
