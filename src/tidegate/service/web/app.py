"""The dashboard as a Starlette application."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from tidegate.core.secret_names import redacted
from tidegate.engine.events import Moment
from tidegate.engine.run_log import line_of
from tidegate.errors import TidegateError
from tidegate.service.web import actions, documents, screens
from tidegate.service.web.facts import Facts
from tidegate.service.web.guard import Guard
from tidegate.service.web.openapi import openapi
from tidegate.service.web.pages import Pages
from tidegate.service.web.port import ServicePort
from tidegate.service.web.rendering import environment
from tidegate.service.web.settings import WebSettings
from tidegate.service.web.state import State
from tidegate.service.web.tables import Tables
from tidegate.telemetry.metrics import CONTENT_TYPE

STATIC = Path(__file__).parent / "static"


TICK = 0.25  # seconds
ALIVE = 5.0
"""Seconds after which a comment is sent, so that proxies keep the connection."""
MOST = 50
"""Connections at a time; more are told to come back."""


def create_app(
    service: ServicePort, settings: WebSettings | None = None, *, metrics: Callable[[], bytes] | None = None
) -> Starlette:
    """The application; a guard is its outermost layer, so nothing answers past it.

    Args:
        settings: see `WebSettings.checked`; the usual ones unless given.
        metrics: what `/metrics` answers, of type `CONTENT_TYPE`; no such page unless given.

    Raises:
        ConfigError: it would be open to whoever reaches the address.
    """
    settings = (settings or WebSettings()).checked()
    app = Starlette(
        routes=[*_pages(), *_api(settings), *_actions(settings), *_metrics(metrics)],
        exception_handlers={TidegateError: _problem, documents.BadParameter: documents.refuse},
    )
    guard = Guard(app.router, settings)  # signs with a key of its own
    app.add_middleware(Guard, settings=settings, key=guard.key)
    app.state.guard = guard
    app.state.settings = settings
    app.state.tidegate = State(
        service=service,
        settings=settings,
        facts=Facts(service),
        pages=Pages(),
        tables=Tables(service),
        templates=environment(service.project.config.redact),
        form_token=guard.form_token,
    )
    return app


def _pages() -> list[BaseRoute]:
    return [
        Route("/", screens.overview),
        Route("/streams/{name:path}", screens.stream),
        Route("/runs/{run_id}/{name:path}", screens.run),
        Route("/proof", screens.proofs),
        Route("/proof/report.html", screens.proof_report),
        Route("/lakes", screens.lakes),
        Route("/events", Live().events),
        Route("/healthz", lambda _: PlainTextResponse("ok\n")),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


def _api(settings: WebSettings) -> list[BaseRoute]:
    return [
        Route("/api/v1/openapi.json", openapi(read_only=settings.read_only)),
        Route("/api/v1/status", documents.status),
        Route("/api/v1/proof", documents.proof),
        Route("/api/v1/savings", documents.savings),
        Route("/api/v1/memory", documents.memory),
        Route("/api/v1/streams/{name:path}/history", documents.history),
        Route("/api/v1/streams/{name:path}/tasks", documents.tasks),
        Route("/api/v1/streams/{name:path}/intervals", documents.intervals),
        Route("/api/v1/streams/{name:path}/table", documents.table),
        Route("/api/v1/streams/{name:path}/backfills", documents.backfills),
    ]


def _actions(settings: WebSettings) -> list[BaseRoute]:
    if settings.read_only:
        return []
    return [
        Route("/actions/{action}", actions.act, methods=["POST"]),
        Route("/api/v1/streams/{name:path}/{action}", actions.act_by_api, methods=["POST"]),
    ]


def _metrics(metrics: Callable[[], bytes] | None) -> list[BaseRoute]:
    if metrics is None:
        return []

    def answer(_: Request) -> Response:
        # Not `media_type`, to which Starlette adds the charset once more.
        return Response(metrics(), headers={"content-type": CONTENT_TYPE})

    return [Route("/metrics", answer)]


def _problem(request: Request, error: Exception) -> Response:
    """An error of the registry as a page or a document, without a trace."""
    state: State = request.app.state.tidegate
    if not isinstance(error, TidegateError):
        raise error
    if request.url.path.startswith("/api/"):
        problem = redacted(error.to_dict(), state.service.project.config.redact)
        return JSONResponse({"error": problem}, status_code=503)
    return state.message(request, error.code, error.message, hint=error.hint, status=503)


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
