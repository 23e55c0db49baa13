"""What the answers of an API say about more is held against what came, and no API is asked without an end."""

import gzip
import zlib
from datetime import timedelta

import pytest

pytest.importorskip("dlt")

from support.city_api import CityApi
from support.served import served
from tidegate.errors import ConfigError, SourceError, SourceRefused, SourceUnavailable
from tidegate.sources._api.pages import EMPTY_PAGES
from tidegate.sources._api.rows import table_of
from tidegate.sources.http import Http, Request

NUMBERED = {"type": "page_number", "base_page": 1}
OFFSET = {"type": "offset", "limit": 100}
CURSOR = {"type": "cursor", "cursor_path": "next", "cursor_param": "cursor"}
LINK = {"type": "json_link", "next_url_path": "next"}
HEADER = {"type": "header_cursor", "cursor_key": "X-Next", "cursor_param": "cursor"}


@pytest.fixture
def api():
    yield from served(CityApi())


def asked(api, paginator, **request):
    request = {"records": "$.data", "retries": 0, **request}
    source = Http(http=Request(url=f"{api.url}/rows?of=1", paginator=paginator, **request), stream="s")
    return [row["id"] for row in table_of(source.extraction(None).pages(), {}).to_pylist()]


def rows(first, last):
    return [{"id": number} for number in range(first, last)]


def capped(size, **says):
    """An API with 250 rows that answers at most so many at once."""

    def answer(params):
        start = int(params.get("offset", 0))
        found = rows(start, min(start + min(int(params.get("limit", 20)), size), 250))
        more = {"has_more": start + len(found) < 250} if "has_more" in says else {}
        return {"data": found, **says, **more}

    return answer


def failing(page, times, *, status=503):
    """An API of ten numbered pages, of which one fails so many times."""
    left = [times]

    def answer(params):
        number = int(params.get("page", 1))
        if number == page and left[0]:
            left[0] -= 1
            return status, {}, b"{}"
        return {"data": rows(number, number + 1) if number <= 10 else [], "total": 10}

    return answer


def test_a_pass_that_fails_on_its_last_page_goes_on_there_at_the_next_attempt(api):
    """Nothing that was read is asked for again, and the pass after a whole one asks for everything."""
    api.answer = failing(10, 2)
    request = Request(url=f"{api.url}/rows?of=1", paginator=NUMBERED, records="$.data", retries=0)
    source = Http(http=request, stream="s")
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            table_of(source.extraction(None).pages(), {})
    assert table_of(source.extraction(None).pages(), {})["id"].to_pylist() == list(range(1, 11))
    assert [path.rpartition("page=")[2] for path in api.asked] == [*map(str, range(1, 11)), "10", "10"]
    api.asked.clear()
    table_of(source.extraction(None).pages(), {})
    assert len(api.asked) == 10


def test_a_pass_that_no_further_attempt_helps_begins_again(api):
    api.answer = failing(10, 1, status=400)
    request = Request(url=f"{api.url}/rows?of=1", paginator=NUMBERED, records="$.data", retries=0)
    source = Http(http=request, stream="s")
    with pytest.raises(SourceRefused):
        table_of(source.extraction(None).pages(), {})
    table_of(source.extraction(None).pages(), {})
    assert len(api.asked) == 20


def test_a_cursor_that_only_requests_with_a_cursor_get_begins_with_one_that_is_stated(api):
    def answer(params):
        cursor = params.get("cursor")
        if cursor is None:
            return {"data": rows(0, 2), "next": None, "total": 30}
        start = 0 if cursor == "*" else int(cursor)
        return {"data": rows(start, start + 10), "next": str(start + 10) if start < 20 else None, "total": 30}

    api.answer = answer
    with pytest.raises(SourceError, match=r"says a total of 30 .*, and 2 records came") as stopped:
        asked(api, CURSOR)
    assert "`initial_cursor:`" in stopped.value.hint
    assert asked(api, {**CURSOR, "initial_cursor": "*"}) == list(range(30))
    assert asked(api, {**CURSOR, "initial_cursor": 0}) == list(range(30))


def numbered(*pages, **says):
    """An API with these pages."""

    def answer(params):
        number = int(params.get("page", 1))
        return {"data": pages[number - 1] if number <= len(pages) else [], **says}

    return answer


