"""What the source `http` asks of an API, and what it takes for an answer."""

import time
from datetime import datetime
from email.utils import formatdate

import pytest

pytest.importorskip("dlt")

from support.city_api import CityApi
from support.served import served
from tidegate.errors import ConfigError, SourceError, SourceRefused, SourceUnavailable
from tidegate.sources._api.extraction import NotModified
from tidegate.sources._api.logins import LoginScope
from tidegate.sources._api.rows import table_of
from tidegate.sources.http import Http, Request

PAGES = {"type": "page_number", "base_page": 1, "page_param": "page", "total_path": "total"}
SECRET = "s3cr3t-t0ken"


@pytest.fixture
def api():
    yield from served(CityApi())


def asked(api, path="/readings", *, since=None, increments=True, **request):
    request = {"paginator": "single_page", "retries": 0, **request}
    source = Http(http=Request(url=api.url + path, **request), stream="s", increments=increments)
    extraction = source.extraction(since)
    return table_of(extraction.pages(), {}).to_pylist(), extraction.state()


def reading(number):
    return {"id": number, "at": f"2025-01-01T00:{number:02}:00Z"}


def test_every_page_is_read(api):
    api.readings = [reading(number) for number in range(8)]
    assert asked(api, records="$.data", paginator=PAGES)[0] == api.readings
    assert len(api.asked) == 3


EMPTY = {
    "total": ({"total_path": "total"}, b'{"data": [], "total": 3}'),
    "total by default": ({}, b'{"data": [], "total": 3}'),
    "maximum": ({"total_path": None, "maximum_page": 4}, b'{"data": []}'),
    "more": ({"total_path": None, "has_more_path": "more"}, b'{"data": [], "more": true}'),
}


@pytest.mark.parametrize("end", EMPTY)
def test_an_empty_page_is_not_the_last_one_where_the_answer_says_which_is(api, end):
    options, empty = EMPTY[end]
    rest = b'{"data": [{"id": 9}], "total": 3, "more": false}'
    api.faults = [(200, {}, empty), (200, {}, empty), (200, {}, rest)]
    paginator = {"type": "page_number", "base_page": 1, "page_param": "page", **options}
    assert asked(api, records="$.data", paginator=paginator) == ([{"id": 9}], "{}")
    assert len(api.asked) == 3


@pytest.mark.parametrize("options", [{"total_path": None}, {"total_path": "total", "stop_after_empty_page": True}])
def test_an_empty_page_is_the_last_one_where_nothing_else_says_it_or_that_is_stated(api, options):
    api.readings = [reading(number) for number in range(8)]
    api.faults = [(200, {}, b'{"data": [{"id": 1}], "total": 9}'), (200, {}, b'{"data": [], "total": 9}')]
    paginator = {"type": "page_number", "base_page": 1, "page_param": "page", **options}
    assert asked(api, records="$.data", paginator=paginator)[0] == [{"id": 1}]


def test_a_null_where_records_should_be_ends_no_pages(api):
    api.faults = [(200, {}, b'{"data": [{"id": 1}], "total": 3}'), (200, {}, b'{"data": null, "total": 3}')]
    with pytest.raises(SourceError, match=r"without \$\.data"):
        asked(api, records="$.data", paginator=PAGES)


def test_the_next_pass_goes_on_where_the_last_one_ended(api):
    incremental = {"cursor_path": "at", "start_param": "since", "initial_value": "2020"}
    request = {"records": "$.data", "paginator": PAGES, "incremental": incremental}
    api.readings = [reading(0), reading(1)]
    rows, state = asked(api, **request)
    assert rows == api.readings
    api.readings += [{**reading(1), "id": 7}, reading(2)]  # one has the very time of the last one
    assert asked(api, since=state, **request)[0] == api.readings[2:]
    assert asked(api, since=state, increments=False, **request)[0] == api.readings


def since(api, cursors, **incremental):
    """What an API with such an incremental answers to each of several passes, after each of which it has one more."""
    incremental = {"cursor_path": "at", "start_param": "since", **incremental}
    state, found = None, []
    for number, at in enumerate(cursors):
        api.readings.append({"id": number, "at": at})
        rows, state = asked(api, since=state, records="$.data", paginator=PAGES, incremental=incremental)
        found.append([row["id"] for row in rows])
        assert all(type(row["at"]) is type(at) for row in rows)
    return found


