"""A log kept in files: which of them are read next, and what stops it."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest

from tidegate import config
from tidegate.core.slices import LogRange
from tidegate.engine.assemble import assemble
from tidegate.envelopes.rows import Rows
from tidegate.errors import ConfigError, HistoryGone, PlanError, SourceMoved
from tidegate.sources.change_log.files import FileLogOptions, opened

EVENT = '{"operation": "I", "sequence": 1, "id": 1}\n'
COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint"}


@pytest.fixture
def events(tmp_path):
    folder = tmp_path / "events"
    folder.mkdir()

    def write(name: str, lines: int = 1) -> None:
        (folder / name).write_text(EVENT * lines, encoding="utf-8")

    write.folder = folder
    return write


def ask(events, state=None, *, most=None, **options):
    given = {"path": f"{events.folder}/*.json", "envelope": Rows(), "columns": COLUMNS, **options}
    with opened(FileLogOptions(**given), None) as log:
        span = log.after(state, most=most)
        return span, log


def test_files_are_read_in_order_and_once(events):
    events("a.json")
    events("b.json", 2)
    first, log = ask(events)
    assert first.slices == (LogRange(part=f"{events.folder}/*.json", after=None, upto="b.json"),)
    assert log.schema().names == ("id",)
    assert ask(events, first.state)[0].slices == ()
    events("c.json")
    second, _ = ask(events, first.state)
    assert (second.slices[0].after, second.slices[0].upto) == ("b.json", "c.json")
    assert second.state["columns"] == [["operation", "string"], ["sequence", "bigint"], ["id", "bigint"]]


def test_a_file_that_came_late_or_grew_lets_all_be_read_again(events):
    events("b.json")
    first, _ = ask(events)
    events("a.json")
    late, _ = ask(events, first.state)
    assert (late.slices[0].after, late.slices[0].upto) == (None, "b.json")
    assert "again" in late.reason
    events("b.json", 3)
    grown, _ = ask(events, late.state)
    assert grown.slices[0].after is None


def test_the_last_file_read_has_to_stay(events):
    events("a.json")
    events("b.json")
    first, _ = ask(events)
    (events.folder / "a.json").unlink()
    assert ask(events, first.state)[0].slices[0].after is None, "those that are left are read again"
    (events.folder / "b.json").unlink()
    events("c.json")
    with pytest.raises(HistoryGone, match=r"b\.json was the last file read"):
        ask(events, first.state)


def test_a_load_takes_whole_files_and_at_least_one(events):
    events("a.json", 5)
    events("b.json", 5)
    events("c.json", 5)
    one, _ = ask(events, most=3)
    assert (one.slices[0].upto, one.events, one.taken, one.behind) == ("a.json", 5, 1, 2)
    two, _ = ask(events, one.state, most=10)
    assert (two.slices[0].after, two.slices[0].upto, two.events) == ("a.json", "c.json", 10)
    assert (two.taken, two.behind) == (2, 0)


def test_the_lag_is_what_lies_in_files_after_the_position(events, monkeypatch):
    events("a.json", 5)
    first, log = ask(events)
    assert log.lag(first.state).events == log.lag(first.state).seconds == 0
    events("b.json", 3)
    events("c.json", 4)
    later = time.time() + 100
    monkeypatch.setattr(time, "time", lambda: later)
    _, log = ask(events)
    assert (log.lag(first.state).events, log.lag(None).events) == (7, 12)
    assert 100 <= log.lag(first.state).seconds < 110


def test_a_file_that_is_being_written_holds_back_what_comes_after_it(events):
    for name in ("a.json", "b.json", "c.json"):
        events(name)
    old = time.time() - 3600
    for name in ("a.json", "c.json"):
        os.utime(events.folder / name, (old, old))
    (events.folder / "b.json").rename(events.folder / "b.json.tmp")
    assert ask(events)[0].slices[0].upto == "a.json"
    (events.folder / "b.json.tmp").rename(events.folder / "b.json")
    _, log = ask(events, settle=timedelta(hours=1))
    assert "wait" in log.notes()[0]


def test_a_file_that_moves_while_it_is_read_is_told(events):
    events("a.json")
    with opened(FileLogOptions(path=f"{events.folder}/*.json", envelope=Rows(), columns=COLUMNS), None) as log:
        log.after(None, most=None)
        log.verify_unchanged()
        events("a.json", 2)
        with pytest.raises(SourceMoved, match="changed while it was being read"):
            log.verify_unchanged()


def test_columns_are_told_by_the_files_that_are_read(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    folder = tmp_path / "events"
    folder.mkdir()
    values = {"operation": ["I"], "sequence": [1], "id": [1]}
    for name, more in (("a", {}), ("b", {"name": ["x"]})):
        parquet.write_table(pa.table(values | more), folder / f"{name}.parquet")
    with opened(FileLogOptions(path=f"{folder}/*.parquet", envelope=Rows()), None) as log:
        assert log.schema().names == ("id", "name"), "all of them before anybody asks"
        first = log.after(None, most=1)
        assert (first.slices[0].upto, first.events, log.schema().names) == ("a.parquet", 1, ("id",))
        log.after(first.state, most=1)
        assert log.schema().names == ("id", "name")


def test_without_a_file_nobody_knows_the_columns(events):
    with opened(FileLogOptions(path=f"{events.folder}/*.json", envelope=Rows()), None) as log:
        assert log.after(None, most=None).slices == ()
        with pytest.raises(PlanError, match="no event yet"):
            log.schema()


STREAM = {
    "source": {"path": "events/*.json", "envelope": "rows"},
    "target": "lake.shop.orders",
    "key": "id",
    "strategy": "cdc",
    "write": "merge",
}


def joined(tmp_path, **source):
    values = {"connections": {"shop": "sqlite:///shop.db"}, "streams": {"orders": STREAM | {"source": source}}}
    found = config.from_dict(values, tmp_path)
    return assemble.join(found, assemble.formats(found), found.streams[0])


def test_an_envelope_makes_a_path_a_log(tmp_path):
    stream = joined(tmp_path, path="events/*.json", envelope="rows")
    assert (stream.source.kind, stream.source_name) == ("change_log", str(tmp_path / "events/*.json"))
    own = {"kind": "rows", "operation": "op", "sequence": ["a", "b"]}
    assert joined(tmp_path, path="e.csv", envelope=own).source.envelope == Rows(operation="op", sequence=("a", "b"))
    assert joined(tmp_path, path="e.csv", envelope="rows", database="shop", table="orders").source.jars()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"path": "e.json", "envelope": "raws"}, "not a known envelope"),
        ({"path": "e.json", "envelope": {"kind": "rows", "sequense": "a"}}, "unknown key; did you mean 'sequence'"),
        ({"path": "e.bin", "envelope": "rows"}, "has no suffix that shows its format"),
        ({"kind": "change_log", "path": "e.json"}, "needs `envelope:`"),
        ({"kind": "change_log", "envelope": "rows"}, "needs exactly one of"),
        ({"path": "e.json", "envelope": "rows", "table": "orders"}, "both `database:` and `table:`"),
        ({"path": "e.json", "envelope": "rows", "table": "t", "database": "shap"}, "not under `connections:`"),
        ({"path": "e.json", "envelope": "dms"}, "needs the key 'sequence'"),
    ],
)
def test_what_is_wrong_is_told(tmp_path, source, message):
    with pytest.raises(ConfigError, match=message):
        joined(tmp_path, **source)
