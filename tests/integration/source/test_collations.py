"""Columns whose collation calls other bytes equal are compared by their bytes, like all others."""

from __future__ import annotations

import psycopg
import pytest

from tidegate.core.bucketing import Buckets
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Keys
from tidegate.sources.database import Database

pytestmark = pytest.mark.postgres
ROWS = [("a", "Hello|~N"), ("b", "x"), ("c", "a\\b"), ("D", None)]


def test_nondeterministic_collation_is_compared_by_bytes(pg_url: str) -> None:
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(
            "CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
        columns = "id text COLLATE any_case PRIMARY KEY, name text COLLATE any_case"
        connection.execute(f"CREATE TABLE t ({columns})")
        for row in ROWS:
            connection.execute("INSERT INTO t VALUES (%s, %s)", row)
    with Database(connection=Connection(name="shop", url=pg_url), table="t").probe() as probe:
        assert probe.fingerprint(Everything()) == Fingerprint.of_texts(row_text(row) for row in ROWS)
        assert {row.key for row in probe.digests(Everything(), ("id",), Buckets(count=1))} == {
            (key,) for key, _ in ROWS
        }
        assert sum(part.rows for part in probe.spread(Everything(), ("id",), Buckets(count=4)).values()) == len(ROWS)
        assert probe.count(Keys(columns=("id",), values=(("D",),))) == 1
        assert probe.count(Keys(columns=("id",), values=(("d",),))) == 0
        assert probe.key_bounds(Everything(), "name") is not None
