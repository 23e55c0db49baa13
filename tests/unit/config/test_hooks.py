"""`after_publish:` is read whole, with the place of each mistake, and holds no secret in any output."""

import pytest

from tidegate import config
from tidegate.api import Project
from tidegate.errors import ConfigError

URL = "https://hooks.example.com/T0KEN-of-the-hook"


def project(folder, *hooks, defaults=None, trusted=False, environ=None):
    stream = {
        "source": {"connection": "shop", "table": "orders"},
        "target": "lake.shop.orders",
        "strategy": "full",
        "write": "replace",
    }
    stream |= {"after_publish": list(hooks)} if hooks else {}
    values = {
        "connections": {
            "shop": {"url": "sqlite:///shop.db"},
            "trino": {"url": "trino://user@host:8080/marts"},
            "pg": {"url": "postgresql://app:s3cret-word@host/marts"},
        },
        "streams": {"orders": stream},
        **({"defaults": defaults} if defaults else {}),
    }
    return config.from_dict(values, folder, trusted=trusted, environ=environ or {})


def stated(folder, *hooks, **rest):
    with Project(project(folder, *hooks, **rest)) as opened:
        (stream,) = opened.streams("orders")
        return stream.policies.after_publish


def test_the_short_forms_and_kind_are_one(tmp_path):
    short = stated(tmp_path, {"sql": "REFRESH MATERIALIZED VIEW a.b", "connection": "trino"}, {"webhook": URL})
    long = stated(
        tmp_path,
        {"kind": "sql", "sql": "REFRESH MATERIALIZED VIEW a.b", "connection": "trino", "timeout": "1h"},
        {"webhook": {"url": URL}},
    )
    assert [each.hook.label for each in short] == [
        "sql at trino: REFRESH MATERIALIZED VIEW a.b",
        "webhook at hooks.example.com",
    ]
    assert [each.hook_id for each in short] == [each.hook_id for each in long]  # how often it is tried is not content
    assert (long[0].timeout.total_seconds(), short[0].timeout.total_seconds(), short[0].tries) == (3600, 300, 3)


def test_a_changed_hook_is_another_one(tmp_path):
    one, two, three = (
        stated(tmp_path, {"webhook": url})[0].hook_id for url in (URL, f"{URL}2", URL.replace("https", "http", 0))
    )
    assert one != two
    assert one == three


def test_defaults_are_inherited_and_replaced(tmp_path):
    common = {"after_publish": [{"webhook": URL}]}
    assert [each.hook.kind for each in stated(tmp_path, defaults=common)] == ["webhook"]
    own = {"sql": "CALL x()", "connection": "pg"}
    assert [each.hook.kind for each in stated(tmp_path, own, defaults=common)] == ["sql"]


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ({"sql": "x", "connection": "trinoo"}, "'trinoo' is not under `connections:`; did you mean 'trino'"),
        ({"sql": "x"}, "needs the key 'connection'"),
        ({"webhok": URL}, "must name one kind of hook; did you mean 'webhook'"),
        ({"shell": "rm -rf /"}, "must name one kind of hook"),
        ({"webhook": URL, "sql": "x", "connection": "pg"}, "must name one kind of hook"),
        ({"webhook": URL, "retries": 2}, "unknown key"),
        ({"webhook": URL, "tries": 0}, "between 1 and 10"),
        ({"webhook": URL, "timeout": "soon"}, "duration"),
        ({"webhook": URL, "timeout": "2d"}, "at most 1d"),
    ],
)
def test_mistakes_have_a_place(tmp_path, hook, why):
    with pytest.raises(ConfigError) as caught:
        project(tmp_path, hook)
    assert why in caught.value.message
    assert "streams.orders.after_publish" in caught.value.message


def test_the_same_hook_twice_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is in the list twice"):
        project(tmp_path, {"webhook": URL}, {"webhook": URL, "tries": 2})


def test_dbt_runs_code_and_needs_trust(tmp_path):
    hook = {"dbt": {"project_dir": "dbt", "select": "source:lake.orders+"}}
    with pytest.raises(ConfigError, match="runs the macros and models of a dbt project") as caught:
        project(tmp_path, hook)
    assert "--trust-project" in caught.value.hint
    (found,) = stated(tmp_path, hook, trusted=True)
    assert found.hook.label == "dbt build of dbt, source:lake.orders+"


def test_the_url_of_a_webhook_is_a_secret_however_it_is_written(tmp_path):
    for hook in ({"webhook": URL}, {"webhook": {"url": URL}}, {"kind": "webhook", "url": URL}, {"webhook": "${HOOK}"}):
        opened = project(tmp_path, hook, environ={"HOOK": URL})
        assert "T0KEN" not in opened.redact(f"POST {URL} failed")


def test_check_says_what_cannot_run_here_and_contacts_nobody(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    hooks = [
        {"sql": "VACUUM", "connection": "shop"},
        {"sql": "REFRESH MATERIALIZED VIEW a", "connection": "trino"},
        {"webhook": URL},
        {"dbt": {"project_dir": "dbt"}},
    ]
    with Project(project(tmp_path, *hooks, trusted=True)) as opened:
        (found,) = opened.check()
    first, second = found.problems
    assert "hooks run no statements at sqlite; they do at postgresql, snowflake, trino" in first
    assert "dbt" in second
