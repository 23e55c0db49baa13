"""The screens: what they show, and how they find it."""

import re

from support.dashboard import project, seeded
from support.registry_rows import name
from tidegate.core.health import Health
from tidegate.service.web.facts import StreamFilter
from tidegate.telemetry.metrics import CONTENT_TYPE
from unit.service.web.conftest import client_of, logged_in
from unit.service.web.test_security import form_of, send


def names(text):
    return re.findall(r'data-label="Stream">(?:<div>)?<a href="/streams/(\w+)"', text)


def test_the_overview_shows_every_stream_those_first_that_need_a_person(browser):
    text = browser.get("/").text
    found = names(text)
    assert sorted(found) == [name(number) for number in range(14)]
    shown = re.findall(r'data-label="State"><span class="pill (\w+)"', text)
    order = ["action_required", "error", "delayed", "running", "paused", "on_time"]
    assert shown == sorted(shown, key=order.index)
    assert set(shown) == set(Health)
    assert text.count('<svg class="spark"') == 14


def test_state_search_tag_and_sort(browser):
    for state in Health:
        text = browser.get("/", params={"state": state}).text
        assert set(re.findall(r'data-label="State"><span class="pill (\w+)"', text)) == {str(state)}
    assert names(browser.get("/", params={"q": "S_00", "sort": "name"}).text) == [name(number) for number in range(10)]
    assert names(browser.get("/", params={"q": "orders_0*1", "sort": "name"}).text) == ["orders_001", "orders_011"]
    assert names(browser.get("/", params={"tag": "finance", "sort": "name"}).text) == [
        name(number) for number in (0, 3, 6, 9, 12)
    ]
    assert names(browser.get("/", params={"sort": "freshness"}).text)[:2] == ["orders_006", "orders_013"]
    assert "No stream is like that" in browser.get("/", params={"q": "nothing"}).text


def test_a_page_that_is_not_there_is_the_nearest(browser):
    for page in ("0", "-1", "x", "9" * 30, "7", ""):
        assert browser.get("/", params={"page": page}).status_code == 200
        assert StreamFilter.of({"page": page}).page >= 1


def test_a_stream_shows_its_runs_plan_position_and_partitions(browser):
    text = browser.get("/streams/orders_000").text
    assert text.count('data-label="Outcome"') == 20
    assert "2025-03-28 00:00:00" in text
    assert '<svg class="cells"' in text
    assert "not_null" in text
    assert "Late rows" in text


def test_a_stream_that_never_ran_one_that_failed_and_none(browser):
    assert "It never ran" in browser.get("/streams/orders_006").text
    answer = browser.get("/streams/unknown")
    assert (answer.status_code, "There is no" in answer.text) == (404, True)
    failed = browser.get("/streams/orders_003").text
    assert "schema_refused" in failed
    assert "tidegate doctor" in failed


def run_of(browser, stream):
    return re.search(r'href="(/runs/\w+/\w+)"', browser.get(f"/streams/{stream}").text)[1]


def test_a_run_shows_seven_stages_both_fingerprints_and_its_log(browser, shared):
    uid = next(each.uid for each in shared.registry.status() if each.stream == "orders_000")
    loaded = next(run for run in shared.registry.history(uid) if run.outcome == "loaded")
    text = browser.get(f"/runs/{loaded.run_id}/orders_000").text
    waterfall = re.search(r'<ol class="waterfall".*?</ol>', text, re.DOTALL)[0]
    stages = re.findall(r"<li><span>(\w+)</span>", waterfall)
    assert stages == ["detect", "plan", "read", "check", "write", "verify", "advance"]
    assert len(re.findall(r"tg1:\d+:", text)) == 2
    assert "shape" in text
    assert "(2025-03-27, 2025-03-28]" in text
    assert browser.get("/runs/unknown/orders_000").status_code == 404


