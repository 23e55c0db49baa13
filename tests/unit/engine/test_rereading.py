"""Loads that read every row again: what they read, and of which source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tidegate.core.changes import ChangeSet
from tidegate.core.grouping import Period
from tidegate.core.plan import FULL_REFRESH
from tidegate.core.policies.contract import Mode
from tidegate.core.policies.deletes import Deletes
from tidegate.core.position_state import BEGIN, begin_of, is_of_empty_table
from tidegate.core.schema import ChangeKind
from tidegate.engine.column_changes import DEFAULT_CONTRACT
from tidegate.engine.context import LoadContext
from tidegate.engine.deletes import delete_guard
from tidegate.engine.stages.detect import detect
from tidegate.engine.stream import Stream
from tidegate.errors import DeleteFuse, EdgeUnknown, HistoryGone
from tidegate.registry.store import Registry
from tidegate.strategies.checksum import Checksum, Method
from tidegate.strategies.watermark import Clock, Watermark
from unit.engine.sqlite_streams import Shop

DAYS = Checksum(method=Method.BY_DATE, column="at", period=Period.DAY, lookback="20250105")


@contextmanager
def opened(shop: Shop, stream: Stream, **options: Any) -> Iterator[LoadContext]:
    with (
        Registry.open(f"sqlite:///{shop.folder / 'registry.db'}") as registry,
        stream.source.probe(None, stream.bound_request) as probe,
    ):
        registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))
        yield shop.work(registry, probe, stream, **options)


def detected(shop: Shop, stream: Stream | None = None, **options: Any) -> ChangeSet | None:
    with opened(shop, stream or shop.stream(), **options) as work:
        return detect(work)[0]


def labels(changes: ChangeSet | None) -> list[str]:
    return sorted(part.label for part in changes.slices) if changes else []


@pytest.mark.parametrize("option", ["full_refresh", "resync"])
@pytest.mark.parametrize(
    ("begin", "first"),
    [(None, "20250101"), ("2025-01-03 00:00:00.000000", "20250103")],
    ids=["the whole table", "a table that begins later"],
)
def test_a_lookback_leaves_nothing_out_of_what_the_table_holds(tmp_path: Path, option: str, begin: Any, first: str):
    shop = Shop(folder=tmp_path, strategy=DAYS)
    shop.fill(24 * 7)
    shop.loaded(**({BEGIN: {"column": "at", "value": begin}} if begin else {}))
    changes = detected(shop, **{option: True})
    assert labels(changes)[0] == first
    assert len(labels(changes)) == 8 - int(first[-1])
    assert (begin_of(changes.state) or {}).get("value") == begin


def test_a_first_load_reads_what_the_lookback_reaches(tmp_path: Path):
    shop = Shop(folder=tmp_path, strategy=DAYS)
    shop.fill(24 * 7)
    assert labels(detected(shop, full_refresh=True)) == ["20250105", "20250106", "20250107"]


@pytest.mark.parametrize(
    ("begin", "strategy", "lookback"),
    [
        ({"column": "at", "value": "2025-01-03"}, DAYS, "20250103"),
        ({"column": "other", "value": "2025-01-03"}, DAYS, None),
        ({"column": "at", "value": "2025-01-03"}, Checksum(method=Method.BY_SUBSTR, column="at", length=2), None),
        (None, DAYS, None),
    ],
)
def test_where_a_refresh_begins(tmp_path: Path, begin: Any, strategy: Checksum, lookback: str | None):
    since = Shop(folder=tmp_path, strategy=DAYS).loaded(**({BEGIN: begin} if begin else {}))
    assert strategy.refreshing(since) == replace(strategy, lookback=lookback)


def test_a_refresh_of_an_emptied_source_empties_the_table_where_that_is_allowed(tmp_path: Path):
    shop = Shop(folder=tmp_path)
    shop.fill(1)
    shop.sql("delete from t")
    shop.loaded()
    assert detected(shop) is None
    with opened(shop, shop.stream(rows=3), full_refresh=True) as work:
        changes, _ = detect(work)
        assert (changes.slices, changes.rows) == ((), 0)
        assert is_of_empty_table(changes.state)
        assert changes.reason == "the source has no rows, so the table is emptied"
        with pytest.raises(DeleteFuse, match="the source is empty, and lake"):
            delete_guard.guard(work, changes)
        delete_guard.guard(replace(work, context=replace(work.context, allow_deletes=True)), changes)
    with opened(shop, shop.stream(rows=3, deletes=Deletes(max_fraction=1)), full_refresh=True) as work:
        delete_guard.guard(work, changes)


def test_a_refresh_stops_while_no_row_can_be_read(tmp_path: Path):
    lagging = Watermark(
        column="at", clock=Clock.APPLICATION, safety_lag=timedelta(days=36500), lookback=timedelta(hours=1)
    )
    shop = Shop(folder=tmp_path, strategy=lagging)
    shop.fill(3)
    shop.loaded()
    with pytest.raises(
        EdgeUnknown, match="cannot be fully refreshed: its source has 3 rows, none of which can be read yet"
    ):
        detected(shop, full_refresh=True)


def filling(stream: Stream) -> Stream:
    contract = {**DEFAULT_CONTRACT, ChangeKind.ADD_COLUMN: Mode.FILL}
    return replace(stream, policies=replace(stream.policies, contract=contract))


@pytest.mark.parametrize("why", ["a new column", "a new type"])
def test_only_a_person_lets_another_source_be_read_from_the_beginning(tmp_path: Path, why: str):
    shop = Shop(folder=tmp_path)
    shop.fill(3)
    shop.position = replace(shop.loaded(), source="another server")
    fills = why == "a new column"
    stream = filling(shop.stream()) if fills else shop.stream()
    asked = {} if fills else {"full_refresh": True, "asked_by": "contract: {type_change: replace}"}
    with pytest.raises(HistoryGone, match="not the one the table was loaded from: it was another server"):
        detected(shop, stream, **asked)
    assert detected(shop, stream, full_refresh=True, asked_by=FULL_REFRESH).rows == 3
