"""What is wrong with a file of a table after a reader has failed."""

from __future__ import annotations

import pytest

from tidegate.formats.shared.damage import damaged
from tidegate.formats.shared.storage import store_of

WHOLE = b"PAR1" + b"x" * 92 + b"PAR1"


def cut(path):
    path.write_bytes(WHOLE[:50])


@pytest.mark.parametrize(
    ("damage", "said", "found"),
    [
        (lambda _: None, "", None),
        (lambda path: path.unlink(), "", "a/1.parquet is missing"),
        (cut, "", "a/1.parquet has 50 bytes, but was written with 100"),
        (lambda path: path.write_bytes(b"x" * 100), "", "a/1.parquet was overwritten"),
        (lambda _: None, "Encountered error while reading file /t/a/1.parquet", "a/1.parquet cannot be read"),
        (lambda _: None, "while reading file /t/a/3.parquet", None),
    ],
)
@pytest.mark.parametrize("absolute", [False, True])
def test_the_file_and_what_is_wrong_with_it(tmp_path, damage, said, found, absolute):
    (tmp_path / "a").mkdir()
    names = [f"a/{n}.parquet" for n in range(3)]
    for name in names:
        (tmp_path / name).write_bytes(WHOLE)
    damage(tmp_path / "a/1.parquet")
    files = {f"file://{tmp_path}/{name}" if absolute else name: 100 for name in names}
    assert damaged(f"file://{tmp_path}", files, store_of(f"file://{tmp_path}"), said) == found
