"""What every registry does with streams, plans and positions; each suite brings a fixture `url` of an empty one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import update

from tidegate.core.position import Position
from tidegate.errors import InternalError, PositionMoved, RegistryError
from tidegate.registry.owner import this_process
from tidegate.registry.store import Registry
from tidegate.registry.tables import plans, positions
from tidegate.registry.values import Discontinued, PlanStatus
from unit.registry.loads import UID, load, publish

# Streams


def test_register_gives_one_number_and_follows_the_texts(registry):
    first = registry.register(uid=UID, name="orders", source="shop: public.orders", target="lake.shop.orders")
    assert registry.register(uid=UID, name="bestellungen", source="b", target="c") == first
    assert registry.register(uid="other", name="other", source="b", target="c") != first
    assert {(s.stream, s.source, s.target) for s in registry.status()} == {
        ("bestellungen", "b", "c"),
        ("other", "b", "c"),
    }


def test_names_are_kept_as_they_are(registry):
    name = """o'r"d.e;rs -- 🚀 {x} %s :y"""
    registry.register(uid="odd", name=name, source=name, target=name)
    found = next(s for s in registry.status() if s.uid == "odd")
    assert (found.stream, found.source, found.target) == (name, name, name)


def test_a_stream_that_was_never_registered_is_a_bug_of_ours(registry):
    with pytest.raises(InternalError, match="never registered"):
        registry.save_plan(load(uid="unknown"), "run-1")
    assert registry.position("unknown") is None
    assert registry.last_sequence("unknown") == 0


# Plans and positions


def test_a_saved_plan_comes_back_whole(registry, url):
    plan = load()
    registry.save_plan(plan, "run-1")
    with Registry.open(url) as again:
        (saved,) = again.open_plans(UID)
    assert (saved.load_id, saved.uid, saved.run_id, saved.status) == (plan.load_id, UID, "run-1", PlanStatus.PLANNED)
    assert saved.plan == json.loads(json.dumps(plan.to_dict()))
    assert saved.position == plan.position
    assert saved.since is None
    assert saved.created_at.tzinfo is UTC
    assert saved.to_dict()["created_at"].endswith("+00:00")


def test_advance_moves_position_plan_and_log_together(registry):
    plan = load(through="42")
    before = datetime.now(UTC)
    publish(registry, plan, verified=True)
    stands = registry.position(UID)
    assert stands.position == plan.position
    assert (stands.sequence, stands.snapshot, stands.table_uuid, stands.verified) == (1, "77", "t-1", True)
    assert before <= stands.recorded_at <= datetime.now(UTC)
    assert registry.plan(plan.load_id).status is PlanStatus.PUBLISHED
    assert registry.open_plans(UID) == []
    (status,) = registry.status()
    assert (status.loaded_through, status.verified_through, status.sequence) == ("42", "42", 1)
    (change,) = registry.changes(UID)
    assert (change.old_status, change.new_status) == ("POSITION none", "POSITION 1")
    assert change.changed_by == str(this_process())


def test_an_unverified_load_moves_only_loaded_through(registry):
    first = publish(registry, load(through="10"), verified=True)
    publish(registry, load(first, through="20"), verified=False)
    (status,) = registry.status()
    assert (status.loaded_through, status.verified_through, status.verified) == ("20", "10", False)


def test_a_verification_that_comes_later_is_recorded(registry):
    plan = load(through="10")
    publish(registry, plan, verified=False)
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=True)
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=None)
    (status,) = registry.status()
    assert (status.verified, status.verified_through) == (True, "10")
    assert len(registry.positions(UID)) == 1


def test_advancing_twice_is_advancing_once(registry):
    first = load()
    publish(registry, first)
    second = load(first.position, through="20")
    publish(registry, second)
    for again in (second, first):
        registry.advance(again, snapshot="77", table_uuid="t-1", verified=None)
    assert [p.position for p in registry.positions(UID)] == [second.position, first.position]
    assert len(registry.changes(UID)) == 2