@pytest.mark.parametrize(
    ("says", "options"),
    [
        ({"total": 250}, {}),
        ({"total": 250}, {"total_path": None, "maximum_offset": 2000}),
        ({}, {"total_path": None}),
        ({}, {"total_path": None, "stop_after_empty_page": True}),
        ({"has_more": True}, {"total_path": None, "has_more_path": "has_more"}),
        ({"has_more": True}, {"total_path": None}),
    ],
    ids=str,
)
def test_an_api_that_gives_less_than_the_limit_is_told_from_one_that_has_no_more(api, says, options):
    api.answer = capped(100, **says)
    with pytest.raises(SourceError, match=r"answered 100 records for `limit: 1000`, and has more") as caught:
        asked(api, {**OFFSET, "limit": 1000, **options})
    assert "`limit: 100`" in caught.value.hint
    assert asked(api, {**OFFSET, **options}) == list(range(250))


def test_an_api_that_ignores_the_limit_gives_no_row_twice(api):
    api.answer = lambda params: {"data": rows(int(params["offset"]), int(params["offset"]) + 100), "total": 250}
    with pytest.raises(SourceError, match="answered 100 records for `limit: 10`"):
        asked(api, {**OFFSET, "limit": 10})
    api.answer = lambda _: {"data": rows(0, 250), "total": 250}
    assert len(asked(api, OFFSET)) == 250


@pytest.mark.parametrize("pages", [(rows(0, 100), rows(100, 200), rows(200, 250)), (rows(0, 100), rows(100, 200))])
def test_a_total_of_records_is_not_asked_for_as_pages(api, pages):
    api.answer = numbered(*pages, total=sum(map(len, pages)))
    assert asked(api, NUMBERED) == list(range(sum(map(len, pages))))
    assert len(api.asked) <= len(pages) + 2


def test_a_total_of_pages_is_not_taken_for_one_of_records(api):
    """Three pages, as many records on the first one, and nothing on the second."""
    api.answer = numbered(rows(0, 3), [], rows(3, 6), total=3)
    assert asked(api, NUMBERED) == list(range(6))
    api.answer = numbered(rows(0, 4), [], rows(4, 8), rows(8, 12), total=4)
    with pytest.raises(SourceError, match="answered page 2 without records, and a later one with some"):
        asked(api, NUMBERED)


@pytest.mark.parametrize(
    ("paginator", "says", "words"),
    [
        ("single_page", {"total": 30}, r"says a total of 30 \(`total`\), and 2 records came"),
        ("single_page", {"has_more": True}, "says that there is more"),
        ("single_page", {"next": "/rows?page=2"}, "says where the next page is"),
        (CURSOR, {"next": None, "total": 30}, "says a total of 30"),
        (CURSOR, {"next": None, "has_more": True}, "says that there is more"),
        ({**CURSOR, "total_path": "meta.count"}, {"next": "", "meta": {"count": "30"}}, "says a total of 30"),
        (LINK, {"next": None, "total": 30}, "says a total of 30"),
        ("header_link", {"total": 30}, "says a total of 30"),
        (HEADER, {"has_more": True}, "says that there is more"),
        ({**NUMBERED, "total_path": None}, {"total_path": 1, "has_more": True}, "says that there is more"),
        ({**NUMBERED, "has_more_path": "more"}, {"more": False, "total": 30}, "says a total of 30"),
        (NUMBERED, {"total": 0}, "says a total of 0"),
        (OFFSET, {"total": 0}, "says a total of 0"),
    ],
    ids=str,
)
def test_an_api_that_says_that_there_is_more_is_believed(api, paginator, says, words):
    api.answer = lambda params: {"data": rows(0, 2) if int(params.get("page", 1)) < 2 else [], **says}
    with pytest.raises(SourceError, match=words):
        asked(api, paginator)


def test_a_header_that_names_a_next_page_is_believed(api):
    api.answer = lambda _: (200, {"Link": '</rows?page=2>; rel="next"'}, b'[{"id": 1}]')
    with pytest.raises(SourceError, match="says where the next page is") as caught:
        asked(api, "single_page", records=None)
    assert "`next_url_path: null`" in caught.value.hint
    assert asked(api, {"type": "single_page", "next_url_path": None}, records=None) == [1]


@pytest.mark.parametrize(
    ("paginator", "says"),
    [
        ({"type": "single_page", "total_path": None}, {"total": 30}),
        ({**CURSOR, "has_more_path": None}, {"has_more": True}),
        ("single_page", {"total": "12.50", "has_more": "yes", "next": None}),
        ("single_page", {"total": 2}),
        ("single_page", {"total": 1}),
        ({**NUMBERED, "maximum_page": 2}, {"total": 9, "has_more": True, "next": "x"}),
        ({**OFFSET, "limit": 2, "maximum_offset": 2}, {"total": 9}),
        ({**NUMBERED, "has_more_path": "more"}, {"more": "False"}),
    ],
    ids=str,
)
def test_what_says_no_more_or_is_not_meant_so_ends_the_pages(api, paginator, says):
    api.answer = lambda _: {"data": rows(0, 2), **says}
    assert asked(api, paginator) == [0, 1]


