"""Which types hold the values of which, which values are cast, and which columns are left out."""

from dataclasses import replace

import pytest

from tidegate.config.options import fields
from tidegate.config.sections import Contract
from tidegate.core.casts import cast_of
from tidegate.core.policies.contract import MODES, ColumnMapping, Mode, modes_of
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    REAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    ChangeKind,
    Column,
    ColumnIds,
    Schema,
    decimal,
    holds,
)
from tidegate.core.source_columns import SourceColumn, SourceColumns
from tidegate.engine.column_changes import DEFAULT_CONTRACT
from tidegate.engine.rescued_columns import incompatibilities
from tidegate.sources.database import Database
from tidegate.sources.files import Files


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (INT, BIGINT),
        (INT, decimal(10, 0)),
        (BIGINT, decimal(21, 2)),
        (decimal(10, 2), decimal(12, 4)),
        (INT, DOUBLE),
        (REAL, DOUBLE),
        (DATE, TIMESTAMP),
        (BIGINT, TEXT),
        (TIMESTAMP, TEXT),
    ],
)
def test_a_type_that_holds_every_value(old, new):
    assert holds(old, new)
    assert not holds(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (INT, decimal(9, 0)),
        (BIGINT, decimal(18, 0)),
        (BIGINT, DOUBLE),
        (INT, REAL),
        (decimal(10, 2), decimal(12, 1)),
        (decimal(10, 2), decimal(10, 4)),
        (DATE, TIMESTAMPTZ),
        (TIMESTAMP, TIMESTAMPTZ),
        (DOUBLE, TEXT),
        (BINARY, TEXT),
        (TEXT, BIGINT),
    ],
)
def test_a_type_that_may_lose_a_value(old, new):
    assert not holds(old, new)


def test_the_modes_of_every_kind_of_change_are_those_of_the_project_file():
    for kind, option in fields(Contract).items():
        assert set(option.hint.__args__) == set(MODES[ChangeKind(kind)])
    assert {*fields(Contract)} == {*ChangeKind}
    assert Mode.STOP not in modes_of(ChangeKind.TYPE_CHANGE, but=Mode.STOP)
    assert replace(Contract(), type_change="widen").type_change == "widen"


@pytest.mark.parametrize(
    ("source", "table", "suffix"),
    [
        (INT, decimal(12, 2), ".00"),
        (INT, decimal(12, 0), ""),
        (decimal(12, 2), decimal(14, 4), "00"),
        (decimal(9, 0), decimal(12, 2), ".00"),
        (decimal(9, 0), BIGINT, ""),
        (TEXT, BIGINT, ""),
        (DATE, TIMESTAMP, " 00:00:00.000000"),
        (BIGINT, TEXT, ""),
        (DATE, TEXT, ""),
        (decimal(12, 4), decimal(12, 2), None),
        (decimal(12, 2), BIGINT, None),
        (DOUBLE, decimal(12, 2), None),
        (DOUBLE, TEXT, None),
        (TEXT, DATE, None),
        (DATE, TIMESTAMPTZ, None),
        (INT, BOOLEAN, None),
    ],
)
def test_values_are_cast_where_their_text_is_the_same_but_for_what_the_types_add(source, table, suffix):
    cast = cast_of(source, table)
    assert (cast.suffix if cast else None) == suffix


def schema(**columns):
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()))


def mapping(table, key=("id",), before=None, **contract):
    return ColumnMapping(table=table, contract=contract, key=key, before=before)


def test_only_changed_types_that_can_be_proven_are_cast_and_none_of_the_key():
    source = schema(id=TEXT, size=TEXT, price=DOUBLE, day=DATE, note=TEXT)
    table = schema(id=BIGINT, size=BIGINT, price=decimal(12, 2), day=TIMESTAMP)
    found = mapping(table, type_change="cast").casts(source)
    assert {change.column: cast.table for change, cast in found.items()} == {"size": BIGINT, "day": TIMESTAMP}
    assert mapping(table, type_change="stop").casts(source) == {}


def test_what_the_contract_rescues_or_discards_is_not_loaded():
    source, table = schema(id=TEXT, size=TEXT, note=TEXT, token=UUID), schema(id=BIGINT, size=BIGINT, token=TEXT)

    def left(**contract):
        found = mapping(table, **contract).unloaded_changes(source)
        return {change.column: str(mode) for change, mode in found.items()}

    assert left(add_column="rescue", type_change="discard") == {"note": "rescue", "size": "discard"}
    assert left(add_column="evolve", type_change="rescue") == {"size": "rescue"}
    assert left() == {}


def test_a_column_whose_type_has_changed_is_the_same_one_by_another_name():
    table = schema(id=BIGINT, size=BIGINT)
    ids = ColumnIds(relation="t", columns={"id": "1", "length": "2"})
    source = replace(schema(id=BIGINT, length=TEXT), ids=ids)
    was = (SourceColumn(id="1", name="id", target="id"), SourceColumn(id="2", name="size", target="size"))
    before = SourceColumns(relation="t", columns=was)

    def left(**contract):
        return {each.column: str(mode) for each, mode in mapping(table, **contract).unloaded_changes(source).items()}

    assert left(before=before, type_change="discard", rename="evolve") == {"length": "discard"}
    assert left(before=before, type_change="discard", rename="keep") == {}
    assert left(before=before, type_change="discard", add_column="rescue") == {"length": "rescue"}
    assert left(type_change="discard") == {}
    casts = mapping(table, before=before, type_change="cast").casts(source)
    assert {change.column: cast.table for change, cast in casts.items()} == {"length": BIGINT}


@pytest.mark.parametrize(
    ("source", "contract", "refused"),
    [
        (Database, {"type_change": "discard", "drop_column": "keep"}, None),
        (Database, {"type_change": "discard", "drop_column": "stop"}, "use drop_column: keep, or type_change: stop"),
        (Database, {"type_change": "cast", "drop_column": "stop"}, None),
        (Database, {"add_column": "rescue", "drop_column": "stop"}, None),
        (Files, {"add_column": "rescue"}, "only for database tables and queries"),
        (Files, {"type_change": "cast"}, "only for database tables and queries"),
        (Files, {}, None),
    ],
)
def test_columns_are_left_out_only_where_that_can_be_done_and_contradicts_nothing(source, contract, refused):
    found = incompatibilities(source, {**DEFAULT_CONTRACT, **contract})
    assert (refused is None) == (found == [])
    assert refused is None or refused in found[0]