def test_a_load_from_elsewhere_is_refused_and_changes_nothing(registry):
    first = publish(registry, load())
    stale = load(None, through="99")
    registry.save_plan(stale, "run-2")
    with pytest.raises(PositionMoved, match="is at sequence 1"):
        registry.advance(stale, snapshot="88", table_uuid="t-1", verified=True)
    sibling = Position(sequence=1, load_id="somebody-else", kind="watermark")
    with pytest.raises(PositionMoved):
        registry.advance(load(sibling), snapshot="88", table_uuid="t-1", verified=True)
    assert [p.position for p in registry.positions(UID)] == [first]
    assert registry.plan(stale.load_id).status is PlanStatus.PLANNED
    assert registry.status()[0].loaded_through == "10"


def test_a_load_that_does_not_raise_the_sequence_is_a_bug_of_ours(registry):
    first = publish(registry, load())
    with pytest.raises(InternalError, match="does not increase the sequence"):
        registry.advance(load(first, sequence=1), snapshot="88", table_uuid="t-1", verified=None)


def test_a_plan_of_an_older_version_is_read(registry, raw):
    plan = load(Position(sequence=1, load_id="first", kind="watermark"))
    registry.save_plan(plan, "run-1")
    empty = {"source": "", "schema": "", "writer": ""}
    document = plan.to_dict()
    document |= {"since": document["since"] | empty, "position": document["position"] | empty}
    document["columns"]["columns"][0]["ident"] = ""
    with raw.begin() as connection:
        connection.execute(plans.update().values(plan=document, status_cd="PUBLISHED"))
    saved = registry.plan(plan.load_id)
    assert (saved.since, saved.position) == (plan.since, replace(plan.position, source=None))


def test_a_saved_plan_can_be_advanced_after_a_crash(registry, url):
    plan = load()
    registry.save_plan(plan, "run-1")
    with Registry.open(url) as after:
        (saved,) = after.open_plans(UID)
        after.advance(saved, snapshot="77", table_uuid="t-1", verified=True)
    stands = registry.position(UID)
    assert stands.position == plan.position
    assert registry.plan(plan.load_id).status is PlanStatus.PUBLISHED


def test_published_is_final(registry):
    plan = load()
    publish(registry, plan)
    registry.finish_plan(plan.load_id, PlanStatus.PUBLISHED)
    with pytest.raises(RegistryError, match="published"):
        registry.finish_plan(plan.load_id, PlanStatus.DROPPED)
    other = load(plan.position)
    registry.save_plan(other, "run-1")
    registry.finish_plan(other.load_id, PlanStatus.FAILED)
    registry.finish_plan(other.load_id, PlanStatus.DROPPED)
    assert registry.plan(other.load_id).status is PlanStatus.DROPPED
    with pytest.raises(InternalError, match="never planned"):
        registry.finish_plan("unknown", PlanStatus.DROPPED)
    assert registry.plan("unknown") is None


def test_a_failed_plan_that_landed_after_all_is_published(registry):
    plan = load()
    registry.save_plan(plan, "run-1")
    registry.finish_plan(plan.load_id, PlanStatus.FAILED)
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=None)
    assert registry.plan(plan.load_id).status is PlanStatus.PUBLISHED


def test_set_position_is_recorded_with_its_reason_and_the_sequence_stays(registry):
    first = publish(registry, load(through="10"), verified=True)
    second = publish(registry, load(first, through="20"), verified=True)
    registry.set_position(UID, first, snapshot="66", table_uuid="t-1", reason="table restored", changed_by="anna")
    stands = registry.position(UID)
    assert (stands.position, stands.sequence, stands.verified) == (first, 2, None)
    (change, *_) = registry.changes(UID)
    assert (change.old_status, change.new_status) == ("POSITION 2", "POSITION 1")
    assert (change.reason, change.changed_by) == ("table restored", "anna")
    (status,) = registry.status()
    assert (status.loaded_through, status.verified_through) == ("10", None)
    registry.set_position(UID, None, snapshot=None, table_uuid=None, reason="table dropped")
    assert registry.position(UID) is None
    assert registry.last_sequence(UID) == 2
    assert [p.position for p in registry.positions(UID)] == [first, second, first]


