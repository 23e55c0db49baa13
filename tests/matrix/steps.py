"""What a history is made of besides changes: loads, interrupted ones too, and what people and accidents do."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Protocol, runtime_checkable

from matrix.histories import HELD, identity
from matrix.model import UID, Appended, Event, Merged, Mirror, multiset
from matrix.play import Place, Player
from matrix.shapes import Shape
from tidegate.engine.events import BOUNDARIES
from tidegate.errors import TidegateError

FOREIGN = -77
"""The key of a row that no source has."""


@runtime_checkable
class Widening(Place, Protocol):
    """One that can get a column more."""

    def widen(self) -> None: ...


@runtime_checkable
class Restorable(Place, Protocol):
    """One of which a copy can be put back."""

    def save(self) -> None: ...

    def restore(self) -> None: ...


@runtime_checkable
class Spoilable(Place, Protocol):
    """One that can hold a value that its type does not fit."""

    def spoil(self, text: str) -> None: ...

    def clean(self) -> None: ...


@runtime_checkable
class Removing(Place, Protocol):
    """One made of files that can go."""

    def remove(self, number: int) -> None: ...


def change(player: Player, events: Sequence[Event]) -> None:
    player.change(events)


def load(player: Player, crashes: Mapping[str, int]) -> None:
    """Every stream once; those with a crash end at that boundary first: interrupted, or killed in the second round."""
    alive = player.alive
    for name, crash in crashes.items():
        if name in alive:
            killed, boundary = divmod(crash, len(BOUNDARIES))
            (player.killed if killed else player.interrupted)(name, BOUNDARIES[boundary])
    for outcome in player.project.run(*alive, parallel=player.parallel).streams:
        player.loaded(alive[outcome.stream], outcome)


def widen(player: Player, _: Any) -> None:
    """The source gets one column more."""
    assert isinstance(player.place, Widening)
    player.place.widen()


def empty(player: Player, events: Sequence[Event]) -> None:
    """Every row of the source goes: a load that would empty its table stops, until somebody lets it."""
    player.change(events)
    alive = player.alive
    for outcome in player.project.run(*alive, parallel=player.parallel).streams:
        shape = alive[outcome.stream]
        if _guarded(player, shape) != (outcome.error is not None and outcome.error.code == "delete_fuse"):
            what = str(outcome.error or "the load should have stopped: the source is empty")
            player.fail(shape, what, verified=outcome.verified)
        elif outcome.error is None:
            player.loaded(shape, outcome)
        else:
            player.compare(shape, outcome.verified)
            (again,) = player.project.run(shape.name, allow_deletes=True).streams
            player.loaded(shape, again)


def _guarded(player: Player, shape: Shape) -> bool:
    """Whether a load would take every row of the table because the source has none."""
    if shape.key_diff or shape.soft or shape.strategy in ("cdc", "table_changes"):  # max_fraction; told of each row
        return False
    after = deepcopy(player.models[shape.name])
    after.load(player.source)
    return bool(player.models[shape.name].table.current()) and not after.table.current()


def save(player: Player, _: Any) -> None:
    """A copy of the source is put aside."""
    assert isinstance(player.place, Restorable)
    player.place.save()
    player.saved = dict(player.source.rows)


def restore(player: Player, events: Sequence[Event]) -> None:
    """The copy is put back: what goes on from a position stops, however far the source is written afterwards."""
    assert isinstance(player.place, Restorable)
    player.place.restore()
    player.source.rows = dict(player.saved)
    stopped: list[set[str]] = []
    for written in ((), events):
        player.change(written)
        stopped.append(_stopped(player))
    for name, shape in player.alive.items():
        if name in stopped[0] - stopped[1]:
            player.fail(shape, "the second load should have stopped, as the first one did")
        elif name in stopped[1]:
            (outcome,) = player.project.resync(name, replace=True).streams
            player.models[name].refresh(player.source)
            if outcome.error is not None:
                player.fail(shape, f"resync: {outcome.error.code}: {outcome.error.message}")
            else:
                player.compare(shape, outcome.verified)


def _stopped(player: Player) -> set[str]:
    """Runs every stream; those that tell that the source went back."""
    alive, found = player.alive, set()
    for outcome in player.project.run(*alive, parallel=player.parallel).streams if alive else ():
        shape = alive[outcome.stream]
        if outcome.error is not None and outcome.error.code == "history_gone":
            player.compare(shape, outcome.verified)
            found.add(shape.name)
        elif shape.strategy in ("watermark", "sequence"):
            what = str(outcome.error or "the load should have stopped: the source went back")
            player.fail(shape, what, verified=outcome.verified)
        else:
            player.loaded(shape, outcome)
    return found


def spoil(player: Player, text: str) -> None:
    """A value comes that its type does not hold: no load may take it for another one."""
    assert isinstance(player.place, Spoilable)
    # Where the newest rows wait, this one does; where few changes are none, one is.
    asked = {n: s for n, s in player.alive.items() if not s.lagging and "significant" not in s.method}
    player.place.spoil(text)
    for outcome in player.project.run(*asked, parallel=player.parallel).streams if asked else ():
        if outcome.error is None or outcome.error.code == "internal":
            what = str(outcome.error or f"the load should have stopped: {text!r} is no decimal(10,2)")
            player.fail(asked[outcome.stream], what, verified=outcome.verified)
        elif outcome.error.code == "verify_failed" or "a second time" in outcome.error.message:
            what = f"only the verification refused {text!r}: {outcome.error.message}"
            player.fail(asked[outcome.stream], what, verified=outcome.verified)
        else:
            player.compare(asked[outcome.stream], outcome.verified)
    player.place.clean()


def remove(player: Player, number: int) -> None:
    """A file goes."""
    assert isinstance(player.place, Removing)
    player.place.remove(number)
    player.source.files[number] = None


def rewind(player: Player, _: Any) -> None:
    """Every position goes back to what an earlier load left: no row may come twice by that."""
    for name, shape in player.alive.items():
        known = player.past.get(name, {})
        if len(known) < 2:
            continue
        earlier = min(known)
        model = deepcopy(player.models[name])
        model.memory = known[earlier].memory.again(model.memory)
        try:
            player.project.state.rewind(name, earlier)
        except TidegateError as error:
            if error.code == "internal":
                player.fail(shape, f"rewind: {error}")
            continue
        if isinstance(model.table, Appended):
            model.load(player.source)
            if len(model.table.held) > len(player.models[name].table.rows()):
                player.fail(shape, "the position went back, and rows would come twice")
                continue
        player.models[name].memory = known[earlier].memory.again(player.models[name].memory)
        player.forgotten |= player.models[name].memory.unsure


def rollback(player: Player, _: Any) -> None:
    """Every table goes back to what the load before the last one left, and its stream with it."""
    for name, shape in player.alive.items():
        known = player.past.get(name, {})
        found = [one for one in player.project.versions(name) if one.load in known and one.readable]
        older = [one for one in found if one.load != found[0].load]
        if older:
            player.project.rollback(name, older[0].id)
            model = deepcopy(known[older[0].load])
            model.memory = model.memory.again(player.models[name].memory)
            player.forgotten |= model.memory.unsure
            player.models[name] = model
            player.compare(shape, None)


def hold(player: Player, codes: Sequence[str]) -> None:
    """From now on rows with such codes are set aside."""
    player.refused = codes
    player.aside |= {event.key for event in player.source.delivered if event.row and event.row["code"] in codes}
    player.reopen()


def accept(player: Player, _: Any) -> None:
    """The check goes, and rows that wait are replayed: each table is what it were had nothing been set aside."""
    player.refused = ()
    player.waited |= player.aside
    player.aside.clear()
    player.reopen()
    for name, shape in player.alive.items():
        try:
            player.project.quarantine(name).replay()
        except TidegateError as error:
            if (
                error.code == "duplicate_keys"
                and shape.strategy == "cdc"
                and shape.writer == "scd2"
                and not shape.moment
            ):
                player.ended.add(name)  # a load has one moment, and two versions of one key came in one load
            else:
                player.fail(shape, f"replay: {error.code}: {error}")
        else:
            player.compare(shape, None)


def tamper(player: Player, seed: int) -> None:
    """Somebody changes tables that can be repaired: one row is lost, one is changed, one is added."""
    session = player.project.sessions.load_session()
    for name in player.repairable():
        table = player.models[name].table
        assert isinstance(table, Merged)
        at = f"lake.s.{name}" if player.format == "iceberg" else f"delta.`{player.folder / 'warehouse' / 's' / name}`"
        lost, other, *_ = [*random.Random(seed).sample(sorted(table.live), min(2, len(table.live))), None, None]
        if lost is not None:
            session.sql(f"DELETE FROM {at} WHERE id = {lost}")
            del table.live[lost]
        if other is not None:
            session.sql(f"UPDATE {at} SET code = 'tampered' WHERE id = {other}")
            table.live[other] = {**table.live[other], "code": "tampered"}
        foreign = identity(FOREIGN) | {UID: "none of a uuid"}
        required = {"source_file": "'tampered.csv'"} if "source_file" in session.table(at).columns else {}
        given = {"id": FOREIGN, UID: f"'{foreign[UID]}'", "code": "'tampered'"} | required
        session.sql(f"INSERT INTO {at} ({', '.join(given)}) VALUES ({', '.join(map(str, given.values()))})")
        table.live[FOREIGN] = {**dict.fromkeys(HELD), **foreign, "code": "tampered"}
    player.project.sessions.release(session)


def maintain(player: Player, _: Any) -> None:
    """Maintenance changes no row."""
    alive = player.alive
    for kept in player.project.maintain(*alive, force=True).streams:
        if kept.error is not None:
            player.fail(alive[kept.stream], f"maintain: {kept.error.code}: {kept.error.message}")
        else:
            player.compare(alive[kept.stream], None)


def verify(player: Player, level: str) -> None:
    """A whole table is called equal exactly if it is."""
    alive = {name: shape for name, shape in player.alive.items() if player.comparable(shape)}
    if not alive:
        return
    for found in player.project.verify(*alive, level=level).streams:
        shape = alive[found.stream]
        equal = multiset(player.models[shape.name].table.current()) == multiset(player.meant(shape))
        if found.error is not None:
            player.fail(shape, f"verify: {found.error.code}: {found.error.message}")
        elif found.equal != equal and (level != "counts" or equal):
            player.fail(shape, f"verify says equal: {found.equal}, and it is {equal}")


def repair(player: Player, _: Any) -> None:
    """What differs is repaired and nothing else is touched."""
    alive = player.repairable()
    if not alive:
        return
    for found in player.project.verify(*alive, level="rows", repair=True).streams:
        shape = alive[found.stream]
        if found.error is not None:
            player.fail(shape, f"repair: {found.error.code}: {found.error.message}")
            continue
        table = player.models[shape.name].table
        assert isinstance(table, Merged)
        table.apply(Mirror(rows=player.meant(shape)))
        player.compare(shape, found.equal)


def refresh(player: Player, _: Any) -> None:
    """A full refresh makes the table what a first load would have made it."""
    alive = player.alive
    for outcome in player.project.run(*alive, full_refresh=True, parallel=player.parallel).streams:
        shape = alive[outcome.stream]
        if outcome.error is not None:
            player.fail(shape, f"refresh: {outcome.error.code}: {outcome.error.message}")
            continue
        player.models[shape.name].refresh(player.source)
        player.compare(shape, outcome.verified)


def forget(player: Player, _: Any) -> None:
    """The registry is lost."""
    player.project.close()
    for path in (player.folder / ".tidegate").glob("registry.db*"):
        path.unlink()
    player.forgotten = True
    player.reopen()


STEPS: Mapping[str, Callable[[Player, Any], None]] = {
    one.__name__: one
    for one in (
        change,
        load,
        widen,
        empty,
        save,
        restore,
        spoil,
        remove,
        rewind,
        rollback,
        hold,
        accept,
        tamper,
        maintain,
        verify,
        repair,
        refresh,
        forget,
    )
}
