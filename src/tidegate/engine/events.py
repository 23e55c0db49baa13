"""Progress events of a run: one at each boundary of a stage.

They contain no secrets and no values of rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum


class Stage(StrEnum):
    """The seven stages of every load, in order."""

    DETECT = "detect"
    PLAN = "plan"
    READ = "read"
    CHECK = "check"
    WRITE = "write"
    VERIFY = "verify"
    ADVANCE = "advance"


STAGES = tuple(Stage)


class Moment(StrEnum):
    """A boundary of a stage. PUBLISHED lies inside advance: the table shows the rows, the registry does not know."""

    START = "start"
    PUBLISHED = "published"
    DONE = "done"


BOUNDARIES = (
    *((stage, moment) for stage in STAGES[:-1] for moment in (Moment.START, Moment.DONE)),
    *((Stage.ADVANCE, moment) for moment in Moment),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A boundary that a stream has reached; `seconds` since the stage began."""

    stream: str
    stage: Stage
    moment: Moment
    detail: str = ""
    seconds: float = 0.0


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does nothing."""


@dataclass(slots=True, kw_only=True)
class Journal:
    """Tells a listener about the stages of one stream and keeps their times."""

    stream: str
    listener: Listener = ignore
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Callable[[str], None]]:
        """Marks start and end of a stage; the value yielded takes a detail for the end. Nothing is told on errors."""
        began = time.monotonic()
        details: list[str] = []
        self.tell(stage, Moment.START)
        yield details.append
        spent = time.monotonic() - began
        self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
        self.tell(stage, Moment.DONE, detail="; ".join(details), seconds=spent)

    def tell(self, stage: Stage, moment: Moment, *, detail: str = "", seconds: float = 0.0) -> None:
        """One event."""
        self.listener(Event(stream=self.stream, stage=stage, moment=moment, detail=detail, seconds=seconds))
