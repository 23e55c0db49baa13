"""Makes a failing history small, and prints it as a program that anyone can run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from matrix.groups import FLAVOURS, Flavour, Ground
from matrix.histories import Step, plainer, restricted, smaller
from matrix.play import Failure, Player
from matrix.shapes import Shape
from matrix.simulated_tables import SimulatedSpark, SimulatedTable

Grounds = Callable[[], Ground]


def player(flavour: Flavour, format: str, shapes: Sequence[Shape], ground: Ground) -> Player:
    """What plays histories on that ground."""
    place = flavour.make(ground)
    simulated = isinstance(place, SimulatedTable)
    return Player(
        folder=ground.folder,
        place=place,
        format=format,
        shapes=shapes,
        spark=SimulatedSpark(spark=ground.spark, server=place.server) if simulated else ground.spark,
        view=flavour.view,
        parallel=flavour.parallel,
    )


def replay(flavour: str, format: str, shape: Shape, steps: Sequence[Step], ground: Ground) -> list[Failure]:
    """Plays the steps for one stream."""
    return player(FLAVOURS[flavour], format, [shape], ground).play(steps)


def shrunk(
    failure: Failure, flavour: str, format: str, steps: Sequence[Step], grounds: Grounds, *, seconds: float = 120
) -> list[Step]:
    """The shortest history found in that time that still fails; the one given where no shorter one does."""
    until = time.monotonic() + seconds

    def fails(some: Sequence[Step]) -> bool:
        if time.monotonic() >= until:
            return False
        return any(one.kind == failure.kind for one in replay(flavour, format, failure.shape, some, grounds()))

    found = list(steps[: failure.step + 1])
    for key in sorted(failure.keys):
        if fails(one := restricted(found, frozenset({key}))):
            found = one
            break
    if fails(plain := plainer(found)):
        found = plain
    improved = True
    while improved and time.monotonic() < until:
        improved = False
        for fewer in smaller(found):
            if fails(fewer):
                found, improved = fewer, True
                break
    return found


def program(failure: Failure, flavour: str, format: str, steps: Sequence[Step]) -> str:
    """The history as a program; run from the project's folder by `PYTHONPATH=tests .venv/bin/python FILE`."""
    lines = ",\n".join(f"    {step!r}" for step in steps)
    return f"""# {failure}
import datetime
from decimal import Decimal

from matrix.model import Event
from matrix.shapes import Shape
from matrix.simulated_tables import SimulatedSpark, SimulatedTable
from matrix.standalone import play

play({flavour!r}, {format!r}, {failure.shape!r}, [
{lines}
])
"""
