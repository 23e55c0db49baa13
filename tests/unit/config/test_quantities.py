"""How durations, sizes and shares are written."""

from datetime import timedelta

import pytest

from tidegate.config.fractions import fraction
from tidegate.config.nodes import from_values
from tidegate.config.options import read, schema_of
from tidegate.config.sizes import size
from tidegate.core.durations import duration
from tidegate.core.policies.deletes import Deletes
from tidegate.core.significance import Significance
from tidegate.errors import ConfigError
from tidegate.strategies.smart import Smart

MS, MINUTE, DAY = timedelta(milliseconds=1), timedelta(minutes=1), timedelta(days=1)
DURATIONS = [("0s", 0 * MS), ("0", 0 * MS), (0, 0 * MS), ("500ms", 500 * MS), ("1.5h", 90 * MINUTE)]
DURATIONS += [("1h30m", 90 * MINUTE), ("7d", 7 * DAY), ("2w", 14 * DAY), (" 5m ", 5 * MINUTE), (3 * MS, 3 * MS)]
SIZES = [("32MB", 32_000_000), ("1 GiB", 2**30), ("0.5kB", 500), ("7B", 7), (" 2MiB ", 2 * 2**20)]
SHARES = [("5%", 0.05), ("1%", 0.01), (1, 1.0), (0.3, 0.3), ("12.5 %", 0.125), ("250%", 2.5), (0, 0.0)]


@pytest.mark.parametrize(("of", "cases"), [(duration, DURATIONS), (size, SIZES), (fraction, SHARES)])
def test_what_is_written(of, cases):
    assert [of(text) for text, _ in cases] == [value for _, value in cases]


@pytest.mark.parametrize(
    ("of", "texts", "told"),
    [
        (
            duration,
            ["", "5", 5, "-1s", "1y", "1 h", "h", "1h!", None, True, -DAY, "٣s", "1.2.3s"],
            "must be a duration",
        ),
        (duration, ["99999999999999w"], "too long"),
        (size, ["32", 32, "MB", "-1MB", "1 mb", "1e3MB", "1TB", "", None, "1_0MB"], "must be a size"),
        (fraction, [5, 30.0, "5", "0.05", "-5%", "%", "five%", True, None, "1e1%"], r"must be a share|more than 1"),
    ],
)
def test_anything_else_is_refused(of, texts, told):
    for text in texts:
        with pytest.raises(ValueError, match=told):
            of(text)


def test_every_option_that_is_a_share_takes_both_and_names_itself():
    assert read(Deletes, from_values({"max_fraction": "5%"})) == Deletes(max_fraction=0.05)
    node = from_values({"max_changed_fraction": "20%", "significant_change": {"min_fraction": "5%", "relative": 0.1}})
    found = read(Smart, node)
    assert found.max_changed_fraction == 0.2
    assert found.significant_change == Significance(min_fraction=0.05, relative=0.1)
    assert {"5%"} <= set(schema_of(Deletes)["properties"]["max_fraction"]["anyOf"][1]["examples"])
    with pytest.raises(ConfigError, match=r"significant_change: min_fraction: 5 is more than 1.*write 5%, or 0.05"):
        read(Smart, from_values({"significant_change": {"min_fraction": 5}}))
