"""When a changed type makes a load a full refresh, and which hint a refusal has."""

from dataclasses import replace

import pytest

from tidegate.config.options import fields
from tidegate.config.sections import Contract
from tidegate.core.policies.contract import MODES, Mode, modes_of
from tidegate.core.schema import (
    BIGINT,
    BINARY,
    DATE,
    DOUBLE,
    INT,
    REAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    ChangeKind,
    decimal,
    holds,
)


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
