"""`loads_table:`: a table of one of the lakes that no stream has."""

import pytest

from tidegate import config
from tidegate.errors import ConfigError

STREAM = {"source": {"path": "a.csv"}, "target": "lake.shop.orders", "strategy": "files", "write": "append"}


def loaded(name, folder):
    return config.from_dict({"loads_table": name, "streams": {"orders": STREAM}}, folder)


def test_a_table_of_a_lake(tmp_path):
    assert loaded("lake.ops.tidegate_loads", tmp_path).loads_table == ("lake", "ops", "tidegate_loads")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ops.tidegate_loads", "must be a table of one of `lakes:`"),
        ("other.ops.tidegate_loads", "must be a table of one of `lakes:`"),
        ("lake.shop.orders", "is the table of stream 'orders'"),
        ("lake..orders", "must be names separated by dots"),
    ],
)
def test_any_other_name_is_refused(tmp_path, name, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        loaded(name, tmp_path)
    assert "loads_table" in str(caught.value)
