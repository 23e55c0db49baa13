"""Orders of events as texts: they sort as the numbers do that they are made of."""

from __future__ import annotations

import pytest

from tidegate.envelopes import _origin as origin
from tidegate.spark.sql import padded, string

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NUMBERS = [0, 7, 10, 99, 2**31, 2**63 - 1, 2**63, 10**20 - 1]


def test_digits_are_padded_to_texts_that_sort(spark):
    values = ", ".join(f"(CAST('{number}' AS decimal(38,0)))" for number in NUMBERS)
    asked = f"SELECT {padded('CAST(n AS string)', 20)} FROM VALUES {values}, (NULL) AS t (n)"
    found = [row[0] for row in spark.sql(asked).collect()]
    assert found == [*(f"{number:020}" for number in NUMBERS), None]
    assert sorted(found[:-1]) == found[:-1]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ('["12","34"]', (12, 34)),
        ('[null,"34"]', (0, 34)),
        ('["12",null]', (12, 56)),
        ('["12"]', (12, 56)),
        ('[ "12" , "34" ]', (12, 34)),
        ('[null, "34"]', (0, 34)),
        ("[12,34]", (12, 34)),
        ("[]", (0, 56)),
        ("12", (0, 56)),
        ('["12","x"]', None),
        (None, None),
    ],
)
def test_the_place_of_an_event_of_postgresql(spark, sequence, expected):
    told = {"connector": "postgresql", "lsn": "56", "sequence": sequence}

    def field(name: str) -> str:
        return string(value) if (value := told.get(name)) else "CAST(NULL AS string)"

    place = origin.order(field, "'u'", "NULL")
    asked = spark.sql(f"SELECT {place}")
    wanted = None if expected is None else "1 {:020} {:020} {:020} 1".format(*expected, 0)
    assert asked.collect()[0][0] == wanted