MOMENTS = [
    "2025-01-01T00:07:00Z",
    "2025-01-01T00:07:00.5Z",
    "2025-01-01T00:07:00.50000001Z",
    "2025-01-01t01:08:00+01:00",
    "2024-12-31 23:09:00-01:00",
    "2025-01-01T00:10",
    "2025-01-02",
]


@pytest.mark.parametrize("initial", [{}, {"initial_value": "2020"}, {"initial_value": "2025-01-01T01:06:00+01:00"}])
def test_times_are_compared_as_moments_however_they_are_written(api, initial):
    api.order = lambda text: [*MOMENTS, text].index(text) if text in MOMENTS else -1
    assert since(api, MOMENTS, **initial) == [[number] for number in range(len(MOMENTS))]


def test_a_record_with_a_time_to_come_waits_and_what_comes_meanwhile_is_not_left_out(api):
    """One record of 2099 would else hide all others until then; a full load takes every record as it is."""
    incremental = {"cursor_path": "at", "start_param": "since"}
    request = {"records": "$.data", "paginator": PAGES, "incremental": incremental}
    api.readings = [{"id": 1, "at": "2025-01-01T00:00:00Z"}, {"id": 2, "at": "2099-01-01T00:00:00Z"}]
    whole, _ = asked(api, increments=False, **request)
    rows, state = asked(api, **request)
    assert ([row["id"] for row in rows], [row["id"] for row in whole]) == ([1], [1, 2])
    api.readings.append({"id": 3, "at": "2025-01-02"})
    source = Http(http=Request(url=f"{api.url}/readings", **request), stream="s")
    extraction = source.extraction(state)
    assert [row["id"] for row in table_of(extraction.pages(), {}).to_pylist()] == [3]
    assert extraction.ahead == 1


def test_a_lag_reaches_back_from_the_latest_moment(api):
    times = ["2025-01-01T09:00:00Z", "2025-01-01T11:30:00+02:00", "2025-01-01T10:00:00.5Z"]
    api.order = datetime.fromisoformat
    assert since(api, times, initial_value="2025-01-01T00:00:00Z", lag=60) == [[0], [0, 1], [1, 2]]


def test_whole_numbers_in_texts_are_compared_as_numbers(api):
    api.order = int
    assert since(api, ["9", "10", "010", "11"], initial_value="0") == [[0], [1], [2], [3]]
    api.readings = []
    assert since(api, ["101", "99"]) == [[0], []], "which comes too late"


def test_a_cursor_deep_in_a_record_is_one_too(api):
    incremental = {"cursor_path": "meta.at", "start_param": "since", "initial_value": "0"}
    request = {"records": "$.data", "incremental": incremental}
    api.readings = [{"id": each, "at": "0", "meta": {"at": each}} for each in ("9", "10")]
    rows, state = asked(api, **request)
    assert [row["id"] for row in rows] == ["9", "10"]
    assert "since=10" not in "".join(api.asked)
    api.order = lambda _: 0
    assert (asked(api, since=state, **request)[0], "since=10" in api.asked[-1]) == ([], True)


def test_numbers_are_numbers_and_other_texts_of_one_form_are_texts(api):
    api.order = lambda _: 0
    assert since(api, [9, 10]) == [[0], [1]]
    api.readings = []
    assert since(api, ["01ARZ3NDEK", "01ARZ3NDEM"]) == [[0], [1]]


@pytest.mark.parametrize(
    ("cursors", "forms"),
    [
        (["item9", "item10"], "a text of 6 letters and digits and a text of 5 letters"),
        (["31/12/2024", "01/01/2025"], "a text of 10 characters and a text of 10 characters"),
        (["2025-01-01T00:00:00Z", "Wed, 01 Jan 2025 01:00:00 GMT"], "a text of 29 characters and a time"),
        (["7", "2025-01-01T00:00:00Z"], "a time and a whole number"),
    ],
)
def test_texts_whose_order_nobody_knows_are_refused(api, cursors, forms):
    api.order = lambda _: 0
    with pytest.raises(SourceError, match=f"cursor 'at' .* texts whose order is not known: {forms}") as caught:
        since(api, cursors)
    assert "initial_value:" in caught.value.hint


def test_an_answer_that_has_not_changed_is_not_sent_again(api):
    api.garages = [{"id": 1}]
    rows, state = asked(api, "/garages")
    assert rows == api.garages
    for increments in (True, False):
        with pytest.raises(NotModified):
            asked(api, "/garages", since=state, increments=increments)
    # Of another request it says nothing.
    assert asked(api, "/garages", since=state, params={"x": "1"})[0] == api.garages
    assert asked(api, "/garages", since=state, conditional=False)[0] == api.garages
    api.garages.append({"id": 2})
    assert asked(api, "/garages", since=state)[0] == api.garages


