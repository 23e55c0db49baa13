"""How the quarantine is told: to people, as JSON, and by the exit code."""

import pytest

from tidegate.api import Project
from tidegate.engine.replay import Replayed, Waiting

ROW = {"load": 3, "rule": "not_null(a)", "reason": "no value in a", "origin": None, "row": '{"a":null}', "raw": None}


class Kept:
    """A quarantine without a lake."""

    def __init__(self, done: Replayed) -> None:
        self.done = done

    def waiting(self):
        return [Waiting(stream="orders", table="lake.shop.q", rows=2, rules={"not_null(a)": 2})]

    def show(self, limit):
        return [ROW] * limit

    def replay(self):
        return self.done


@pytest.fixture
def kept(folder, monkeypatch):
    found = Kept(Replayed(stream="orders", rows=1234, superseded=1))
    monkeypatch.setattr(Project, "quarantine", lambda _project, *_names, **_selected: found)
    return found


def test_listed(kept, tidegate):
    assert "not_null(a)" in tidegate("quarantine", "list").out
    assert tidegate("quarantine", "list", "--json").document == {
        "streams": [{"stream": "orders", "table": "lake.shop.q", "rows": 2, "rules": {"not_null(a)": 2}}]
    }


def test_shown(kept, tidegate):
    assert '{"a":null}' in tidegate("quarantine", "show", "orders", "--limit", "1").out
    assert tidegate("quarantine", "show", "orders", "--limit", "2", "--json").document["rows"] == [ROW, ROW]


def test_replayed(kept, tidegate):
    said = tidegate("quarantine", "replay", "orders")
    assert (said.exit_code, said.err) == (0, "")
    assert said.out == "orders: 1,234 rows loaded, 1 superseded by newer rows, 0 still in quarantine\n"
    kept.done = Replayed(stream="orders", waiting=2, rules={"not_null(a)": 2})
    said = tidegate("quarantine", "replay", "orders")
    assert said.exit_code == 4
    assert "error[check_failed]: orders: rows still fail not_null(a) (2 rows)" in said.err
    document = tidegate("quarantine", "replay", "orders", "--json").document
    assert (document["waiting"], document["rows"], document["rules"]) == (2, 0, {"not_null(a)": 2})
