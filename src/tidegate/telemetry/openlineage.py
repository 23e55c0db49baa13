"""OpenLineage events: the start and the end of every stream at work, sent by OpenLineage's own client.

Where they go is said by the client's own variables and file. A thread sends them, so that no load waits for it.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import warnings
from collections.abc import Callable, Mapping

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent, RunState

from tidegate.core.outcome import Outcome, Problem
from tidegate.core.plan import LoadPlan
from tidegate.engine.events import Event, Listener, Moment, Stage
from tidegate.engine.observers import Subject
from tidegate.telemetry.datasets import Name
from tidegate.telemetry.lineage import Ended, Lineage

log = logging.getLogger("tidegate")

LONGEST = 5.0
"""Seconds that the end of a process waits for events that have not been sent."""
MOST = 1000
"""Events that wait; further ones are dropped while the endpoint does not answer."""


def opened(environ: Mapping[str, str]) -> Emitter:
    """The observer, with a client that is configured as everywhere."""
    return Emitter(OpenLineageClient(), environ)


class Emitter:
    """Sends the events of every stream that it is told of, one after the other.

    Args:
        client: OpenLineage's own.
        environ: names the namespace of the jobs and the run that this one is a part of.
        longest: seconds that `close` waits.
    """

    def __init__(self, client: OpenLineageClient, environ: Mapping[str, str], *, longest: float = LONGEST) -> None:
        self._client, self._environ, self._longest = client, environ, longest
        self._waiting: queue.Queue[Callable[[], RunEvent] | None] = queue.Queue(MOST)
        self._places: dict[str, Name | None] = {}
        self._told = False
        self._sender = threading.Thread(target=self._send, name="lineage", daemon=True)
        self._sender.start()

    def __call__(self, subject: Subject) -> Listener:
        return StreamEvents(Lineage(subject, self._environ, self._places), self._put).tell

    def close(self) -> None:
        """Waits for what was not sent, for five seconds at most."""
        until = time.monotonic() + self._longest
        self._put(None)
        self._sender.join(self._longest)
        if self._sender.is_alive():
            log.warning("lineage: the endpoint did not take the last events within %.0f seconds", self._longest)
            return
        self._client.close(max(until - time.monotonic(), 0.1))

    def _put(self, make: Callable[[], RunEvent] | None) -> None:
        try:
            self._waiting.put_nowait(make)
        except queue.Full:
            self._warn("too many events wait, further ones are dropped")

    def _send(self) -> None:
        while (make := self._waiting.get()) is not None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._client.emit(make())
            except Exception as error:
                self._warn(type(error).__name__)
                log.debug("the error of an event of lineage", exc_info=error)

    def _warn(self, why: str) -> None:
        if not self._told:
            self._told = True
            log.warning("lineage: an event was not sent (%s); this is told once", why)


class StreamEvents:
    """The events of one stream at work.

    What was read is what published loads read: a load that failed and was tried again counts once.
    """

    def __init__(self, lineage: Lineage, put: Callable[[Callable[[], RunEvent]], None]) -> None:
        self._lineage, self._put = lineage, put
        self._plan: LoadPlan | None = None
        self._published: list[LoadPlan] = []

    def tell(self, event: Event) -> None:
        match event.moment:
            case Moment.BEGUN:
                now = self._lineage.now()
                self._put(lambda: self._lineage.started(now))
            case Moment.DONE if event.stage is Stage.ADVANCE:
                if event.plan is not None:
                    self._published.append(event.plan)
            case Moment.DONE | Moment.RETRY:
                self._plan = event.plan
            case Moment.ENDED:
                self._end(event, event.outcome, event.outcome.error if event.outcome else event.error)
            case Moment.INTERRUPTED:
                self._end(event, None, Problem(code="interrupted", message="the run was interrupted", hint=""))
            case _:
                pass

    def _end(self, event: Event, outcome: Outcome | None, error: Problem | None) -> None:
        state = RunState.COMPLETE
        if error is not None:
            state = RunState.ABORT if event.moment is Moment.INTERRUPTED else RunState.FAIL
        ended = Ended(
            state=state,
            at=self._lineage.now(),
            outcome=outcome,
            error=error,
            published=tuple(self._published),
            planned=self._plan or event.plan,
            broken=event.broken,
        )
        self._put(lambda: self._lineage.ended(ended))
