"""The order of events is that of the numbers in their `source`, for every connector that has run in no test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tidegate.envelopes import _origin as origin
from tidegate.spark.sql import string

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

Place = tuple[int, int, int]
NUMBERS = st.one_of(st.integers(0, 12), st.sampled_from((99, 100, 999_999, 1_000_000)), st.integers(0, 2**31 - 1))
PLACES = st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 12)), min_size=20, max_size=30)


def mysql(place: Place) -> dict[str, Any]:
    return {"file": f"mysql-bin.{place[0]:06}", "pos": place[1], "row": place[2]}


def sqlserver(place: Place) -> dict[str, Any]:
    commit, change, serial = place
    lsn = {"commit_lsn": f"00000027:{commit:08x}:0005", "change_lsn": f"00000027:{change:08X}:0002"}
    return {**lsn, "event_serial_no": serial}


def oracle(place: Place) -> dict[str, Any]:
    commit, scn, within = place
    return {"commit_scn": commit, "scn": scn, "rs_id": f" 0x00004a.{within:08x}.0010 ", "ssn": 0, "txSeq": 1}


def oracle_without_rs_id(place: Place) -> dict[str, Any]:
    return {"commit_scn": place[0], "scn": place[1], "ssn": 0, "txSeq": place[2]}


def mongodb(place: Place) -> dict[str, Any]:
    return {"ts_ms": 1_000 * place[0], "ord": place[1]}


@pytest.mark.parametrize("written", [mysql, sqlserver, oracle, oracle_without_rs_id, mongodb])
@settings(
    max_examples=3,
    deadline=None,
    phases=[Phase.generate],  # each example is a job of Spark, and the places that differ are shown
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(places=PLACES)
def test_events_sort_as_the_numbers_of_their_place(
    spark, written: Callable[[Place], dict[str, Any]], places: list[Place]
):
    places = [*places, *((*place[:2], 12 - place[2]) for place in places)]  # also such as differ in the last alone
    if written is mongodb:
        places = [(commit, within, 0) for commit, within, _ in places]
    told = [{"connector": written.__name__.partition("_")[0], **written(place)} for place in places]
    names = sorted({name for each in told for name in each})
    rows = ", ".join(f"({', '.join(string(str(each[name])) for name in names)})" for each in told)

    def field(name: str) -> str:
        return f"`{name}`" if name in names else "CAST(NULL AS string)"

    quoted = ", ".join(f"`{name}`" for name in names)
    query = f"SELECT {origin.order(field, string('u'), 'NULL')} FROM VALUES {rows} AS t ({quoted})"
    orders = [row[0] for row in spark.sql(query).collect()]
    assert None not in orders
    assert [place for _, place in sorted(zip(orders, places, strict=True))] == sorted(places)
    assert len(set(orders)) == len(set(places))
