"""Edges of DuckDB, and who else may open the file."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from integration.source.duckdb.files import run, source
from integration.source.loading import Careful
from tidegate.core.bounds import SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.core.slices import Everything
from tidegate.errors import ConfigError, EdgeUnknown, SourceMoved, SourceUnavailable
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark

ORDERS = """
CREATE SEQUENCE numbers;
CREATE TABLE orders (
  id bigint PRIMARY KEY DEFAULT nextval('numbers'), name varchar, updated_at timestamptz DEFAULT now()
)
"""


def safe_time_bound(file: Path, column: str = "updated_at", table: str = "orders", **options) -> SafeBound:
    with source(file, table).probe(bound=TimeBound(column=column, **options)) as probe:
        return probe.edge()


def safe_sequence_bound(file: Path, table: str) -> SafeBound:
    with source(file, table).probe(bound=SequenceBound(column="id")) as probe:
        return probe.edge()


def test_time_edge_is_below_the_present_second(file: Path) -> None:
    run(file, ORDERS, "CREATE TABLE local_times (seen timestamp)")
    now = datetime.now(UTC).replace(tzinfo=None)
    found = datetime.fromisoformat(safe_time_bound(file).upto or "")
    assert timedelta(0) <= now - found + timedelta(seconds=1) < timedelta(seconds=3)
    assert found.microsecond == 999_999
    found = datetime.fromisoformat(safe_time_bound(file, "seen", "local_times", time_zone="Asia/Tokyo").upto or "")
    assert timedelta(hours=8, minutes=59) < found - now < timedelta(hours=9, minutes=1)
    with pytest.raises(ConfigError, match="a watermark needs"):
        safe_time_bound(file, "id")


def test_sequence_edge_is_the_greatest_number_of_a_sequence(file: Path) -> None:
    run(
        file,
        ORDERS,
        "CREATE TABLE plain (id bigint)",
        "CREATE SEQUENCE circle MAXVALUE 9 CYCLE",
        "CREATE TABLE round_ones (id bigint DEFAULT nextval('circle'))",
    )
    for table, word in (("plain", "no sequence"), ("round_ones", "does not only increase")):
        with pytest.raises(EdgeUnknown, match=word):
            safe_sequence_bound(file, table)
    assert safe_sequence_bound(file, "orders") == SafeBound(upto=None)
    run(file, "INSERT INTO orders (name) VALUES ('a'), ('b')")
    assert safe_sequence_bound(file, "orders") == SafeBound(upto="2")


WRITER = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
connection.execute("BEGIN")
connection.execute("INSERT INTO orders (name) VALUES ('late')")
sys.stdin.readline()
connection.execute("COMMIT")
connection.close()
"""


@pytest.mark.parametrize("strategy", [Watermark(column="updated_at"), Sequence(column="id")])
def test_who_writes_keeps_readers_out_and_loses_no_row(file: Path, strategy) -> None:
    run(file, ORDERS, "INSERT INTO orders (name) VALUES ('early')")
    loader = Careful(url=f"duckdb:///{file}", strategy=strategy)
    loader.load()
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(SourceUnavailable, match="another process") as busy:
            loader.load()
        assert busy.value.retryable
        writer.communicate("\n", timeout=60)
    _until_loaded(loader)
    assert {row[1] for row in loader.rows.values()} == {"early", "late"}


def _until_loaded(loader: Careful) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=5)
    while len(loader.rows) < 2 and datetime.now(UTC) < deadline:
        loader.load()


def test_open_probe_keeps_writers_out(file: Path) -> None:
    run(file, ORDERS)
    with source(file, "orders").probe() as probe:
        assert probe.has_snapshot()
        assert probe.clock() == 1, "reading the file's headers leaves the lock where it is"
        with pytest.raises(duckdb.ConnectionException):
            duckdb.connect(str(file))
        there = [sys.executable, "-c", WRITER, str(file)]
        done = subprocess.run(there, capture_output=True, text=True, check=False, timeout=60, input="\n")
        assert "lock" in done.stderr
        assert probe.count(Everything()) == 0
        probe.verify_unchanged()
        file.touch()  # as where a file system has no locks
        with pytest.raises(SourceMoved):
            probe.verify_unchanged()