def test_the_same_position_again_keeps_its_verification(registry):
    first = publish(registry, load(through="10"), verified=True)
    registry.set_position(UID, first, snapshot="78", table_uuid="t-1", reason="after maintenance")
    stands = registry.position(UID)
    assert (stands.verified, stands.snapshot) == (True, "78")
    assert registry.status()[0].verified_through == "10"


def test_a_published_load_can_be_caught_up_with_after_its_position_was_taken_back(registry):
    first = publish(registry, load(through="10"))
    plan = load(first, through="20")
    publish(registry, plan)
    registry.set_position(UID, first, snapshot="66", table_uuid="t-1", reason="repair")
    registry.advance(plan, snapshot="77", table_uuid="t-1", verified=None)
    stands = registry.position(UID)
    assert stands.position == plan.position


@pytest.mark.parametrize("expected", [0, 2])
def test_set_position_refuses_when_it_stands_elsewhere(registry, expected):
    first = publish(registry, load())
    with pytest.raises(PositionMoved, match="not at sequence"):
        registry.set_position(UID, None, snapshot=None, table_uuid=None, expected_sequence=expected, reason="x")
    registry.set_position(UID, first, snapshot=None, table_uuid=None, expected_sequence=1, reason="x")


def test_an_unreadable_position_says_how_to_repair_it_and_can_be(registry, raw):
    first = publish(registry, load())
    with raw.begin() as connection:
        connection.execute(update(positions).values(position='{"version": 99}'))
    with pytest.raises(RegistryError, match="cannot be read") as caught:
        registry.position(UID)
    assert "tidegate state repair" in caught.value.hint
    registry.set_position(UID, first, snapshot="77", table_uuid="t-1", reason="the table's word")
    stands = registry.position(UID)
    assert stands.position == first


def test_a_source_that_was_restored_stays_marked_until_all_was_loaded_or_a_person_set_the_position(registry):
    mark = Discontinued(reason="restored", options={"time_zone": None})
    assert registry.discontinued(UID) is None
    first = publish(registry, load(through="10"))
    assert registry.discontinued(UID) is None
    registry.mark_discontinued(UID, mark)
    second = publish(registry, load(first, through="20"))
    assert registry.discontinued(UID) == mark
    registry.mark_discontinued(UID, None)
    third = publish(registry, load(second, through="30"))
    assert registry.discontinued(UID) is None
    registry.mark_discontinued(UID, mark)
    for vouched in (False, True):
        registry.set_position(UID, third, snapshot="1", table_uuid="u", reason="state", vouched=vouched)
        assert registry.discontinued(UID) == (None if vouched else mark)


def test_a_table_descends_from_a_load_until_it_goes_back_to_before_it_or_is_replaced(registry):
    def back(position, uuid="t-1"):
        registry.set_position(UID, position, snapshot="1", table_uuid=uuid, reason="rollback")

    first = publish(registry, load(through="10"))
    second = publish(registry, load(first, through="20"))
    third = publish(registry, load(second, through="30"))
    ids = [each.load_id for each in (first, second, third)]

    def known():
        return [registry.descends(UID, load_id) for load_id in (*ids, "never")]

    assert known() == [True, True, True, False]
    back(second)
    assert known() == [True, True, False, False]
    publish(registry, load(second, sequence=4, through="40"))
    assert known() == [True, True, False, False]
    back(first)
    assert known() == [True, False, False, False]
    back(first, uuid="t-2")
    assert known() == [True, False, False, False], "it is the position of the table that is there"
    back(None)
    assert known() == [False] * 4