def test_fields_of_a_record_say_nothing_about_others(api):
    api.answer = lambda _: {"id": 7, "total": 30, "has_more": True, "next": "x"}
    assert asked(api, "single_page", records="$") == [7]


def linked(after):
    return lambda params: {
        "data": rows(int(params.get("cursor", 0)), int(params.get("cursor", 0)) + 1),
        "next": after(int(params.get("cursor", 0))),
    }


@pytest.mark.parametrize(
    ("paginator", "answer"),
    [
        (CURSOR, lambda params: {"data": [] if "cursor" in params else rows(0, 3), "next": "last"}),
        (CURSOR, linked(lambda number: (number + 1) % 3 or 1)),
        (LINK, linked(lambda number: f"/rows?cursor={min(number + 1, 3)}")),
        (LINK, lambda params: {"data": [] if "p" in params else rows(0, 1), "next": "?p=2"}),
        ("header_link", lambda _: (200, {"Link": '</rows?p=2>; rel="next"'}, b'{"data": []}')),
        (HEADER, lambda _: (200, {"X-Next": "same"}, b'{"data": []}')),
    ],
)
def test_what_leads_back_to_a_page_that_was_read_ends_with_an_error(api, paginator, answer):
    api.answer = answer
    with pytest.raises(SourceError, match=r"leads from page \d back to a page that was read before") as caught:
        asked(api, paginator)
    assert "paginator:" in caught.value.hint
    assert len(api.asked) < 9


def fresh(start=0):
    """A cursor or link that is another one each time."""
    count = iter(range(start, 10**9))
    return lambda: str(next(count))


@pytest.mark.parametrize(
    ("paginator", "says"),
    [
        ({**NUMBERED, "total_path": None}, {}),
        ({**NUMBERED, "page_param": "p"}, {"total": 3}),
        ({"type": "page_number"}, {"total": 3}),
        ({**OFFSET, "limit": 2, "total_path": None}, {}),
        ({**OFFSET, "limit": 2}, {"total": 6}),
        (CURSOR, {"next": fresh()}),
        (LINK, {"next": fresh()}),
    ],
    ids=["numbered", "another parameter", "number", "offset", "offset with a total", "cursor", "link"],
)
def test_an_api_that_gives_one_page_again_and_again_is_found_out(api, paginator, says):
    """As one does that does not know the parameter."""
    api.answer = lambda _: {
        "data": rows(0, 2),
        **{name: value() if callable(value) else value for name, value in says.items()},
    }
    with pytest.raises(SourceError, match="answered page 2 with the records of an earlier page"):
        asked(api, paginator)


def test_pages_without_records_come_to_an_end(api):
    following = fresh()
    api.answer = lambda _: {"data": [], "next": following()}
    with pytest.raises(SourceError, match=f"answered {EMPTY_PAGES + 1} pages without a record one after another"):
        asked(api, CURSOR)


@pytest.mark.parametrize(
    ("paginator", "words"),
    [
        (NUMBERED, "without a total at `total`"),
        (OFFSET, "without a total at `total`"),
        ({**CURSOR, "total_path": "count"}, "without a total at `count`"),
        ({**NUMBERED, "total_path": "data"}, "without a total at `data`"),
        ({**NUMBERED, "has_more_path": "more"}, "without true or false at `more`"),
        ({**CURSOR, "has_more_path": "data[0].email"}, "without true or false at"),
    ],
    ids=str,
)
def test_an_error_about_an_answer_holds_no_value_of_it(api, paginator, words):
    api.answer = lambda _: {"data": [{"id": 1, "email": "ada@example.com"}]}
    with pytest.raises(SourceError, match=words) as caught:
        asked(api, paginator)
    assert "ada@" not in f"{caught.value} {caught.value.hint} {caught.value.context}"


