"""Server-sent events: what a stream's run is at, while it runs."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from tidegate.engine.events import Moment
from tidegate.engine.run_log import line_of
from tidegate.service.web.state import State

TICK = 0.25  # seconds
ALIVE = 5.0
"""Seconds after which a comment is sent, so that proxies keep the connection."""
MOST = 50
"""Connections at a time; more are told to come back."""


class Live:
    """Counts the connections."""

    def __init__(self) -> None:
        self.open = 0

    async def events(self, request: Request) -> Response:
        """The lines of one stream's run from now on."""
        state: State = request.app.state.tidegate
        name = request.query_params.get("stream", "")
        if state.facts.line(name) is None:
            return PlainTextResponse("There is no such stream.\n", status_code=404)
        if self.open >= MOST:
            return PlainTextResponse("Too many live pages are open.\n", 503, headers={"Retry-After": "30"})
        return StreamingResponse(self._lines(request, state, name), media_type="text/event-stream")

    async def _lines(self, request: Request, state: State, name: str) -> AsyncIterator[str]:
        redact = state.service.project.config.redact
        self.open += 1
        try:
            with state.service.subscribe() as events:
                yield ": open\n\n"
                said = time.monotonic()
                while not await request.is_disconnected():
                    event = None
                    with suppress(queue.Empty):
                        event = events.get_nowait()
                    if event is None:
                        if time.monotonic() - said > ALIVE:
                            said = time.monotonic()
                            yield ": alive\n\n"
                            if await run_in_threadpool(_idle, state, name):  # also what runs in other processes ends
                                yield _sent("ended", "")
                                return
                        await asyncio.sleep(TICK)
                    elif event.stream == name:
                        yield _sent("line", redact(line_of(event)))
                        if event.moment is Moment.ENDED:
                            yield _sent("ended", "")
                            return
        finally:
            self.open -= 1


def _idle(state: State, name: str) -> bool:
    line = state.facts.line(name)
    return line is None or line.status.held_by is None


def _sent(kind: str, text: str) -> str:
    return f"event: {kind}\ndata: {' '.join(text.splitlines())}\n\n"
