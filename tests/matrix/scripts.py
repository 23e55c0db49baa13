"""What a run of the matrix does with one source: histories, and what happens to its tables between the loads."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence

from matrix.groups import FLAVOURS, Flavour
from matrix.histories import Kinds, Step, Writer
from matrix.model import Event
from matrix.play import crashes
from matrix.shapes import Shape

TROUBLES = (Kinds(), Kinds(late=True), Kinds(nulls=True), Kinds(updates=False, deletes=False))


def chosen(flavour: Flavour, table_format: str, seed: int) -> list[Shape]:
    """The shapes that this flavour runs, of those that its kin share among them."""
    kin = [other for other in FLAVOURS.values() if other.kin == flavour.kin]
    mine = []
    for shape in flavour.shapes(table_format, seed):
        able = [other for other in kin if shape in other.shapes(table_format, seed)]
        if able[(zlib.crc32(shape.name.encode()) + seed) % len(able)] is flavour:
            mine.append(shape)
    return mine


def by_kinds(flavour: Flavour, shapes: Sequence[Shape], seed: int) -> dict[Kinds, list[Shape]]:
    """Shapes by their histories: of each the first kind of trouble, from the seed on, that it bears."""
    if not shapes:
        return {}
    if flavour.source == "change_log":
        return {Kinds(again=flavour.name != "slot"): list(shapes)}
    if flavour.kin.startswith("arrivals"):
        return {Kinds(deletes=False): list(shapes)}
    found: dict[Kinds, list[Shape]] = {}
    for shape in shapes:
        turn = seed + zlib.crc32(shape.name.encode())
        troubles = [TROUBLES[(turn + number) % len(TROUBLES)] for number in range(len(TROUBLES))]
        found.setdefault(next(kinds for kinds in troubles if shape.bears(kinds)), []).append(shape)
    return found


def script(shapes: Sequence[Shape], kinds: Kinds, seed: int, *, keys: int, phases: int, iceberg: bool) -> list[Step]:
    """Phases of histories, a load after each, some of them interrupted first; and what people do beside loads."""
    chance, writer = random.Random(seed), Writer(seed=seed, keys=keys, kinds=kinds)
    names = [shape.name for shape in shapes]
    goes_back = kinds.again or not any(shape.strategy == "cdc" for shape in shapes)  # a slot tells nothing twice
    steps: list[Step] = []
    past: list[Event] = []
    for number in range(phases):
        phase = writer.phase()
        steps.append(("change", writer.delivered(phase, past)))
        past += phase
        steps.append(("load", crashes(names, chance, 0.15 if number else 0.05)))
        last = number == phases - 1
        if number and goes_back and chance.random() < 0.35:
            steps.append(("rollback", None))
            steps += [("load", {})] if last else []
        if not last and chance.random() < 0.3:
            steps.append(chance.choice([("maintain", None), *([("forget", None)] if iceberg else [])]))
        if last or chance.random() < 0.3:
            steps.append(("verify", chance.choice(("checksum", "rows"))))
    read_once = any(shape.strategy == "files" for shape in shapes)  # all files at once hold a key several times
    if read_once or chance.random() < 0.5:
        steps += [("tamper", seed), ("verify", "rows"), ("repair", None), ("change", writer.phase()), ("load", {})]
    else:
        steps += [("refresh", None), ("change", writer.phase()), ("load", {})]
    return steps
