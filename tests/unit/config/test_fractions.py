"""How a share is written."""

import pytest

from tidegate.config.fractions import fraction
from tidegate.config.nodes import from_values
from tidegate.config.options import read, schema_of
from tidegate.core.policies.deletes import Deletes
from tidegate.core.significance import Significance
from tidegate.errors import ConfigError
from tidegate.strategies.smart import Smart


@pytest.mark.parametrize(
    ("written", "share"),
    [("5%", 0.05), ("1%", 0.01), (1, 1.0), (0.3, 0.3), ("12.5 %", 0.125), ("250%", 2.5), (0, 0.0)],
)
def test_shares(written, share):
    assert fraction(written) == share


@pytest.mark.parametrize("written", [5, 30.0, "5", "0.05", "-5%", "%", "five%", True, None, "1e1%"])
def test_what_could_be_either_or_is_no_share(written):
    with pytest.raises(ValueError, match=r"must be a share|more than 1"):
        fraction(written)


def test_every_option_that_is_a_share_takes_both():
    assert read(Deletes, from_values({"max_fraction": "5%"})) == Deletes(max_fraction=0.05)
    node = from_values({"max_changed_fraction": "20%", "significant_change": {"min_fraction": "5%", "relative": 0.1}})
    found = read(Smart, node)
    assert found.max_changed_fraction == 0.2
    assert found.significant_change == Significance(min_fraction=0.05, relative=0.1)
    assert {"5%"} <= set(schema_of(Deletes)["properties"]["max_fraction"]["anyOf"][1]["examples"])


def test_the_option_is_named():
    with pytest.raises(ConfigError, match=r"significant_change: min_fraction: 5 is more than 1.*write 5%, or 0.05"):
        read(Smart, from_values({"significant_change": {"min_fraction": 5}}))
