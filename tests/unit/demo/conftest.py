from __future__ import annotations

import pytest

from support.airline import some_days


@pytest.fixture(scope="module")
def january(tmp_path_factory):
    """The first five days of the year."""
    return some_days(tmp_path_factory.mktemp("data"), [(1, day) for day in range(1, 6)])
