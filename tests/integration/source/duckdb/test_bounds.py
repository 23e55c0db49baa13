"""Edges of DuckDB, and who else may open the file."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from integration.source.loading import Careful
from integration.source.places import Place, at
from tidegate.core.bounds import BoundRequest, SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.core.slices import Everything
from tidegate.errors import ConfigError, EdgeUnknown, SourceMoved, SourceUnavailable
from tidegate.strategies.watermark import Watermark

ORDERS = """
CREATE SEQUENCE numbers;
CREATE TABLE orders (
  id bigint PRIMARY KEY DEFAULT nextval('numbers'), name varchar, updated_at timestamptz DEFAULT now()
)
"""
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


def edge(place: Place, table: str, bound: BoundRequest) -> SafeBound:
    with place.source(table).probe(bound=bound) as probe:
        return probe.edge()


@at("duckdb")
def test_time_edge_is_below_the_present_second(place: Place) -> None:
    place.run(ORDERS, "CREATE TABLE local_times (seen timestamp)")
    now = datetime.now(UTC).replace(tzinfo=None)
    found = datetime.fromisoformat(edge(place, "orders", TimeBound(column="updated_at")).upto or "")
    assert timedelta(0) <= now - found + timedelta(seconds=1) < timedelta(seconds=3)
    assert found.microsecond == 999_999
    there = TimeBound(column="seen", time_zone="Asia/Tokyo")
    found = datetime.fromisoformat(edge(place, "local_times", there).upto or "")
    assert timedelta(hours=8, minutes=59) < found - now < timedelta(hours=9, minutes=1)
    with pytest.raises(ConfigError, match="a watermark needs"):
        edge(place, "orders", TimeBound(column="id"))


@at("duckdb")
def test_sequence_edge_is_the_greatest_number_of_a_sequence(place: Place) -> None:
    place.run(ORDERS, "CREATE TABLE plain (id bigint)", "CREATE SEQUENCE circle MAXVALUE 9 CYCLE")
    place.run("CREATE TABLE round_ones (id bigint DEFAULT nextval('circle'))")
    bound = SequenceBound(column="id")
    for table, word in (("plain", "no sequence"), ("round_ones", "does not only increase")):
        with pytest.raises(EdgeUnknown, match=word):
            edge(place, table, bound)
    assert edge(place, "orders", bound) == SafeBound(upto=None)
    place.run("INSERT INTO orders (name) VALUES ('a'), ('b')")
    assert edge(place, "orders", bound) == SafeBound(upto="2")


@pytest.mark.slow
@at("duckdb")
def test_who_writes_keeps_readers_out_and_the_reverse(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "shop.duckdb"
    place.run(ORDERS, "INSERT INTO orders (name) VALUES ('early')")
    loader = Careful(url=place.url, strategy=Watermark(column="updated_at"))
    loader.load()
    there = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(there, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(SourceUnavailable, match="another process") as busy:
            loader.load()
        assert busy.value.retryable
        writer.communicate("\n", timeout=60)
    deadline = time.monotonic() + 60
    while len(loader.rows) < 2 and time.monotonic() < deadline:
        loader.load()
    assert {row[1] for row in loader.rows.values()} == {"early", "late"}
    with place.source("orders").probe() as probe:
        assert probe.has_snapshot()
        assert probe.clock() > 0, "reading the file's headers leaves the lock where it is"
        with pytest.raises(duckdb.ConnectionException):
            duckdb.connect(str(file))
        done = subprocess.run(there, capture_output=True, text=True, check=False, timeout=60, input="\n")
        assert "lock" in done.stderr
        assert probe.count(Everything()) == 2
        probe.verify_unchanged()
        file.touch()  # as where a file system has no locks
        with pytest.raises(SourceMoved):
            probe.verify_unchanged()
