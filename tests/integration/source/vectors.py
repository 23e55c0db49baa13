"""The tg1 vectors, as rows of each database."""

from __future__ import annotations

import json
from pathlib import Path

from tidegate.core.fingerprint import Fingerprint

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "tg1-vectors.json").read_text())
FINGERPRINT = Fingerprint.of_sums([VECTORS["fingerprint"][name] for name in ("count", "s0", "s1", "s2", "s3")])
TEXTS = [row["text"] for row in VECTORS["rows"]]

POSTGRESQL = """
CREATE TABLE vectors (
  c0 bigint, c1 numeric(38,4), c2 boolean, c3 date, c4 timestamp, c5 timestamptz, c6 text, c7 uuid, c8 bytea
)
"""
SQLITE = """
CREATE TABLE vectors (
  c0 bigint, c1 text, c2 boolean, c3 date, c4 timestamp, c5 timestamp, c6 text, c7 uuid, c8 blob
)
"""
SQLITE_COLUMNS = {"c1": "decimal(38,4)"}


def postgresql_rows() -> list[list[object]]:
    """Values for psycopg; bytes as bytes, all others as the text that PostgreSQL parses."""
    rows = []
    for row in VECTORS["rows"]:
        *texts, binary = row["values"]
        rows.append([*texts, None if binary is None else bytes.fromhex(binary)])
    return rows


def sqlite_rows() -> list[list[object]]:
    """Values for sqlite3; timestamps with a zone already in UTC, since SQLite has none."""
    rows = []
    for row in VECTORS["rows"]:
        c0, c1, c2, c3, c4, _, c6, c7, c8 = row["values"]
        utc = row["text"].split("|")[5]
        rows.append(
            [
                int(c0),
                c1,
                None if c2 is None else int(c2 == "True"),
                c3,
                c4,
                None if utc == "~N" else utc,
                c6,
                c7,
                None if c8 is None else bytes.fromhex(c8),
            ]
        )
    return rows
