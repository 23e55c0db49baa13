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
    """What an event reports.

    START and DONE are the boundaries of a stage. PUBLISHED comes within advance: the table shows the rows, but the
    registry does not know yet. BEGUN and ENDED are the boundaries of the stream. WORKING comes while a stage runs,
    BACKGROUND when a part of a later stage that ran in parallel is done, and RETRY before the stream starts over after
    a transient error. INTERRUPTED replaces ENDED if the run was interrupted.
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
    """One event in the run of a stream, for progress displays and observers.

    Args:
        stage: the current stage, or the last one.
        seconds: since the stage or its part began; for ENDED since the stream began; for RETRY until it starts over.
        rows: the rows that the load moves, according to its plan; None if the plan does not know.
        share: the fraction of the running Spark job's tasks that are done; None outside a job.
        place: for BEGUN and ENDED: the number of the stream, from 1, and how many the run has.
        outcome: for ENDED after loads; other commands describe their result in `detail`.
        error: for ENDED of other commands: why it failed.
        plan: the plan of the current load, once it is made.
        broken: the checks that rows of the run have failed so far.
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
        halted: asked before each stage; whether the run was interrupted in another thread.
        rows: the rows that the current load moves, once it is planned.
        plan: the plan of that load.
        broken: the checks that rows of this load and of earlier ones failed.
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
        """Reports a boundary of a stage."""
        if moment is Moment.START:
            self._stage, self._began = stage, time.monotonic()
        self._send(Event(stream=self.stream, stage=stage, moment=moment, detail=detail, seconds=seconds))

    def done(self, stage: Stage) -> None:
        """Reports the end of the stage that `tell` began."""
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
        self._send(Event(stream=self.stream, stage=self._stage, moment=Moment.BEGUN))

    def working(self, detail: str, share: float | None = None) -> None:
        """Reports what the current stage is doing; may be called from another thread."""
        spent = time.monotonic() - self._began
        event = Event(stream=self.stream, stage=self._stage, moment=Moment.WORKING, detail=detail, seconds=spent)
        self._send(replace(event, share=share))

    def retry(self, detail: str, seconds: float) -> None:
        """Reports that the stream starts over in so many seconds."""
        self.rows, self.plan = None, None
        self._send(Event(stream=self.stream, stage=self._stage, moment=Moment.RETRY, detail=detail, seconds=seconds))

    def end(self, outcome: Outcome) -> None:
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
    """One journal for each stream of a command, numbered."""
    return [
        Journal(stream=name, listener=listener or ignore, place=(number, len(names)))
        for number, name in enumerate(names, start=1)
    ]
