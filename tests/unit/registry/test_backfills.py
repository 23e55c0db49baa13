"""Backfills as the registry keeps them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tidegate.core.backfill import Backfill, Chunk, Progress
from tidegate.engine.lease import acquire
from tidegate.errors import LeaseHeld, PlanError
from tidegate.registry.backfills import lease_name
from tidegate.registry.store import Registry

UID = "a1b2"
ASKED = Backfill(
    backfill_id=0,
    stream="orders",
    begin="1",
    end="9",
    parallel=2,
    rate=None,
    status=Progress.RUNNING,
    chunks=tuple(Chunk(number=n, after=str(n), upto=str(n + 1), rows=n) for n in (1, 2, 3)),
    created_at=datetime(2025, 1, 1, tzinfo=UTC),
)


@pytest.fixture
def kept(url):
    with Registry.open(url) as registry:
        registry.register(uid=UID, name="orders", source="shop: orders", target="lake.shop.orders")
        yield registry


def test_one_open_backfill_a_stream(kept):
    made = kept.backfills.create(UID, ASKED)
    assert (made.stream, made.chunks) == ("orders", ASKED.chunks)
    with pytest.raises(PlanError, match="already has a backfill"):
        kept.backfills.create(UID, ASKED)
    assert kept.backfills.mark(made.backfill_id, Progress.PAUSED)
    assert not kept.backfills.mark(made.backfill_id, Progress.DONE, among=(Progress.RUNNING,))
    assert kept.backfills.open_of(UID).status is Progress.PAUSED
    kept.backfills.mark(made.backfill_id, Progress.CANCELLED)
    assert kept.backfills.open_of(UID) is None
    assert not kept.backfills.mark(made.backfill_id, Progress.RUNNING), "what is cancelled stays so"
    second = kept.backfills.create(UID, ASKED)
    assert [each.backfill_id for each in kept.backfills.all_of([UID])] == [second.backfill_id, made.backfill_id]


def test_chunks_are_kept_as_they_stand(kept):
    made = kept.backfills.create(UID, ASKED)
    done = replace(made.chunks[1], status=Progress.DONE, rows=7, seconds=1.5, attempts=2)
    kept.backfills.keep(made.backfill_id, done)
    found = kept.backfills.get(made.backfill_id)
    assert found.chunks == (made.chunks[0], done, made.chunks[2])
    assert [chunk.number for chunk in found.waiting] == [1, 3]


def test_a_load_waits_for_a_backfill_and_for_nobody_else(kept):
    made = kept.backfills.create(UID, ASKED)

    def waits() -> bool:
        return kept.backfills.at_work(UID)

    asked = []
    with kept.lease(UID):
        assert not waits()
        with pytest.raises(LeaseHeld), acquire(kept, UID, waits=waits):
            pass
        with kept.lease(lease_name(made.backfill_id)):
            assert waits()
    lease = kept.lease(UID)
    with kept.lease(lease_name(made.backfill_id)):
        lease.__enter__()

        def ends() -> bool:
            asked.append(waits())
            lease.__exit__(None, None, None)
            return asked[-1]

        with acquire(kept, UID, waits=ends) as mine:
            mine.check()
    assert asked == [True]
