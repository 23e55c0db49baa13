"""Registries, and loads to feed them with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import create_engine, make_url

from tidegate.core.changes import ChangeSet
from tidegate.core.effects import Upsert
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import new_load_id
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.core.plan import LoadPlan, Mode, StreamRef, WriteChoice
from tidegate.core.position import Position
from tidegate.core.schema import Column, Kind, Schema, Type
from tidegate.core.slices import Range
from tidegate.registry.store import Registry

UID = "0123456789abcdef"


def load(
    since: Position | None = None, *, uid: str = UID, through: str = "10", sequence: int | None = None
) -> LoadPlan:
    load_id = new_load_id()
    position = Position(
        sequence=sequence or (since.sequence if since else 0) + 1,
        load_id=load_id,
        kind="watermark",
        source="shop",
        state={"after": through},
        loaded_through=through,
    )
    slices = (Range(cursor=("id",), after=since.loaded_through if since else None, upto=through),)
    return LoadPlan(
        stream=StreamRef(name="orders", uid=uid, target="lake.shop.orders"),
        created_at=datetime.now(UTC),
        base=None,
        since=since,
        position=position,
        changes=ChangeSet(slices=slices, effect=Upsert(), loaded_through=through, rows=7),
        columns=Schema(columns=(Column(name="id", type=Type(kind=Kind.INTEGER, bits=64), nullable=False),)),
        key=("id",),
        write=WriteChoice(mode=Mode.MERGE_ON_READ, reason="few rows"),
    )


def outcome(result: Result = Result.LOADED, *, stream: str = "orders") -> Outcome:
    made = Outcome(stream=stream, outcome=result, strategy="watermark", rows_read=7)
    failed = result not in (Result.LOADED, Result.UNCHANGED)
    return replace(made, error=Problem(code="write", message="refused", hint="again") if failed else None)


@pytest.fixture
def registry(url):
    with Registry.open(url) as opened:
        opened.register(uid=UID, name="orders", source="shop: public.orders", target="lake.shop.orders")
        yield opened


@pytest.fixture
def raw(url):
    """The database itself, past the registry."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    engine = create_engine(parsed)
    yield engine
    engine.dispose()


def publish(registry, plan, *, verified=None):
    registry.save_plan(plan, "run-1")
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=verified)
    return plan.position


def ledger(**rows):
    return Ledger(
        entries={label: Entry(fingerprint=Fingerprint(rows=count, s0=count)) for label, count in rows.items()}
    )
