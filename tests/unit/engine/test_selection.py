"""Which streams a command means: names, patterns, tags and states; and what a pattern of tables stands for."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate import config
from tidegate.api import Project
from tidegate.engine.assemble.patterns import expanded
from tidegate.engine.assemble.selection import Choice, state_holds
from tidegate.errors import ConfigError

TABLES = """
CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, note TEXT);
CREATE TABLE items ("order" INTEGER NOT NULL, line INTEGER NOT NULL, PRIMARY KEY (line, "order"));
CREATE TABLE log_of_orders (note TEXT);
"""
NOW = datetime(2025, 3, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class Known:
    """What the registry says of a stream."""

    stream: str = "orders"
    last_outcome: str | None = "loaded"
    last_success_at: datetime | None = NOW


def project(folder: Path, **streams: Any) -> config.Config:
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        shop.executescript(TABLES)
    values = {"connections": {"shop": {"url": "sqlite:///shop.db"}}, "streams": streams}
    return config.from_dict(values, folder, environ={})


def table(name: str, **options: Any) -> dict[str, Any]:
    source = {"connection": "shop", "table": name}
    return {"source": source, "target": f"lake.shop.{name}", "strategy": "full", "write": "replace", **options}


def pattern(**options: Any) -> dict[str, Any]:
    return {**table("*"), "target": "lake.shop.{table}", "strategy": "smart", "write": "merge", **options}


@pytest.fixture
def three(tmp_path: Path) -> config.Config:
    return project(
        tmp_path,
        orders=table("orders", tags=["nightly", "sales"]),
        items=table("items", tags="nightly", schedule={"every": "1h"}),
        log_of_orders=table("log_of_orders"),
    )


def names(found: config.Config, known: tuple[Known, ...] = (), **choice: tuple[str, ...]) -> list[str]:
    return [entry.name for entry in Choice(statuses=lambda: known, **choice).of(found.streams)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("select", "exclude", "meant"),
    [
        ((), (), ["orders", "items", "log_of_orders"]),
        (("*orders",), (), ["orders", "log_of_orders"]),
        (("tag:night*",), (), ["orders", "items"]),
        (("tag:nightly", "log*"), (), ["orders", "items", "log_of_orders"]),
        (("tag:nightly,*s,tag:sales",), (), ["orders"]),
        ((), ("tag:nightly",), ["log_of_orders"]),
        (("tag:nightly",), ("orders",), ["items"]),
        (("state:failed",), (), ["items"]),
        (("tag:sales,state:failed", "state:new"), (), ["log_of_orders"]),
        ((), ("state:failed", "state:new"), ["orders"]),
    ],
)
def test_selectors(three, select, exclude, meant):
    known = (Known(), Known(stream="items", last_outcome="stopped"))
    assert names(three, known, select=select, exclude=exclude) == meant


def test_names_and_selectors_add_up(three):
    assert names(three, names=("items",), select=("log*",)) == ["items", "log_of_orders"]


@pytest.mark.parametrize("select", ["tag:weekly", "nothing*", "state:failed", "tag:nightly,state:failed"])
def test_selecting_nothing_is_an_error_that_says_what_is_there(three, select):
    with pytest.raises(ConfigError) as refused:
        names(three, (Known(),), select=(select,))
    assert f"--select '{select}' selects no stream" in refused.value.message
    assert "orders (tag:nightly, tag:sales" in refused.value.message
    assert ("loaded" in refused.value.message) is ("state" in select)


def test_a_state_that_there_is_not(three):
    with pytest.raises(ConfigError, match="'state:fialed' is not a state of a stream; did you mean 'failed'"):
        names(three, select=("state:fialed",))


def test_states(three):
    orders, items, _ = three.streams
    hours = timedelta(hours=2)
    ran, long_ago = Known(last_success_at=NOW - hours), Known(last_success_at=NOW - 13 * hours)
    assert not state_holds("stale", orders, ran, NOW)  # type: ignore[arg-type]
    assert state_holds("stale", orders, long_ago, NOW)  # type: ignore[arg-type]
    assert state_holds("stale", items, ran, NOW)  # type: ignore[arg-type]
    assert state_holds("stale", orders, None, NOW)
    ahead = Known(last_success_at=NOW + timedelta(days=2))
    assert state_holds("stale", orders, ahead, NOW), "of before the clock was set back"  # type: ignore[arg-type]
    assert state_holds("new", orders, None, NOW)
    assert not state_holds("failed", orders, None, NOW)


def test_a_pattern_takes_each_tables_primary_key(tmp_path):
    found = project(tmp_path, **{"shop.*": pattern(exclude=["log_*"])})
    keys = {entry.name: entry.key for entry in expanded(found, found.streams[0])}
    assert keys == {"shop.items": ("line", "order"), "shop.orders": ("id",)}


def test_a_table_without_a_key_fails_alone_with_the_line_that_leaves_it_out(tmp_path):
    found = project(tmp_path, **{"shop.*": pattern()})
    with Project(found) as opened:
        checked = {stream.name: stream.errors for stream in opened.check()}
        planned = {plan.stream: plan.error for plan in opened.plan().streams}
        (run,) = opened.run("shop.log_of_orders")
    found = {name: [*errors, *filter(None, [planned[name]])] for name, errors in checked.items()}
    refused = found.pop("shop.log_of_orders")
    assert found == {"shop.items": [], "shop.orders": []}
    for error in (*refused, run.error):
        assert "log_of_orders has no primary key" in error.message
        assert "exclude: [log_of_orders]" in error.hint
    assert (len(refused), run.outcome, run.error.exit_code) == (2, "failed", 2)


def test_a_stream_of_its_own_takes_the_place_of_the_patterns(tmp_path):
    own = table("log_of_orders")
    found = project(tmp_path, **{"shop.*": pattern(), "shop.log_of_orders": own})
    with Project(found) as opened:
        streams = {stream.name: stream.writer.kind for stream in opened.streams()}
    assert streams == {"shop.items": "merge", "shop.orders": "merge", "shop.log_of_orders": "replace"}


def test_an_exclude_that_leaves_nothing(tmp_path):
    found = project(tmp_path, **{"shop.*": pattern(exclude=["*"])})
    with pytest.raises(ConfigError, match=r"no table matches '\*'; `exclude: \[\"\*\"\]` leaves out what does"):
        expanded(found, found.streams[0])


def test_two_patterns_for_one_stream(tmp_path):
    one, two = pattern(exclude="log*"), pattern(exclude="log*", target="lake.other.{table}")
    found = project(tmp_path, **{"*": one, "?": two})
    with Project(found) as opened, pytest.raises(ConfigError, match="several patterns stand for the stream 'items'"):
        opened.streams()


def test_schema_and_table_in_a_name(tmp_path):
    found = project(tmp_path, **{"*.*": pattern(exclude="main.log*")})
    assert [entry.name for entry in expanded(found, found.streams[0])] == ["main.items", "main.orders"]


def test_exclude_of_one_table_is_meant_for_columns(tmp_path):
    with pytest.raises(ConfigError, match="to leave columns out, use `source"):
        project(tmp_path, orders=table("orders", exclude=["note"]))
