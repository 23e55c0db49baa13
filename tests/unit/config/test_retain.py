"""What `retain:` takes, and the streams that `check` refuses it for, with the reason."""

import sqlite3
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tidegate.api import Project
from tidegate.core.policies.retention import Kept, Retain
from tidegate.core.position import Position
from tidegate.core.schema import DATE, TIMESTAMPTZ, Column
from tidegate.errors import ConfigError

STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.x.t",
    "key": ["id"],
    "strategy": "snapshot_diff",
    "write": "merge",
    "retain": {"column": "day", "keep": "90d"},
}
WATERMARK = {"kind": "watermark", "column": "at"}


def problems(folder, **changes):
    with sqlite3.connect(folder / "shop.db") as shop:
        shop.execute(
            "create table if not exists t (id integer primary key autoincrement, day date, at timestamp, name text)"
        )
    shop.close()
    values = {
        "connections": {"shop": "sqlite:///shop.db", "duck": "duckdb:///x.db"},
        "streams": {"a": {**STREAM, **changes}},
    }
    (folder / "tidegate.yaml").write_text(yaml.safe_dump(values))
    try:
        with Project.load(folder) as project:
            return [problem for stream in project.check(source=True) for problem in stream.problems]
    except ConfigError as error:
        return [error.message, *error.context.get("more", ())]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"strategy": "full", "write": "replace"},
        {"strategy": {"kind": "checksum", "method": "by_date", "column": "day", "period": "day"}},
        {"strategy": {"kind": "sequence", "column": "id"}, "write": "append"},
        {"strategy": WATERMARK, "deletes": {"detect": "key_diff"}},
        {"retain": {"column": "at", "keep": "4w"}},
    ],
)
def test_a_rule_is_accepted_where_it_is_tested(tmp_path, changes):
    assert problems(tmp_path, **changes) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"write": "scd2"}, "write: scd2 keeps every version"),
        ({"strategy": "smart"}, "strategy smart may choose one that does not"),
        ({"strategy": WATERMARK}, "which strategy watermark does not see; add `deletes: {detect: key_diff}`"),
        (
            {"strategy": {**WATERMARK, "lookback": "1d"}, "deletes": {"detect": "key_diff", "scope": "window"}},
            "add `deletes:",
        ),
        ({"deletes": {"apply": "soft"}}, "`deletes: {apply: soft}` keeps deleted ones"),
        ({"checks": [{"not_null": "name", "on_fail": "quarantine"}]}, "a quarantine brings back later"),
        ({"contract": {"add_column": "rescue"}}, "not tested with contract: rescue"),
        (
            {"source": {"path": "in/*.csv"}, "strategy": "full"},
            "tested with tables and queries of PostgreSQL and SQLite",
        ),
        ({"source": {"connection": "duck", "table": "t"}}, "tested with tables and queries of PostgreSQL and SQLite"),
        ({"retain": {"column": "day", "keep": "5h"}}, "keep must be 1d or more"),
        (
            {"retain": {"column": "dya", "keep": "90d"}},
            "names the column 'dya', which is not there; did you mean 'day'",
        ),
        ({"retain": {"column": "name", "keep": "90d"}}, "needs a date or a timestamp, and name is"),
        ({"retain": {"keep": "90d"}}, "needs the key 'column'"),
    ],
)
def test_a_rule_that_nobody_has_run_is_refused_with_the_reason(tmp_path, changes, told):
    found = problems(tmp_path, **changes)
    assert len(found) == 1, found
    assert told in found[0]


def test_a_position_says_what_is_kept():
    kept = Kept(column="day", begin="2025-01-01")
    position = Position(sequence=1, load_id="a", kind="full", retained=kept.to_dict())
    assert Kept.of(Position.from_json(position.to_json())) == kept
    assert Kept.of(Position(sequence=1, load_id="a", kind="full")) is None


@pytest.mark.parametrize(("kind", "tail"), [(DATE, ""), (TIMESTAMPTZ, " 00:00:00.000000")])
def test_kept_and_dropped_rows_are_all_rows(kind, tail):
    rule, column = Retain(column="c", keep=timedelta(days=1)), Column(name="c", type=kind)
    kept = rule.at(datetime(2025, 1, 2, 0, 0, tzinfo=UTC))
    inside, dropped = kept.inside(column), kept.dropped(column)
    assert (inside.low, inside.high, inside.nulls) == (f"2025-01-01{tail}", None, True)
    assert (dropped.high, dropped.nulls) == (inside.low, False)
