"""Hooks run for the load that readers see, at least once, and never for no load; nothing they do fails a load."""

import logging
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.webhooks import receiver
from tidegate.core.ids import Target
from tidegate.core.ports.format import TableState
from tidegate.core.ports.hook import StatedHook, is_due
from tidegate.core.position import Position
from tidegate.engine import hooks
from tidegate.engine.context import RunContext
from tidegate.engine.stream import Policies, Stream
from tidegate.errors import ConfigError, SourceError
from tidegate.hooks.dbt import Dbt
from tidegate.hooks.webhook import Webhook
from tidegate.testing import MemoryRegistry

TARGET = Target(lake="lake", namespace=("shop",), table="orders")
NOW = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass
class Recorded:
    """A hook that keeps the loads it ran for.

    Args:
        fails, dies: at the next runs; it dies once what it refreshes has seen the load, as a process may.
    """

    kind = "recorded"
    main = "kind"
    label = "recorded"

    seen: list
    fails: int = 0
    dies: bool = False
    interrupted: bool = False

    def refuse(self):
        """Never."""

    def run(self, load, *, ended, **_):
        self.seen.append(load.load_id)
        if self.dies:
            self.interrupted = True
            while not ended():
                time.sleep(0.001)
            return  # nobody waits for it any more, and the next step may have begun
        if self.fails:
            self.fails -= 1
            raise SourceError("the other side is away")


class World:
    """One table, its registry, and a hook, with what happened in plain values."""

    def __init__(self, hook, *, tries=1, timeout=5.0, hook_id="h1"):
        self.registry = MemoryRegistry.new(lambda: NOW)
        self.hook = hook
        self.position, self.sequence, self.verified = None, 0, True
        stated = StatedHook(hook=hook, hook_id=hook_id, project="shop", timeout=timedelta(seconds=timeout), tries=tries)
        lake = SimpleNamespace(state=lambda *_: TableState(exists=True, position=self.position))
        self.stream = Stream(
            name="orders",
            uid="u1",
            source=None,
            source_name="shop: orders",
            target=TARGET,
            format=lake,
            strategy=None,
            writer=None,
            policies=Policies(after_publish=(stated,)),
        )
        self.context = RunContext(
            registry=self.registry, sessions=None, run_id="r1", now=lambda: NOW, redact=lambda text: text
        )
        self.context = replace(self.context, interrupted=lambda: getattr(hook, "interrupted", False))
        self.registered()

    def registered(self):
        self.registry.register(uid="u1", name="orders", source="shop: orders", target=str(TARGET))

    def load(self, verified=True):
        self.sequence += 1
        self.verified = verified
        self.position = Position(sequence=self.sequence, load_id=f"load-{self.sequence}", kind="full")

    def recover(self):
        """As the beginning of a run: the registry takes the table's word."""
        if self.position is not None and self.known() != self.position.load_id:
            self.registry.set_position(
                "u1", self.position, snapshot="s", table_uuid="t", reason="test", verified=self.verified
            )

    def known(self):
        found = self.registry.position("u1")
        return found.position.load_id if found else None

    def run_due(self, say=lambda _: None):
        return hooks.run_due(self.stream, self.context, say)

    def lose_registry(self):
        self.registry.close()
        self.registry = MemoryRegistry.new(lambda: NOW)
        self.context = replace(self.context, registry=self.registry)
        self.registered()


def loaded(hook, **options):
    """A world with one load that the registry knows."""
    world = World(hook, **options)
    world.load()
    world.recover()
    return world


STEPS = st.lists(
    st.sampled_from(["load", "crash before the hook", "crash in the hook", "failing", "nothing", "lost", "unverified"]),
    min_size=1,
    max_size=12,
)


