"""The order of events is that of the numbers in their `source`, for every connector that has run in no test."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tidegate.envelopes import _origin as origin
from tidegate.spark.sql import padded, string

pytestmark = pytest.mark.spark

Place = tuple[int, int, int]
NUMBERS = (*range(13), 99, 100, 999_999, 1_000_000, 2**31 - 1)


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


def orders(spark, sources: Sequence[dict[str, Any]]) -> list[str | None]:
    """The order of an update with each of these `source`."""
    names = sorted({name for each in sources for name in each})
    rows = ", ".join(
        f"({number}, {', '.join('NULL' if each.get(name) is None else string(str(each[name])) for name in names)})"
        for number, each in enumerate(sources)
    )

    def field(name: str) -> str:
        return f"`{name}`" if name in names else "CAST(NULL AS string)"

    quoted = ", ".join(f"`{name}`" for name in names)
    query = f"SELECT {origin.order(field, string('u'), 'NULL')} FROM VALUES {rows} AS t (nr, {quoted}) ORDER BY nr"
    return [row[0] for row in spark.sql(query).collect()]


@pytest.mark.parametrize("written", [mysql, sqlserver, oracle, oracle_without_rs_id, mongodb])
def test_events_sort_as_the_numbers_of_their_place(spark, written: Callable[[Place], dict[str, Any]]):
    chance = random.Random(written.__name__)

    def number() -> int:
        return chance.choice((*NUMBERS, chance.randrange(2**31)))

    places = [(number(), number(), chance.randrange(13)) for _ in range(100)]
    places += [(*place[:2], 12 - place[2]) for place in places]  # also such as differ in the last alone
    if written is mongodb:
        places = [(commit, within, 0) for commit, within, _ in places]
    found = orders(spark, [{"connector": written.__name__.partition("_")[0], **written(place)} for place in places])
    assert None not in found
    assert [place for _, place in sorted(zip(found, places, strict=True))] == sorted(places)
    assert len(set(found)) == len(set(places))


def test_the_place_of_an_event_of_postgresql(spark):
    expected = {
        '["12","34"]': (12, 34),
        '[null,"34"]': (0, 34),
        '["12",null]': (12, 56),
        '["12"]': (12, 56),
        '[ "12" , "34" ]': (12, 34),
        '[null, "34"]': (0, 34),
        "[12,34]": (12, 34),
        "[]": (0, 56),
        "12": (0, 56),
        '["12","x"]': None,
        None: None,
    }
    found = orders(spark, [{"connector": "postgresql", "lsn": "56", "sequence": sequence} for sequence in expected])
    wanted = {key: place and "1 {:020} {:020} {:020} 1".format(*place, 0) for key, place in expected.items()}
    assert dict(zip(expected, found, strict=True)) == wanted


def test_digits_are_padded_to_texts_that_sort(spark):
    numbers = [0, 7, 10, 99, 2**31, 2**63 - 1, 2**63, 10**20 - 1]
    values = ", ".join(f"(CAST('{number}' AS decimal(38,0)))" for number in numbers)
    asked = f"SELECT {padded('CAST(n AS string)', 20)} FROM VALUES {values}, (NULL) AS t (n)"
    assert [row[0] for row in spark.sql(asked).collect()] == [*(f"{number:020}" for number in numbers), None]
