"""Progress events of a run: where a stream begins and ends, each boundary of a stage, and what happens in between.

They contain no secrets and no values of rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tidegate.core.outcome import Outcome, Problem
from tidegate.core.plan import LoadPlan
from tidegate.core.policies.rules import RuleViolation


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
    """What an event tells.

    START and DONE are the boundaries of a stage. PUBLISHED lies inside advance: the table shows the rows, the registry
    does not know. BEGUN and ENDED are those of the stream; WORKING comes while a stage is at work, BACKGROUND when a
    part of a later stage that ran meanwhile is done, RETRY before the stream starts over after an error that may pass.
    INTERRUPTED comes instead of ENDED where the run is ended from outside.
    """

    BEGUN = "begun"
    START = "start"
    WORKING = "working"
    BACKGROUND = "background"
    PUBLISHED = "published"
    DONE = "done"
    RETRY = "retry"
    ENDED = "ended"
    INTERRUPTED = "interrupted"


BOUNDARIES = (
    *((stage, moment) for stage in STAGES[:-1] for moment in (Moment.START, Moment.DONE)),
    *((Stage.ADVANCE, moment) for moment in (Moment.START, Moment.PUBLISHED, Moment.DONE)),
)
"""The moments at which a load can be told apart by what it has left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One moment in the run of a stream, for those who show progress.

    Args:
        stage: the one at work, or the last one that was.
        seconds: since the stage or its part began; of ENDED since the stream did; of RETRY until it starts over.
        rows: that the load moves, by its plan; None where the plan cannot tell.
        share: of the Spark job at work, the part of its tasks that is done; None outside of one.
        place: of BEGUN and ENDED, which one of how many streams of the run it is, from 1.
        outcome: of ENDED, of a load; what ended otherwise says how in `detail`.
        error: of ENDED, of what is no load: why it failed.
        plan: of the load at work, once that is planned.
        broken: the checks that rows of the run failed so far.
    """

    stream: str
    stage: Stage
    moment: Moment
    detail: str = ""
    seconds: float = 0.0
    rows: int | None = None
    share: float | None = None
    place: tuple[int, int] = (1, 1)
    outcome: Outcome | None = None
    error: Problem | None = None
    plan: LoadPlan | None = None
    broken: tuple[RuleViolation, ...] = ()


Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """A listener that does nothing."""


@dataclass(slots=True, kw_only=True)
class Journal:
    """Tells a listener about the stages of one stream and keeps their times.

    Args:
        halted: asked before each stage: whether the run was interrupted in another thread.
        rows: that the load at work moves, once that is planned.
        plan: of that load.
        broken: the checks that its rows failed, and those of the loads before it.
    """

    stream: str
    listener: Listener = ignore
    place: tuple[int, int] = (1, 1)
    halted: Callable[[], bool] = field(default=lambda: False)
    seconds: dict[str, float] = field(default_factory=dict)
    rows: int | None = None
    plan: LoadPlan | None = None
    broken: tuple[RuleViolation, ...] = ()
    _stage: Stage = Stage.DETECT
    _began: float = field(default_factory=time.monotonic)

    @contextmanager
    def stage(self, stage: Stage) -> Iterator[Callable[[str], None]]:
        """Marks start and end of a stage; the value yielded takes a detail for the end. An error has no end.

        Raises:
            KeyboardInterrupt: the run was interrupted.
        """
        if self.halted():
            raise KeyboardInterrupt
        began = time.monotonic()
        details: list[str] = []
        self.tell(stage, Moment.START)
        yield details.append
        spent = time.monotonic() - began
        self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
        self.tell(stage, Moment.DONE, detail="; ".join(details), seconds=spent)

    def tell(self, stage: Stage, moment: Moment, *, detail: str = "", seconds: float = 0.0) -> None:
        """One event at a boundary of a stage."""
        if moment is Moment.START:
            self._stage, self._began = stage, time.monotonic()
        self._send(Event(stream=self.stream, stage=stage, moment=moment, detail=detail, seconds=seconds))

    def done(self, stage: Stage) -> None:
        """The stage that `tell` began is done."""
        spent = time.monotonic() - self._began
        self.seconds[stage] = self.seconds.get(stage, 0.0) + spent
        self.tell(stage, Moment.DONE, seconds=spent)

    @contextmanager
    def background(self, stage: Stage, detail: str) -> Iterator[None]:
        """A part of a later stage, while the one at work goes on; its own seconds are those that are waited for it."""
        began = time.monotonic()
        yield
        self.tell(stage, Moment.BACKGROUND, detail=detail, seconds=time.monotonic() - began)

    def begin(self) -> None:
        """The stream begins."""
        self._send(Event(stream=self.stream, stage=self._stage, moment=Moment.BEGUN))

    def working(self, detail: str, share: float | None = None) -> None:
        """The stage at work is at this; may be called from another thread."""
        spent = time.monotonic() - self._began
        event = Event(stream=self.stream, stage=self._stage, moment=Moment.WORKING, detail=detail, seconds=spent)
        self._send(replace(event, share=share))

    def retry(self, detail: str, seconds: float) -> None:
        """The stream starts over in so many seconds."""
        self.rows, self.plan = None, None
        self._send(Event(stream=self.stream, stage=self._stage, moment=Moment.RETRY, detail=detail, seconds=seconds))

    def end(self, outcome: Outcome) -> None:
        """The stream has ended."""
        event = Event(stream=self.stream, stage=self._stage, moment=Moment.ENDED, outcome=outcome)
        self._send(replace(event, seconds=outcome.seconds.get("total", 0.0)))

    def finish(self, detail: str, error: Problem | None = None) -> None:
        """The stream has ended, with something else than a load; `detail` says how, in a few words."""
        event = Event(stream=self.stream, stage=self._stage, moment=Moment.ENDED, detail=detail)
        self._send(replace(event, error=error))

    def interrupted(self) -> None:
        """The stream was ended from outside."""
        self._send(Event(stream=self.stream, stage=self._stage, moment=Moment.INTERRUPTED))

    def _send(self, event: Event) -> None:
        full = replace(event, rows=self.rows, place=self.place)
        self.listener(replace(full, plan=self.plan, broken=self.broken))


def journals(names: Sequence[str], listener: Listener | None) -> list[Journal]:
    """One for each stream of a command, which counts them."""
    return [
        Journal(stream=name, listener=listener or ignore, place=(number, len(names)))
        for number, name in enumerate(names, start=1)
    ]
