"""When what Spark does to save work costs more than the work."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidegate.core.plan import Mode, PlannedDeletes
from tidegate.formats.shared.small_write import AT_ONCE, SETTINGS, all_files, few, read_back, small_settings


def plan(rows, *, mode=Mode.MERGE_ON_READ, missing_keys=False, names=False):
    bounds = SimpleNamespace(names=lambda _rows: names)
    return SimpleNamespace(
        changes=SimpleNamespace(rows=rows),
        deletes=PlannedDeletes(missing_keys=missing_keys),
        write=SimpleNamespace(mode=mode, prune=(bounds,)),
    )


@pytest.mark.parametrize(("asked", "most"), [(few, 20_000), (read_back, 100_000)])
def test_rows_are_few_up_to_a_number_if_somebody_counted_them(asked, most):
    assert asked(plan(most))
    assert not asked(plan(most + 1))
    assert not asked(plan(None))
    assert not asked(plan(1, missing_keys=True)), "every key of the table may be looked at"


@pytest.mark.parametrize(
    ("rows", "table_rows", "expected"), [(10, 10, True), (10, 11, False), (None, 1, False), (1, None, False)]
)
def test_a_batch_of_as_many_rows_as_the_table_leaves_no_file_alone(rows, table_rows, expected):
    assert all_files(plan(rows, mode=Mode.COPY_ON_WRITE), table_rows) is expected
    assert not all_files(plan(rows), table_rows), "beside the files nothing is written anew"


@pytest.mark.parametrize(
    ("rows", "names", "table_rows", "expected"),
    [
        (9, True, None, SETTINGS),
        (9, False, 2_000_000, AT_ONCE),
        (9, False, 2_000_001, {}),
        (9, False, None, {}),
        (20_001, True, 9, {}),
        (20_001, False, 9, {}),
    ],
)
def test_few_rows_are_planned_at_once_where_few_others_meet_them(rows, names, table_rows, expected):
    assert small_settings(plan(rows, names=names), table_rows) == expected
