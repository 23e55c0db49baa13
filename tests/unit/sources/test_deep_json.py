"""Documents as deep as Spark reads them are read here, too; deeper ones are refused, by whichever thread."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tidegate.core.schema import JSON, Column
from tidegate.envelopes._connect import loaded
from tidegate.sources.shared.files.values import document
from tidegate.sources.shared.reference import documents


def nested(levels: int) -> str:
    return f'{{"a":{"[" * levels}{"]" * levels}}}'


@pytest.mark.parametrize("levels", [500, 998])
def test_what_spark_reads_is_read(levels: int) -> None:
    before = sys.getrecursionlimit()
    with ThreadPoolExecutor(2) as pool:
        assert [list(found) for found in pool.map(document, [nested(levels)] * 4)] == [["a"]] * 4
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize("levels", [500, 998])
@pytest.mark.parametrize("listed", [False, True])
def test_the_second_reader_reads_it_too(levels: int, listed: bool) -> None:
    text = f"[{nested(levels)}]" if listed else nested(levels)
    columns = [Column(name="a", type=JSON)]
    (found,) = documents.batches(lambda: io.BytesIO(text.encode()), columns, {}, {})
    assert found["a"].to_pylist() == ["[" * levels + "]" * levels]


def test_what_is_deeper_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        document(nested(200_000))
    with pytest.raises(ValueError, match="nested too deeply"):
        documents.document(nested(200_000))
    assert loaded(nested(200_000).encode()) is None