def test_a_run_at_work_is_followed_live(browser):
    text = browser.get(run_of(browser, "orders_004")).text
    assert 'data-live="/events?stream=orders_004"' in text
    assert browser.get("/events?stream=unknown").status_code == 404


def test_the_proof_page_and_its_reports(browser):
    text = browser.get("/proof").text
    assert "moved" in text
    assert len(re.findall(r"tg1:\d+:", text)) >= 2
    report = browser.get("/proof/report.html")
    assert "attachment" in report.headers["content-disposition"]
    assert "<script" not in report.text
    found = browser.get("/api/v1/proof").json()
    assert {each["proven"] for each in found["streams"]} == {"equal", "different", "moved", "unproven"}
    assert found["streams"][0]["moved"]["not_covered"] == ["shape"]


def test_the_lakes_page(browser):
    text = browser.get("/lakes").text
    assert "lake.shop.t0" in text
    assert "Saved by not reloading" in text


def test_an_action_is_asked_of_the_service_with_who_did_it(acting, service):
    for action in ("run", "verify", "repair", "pause"):
        answer = send(acting, acting.get("/streams/orders_000").text, action)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/streams/orders_000?done={action}")
        assert service.asked[-1] == (action, "orders_000", "token (dashboard, testclient)")
        assert 'role="status"' in acting.get(answer.headers["location"]).text
    text = acting.get("/streams/orders_000").text
    assert "Paused" in text
    send(acting, text, "resume")
    assert ">Pause<" in acting.get("/streams/orders_000").text
    uid = next(each.uid for each in service.registry.status() if each.stream == "orders_000")
    assert [(each.new_status, each.changed_by) for each in service.registry.changes(uid, 2)] == [
        ("ACTIVE", "token (dashboard, testclient)"),
        ("PAUSED", "token (dashboard, testclient)"),
    ]
    send(acting, acting.get("/streams/orders_003").text, "acknowledge", stream="orders_003")
    text = acting.get("/streams/orders_003").text
    assert ("Error seen" in text, "Acknowledge" in text) == (True, False)


def test_a_hook_that_failed_is_shown_until_it_succeeds(acting, service):
    registry = service.project.registry
    uid = next(each.uid for each in registry.status() if each.stream == "orders_000")
    registry.begin_hook(uid, "h1", "webhook at 127.0.0.1")
    registry.hook_failed(uid, "h1", {"code": "hook_failed", "message": "answered 500", "hint": None})
    text = acting.get("/streams/orders_000").text
    assert "webhook at 127.0.0.1 has failed since" in text
    assert "answered 500" in text
    registry.hook_succeeded(uid, "h1", "load")
    assert "webhook at" not in acting.get("/streams/orders_000").text


def test_an_action_on_no_stream_does_nothing(acting, service):
    text = acting.get("/streams/orders_000").text
    assert send(acting, text, "run", stream="unknown").status_code == 404
    token = form_of(text, "run")
    assert acting.post("/actions/drop", data={"form": token, "stream": "orders_000"}).status_code == 403
    assert service.asked == []


def test_a_registry_that_does_not_answer_is_a_message(tmp_path):
    made = seeded(project(tmp_path, 1), runs_each=1)
    client = logged_in(client_of(made))
    (tmp_path / ".tidegate/registry.db").write_bytes(b"damaged" * 1000)
    answer = client.get("/")
    made.close()
    assert answer.status_code == 503
    assert "damaged" in answer.text
    assert "Traceback" not in answer.text


def test_metrics_are_what_they_are_given(browser):
    answer = browser.get("/metrics")
    assert (answer.text, answer.headers["content-type"]) == ("tidegate_up 1\n", CONTENT_TYPE)


def test_the_vendored_script_is_the_one_that_its_hash_names():
    import hashlib
    from pathlib import Path

    import tidegate.service.web

    static = Path(tidegate.service.web.__file__).parent / "static"
    digest = (static / "htmx.min.js.sha256").read_text().split()[0]
    assert hashlib.sha256((static / "htmx.min.js").read_bytes()).hexdigest() == digest