@settings(max_examples=20)
@given(steps=STEPS)
def test_after_a_good_run_the_hook_has_seen_the_visible_load_and_never_another(steps):
    world = World(Recorded([]))
    may_repeat = False
    for step in [*steps, "nothing"]:
        before, seen = world.known(), len(world.hook.seen)
        if step in ("load", "crash before the hook", "crash in the hook", "failing", "unverified"):
            world.load(verified=step != "unverified")
        if step == "lost":
            world.lose_registry()
            may_repeat = True
        if step == "crash before the hook":
            continue  # the table has the load, and nobody did anything more
        world.recover()
        world.hook.fails, world.hook.dies = int(step == "failing"), step == "crash in the hook"
        if step == "crash in the hook":
            with pytest.raises(KeyboardInterrupt):
                world.run_due()
            world.hook.interrupted, may_repeat = False, True
            continue
        notes = world.run_due()
        new = world.hook.seen[seen:]
        assert set(new) <= ({world.position.load_id} if world.position else set())
        if step == "failing":
            assert len(notes) == 1
            may_repeat = True
        elif world.position is None or not world.verified:
            assert (new, notes) == ([], ())
        else:
            assert notes == ()
            assert world.hook.seen[-1] == world.position.load_id
            if before == world.position.load_id and not may_repeat:
                assert new == []  # the load was there before, and its hook had run
            may_repeat = False
        assert world.run_due() == () or not world.verified or step == "failing"
        if step == "failing":
            assert world.hook.seen[-1] == world.position.load_id


def test_a_rollback_after_a_hook_that_may_have_run_is_seen():
    """The hook of load 2 was begun: what it refreshed may show load 2, so load 1 is due although it succeeded once."""
    world = loaded(Recorded([]))
    first = world.position
    assert world.run_due() == ()
    world.load()
    world.recover()
    world.hook.fails = 1
    assert len(world.run_due()) == 1
    world.position = first
    world.recover()
    assert world.run_due() == ()
    assert world.hook.seen == ["load-1", "load-2", "load-1"]
    assert world.run_due() == ()
    assert len(world.hook.seen) == 3


def test_a_table_that_shows_another_load_than_the_registry_knows_runs_no_hook():
    world = loaded(Recorded([]))
    world.load()  # visible, and not known to be right
    assert world.run_due() == ()
    assert world.hook.seen == []


def test_a_failure_is_logged_as_a_warning_and_a_success_is_not(caplog):
    world = loaded(Recorded([], fails=1))
    with caplog.at_level(logging.WARNING, "tidegate"):
        (said,) = world.run_due()
        assert caplog.messages == [f"stream 'orders': {said}"]
        assert world.run_due() == ()
    assert len(caplog.messages) == 1


def test_a_failure_is_a_sentence_a_record_and_over_once_it_succeeds():
    world = loaded(Recorded([], fails=9))
    (note,) = world.run_due()
    assert note == "after_publish: recorded failed, and the next run tries it again: the other side is away"
    (status,) = world.registry.status()
    (failed,) = status.hooks_failed
    assert (failed.hook, failed.since, failed.error["code"]) == ("recorded", NOW, "source")
    assert status.to_dict()["hooks_failed"][0]["error"]["message"] == "the other side is away"
    world.hook.fails = 0
    assert world.run_due() == ()
    assert world.registry.status()[0].hooks_failed == ()


def test_a_hook_that_the_project_states_no_more_is_forgotten():
    world = loaded(Recorded([], fails=9))
    world.run_due()
    world.stream = replace(world.stream, policies=Policies())
    assert world.run_due() == ()
    assert world.registry.status()[0].hooks_failed == ()


def test_a_changed_hook_is_another_one():
    world = loaded(Recorded([]))
    world.run_due()
    (stated,) = world.stream.policies.after_publish
    world.stream = replace(world.stream, policies=Policies(after_publish=(replace(stated, hook_id="h2"),)))
    world.run_due()
    assert world.hook.seen == ["load-1", "load-1"]


def test_plan_says_what_is_due_and_runs_nothing():
    world = loaded(Recorded([]))
    (note,) = hooks.notes(world.stream, world.context, changed=False)
    assert "has not succeeded for the table's last load" in note
    world.run_due()
    assert hooks.notes(world.stream, world.context, changed=False) == ()
    assert len(hooks.notes(world.stream, world.context, changed=True)) == 1
    assert world.hook.seen == ["load-1"]


def posted(url, **options):
    world = loaded(Webhook(url=url), **options)
    return world, world.run_due()