@pytest.mark.parametrize(("ago", "conditional"), [(3600, True), (-1, False)])
def test_a_date_tells_an_unchanged_answer_only_when_its_second_was_over(api, ago, conditional):
    """Within that second the answer may have changed once more, and kept its date."""
    changed = formatdate(time.time() - ago, usegmt=True)
    api.faults = [(200, {"Last-Modified": changed}, b'[{"id": 1}]')]
    _, state = asked(api, "/garages")
    api.garages = [{"id": 2}]
    assert asked(api, "/garages", since=state)[0] == api.garages
    assert (api.headers_seen[-1].get("If-Modified-Since") == changed) is conditional


def test_who_compares_a_table_asks_for_the_whole_answer(api, tmp_path):
    api.garages = [{"id": 1}]
    request = Request(url=f"{api.url}/garages", paginator="single_page")
    source, conditions = Http(http=request, stream="s", folder=tmp_path, increments=False), []
    for unconditional in (False, False, True, False):
        with source.probe() as probe:
            if unconditional:
                probe.request_unconditionally()
            assert len(probe.listing(None).ready.files) == 1
        conditions.append("If-None-Match" in api.headers_seen[-1])
    assert conditions == [False, True, False, True]


def test_what_is_new_is_listed_also_where_columns_were_asked_for_before(api, tmp_path):
    incremental = {"cursor_path": "at", "start_param": "since", "initial_value": "2020"}
    request = Request(url=f"{api.url}/readings", records="$.data", paginator=PAGES, incremental=incremental)
    source, state = Http(http=request, folder=tmp_path, stream="s"), {}
    for number in (1, 2):
        api.readings.append(reading(number))
        with source.probe() as probe:
            if state:
                probe.schema()
            probe.files.fetch(state)
            state = probe.files.progress
            assert len(probe.files.listing(None).ready.files) == number


def test_the_first_of_several_pages_says_nothing_of_the_others(api):
    api.readings = [reading(0)]
    _, state = asked(api, records="$.data", paginator=PAGES)
    assert "validators" not in state
    assert not any("If-None-Match" in headers for headers in api.headers_seen)


def test_a_request_is_repeated_where_the_api_is_busy(api):
    api.readings = [reading(0)]
    api.faults = [(503, {}, b""), (429, {"Retry-After": "1"}, b""), (502, {}, b"")]
    assert asked(api, records="$.data", retries=3)[0] == api.readings
    assert len(api.asked) == 4


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("cut", SourceUnavailable, "did not answer completely: the answer was cut short"),
        ((503, {}, b""), SourceUnavailable, "answered 503"),
        ((401, {}, b""), SourceRefused, "answered 401"),
        ((404, {}, b""), SourceRefused, "answered 404"),
        ((200, {}, b"<html>"), SourceError, "not JSON"),
        ((200, {}, b'{"data": [NaN]}'), SourceError, "not JSON"),
        ((200, {}, b'{"error": "sorry"}'), SourceError, r"without \$\.data"),
        ((200, {}, b'{"data": null}'), SourceError, r"without \$\.data"),
        ((206, {"Content-Range": "items 0-9/20"}, b'{"data": []}'), SourceRefused, "answered 206"),
        ((200, {}, b'{"data": [1]}'), SourceError, "one is int"),
    ],
    ids=str,
)
def test_what_is_no_answer_is_never_an_empty_one(api, fault, error, words):
    api.faults = [fault] * 3
    with pytest.raises(error, match=words) as caught:
        asked(api, f"/readings?key={SECRET}", records="$.data", headers={"X-Key": SECRET}, params={"k": SECRET})
    assert SECRET not in f"{caught.value}{caught.value.hint}{caught.value.context}"


def test_an_object_is_a_record_only_where_that_is_stated(api):
    api.faults = [(200, {}, b'{"id": 1}')] * 2
    with pytest.raises(SourceError, match="without a list of records"):
        asked(api)
    assert asked(api, records="$")[0] == [{"id": 1}]


LOGINS = (
    {"auth": {"type": "bearer", "token": SECRET}},
    {"auth": {"type": "http_basic", "username": "a", "password": SECRET}},
    {"auth": {"type": "api_key", "name": "X-Api-Key", "api_key": SECRET}},
    {"headers": {"X-Api-Key": SECRET}},
    {"params": {"token": SECRET}},
)


