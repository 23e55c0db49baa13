"""A load of wide rows has Spark read them one by one."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from tidegate.engine.context import BATCHES, WIDE_ROW, LoadContext


@pytest.mark.parametrize(("width", "set_"), [(0, {}), (WIDE_ROW - 1, {}), (WIDE_ROW, dict.fromkeys(BATCHES, "false"))])
def test_a_batch_of_columns_holds_no_wide_rows(width, set_):
    conf = {}
    session = SimpleNamespace(conf=SimpleNamespace(set=conf.__setitem__))

    @contextmanager
    def announced_session(journal, *, small):
        yield session

    work = LoadContext(
        stream=None,
        context=SimpleNamespace(announced_session=announced_session),
        journal=None,
        probe=SimpleNamespace(row_bytes=width),
        recovered=None,
    )
    with work.session() as given:
        assert (given, conf) == (session, set_)
