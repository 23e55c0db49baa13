"""What every strategy over rows owes a load: one suite, the rows in memory."""

from datetime import timedelta

import pytest

from tidegate.core.grouping import Period
from tidegate.strategies.checksum import Checksum, Method
from tidegate.strategies.full import Full
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.smart import Smart
from tidegate.strategies.snapshot_diff import SnapshotDiff
from tidegate.strategies.watermark import Watermark
from tidegate.testing import StrategyContract

STRATEGIES = [
    Full(),
    Watermark(column="changed"),
    Watermark(column="changed", lookback=timedelta(days=1)),
    Sequence(column="id"),
    Checksum(method=Method.WHOLE_TABLE),
    Checksum(method=Method.BY_INTEGER, column="id", modulus=2),
    Checksum(method=Method.BY_DATE, column="changed", period=Period.DAY),
    SnapshotDiff(),
    Smart(column="changed"),
]


class TestStrategies(StrategyContract):
    @pytest.fixture(params=STRATEGIES, ids=repr)
    def strategy(self, request):
        return request.param
