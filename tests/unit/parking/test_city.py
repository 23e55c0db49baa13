"""The city of the example: the same every time, and as awkward as a real one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from datetime import datetime, timedelta

import pytest

from parking.api import PAGE, Api
from parking.city import BEGIN, FINE, GARAGES, HISTORY, City, stamp
from support.served import served

DAY = timedelta(days=1)


def reported(city, since=BEGIN - HISTORY):
    return city.readings(since)


def test_two_cities_report_the_same():
    one, other = City(), City()
    one.step(30)
    for _ in range(30):
        other.step()
    assert one.garages() == other.garages()
    assert reported(one) == reported(other)


def test_readings_are_late_are_repeated_and_are_missing_during_outages():
    city = City(now=BEGIN + timedelta(hours=3))
    found = reported(city, BEGIN - FINE)
    late = [each for each in found if each["reported_at"] > each["measured_at"]]
    times = Counter(each["reading_id"] for each in found)
    assert 0.02 < len(late) / len(found) < 0.08
    assert {1, 2} == set(times.values())
    minutes = 60 * 15 + 1  # twelve hours before, three after
    missing = minutes * len(GARAGES) - len({each["reading_id"] for each in found})
    assert missing >= 30, "a sensor failed for half an hour"
    assert all(0 <= each["free"] <= each["capacity"] for each in found)


def test_nothing_is_reported_before_it_arrives_and_nothing_twice_at_one_time():
    city = City(now=BEGIN + timedelta(minutes=20))
    found = reported(city)
    assert max(each["reported_at"] for each in found) <= stamp(city.now)
    assert len({(each["reading_id"], each["reported_at"]) for each in found}) == len(found)
    late = {each["reading_id"] for each in found}
    city.step(15)
    assert late < {each["reading_id"] for each in reported(city)}


def test_what_comes_later_begins_where_the_last_answer_ended():
    city = City()
    first = reported(city)
    last = max(each["reported_at"] for each in first)
    city.step(2)
    later = reported(city, datetime.fromisoformat(last))
    assert all(each["reported_at"] >= last for each in later)
    everything = {(each["reading_id"], each["reported_at"]) for each in [*first, *later]}
    assert everything == {(each["reading_id"], each["reported_at"]) for each in reported(city)}


def test_a_minute_changes_a_garage_by_a_few_cars_and_arrivals_by_many():
    city = City()
    before = {each["garage_id"]: each["free"] for each in city.garages()}
    city.step()
    changes = [abs(each["free"] - before[each["garage_id"]]) for each in city.garages() if each["free"] is not None]
    assert max(changes) <= 5, "less than what `significant_change` of the example calls significant"
    city.arrive(3, 60)
    assert before[3] - {each["garage_id"]: each["free"] for each in city.garages()}[3] >= 50
    city.arrive(3, 10_000)
    assert {each["garage_id"]: each["free"] for each in city.garages()}[3] == 0


def test_weekends_are_quieter():
    monday, sunday = BEGIN - DAY, BEGIN - 2 * DAY
    taken = [sum(each.capacity - (City().free(each, at) or 0) for each in GARAGES) for at in (monday, sunday)]
    assert (monday.weekday(), sunday.weekday()) == (0, 6)
    assert taken[0] > taken[1]


@pytest.fixture
def api():
    yield from served(Api())


def ask(api, path, method="GET", **headers):
    request = urllib.request.Request(f"{api.url}{path}", method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer), answer.headers


def test_pages_hold_every_reading_once(api):
    api.city.now = BEGIN - FINE - timedelta(days=1)
    first, _ = ask(api, "/readings?page=1")
    pages = [ask(api, f"/readings?page={number}")[0] for number in range(1, first["pages"] + 1)]
    rows = [row for page in pages for row in page["data"]]
    assert first["pages"] >= 2
    assert [len(page["data"]) for page in pages[:-1]] == [PAGE] * (len(pages) - 1)
    assert rows == reported(api.city)
    assert ask(api, "/readings?since=2026-01-01T00:00:00Z")[0] == {"data": [], "page": 1, "pages": 1}


def test_an_unchanged_answer_has_its_etag_and_an_outage_has_no_rows(api):
    garages, headers = ask(api, "/garages")
    assert len(garages) == 15
    with pytest.raises(urllib.error.HTTPError, match="304"):
        ask(api, "/garages", **{"If-None-Match": headers["ETag"]})
    ask(api, "/step?minutes=1", "POST")
    assert ask(api, "/garages", **{"If-None-Match": headers["ETag"]})[0] != garages
    ask(api, "/outage?on=1", "POST")
    with pytest.raises(urllib.error.HTTPError, match="503"):
        ask(api, "/garages")
    ask(api, "/outage?on=0", "POST")
    assert len(ask(api, "/garages")[0]) == 15
    for path in ("/cars", "/readings?since=soon"):
        with pytest.raises(urllib.error.HTTPError, match="40"):
            ask(api, path)