@pytest.fixture
def other():
    yield from served(CityApi())


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: str([*login]))
def test_a_login_goes_to_the_host_of_the_url_alone(api, other, login):
    """Not to where an answer leads: by a redirect, or as the next page."""
    next_page = f'{{"data": [{{"id": 1}}], "next": "{other.url}/readings"}}'.encode()
    paginator = {"type": "json_link", "next_url_path": "next"}
    for fault, request in (((302, {"Location": f"{other.url}/garages"}, b""), {}), ((200, {}, next_page), {})):
        api.faults = [fault]
        with pytest.raises(SourceRefused, match="would get the login") as caught:
            asked(api, records="$.data", paginator=paginator, **request, **login)
        assert "login_hosts: [127.0.0.1]" in caught.value.hint
        assert SECRET not in f"{caught.value}{caught.value.hint}"
    assert other.asked == []
    api.faults, other.readings = [(200, {}, next_page)], [reading(2)]
    rows, _ = asked(api, records="$.data", paginator=paginator, login_hosts=["127.0.0.1"], **login)
    assert [row["id"] for row in rows] == [1, 2]


def test_what_holds_no_login_goes_where_the_answer_leads(api, other):
    other.garages = [{"id": 1}]
    api.faults = [(302, {"Location": f"{other.url}/garages"}, b"")]
    assert asked(api, "/garages")[0] == other.garages


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: str([*login]))
def test_a_login_is_not_sent_in_the_clear(login):
    request = {"url": "http://api.example.com/v1", "paginator": "single_page"}
    with pytest.raises(ConfigError, match="in the clear") as caught:
        Request(**request, **login)
    assert "plain_http: true" in caught.value.hint
    Request(**request, plain_http=True, **login)
    Request(**request)
    Request(**{**request, "url": "https://api.example.com/v1"}, **login)
    Request(**{**request, "url": "http://[::1]:80/v1"}, **login)
    with pytest.raises(SourceRefused, match="in the clear"):
        LoginScope(url="https://api.example.com/v1", hosts=("api.example.com",)).check("http://api.example.com/v1")


def test_the_login_for_a_token_is_not_sent_in_the_clear():
    auth = {"type": "oauth2_client_credentials", "access_token_url": "http://id.example.com/token"}
    auth |= {"client_id": "a", "client_secret": SECRET}
    with pytest.raises(ConfigError, match="in the clear"):
        Request(url="https://api.example.com/v1", paginator="single_page", auth=auth)


def test_no_answer_at_all_is_told(api):
    api.server_close()
    with pytest.raises(SourceUnavailable, match="the connection failed"):
        asked(api, "/readings")


def test_another_request_is_another_source_and_another_login_is_not(api):
    def identity(**changes):
        request = {"url": api.url + "/readings", "paginator": "single_page", **changes}
        return Http(http=Request(**request), stream="s").identity

    assert identity() == identity(auth={"type": "bearer", "token": SECRET}, headers={"X-Key": SECRET})
    assert identity() != identity(params={"city": "b"})
    assert SECRET not in identity(params={"k": SECRET})


@pytest.mark.parametrize(
    ("records", "answer"), [("$.data", b'{"data": []}'), ("$.data[*]", b'{"data": []}'), (None, b"[]")]
)
def test_an_empty_answer_is_one(api, records, answer):
    api.faults = [(200, {}, answer)]
    assert asked(api, records=records)[0] == []


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "token": SECRET},
        {"type": "api_key", "name": "X-Key", "api_key": SECRET, "location": "header"},
        {"type": "http_basic", "username": "me", "password": SECRET},
    ],
)
def test_a_login_is_sent(api, auth):
    api.readings = [reading(0)]
    asked(api, records="$.data", auth=auth)
    sent = api.headers_seen[0]
    assert SECRET in (sent.get("Authorization", "") + sent.get("X-Key", "")) or sent["Authorization"].startswith(
        "Basic"
    )
    assert SECRET not in repr(Request(url=api.url, paginator="single_page", auth=auth))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"url": "ftp://x/y"}, "http://"),
        ({"url": "https://me:pw@x/y"}, "must not hold a login"),
        ({"paginator": "auto"}, "never guessed"),
        ({"paginator": {"base_page": 1}}, "never guessed"),
        ({"auth": {"token": "x"}}, "needs a `type:`"),
        ({"retries": -1}, "not negative"),
    ],
)
def test_a_wrong_request_is_refused(wrong, words):
    with pytest.raises(ConfigError, match=words):
        Request(**{"url": "https://x/y", "paginator": "single_page", **wrong})
