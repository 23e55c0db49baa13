"""Windows of DuckDB tables: who writes has the file to itself, so they are read while nobody does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from matrix.bounds.windows import SEQUENCE, Sample, run

DUCKDB_CURSORS = {
    "now()": "now()",
    "current_timestamp": "current_timestamp",
    "get_current_timestamp()": "get_current_timestamp()",
    SEQUENCE: "now()",
}
DUCKDB_WRITER = """
import random, sys, time
import duckdb
file, table, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
until = time.monotonic() + seconds
while time.monotonic() < until:
    try:
        there = duckdb.connect(file)
    except duckdb.IOException:
        time.sleep(0.02)
        continue
    for _ in range(random.randint(1, 3)):
        there.execute("BEGIN")
        for n in range(random.randint(1, 60)):
            there.execute(f"INSERT INTO {table} (n) VALUES ({n})")
            time.sleep(random.random() * 0.01)
        there.execute(random.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
        there.execute(f"INSERT INTO {table} (n) VALUES (0)")
    there.close()
    time.sleep(random.random() * 0.3)
"""


@dataclass(kw_only=True)
class Duckdb:
    """Files, one for each table."""

    folder: Path
    tables: dict[str, str] = field(default_factory=dict)

    def url_of(self, table: str) -> str:
        return f"duckdb:///{self.folder / f'{table}.duckdb'}"

    def rows(self, table: str) -> list[int]:
        with duckdb.connect(str(self.folder / f"{table}.duckdb"), read_only=True) as connection:
            return [row[0] for row in connection.execute(f"SELECT id FROM {table}").fetchall()]

    def make(self) -> None:
        for number, (cursor, time_of) in enumerate(DUCKDB_CURSORS.items()):
            table = self.tables[cursor] = f"t{number}"
            with duckdb.connect(str(self.folder / f"{table}.duckdb")) as connection:
                connection.execute("CREATE SEQUENCE s")
                connection.execute(
                    f"CREATE TABLE {table} (id bigint DEFAULT nextval('s') PRIMARY KEY, n int, "
                    f"seen timestamptz DEFAULT {time_of})"
                )


def test_duckdb(tmp_path: Path, sample: Sample) -> None:
    there = Duckdb(folder=tmp_path)
    there.make()

    def writer(table: str) -> Callable[[], None]:
        command = [sys.executable, "-c", DUCKDB_WRITER, str(tmp_path / f"{table}.duckdb"), table, str(sample.seconds)]
        return lambda: subprocess.run(command, check=True, timeout=300)

    run(there, "sessions", [writer(table) for table in there.tables.values()], there.tables)