def test_a_webhook_that_fails_twice_is_sent_again_with_the_same_key(monkeypatch):
    monkeypatch.setattr(hooks, "WAIT", 0.01)
    with receiver(500, 500, 204) as (url, got, _):
        world, notes = posted(url, tries=3)
    assert notes == ()
    path, headers, body = got[-1]
    published = body["published_at"]
    assert [each.headers["Idempotency-Key"] for each in got] == [f"load-1@{published}"] * 3
    assert path == "/hook/T0KEN-in-the-path"
    assert headers["Content-Type"] == "application/json"
    assert body == {
        "project": "shop",
        "stream": "orders",
        "target": "lake.shop.orders",
        "load_id": "load-1",
        "version": "s",
        "published_at": published,
        "rows": None,
        "verified": True,
    }
    assert hooks.due(world.stream, world.context) == ()


def test_a_redirect_is_a_failure_and_is_not_followed():
    with receiver(200) as (other, elsewhere, _), receiver(302, location=other) as (url, got, _):
        _, (note,) = posted(url)
    assert (len(got), elsewhere) == (1, [])
    assert "answered 302; redirects are not followed" in note
    assert "T0KEN" not in note


def test_a_receiver_that_hangs_holds_the_run_no_longer_than_its_time():
    with receiver(200, hang=2) as (url, _, _):
        world, (note,) = posted(url, timeout=0.2)
    assert "T0KEN" not in note
    assert len(hooks.due(world.stream, world.context)) == 1


def test_a_receiver_that_is_away_is_a_failure_without_the_url():
    _, (note,) = posted("http://127.0.0.1:9/T0KEN")
    assert "webhook at 127.0.0.1 failed, and the next run tries it again: the connection failed" in note
    assert "T0KEN" not in note


@pytest.mark.parametrize("url", ["ftp://host/x", "https://host/x ", "host/x", "https://", "http://[::1"])
def test_what_is_no_url_of_http_is_refused(url):
    with pytest.raises(ConfigError, match="needs a URL"):
        Webhook(url=url)


def test_plain_http_leaves_the_machine_only_if_it_is_written():
    with pytest.raises(ConfigError, match="in the clear"):
        Webhook(url="http://example.com/x")
    for url in ("http://localhost:1/x", "http://127.0.0.1/x", "http://[::1]:5/x", "https://example.com"):
        Webhook(url=url)
    assert Webhook(url="http://example.com/x", plain_http=True).label == "webhook at example.com"


@pytest.fixture
def dbt(tmp_path, monkeypatch):
    """A program dbt that keeps its words and ends as the environment says; and a folder that looks like a project."""
    program = tmp_path / "bin" / "dbt"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" >> "$KEEPS"\nsleep "${SLEEPS:-0}"\nexit "${ENDS:-0}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("KEEPS", str(tmp_path / "words"))
    (tmp_path / "marts").mkdir()
    (tmp_path / "marts" / "dbt_project.yml").write_text("name: marts\n")
    return tmp_path


def built(folder, **options):
    world = loaded(Dbt(project_dir="marts", select="source:lake.orders+ tag:x", folder=folder), **options)
    return world, world.run_due()


def test_dbt_builds_what_is_selected(dbt):
    _, notes = built(dbt)
    assert notes == ()
    marts = dbt / "marts"
    words = f"--no-use-colors build --project-dir {marts} --profiles-dir {marts} --select source:lake.orders+ tag:x\n"
    assert (dbt / "words").read_text() == words


def test_dbt_that_fails_or_never_ends_is_a_failure(dbt, monkeypatch):
    monkeypatch.setenv("ENDS", "2")
    _, (note,) = built(dbt)
    assert "dbt ended with exit code 2" in note
    monkeypatch.setenv("SLEEPS", "60")
    _, (note,) = built(dbt, timeout=0.2)
    assert "it took longer than 0.2 s" in note


def test_dbt_takes_no_options_from_a_value(tmp_path):
    for option in ({"select": "--full-refresh"}, {"project_dir": "-x"}, {"target": ""}):
        with pytest.raises(ConfigError, match="take for an option"):
            Dbt(**{"project_dir": "marts", "folder": tmp_path, **option})


def test_an_unverified_load_is_not_due():
    assert not is_due("a", verified=False, succeeded=None)
    assert is_due("a", verified=None, succeeded=None)  # nobody asked: `verify: none`
