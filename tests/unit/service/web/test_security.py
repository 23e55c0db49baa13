"""Who may see the dashboard, and what other sites can make a browser do with it."""

import re

import pytest

from support.registry_rows import SECRET
from tidegate.errors import ConfigError
from tidegate.service.web.settings import WebSettings
from unit.service.web.conftest import TOKEN, client_of, logged_in

PAGES = (
    "/",
    "/streams/orders_000",
    "/proof",
    "/proof/report.html",
    "/lakes",
    "/metrics",
    "/events",
    "/static/style.css",
)
API = ("/api/v1/status", "/api/v1/proof", "/api/v1/openapi.json", "/api/v1/streams/orders_000/history")


@pytest.mark.parametrize("path", [*PAGES, *API])
def test_nothing_is_shown_without_the_token(anybody, path):
    answer = anybody.get(path)
    assert (answer.status_code, "orders" in answer.text) == (401, False)
    assert anybody.get(path, params={"token": "guess"}).status_code == 401
    assert anybody.get(path, headers={"Authorization": "Bearer guess"}).status_code == 401
    anybody.cookies.set("tidegate_session", "guess")
    assert anybody.get(path).status_code == 401


def test_the_token_of_the_address_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(anybody):
    answer = anybody.get("/streams/orders_001?a=1&token=" + TOKEN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/streams/orders_001?a=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert anybody.get("/").status_code == 200


def test_behind_tls_the_cookie_is_for_tls_alone_and_a_login_never_leads_to_another_host(anybody):
    answer = anybody.get("/", params={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in answer.headers["set-cookie"]
    answer = anybody.get("/%2Fevil.example/x", params={"token": TOKEN})
    assert answer.headers["location"].startswith("/evil.example")


def test_only_the_names_of_this_machine_and_those_that_are_stated_are_let_in(anybody, browser, shared):
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8471", "", "[::2]:8471"):
        answer = anybody.get("/", params={"token": TOKEN}, headers={"Host": host})
        assert (answer.status_code, "set-cookie" in answer.headers) == (400, False), host
    for host in ("localhost:8471", "127.0.0.1", "[::1]:8471", "LOCALHOST"):
        assert browser.get("/healthz", headers={"Host": host}).status_code == 200, host
    client = client_of(shared, hosts=("Lake.example",))
    assert client.get("/", headers={"Host": "lake.example", "Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/nothing", "/healthz", "/static/htmx.min.js", "/api/v1/status"])
def test_every_answer_carries_the_headers(browser, path):
    headers = browser.get(path, headers={"Origin": "https://evil.example"}).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/", "/streams/orders_000", "/api/v1/proof"])
def test_an_error_that_nobody_expected_is_answered_with_the_headers_and_tells_nothing(service, caplog, path):
    class Broken:
        def __getattr__(self, name):
            raise RuntimeError(f"a value of a row, {SECRET}")

    client = logged_in(client_of(service))
    client.app.state.tidegate.facts.service = Broken()
    answer = client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 500
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"
    assert "value of a row" not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text
    if path.startswith("/api/"):
        assert answer.json()["error"]["code"] == "internal"


@pytest.mark.parametrize("path", ["/", "/streams/orders_000", "/proof", "/lakes"])
def test_pages_need_no_inline_script_and_no_other_host(browser, path):
    text = browser.get(path).text
    assert not re.search(r"<script(?![^>]*src=)", text)
    assert not re.search(r"\son\w+=", text)
    assert not re.search(r"\sstyle=", text)
    assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", text)


def test_another_address_needs_a_token_or_a_header():
    with pytest.raises(ConfigError, match="open to everybody who reaches"):
        WebSettings(host="0.0.0.0").checked()
    assert WebSettings(host="0.0.0.0", token="t").checked().token == "t"
    assert WebSettings(host="0.0.0.0", user_header="X-User").checked().token == ""
    first, second = WebSettings().checked().token, WebSettings().checked().token
    assert len(first) > 30
    assert first != second


def test_a_proxy_names_the_user_and_without_it_nobody_is_let_in(service):
    client = client_of(service, token="", user_header="X-Forwarded-User")
    assert client.get("/").status_code == 401
    page = client.get("/streams/orders_000", headers={"X-Forwarded-User": "ann"})
    assert page.status_code == 200
    send(client, page.text, "pause", headers={"X-Forwarded-User": "ann"})
    assert service.asked == [("pause", "orders_000", "ann (dashboard)")]
    assert send(client, page.text, "pause", headers={"X-Forwarded-User": "bob"}).status_code == 403


def form_of(text, action):
    found = re.search(rf'action="/actions/{action}">\s*<input type="hidden" name="form" value="(\w+)">', text)
    assert found
    return found[1]


def send(client, text, action, *, stream="orders_000", **options):
    return client.post(f"/actions/{action}", data={"form": form_of(text, action), "stream": stream}, **options)


def test_what_other_sites_can_make_a_browser_send_does_nothing(acting, service):
    page = acting.get("/streams/orders_000").text
    for given in ({}, {"form": ""}, {"form": "0" * 64}):
        assert acting.post("/actions/run", data={"stream": "orders_000", **given}).status_code == 403
    assert send(acting, page, "run", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    token = form_of(page, "verify")  # for that action alone
    assert acting.post("/actions/repair", data={"form": token, "stream": "orders_000"}).status_code == 403
    assert acting.post("/api/v1/streams/orders_000/run").status_code == 403, "a cookie alone"
    for method in ("GET", "PUT", "DELETE", "OPTIONS"):
        assert acting.request(method, "/actions/run").status_code == 405
    assert acting.post("/actions/run", data={"form": "x" * 20_000}).status_code == 413, "a large form is not read"
    assert service.asked == []


def test_read_only_has_no_actions(service):
    client = logged_in(client_of(service, read_only=True))
    assert "/actions/" not in client.get("/streams/orders_000").text
    assert client.post("/actions/run").status_code == 404
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.post("/api/v1/streams/orders_000/run", headers=bearer).status_code == 404
    assert "/api/v1/streams/{name}/{action}" not in client.get("/api/v1/openapi.json").json()["paths"]


@pytest.mark.parametrize("path", ["/", "/streams/orders_002", "/api/v1/status", "/api/v1/streams/orders_003/history"])
def test_secrets_are_masked(browser, path):
    answer = browser.get(path)
    assert answer.status_code == 200
    assert SECRET not in answer.text


def test_what_names_and_searches_hold_is_text(browser):
    answer = browser.get("/", params={"q": '"><script>alert(1)</script>'})
    assert "<script>alert" not in answer.text
    assert "<img src=x" not in browser.get("/streams/<img src=x>").text


def test_the_settings_do_not_show_the_token():
    assert "hidden" not in repr(WebSettings(token="hidden"))
