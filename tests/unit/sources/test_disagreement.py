"""In what two readers of the same files differ, said of dictionaries instead of files."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.schema import BIGINT, JSON, TEXT, Column
from tidegate.sources.files.disagreement import disagreement

COLUMNS = [Column(name="id", type=BIGINT), Column(name="v", type=TEXT), Column(name="x", type=JSON)]
SAME = {f"{number}.csv": [("1", "a", "{}"), ("2", None, None)] for number in range(5)}


@dataclass
class Reader:
    """Reads texts from a dictionary."""

    files: dict[str, list[tuple[str | None, ...]]]
    asked: int = 0

    def fingerprint(self, paths, columns):
        self.asked += 1
        places = [COLUMNS.index(column) for column in columns]
        rows = [row for path in paths for row in self.files[path]]
        return Fingerprint.of_texts(row_text(tuple(row[at] for at in places)) for row in rows)

    def values(self, path, column):
        return sum(row[COLUMNS.index(column)] is not None for row in self.files[path])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("1", "a", "{}")], "Spark reads 2 rows from 3.csv, and the reader that verifies reads 1"),
        ([("1", "b", "{}"), ("2", None, None)], "from 3.csv: column 'v' (text) has as many values, but others"),
        ([("1", "a", "{}"), ("2", "", None)], "from 3.csv: column 'v' (text) has 1 value for Spark instead of 2"),
        (
            [("1", None, "[]"), ("2", None, None)],
            "column 'v' (text) has 1 value for Spark instead of 0, column 'x' (json) has as many values, but others",
        ),
        ([("2", "a", "{}"), ("1", None, None)], "the values of its columns stand together in other rows"),
    ],
)
def test_file_column_and_kind_of_a_difference_are_named(rows, said):
    spark, other = Reader(SAME), Reader({**SAME, "3.csv": rows})
    assert disagreement([*SAME], COLUMNS, spark, other).endswith(said)
    assert spark.asked == other.asked < 12


def test_readers_that_agree_are_not_to_blame():
    assert disagreement([*SAME], COLUMNS, Reader(SAME), Reader(SAME)) is None
    assert disagreement([], COLUMNS, Reader(SAME), Reader({})) is None
