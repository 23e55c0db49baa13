"""Orders of events as texts: they sort as the numbers do that they are made of."""

from __future__ import annotations

import pytest

from tidegate.spark.sql import padded

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

NUMBERS = [0, 7, 10, 99, 2**31, 2**63 - 1, 2**63, 10**20 - 1]


def test_digits_are_padded_to_texts_that_sort(spark):
    values = ", ".join(f"(CAST('{number}' AS decimal(38,0)))" for number in NUMBERS)
    asked = f"SELECT {padded('CAST(n AS string)', 20)} FROM VALUES {values}, (NULL) AS t (n)"
    found = [row[0] for row in spark.sql(asked).collect()]
    assert found == [*(f"{number:020}" for number in NUMBERS), None]
    assert sorted(found[:-1]) == found[:-1]