def test_a_status_that_means_no_records_is_stated(api):
    answers = iter([(204, {}, b""), (404, {}, b'{"error": "none"}')] * 9)
    api.answer = lambda _: next(answers)
    for status in (204, 404):
        with pytest.raises(SourceRefused, match=f"answered {status}") as caught:
            asked(api, "single_page")
        assert f"empty_status: [{status}]" in caught.value.hint
    for records in ("$.data", "$.data[*]", "$", None):
        assert asked(api, "single_page", records=records, empty_status=[204, 404]) == []
    for status in (200, 401, 429, 500):
        with pytest.raises(ConfigError, match=f"empty_status: {status}"):
            Request(url="https://x/y", paginator="single_page", empty_status=(status,))


def test_a_page_behind_the_last_one_may_be_none_only_if_everything_came(api):
    pages = numbered(rows(0, 100), rows(100, 150), total=150)
    api.answer = lambda params: pages(params) if int(params["page"]) < 3 else (404, {}, b"")
    with pytest.raises(SourceRefused, match="answered 404"):
        asked(api, NUMBERED)
    assert asked(api, NUMBERED, empty_status=[404]) == list(range(150))
    pages = numbered(rows(0, 100), rows(100, 150), total=5)
    with pytest.raises(SourceError, match="says a total of 5"):
        asked(api, NUMBERED, empty_status=[404])


@pytest.mark.parametrize("status", [202, 207, 226])
def test_a_status_of_an_answer_that_is_not_whole_is_refused(api, status):
    api.answer = lambda _: (status, {}, b'{"data": []}')
    with pytest.raises(SourceError, match=f"answered {status}"):
        asked(api, "single_page")


@pytest.mark.parametrize(
    "paginator", [{**CURSOR, "cursor": 1}, {**OFFSET, "stop_after_empty_page": False, "total_path": None}]
)
def test_an_option_that_a_paginator_does_not_have_is_refused(api, paginator):
    with pytest.raises(ConfigError, match="paginator:"):
        asked(api, paginator)


def test_lines_of_json_are_a_list_of_records(api):
    api.answer = lambda _: (200, {"Content-Type": "application/x-ndjson; charset=utf-8"}, b'{"id": 1}\n{"id": 2}\n')
    assert asked(api, "single_page", records=None) == [1, 2]
    api.answer = lambda _: (200, {"Content-Type": "application/x-ndjson"}, b'{"id": 1}\n{"id"')
    with pytest.raises(SourceError, match="not JSON"):
        asked(api, "single_page", records=None)
    api.answer = lambda _: (200, {"Content-Type": "text/plain"}, b'{"id": 1}\n{"id": 2}\n')
    with pytest.raises(SourceError, match="several JSON documents; of lines, its Content-Type"):
        asked(api, "single_page", records=None)


def test_an_answer_is_whole_or_none(api):
    lines = b"".join(b'{"id": %d}\n' % number for number in range(1000))
    packed = zlib.compressobj(wbits=31)
    cut = packed.compress(lines[:5000].rpartition(b"\n")[0]) + packed.flush(zlib.Z_SYNC_FLUSH)
    kind = {"Content-Type": "application/x-ndjson"}
    answers = {
        SourceUnavailable: [({**kind, "Content-Encoding": "gzip"}, cut)],
        SourceError: [
            ({**kind, "Content-Encoding": "gzip"}, lines),
            ({**kind, "Content-Encoding": "br"}, lines),
            ({**kind, "Content-Length": None}, lines),
        ],
    }
    for error, broken in answers.items():
        for headers, body in broken:
            api.answer = lambda _, headers=headers, body=body: (200, headers, body)
            with pytest.raises(error, match=r"did not answer completely|answered (in|with) "):
                asked(api, "single_page", records=None)
    for encoding in ("gzip", "identity"):
        body = gzip.compress(lines) if encoding == "gzip" else lines
        api.answer = lambda _, encoding=encoding, body=body: (200, {**kind, "Content-Encoding": encoding}, body)
        assert asked(api, "single_page", records=None) == list(range(1000))


@pytest.mark.parametrize("sent", ["iso-8859-1", "utf-8", "utf-16"])
@pytest.mark.parametrize("charset", ["ISO-8859-1", "utf-8", "klingon", None])
def test_a_charset_counts_only_where_the_text_is_not_utf_8(api, sent, charset):
    kind = "application/json" + (f"; charset={charset}" if charset else "")
    api.answer = lambda _: (200, {"Content-Type": kind}, '[{"id": "Zürich"}]'.encode(sent))
    if sent == "iso-8859-1" and charset != "ISO-8859-1":
        with pytest.raises(SourceError, match="UTF-8"):
            asked(api, "single_page", records=None)
    else:
        assert asked(api, "single_page", records=None) == ["Zürich"]


