"""What is kept and sent: by several processes once, by tag and owner, again if a channel did not take it."""

from __future__ import annotations

import http.server
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from support.served import served
from tidegate.alerts.check import check_alerts
from tidegate.alerts.watching import watching
from tidegate.api import Project
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.engine.assemble import assemble
from tidegate.errors import CheckFailed, ConfigError, WriteError
from tidegate.registry.store import Registry

SECRET = "t0ken-of-the-webhook"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.taken.append((self.path, body["title"], body["message"]))
        self.server.types = [*getattr(self.server, "types", []), body["type"]]
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.status = 200
    yield from served(server)


def address(hook, path):
    return f"json://127.0.0.1:{hook.server_address[1]}/{SECRET}/{path}"


def project(folder, channels, *, defaults=None, registry="sqlite:///registry.db", **alerts):
    streams = {
        name: {
            "source": {"connection": "shop", "table": name},
            "target": f"lake.shop.{name}",
            "strategy": "full",
            "write": "replace",
            **more,
        }
        for name, more in {"orders": {"tags": ["money"]}, "items": {"owner": "web"}, "people": {}}.items()
    }
    values = {"connections": {"shop": {"url": "sqlite:///s.db"}}, "streams": streams, "registry": registry}
    values |= {"defaults": defaults} if defaults else {}
    return Project.from_dict({**values, "alerts": {"channels": channels, **alerts}}, folder=folder)


def end(opened, stream, result, **more):
    place = next(assemble.place_of(each, opened.lakes) for each in opened.config.streams if each.name == stream)
    opened.registry.register(uid=place.uid, name=stream, source="s", target=str(place.target))
    run = f"{stream}-{datetime.now(UTC).timestamp()}"
    opened.registry.start_run(run, place.uid)
    error = Problem(code="source", message=f"refused {SECRET}", hint="h") if result is Result.FAILED else None
    opened.registry.finish_run(run, Outcome(stream=stream, outcome=result, strategy="full", error=error, **more))


def look(opened, after=timedelta(0), registry=None):
    return check_alerts(opened.config, opened.lakes, registry or opened.registry, datetime.now(UTC) + after)


def test_an_incident_is_one_message_then_repeats_and_one_at_its_end(tmp_path, hook):
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        end(opened, "orders", Result.FAILED)
        assert [len(look(opened).opened) for _ in range(3)] == [1, 0, 0]
        assert len(look(opened, timedelta(hours=5)).repeated) == 1
        end(opened, "orders", Result.LOADED)
        assert len(look(opened).recovered) == 1
        assert look(opened).undelivered == ()
    titles = [title for _, title, _ in hook.taken]
    assert titles == ["orders: run failed", "orders: still: run failed", "orders: recovered: run failed"]
    assert hook.types == ["warning", "warning", "success"]
    body = hook.taken[0][2]
    for part in ("table lake.shop.orders", "since: ", "why: source: refused", "run: tidegate history orders"):
        assert part in body


def test_one_failure_is_one_message_also_where_failures_within_a_time_are_told(tmp_path, hook):
    channels, rules = {"all": {"url": address(hook, "all")}}, {"failed_within": "1h"}
    with project(tmp_path, channels, rules=rules, recovered=False) as opened:
        end(opened, "orders", Result.FAILED)
        look(opened)
        look(opened)
        end(opened, "orders", Result.LOADED)
        look(opened)
        look(opened)
        assert [title for _, title, _ in hook.taken] == ["orders: run failed"]
        end(opened, "items", Result.FAILED)
        end(opened, "items", Result.LOADED)  # before anybody looked
        look(opened)
        look(opened)
    assert [title for _, title, _ in hook.taken] == ["orders: run failed", "items: a load failed"]


def test_an_incident_is_as_old_as_what_is_wrong(tmp_path, hook):
    began = datetime.now(UTC) - timedelta(days=2)
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        for hours, result in [(0, "LOADED"), (1, "FAILED"), (2, "LOADED"), (3, "FAILED"), (4, "FAILED")]:
            opened.registry._clock = lambda hours=hours: began + timedelta(hours=hours)
            end(opened, "orders", Result[result])
        opened.registry._clock = lambda: datetime.now(UTC)
        (incident,) = look(opened).opened
        assert incident.opened_at == began + timedelta(hours=3)
        end(opened, "orders", Result.LOADED)
        look(opened, timedelta(hours=1))
    since = f"since: {began + timedelta(hours=3):%Y-%m-%d %H:%M:%S}Z"
    assert since in hook.taken[0][2]
    assert hook.taken[0][2].splitlines()[-2:] == ["h", "run: tidegate history orders"]
    assert hook.taken[1][2].splitlines()[-1].startswith("it was: source: "), "nothing is left to do"
    assert f"{since}, until {datetime.now(UTC):%Y-%m-%d %H:}" in hook.taken[1][2], "when it ended, not when one looked"


