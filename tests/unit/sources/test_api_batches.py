"""Answers of an API are kept whole or not at all, and in order."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pyarrow as pa
import pytest

from tidegate.errors import FileUnreadable, SourceRefused
from tidegate.sources._api.batches import Batches, Progress


@pytest.fixture
def batches(tmp_path):
    found = Batches(tmp_path / "staging" / "orders", "http:a of orders")
    found.prepare()
    return found


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64())})


def names(batches):
    return sorted(path.name for path in batches.folder.iterdir())


def test_each_batch_goes_on_from_the_one_before(batches):
    first = batches.append(rows(1), Progress(), "a")
    second = batches.append(rows(2), first, "b")
    assert list(batches.after(0)) == [first, second]
    assert list(batches.after(1)) == [second]
    assert Progress.of(second.to_dict()) == second
    assert (second.batch, second.cursor) == (2, "b")
    assert batches.folder.stat().st_mode & 0o777 == 0o700


def test_the_same_answer_is_not_kept_again_for_another_etag_or_date(batches):
    """Nor is it loaded again, which would append its rows."""
    first = batches.append(rows(1), Progress(), '{"validators": {"etag": "1"}, "since": 7}')
    assert batches.append(rows(1), first, '{"since": 7, "validators": {"date": "then"}}') == first
    assert names(batches) == ["batch-0000000001.parquet"]
    assert batches.append(rows(1), first, '{"since": 8, "validators": {"etag": "1"}}').batch == 2


def test_of_two_that_fetch_at_once_one_batch_counts(batches):
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda number: batches.append(rows(number), Progress(), str(number)), range(8)))
    (one,) = made
    assert list(batches.after(0)) == [one]
    assert names(batches) == ["batch-0000000001.parquet"]


def test_a_gap_ends_the_chain(batches):
    last = Progress()
    for number in range(4):
        last = batches.append(rows(number), last, str(number))
    (batches.folder / "batch-0000000003.parquet").unlink()
    assert [each.batch for each in batches.after(1)] == [2]
    batches.drop_after(2)
    assert names(batches) == ["batch-0000000001.parquet", "batch-0000000002.parquet"]


def test_equal_answers_are_one_file_and_the_last_one_is_known(batches):
    one, other = batches.put(rows(1), "a"), batches.put(rows(2), "b")
    assert one != other
    assert batches.newest()[0] == other
    assert batches.put(rows(1), "c") == one
    assert batches.newest() == (one, Progress(cursor="a", content=batches.newest()[1].content))
    assert len(names(batches)) == 2


def test_only_what_a_table_holds_expires(batches):
    last = Progress()
    for number in range(4):
        last = batches.append(rows(number), last, str(number))
    whole = [batches.put(rows(number), "") for number in range(2)]
    old = time.time() - 7200
    for path in batches.folder.iterdir():
        os.utime(path, (old, old))
    batches.expire(None, batch=3)
    assert len(names(batches)) == 6
    batches.expire(timedelta(hours=1), batch=3)
    assert names(batches)[:2] == ["batch-0000000003.parquet", "batch-0000000004.parquet"]
    batches.expire(timedelta(hours=1), snapshot=whole[1])
    assert names(batches)[2:] == [whole[1]]


def test_what_somebody_else_wrote_is_refused_by_name(batches):
    (batches.folder / "batch-0000000001.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileUnreadable, match=r"batch-0000000001\.parquet is damaged"):
        list(batches.after(0))


def test_answers_of_another_source_are_never_its_own(batches):
    batches.append(rows(1), Progress(), "a")
    batches.put(rows(1), "a")
    other = Batches(batches.folder, "http:b of orders")
    with pytest.raises(SourceRefused, match="http:a of orders, not http:b of orders"):
        list(other.after(0))
    assert other.newest() is None


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SourceRefused, match="cannot be created") as caught:
        Batches(tmp_path / "file" / "staging", "x").prepare()
    assert "staging:" in caught.value.hint
