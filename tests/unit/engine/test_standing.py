"""What a run may build on, where loads are seen before they are proven."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ledger import Entry, Ledger
from tidegate.core.ports.format import TableState
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.engine import partitions
from tidegate.engine.recovery import recovery
from tidegate.engine.stream import Policies, VerifyLevel
from tidegate.registry.values import PlanStatus

CLAIMS = (
    "total",
    "ledger",
    "window",
    "rechecks",
    "nulls",
    "keys",
    "version",
    "fingerprint",
    "own_fingerprint",
    "whole_at",
)
STATE = {"cursor": ["at"], "value": "2025-01-01", "method": {}, "manifest": "m", "fence": {}}
LOADED = Position(sequence=2, load_id="two", kind="watermark", state={**STATE, **dict.fromkeys(CLAIMS, "x")})
COLUMNS = Schema(columns=(Column(name="id", type=BIGINT),))
MORE = Schema(columns=(*COLUMNS, Column(name="more", type=BIGINT)))
LEDGER = Ledger(entries={"1": Entry(fingerprint=Fingerprint.of_texts(["a"]))})
AS_MEASURED = replace(LOADED, state=LEDGER.voucher(), schema=COLUMNS.digest)


@dataclass
class RegistryPosition:
    position: Position
    verified: bool | None = None
    table_uuid: str | None = "t1"


@dataclass
class Registry:
    """The calls that recovery makes, kept in order."""

    known: RegistryPosition | None
    plans: list[Any] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)

    def position(self, _):
        return self.known

    def open_plans(self, _):
        return self.plans

    def advance(self, saved, *, verified, **_):
        self.told.append(("advance", verified))
        self.known = RegistryPosition(saved.position, verified)

    def set_position(self, _, position, *, verified, **_more):
        self.told.append(("set", verified))
        self.known = RegistryPosition(position, verified)

    def finish_plan(self, load_id, status):
        self.told.append((load_id, status))


def stream(*, invisible: bool, verify=VerifyLevel.MOVED):
    table = TableState(exists=True, uuid="t1", snapshot="7", rows=1, position=LOADED, position_snapshot="7")
    found = SimpleNamespace(state=lambda *_: table, invisible=invisible)
    return SimpleNamespace(name="s", uid="u", target=None, format=found, policies=Policies(verify=verify))


FIRST = Position(sequence=1, load_id="one", kind="watermark")
PLAN = SimpleNamespace(load_id="two", since=FIRST, position=LOADED)


@pytest.mark.parametrize(
    ("invisible", "verify", "noted", "proven"),
    [
        (True, VerifyLevel.MOVED, True, True),
        (False, VerifyLevel.MOVED, False, False),
        (True, VerifyLevel.NONE, None, True),
        (False, VerifyLevel.NONE, None, True),
    ],
)
def test_a_load_that_landed_before_a_crash_is_verified_only_where_nothing_else_is_ever_seen(
    invisible, verify, noted, proven
):
    registry = Registry(RegistryPosition(FIRST, verified=True), [PLAN])
    found = recovery.recover(stream(invisible=invisible, verify=verify), SimpleNamespace(registry=registry))
    assert registry.told == [("advance", noted)]
    assert (found.proven, found.since) == (proven, LOADED)


@pytest.mark.parametrize(("invisible", "noted", "proven"), [(True, None, True), (False, False, False)])
def test_what_a_lost_registry_takes_from_the_table_has_to_be_proven_where_it_may_not_be(invisible, noted, proven):
    registry = Registry(None)
    found = recovery.recover(stream(invisible=invisible), SimpleNamespace(registry=registry))
    assert registry.told == [("set", noted)]
    assert found.proven is proven


@pytest.mark.parametrize(("verified", "proven"), [(True, True), (None, True), (False, False)])
def test_only_a_load_that_failed_to_verify_or_never_came_to_it_is_unproven(verified, proven):
    registry = Registry(RegistryPosition(LOADED, verified))
    found = recovery.recover(stream(invisible=False), SimpleNamespace(registry=registry))
    assert (found.proven, registry.told) == (proven, [])
    assert found.vouched.state == (LOADED.state if proven else STATE), "an unproven load vouches for no row"
    assert found.since == LOADED


def test_a_plan_that_never_landed_is_dropped():
    lost = SimpleNamespace(load_id="three", since=LOADED, position=None)
    registry = Registry(RegistryPosition(LOADED, verified=True), [lost])
    recovery.recover(stream(invisible=False), SimpleNamespace(registry=registry))
    assert registry.told == [("three", PlanStatus.DROPPED)]


@pytest.mark.parametrize(
    ("ledger", "since", "columns", "trusted"),
    [
        (LEDGER, AS_MEASURED, COLUMNS, True),
        (None, AS_MEASURED, COLUMNS, False),
        (LEDGER, None, COLUMNS, False),
        (Ledger(), AS_MEASURED, COLUMNS, False),
        (LEDGER, AS_MEASURED, MORE, False),
    ],
    ids=["as it was measured", "lost", "of a new table", "of other rows", "of other columns"],
)
def test_a_ledger_counts_for_the_position_and_the_columns_that_it_was_measured_with(ledger, since, columns, trusted):
    assert partitions.trusted(ledger, since, columns) == (ledger if trusted else None)