def test_differences_and_failed_maintenance_are_as_old_as_the_first_of_them(tmp_path, hook):
    begun = datetime.now(UTC) - timedelta(days=2)
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        registry = opened.registry
        end(opened, "orders", Result.LOADED)
        (uid,) = (each.uid for each in registry.status())
        for hour, equal in enumerate([False, True, False, False]):
            registry._clock = lambda hour=hour: begun + timedelta(hours=hour)
            with registry.task(uid, "measure_partition") as payload:
                payload |= {"level": "rows", "equal": equal, "source_rows": 1, "target_rows": 1}
            with suppress(WriteError), registry.task(uid, "maintain"):
                if not equal:
                    raise WriteError("full")
        registry._clock = lambda: datetime.now(UTC)
        opened_at = {each.rule: each.opened_at for each in look(opened).opened}
    assert opened_at == dict.fromkeys(("verification_differs", "maintenance_failed"), begun + timedelta(hours=2))


def begun(opened):
    """Everything that a registry says of when it began is there."""
    registry = opened.registry
    for rows in (3, 0, 2):
        end(opened, "orders", Result.LOADED, rows_quarantined=rows)
    (uid,) = (each.uid for each in registry.status())
    with registry.task(uid, "measure_partition") as payload:
        payload |= {"level": "rows", "equal": False}
    with suppress(WriteError), registry.task(uid, "maintain"):
        raise WriteError("full")
    end(opened, "items", Result.FAILED)
    (failed,) = (each.uid for each in registry.status() if each.stream == "items")
    recent, facts = registry.recent_history(queries=True, quarantines=[uid]), registry.facts()[uid]
    assert [rows for _, rows in recent[uid].quarantined] == [2, 3]
    assert (recent[uid].failing, recent[failed].quarantined, set(recent[failed].failing)) == ({}, (), {"source"})
    began = (facts.unequal_since, facts.maintenance_failed_since, recent[failed].failing["source"])
    assert all(datetime.now(UTC) - at < timedelta(minutes=5) for at in began)


def test_when_it_began_is_in_the_registry(tmp_path):
    with project(tmp_path, {}) as opened:
        begun(opened)


def test_addresses_are_secrets_in_messages_too(tmp_path, hook):
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        assert address(hook, "all") in opened.config.secrets
        assert SECRET not in opened.config.redact(f"sent to {address(hook, 'all')}")
        assert SECRET not in repr(opened.config)


def test_messages_go_by_tag_and_owner(tmp_path, hook):
    channels = {
        "money": {"url": address(hook, "money"), "tags": ["money"]},
        "web": {"url": address(hook, "web"), "owners": ["web"]},
        "both": {"url": address(hook, "both"), "owners": ["web"], "tags": ["money"]},
        "all": {"url": address(hook, "all")},
        "off": {"url": ""},
    }
    with project(tmp_path, channels) as opened:
        for stream in ("orders", "items", "people"):
            end(opened, stream, Result.FAILED)
        look(opened)
    found = {}
    for path, title, _ in hook.taken:
        found.setdefault(path.rpartition("/")[2], set()).add(title.partition(":")[0])
    assert found == {
        "money": {"orders"},
        "web": {"items"},
        "both": {"orders", "items"},
        "all": {"orders", "items", "people"},
    }


def test_of_many_processes_one_sends(tmp_path, hook):
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        end(opened, "orders", Result.FAILED)
        registries = [Registry.open(opened.config.registry) for _ in range(4)]
        with ThreadPoolExecutor(4) as pool:
            opened_by = list(pool.map(lambda each: len(look(opened, registry=each).opened), registries))
        for each in registries:
            each.close()
    assert sum(opened_by) == 1
    assert len(hook.taken) == 1


def test_what_was_not_taken_is_told_and_sent_again(tmp_path, hook):
    clock = {"now": datetime.now(UTC)}
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        end(opened, "orders", Result.FAILED)
        registry = opened.registry
        registry._clock = lambda: clock["now"]
        hook.status = 500
        ((notice, why),) = look(opened).undelivered
        assert (notice.channel, notice.attempts) == ("all", 1)
        assert SECRET not in why
        hook.status = 200
        assert len(look(opened).undelivered) == 1  # not before five minutes
        clock["now"] += timedelta(minutes=5)
        found = look(opened)
        assert (found.sent, found.undelivered) == (1, ())
    assert len(hook.taken) == 2


