"""One row a key, whatever the memory holds of them at once."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from tidegate.sources.shared.reference.answers import KEY, MOST, LatestRows


@pytest.mark.parametrize("most", [MOST, 50])
def test_of_each_key_the_latest_row_also_with_little_memory(most):
    chance = random.Random(3)
    rows = [(str(chance.randint(0, 99)), n if n % 5 else None, f"v{n}") for n in range(1_000)]
    chance.shuffle(rows)
    wanted: dict[str, tuple[str, int | None, str]] = {}
    for row in rows:
        if row[0] not in wanted or (row[1] or -1) > (wanted[row[0]][1] or -1):
            wanted[row[0]] = row
    with LatestRows(("t",), most=most) as latest:
        for start in range(0, len(rows), 20):
            key, moment, value = zip(*rows[start : start + 20], strict=True)
            latest.add(pa.table({KEY: key, "t": pa.array(moment, pa.int64()), "v": value}))
        found = [tuple(row.values()) for table in latest.tables() for row in table.to_pylist()]
    assert sorted(found) == sorted(wanted.values())
