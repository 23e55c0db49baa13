"""What finds the line of a text that is no value says the same of it as the reader that verifies."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from tidegate.core.schema import TIMESTAMP, TIMESTAMPTZ
from tidegate.dialects.shared.type_names import parse_type
from tidegate.dialects.spark.exact_text import TextRules
from tidegate.sources.shared.files.values import fits
from tidegate.sources.shared.reference import values

DAYS = ("0000-01-01", "0001-01-01", "1900-02-29", "2025-3-1", "9999-12-31", "10000-01-01")
CLOCKS = (
    "0:00",
    "00:00:00",
    "18:00:00",
    "23:59:59",
    "23:59:59.999999",
    "23:59:59.9999995",
    "24:00",
    "10:60",
    "1:00:60",
)
ZONES = ("", "Z", " UTC", "+01:00", "-01", "-0000", "+1800", "-18:00:00", "+18:00:01", "+19:00", "-99:59", "+5")


def takes(text, kind, told):
    try:
        return values.of_texts(pa.array([text]), kind, told)[0].as_py() is not None
    except (ValueError, ArithmeticError, LookupError):
        return False


@pytest.mark.parametrize("rounds", [False, True])
def test_moments_at_the_ends_of_the_calendar(rounds):
    """A moment that its zone or rounding moves out of the years 1 to 9999 is none."""
    rules, told = TextRules(rounds=rounds), values.TextRules(rounds=rounds)
    texts = [*DAYS, *(f"{day} {clock}{zone}" for day, clock, zone in product(DAYS, CLOCKS, ZONES))]
    asked = [(text, kind) for text in texts for kind in (TIMESTAMP, TIMESTAMPTZ)]
    asked += [(text, parse_type("t", "time")) for text in CLOCKS]
    differ = [(text, str(kind)) for text, kind in asked if fits(text, kind, rules) is not takes(text, kind, told)]
    assert differ == []
    beyond = ["9999-12-31 23:59:59-01:00", "0001-01-01 00:00:00+01:00", "2025-01-01 10:00:00+19:00"]
    assert [fits(text, TIMESTAMPTZ, rules) for text in beyond] == [False] * 3