def test_a_stream_that_never_ran_is_late_after_its_first_turn(tmp_path, hook):
    defaults = {"schedule": {"every": "1h"}}
    with project(tmp_path, {"all": {"url": address(hook, "all")}}, defaults=defaults) as opened:
        assert look(opened).opened == ()
        assert look(opened, timedelta(minutes=50)).opened == ()
        assert {each.rule for each in look(opened, timedelta(minutes=70)).opened} == {"late"}


def differs(opened):
    """A stream whose table was compared and differs; its uid."""
    end(opened, "orders", Result.LOADED)
    uid = opened.registry.status()[0].uid
    with opened.registry.task(uid, "measure_partition") as payload:
        payload |= {"level": "rows", "equal": False, "source_rows": 1, "target_rows": 2}
    assert [each.rule for each in look(opened).opened] == ["verification_differs"]
    return uid


@pytest.mark.parametrize("whole", [True, False])
def test_a_difference_is_over_once_all_of_the_source_was_loaded(tmp_path, hook, whole):
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        differs(opened)
        assert opened.proof("orders").streams[0].proven == "different"
        end(opened, "orders", Result.LOADED, whole=whole)
        assert [each.rule for each in look(opened).recovered] == (["verification_differs"] if whole else [])
        assert (opened.proof("orders").streams[0].proven == "different") is not whole


def test_a_repair_that_failed_or_left_rows_ends_no_difference(tmp_path, hook):
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        uid, registry = differs(opened), opened.registry
        since = registry.facts()[uid].unequal_since
        with suppress(CheckFailed), registry.task(uid, "repair"):
            raise CheckFailed("refused")
        assert look(opened).recovered == ()
        with registry.task(uid, "repair") as payload:
            payload |= {"rows": 3, "left": 1}
        assert look(opened).recovered == ()
        assert (registry.facts()[uid].unequal_since, opened.proof("orders").streams[0].proven) == (since, "different")
        with registry.task(uid, "repair") as payload:
            payload |= {"rows": 1, "left": 0}
        with suppress(CheckFailed), registry.task(uid, "repair"):
            raise CheckFailed("refused")
        assert [each.rule for each in look(opened).recovered] == ["verification_differs"]


def test_a_channel_whose_address_is_not_there_is_switched_off_and_told_later(tmp_path, hook, monkeypatch, caplog):
    channels = {"all": {"url": address(hook, "all")}, "gone": {"url": "${TIDEGATE_TEST_HOOK}"}}
    with project(tmp_path, channels) as opened:
        end(opened, "orders", Result.FAILED)
        assert "TIDEGATE_TEST_HOOK, which is not set" in opened.config.alerts.absent["gone"].message
        with watching(opened.config, opened.lakes, opened.registry, print) as tell:
            tell("a run")
        assert "TIDEGATE_TEST_HOOK" in caplog.text
        assert [path.rpartition("/")[2] for path, _, _ in hook.taken] == ["all"]
    monkeypatch.setenv("TIDEGATE_TEST_HOOK", address(hook, "gone"))
    with project(tmp_path, channels) as opened:
        assert (opened.config.alerts.absent, look(opened).sent) == ({}, 1)
    assert [path.rpartition("/")[2] for path, _, _ in hook.taken] == ["all", "gone"]


def test_what_else_is_wrong_with_such_a_channel_is_found(tmp_path):
    with pytest.raises(ConfigError, match="tag"):
        project(tmp_path, {"gone": {"url": "${TIDEGATE_TEST_HOOK}", "tagz": ["a"]}})


def test_watch_looks_after_each_run_and_no_alert_fails_it(tmp_path, hook):
    hook.status = 500
    with project(tmp_path, {"all": {"url": address(hook, "all")}}) as opened:
        told = []
        end(opened, "orders", Result.FAILED)
        with watching(opened.config, opened.lakes, opened.registry, told.append) as tell:
            tell("a run")
        assert told == ["a run"]
        assert len(hook.taken) >= 1
    with project(tmp_path, {}) as opened, watching(opened.config, opened.lakes, None, told.append) as tell:
        assert tell == told.append


@pytest.mark.parametrize(
    ("alerts", "told"),
    [
        ({"repeat": "1s"}, "1m or more"),
        ({"rules": {"run_faild": True}}, "run_failed"),
        ({"channels": {"a": {}}}, "needs the key 'url'"),
        ({"channel": {}}, "channels"),
        ({"rules": {"lag_over": 5}}, "duration"),
    ],
)
def test_what_is_wrong_with_the_section_is_told_with_its_key(tmp_path, alerts, told):
    with pytest.raises(ConfigError, match="alerts") as caught:
        project(tmp_path, **{"channels": {}, **alerts})
    assert told in str(caught.value) + caught.value.hint