@pytest.mark.parametrize("text", ['[{"id": 1, "id": 2}]', '[{"id": {"a": 1, "b": 3, "a": 2}}]'])
def test_a_name_that_is_twice_in_an_object_is_refused(api, text):
    api.answer = lambda _: (200, {}, text.encode())
    with pytest.raises(SourceError, match="the same name twice"):
        asked(api, "single_page", records=None)


def test_digits_in_a_nested_value_stay_as_they_came(api):
    text = '{"a":[1.10,1e5,0.0000001,1E+2],"b":-0.0}'
    api.answer = lambda _: (200, {}, f'[{{"id": {text}}}]'.encode())
    assert asked(api, "single_page", records=None) == [text]


def test_an_answer_that_does_not_end_is_given_up(api):
    api.faults = ["endless"]
    with pytest.raises(SourceError, match="it took too long"):
        asked(api, "single_page", timeout=timedelta(seconds=0.3))


@pytest.mark.parametrize("retries", [0, 5])
@pytest.mark.parametrize("wait", ["7200", "Wed, 01 Jan 2300 00:00:00 GMT", "9" * 5000], ids=["seconds", "date", "long"])
def test_an_api_that_asks_for_a_long_wait_gets_it_and_the_load_ends(api, wait, retries):
    api.faults = [(429, {"Retry-After": wait}, b"")]
    with pytest.raises(SourceRefused, match="answered 429, and asks to be left alone for"):
        asked(api, "single_page", retries=retries)
    assert len(api.asked) == 1


def test_a_short_wait_is_told(api, caplog):
    api.faults = [(503, {"Retry-After": "1"}, b""), (503, {"Retry-After": "soon"}, b"")]
    api.readings = rows(0, 1)
    with caplog.at_level("INFO", "tidegate.api"):
        assert asked(api, "single_page", retries=2) == [0]
    assert [each.message for each in caplog.records] == [
        "the API answered 503: waiting for 1 seconds, as it asks",
    ]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({}, "without the cursor 'at'"),
        ({"at": None}, "whose cursor 'at' is null"),
        ({"at": 5}, "whose cursor 'at' cannot be compared"),
        ({"at": {"mail": "ada@example.com"}}, "whose cursor 'at' cannot be compared"),
    ],
    ids=str,
)
def test_an_error_about_a_cursor_holds_no_value_of_a_record(api, record, words):
    api.answer = lambda _: {"data": [{"id": 1, "email": "ada@example.com", **record}]}
    incremental = {"cursor_path": "at", "start_param": "since", "initial_value": "2020"}
    with pytest.raises(SourceError, match=words) as caught:
        asked(api, "single_page", incremental=incremental)
    assert "ada@" not in f"{caught.value} {caught.value.hint} {caught.value.context}"
    api.answer = lambda _: {"data": [{"id": 1, "at": "ada@example.com"}]}
    with pytest.raises(SourceError) as caught:
        asked(api, "single_page", incremental={**incremental, "lag": 60})
    assert "ada@" not in f"{caught.value} {caught.value.hint} {caught.value.context}"


@pytest.mark.parametrize(
    ("token", "error", "words"),
    [
        ((429, {"Retry-After": "86400"}, b""), SourceRefused, "asks to be left alone for 86400 seconds"),
        ((401, {}, b'{"why": "ada@example.com"}'), SourceRefused, "answered 401 .* to a request for a token"),
        ((200, {}, b'{"error": "ada@example.com"}'), SourceRefused, "to a request for a token, and gave none"),
        ((307, {"Location": "http://127.0.0.1:9/token"}, b""), SourceRefused, "would get the login"),
        ((503, {}, b""), SourceError, "answered 503 .* to a request for a token"),
    ],
    ids=str,
)
def test_who_gives_the_token_of_a_login_is_held_to_the_same(api, token, error, words):
    auth = {"type": "oauth2_client_credentials", "access_token_url": f"{api.url}/token"}
    auth |= {"client_id": "me", "client_secret": "s3cr3t"}
    page = (200, {}, b'{"data": [{"id": 1}]}')
    api.faults = [token, page]
    with pytest.raises(error, match=words) as caught:
        asked(api, "single_page", auth=auth)
    assert "ada@" not in f"{caught.value} {caught.value.hint}"
    assert api.asked == ["/token"]
    api.faults = [(200, {}, b'{"access_token": "t0ken", "expires_in": 60}'), page]
    assert asked(api, "single_page", auth=auth) == [1]
    assert api.headers_seen[-1]["Authorization"] == "Bearer t0ken"
