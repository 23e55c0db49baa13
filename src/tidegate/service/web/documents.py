"""`/api/v1`: the JSON documents of the commands, and an OpenAPI document that describes them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidegate.engine.overview import recorded
from tidegate.errors import TidegateError
from tidegate.service.web.rendering import redacted
from tidegate.service.web.state import State

MOST = 1000


def status(request: Request) -> Response:
    """As `status --json`, by what the registry alone knows: lag of logs and quarantines stay unknown."""
    state = _state(request)
    project, registry = state.service.project, state.service.registry

    def document() -> dict[str, Any]:
        found = recorded(project.config, project.lakes, registry.status(), datetime.now(UTC))
        return {"streams": [each.to_dict() for each, _ in found]}

    return _answer(request, document)


def history(request: Request) -> Response:
    """As `history STREAM --json`."""
    name, project = request.path_params["name"], _state(request).service.project
    limit = _limit(request, 20)
    return _answer(request, lambda: {"stream": name, "runs": [run.to_dict() for run in project.history(name, limit)]})


def tasks(request: Request) -> Response:
    """As `tasks STREAM --json`."""
    name, project = request.path_params["name"], _state(request).service.project
    return _answer(request, lambda: {"tasks": [each.to_dict() for each in project.tasks(name, _limit(request, 100))]})


def intervals(request: Request) -> Response:
    """As `status STREAM --json`."""
    name, project = request.path_params["name"], _state(request).service.project

    def document() -> dict[str, Any]:
        found = project.intervals(name)
        parts, gaps = ([part.to_dict() for part in each] for each in (found.parts, found.gaps))
        return {"stream": name, "intervals": parts, "gaps": gaps}

    return _answer(request, document)


def table(request: Request) -> Response:
    """As `show STREAM --json`."""
    name, project = request.path_params["name"], _state(request).service.project
    return _answer(request, lambda: project.show(name).to_dict())


def proof(request: Request) -> Response:
    """As `proof --json`."""
    return _answer(request, lambda: _state(request).service.project.proof().to_dict())


def savings(request: Request) -> Response:
    """As `savings --json`."""
    days = _limit(request, 30, name="days")
    return _answer(request, lambda: _state(request).service.project.savings(days=days).to_dict())


def backfills(request: Request) -> Response:
    """As `backfill list --json`, of one stream."""
    name, project = request.path_params["name"], _state(request).service.project
    return _answer(request, lambda: {"backfills": [each.to_dict() for each in project.backfills.list(name)]})


def memory(request: Request) -> Response:
    """What the process holds."""
    return _answer(request, lambda: {"memory_bytes": _state(request).service.memory()})


def _answer(request: Request, document: Callable[[], dict[str, Any]]) -> Response:
    redact = _state(request).service.project.config.redact
    name = request.path_params.get("name")
    if name is not None and _state(request).facts.line(name) is None:
        problem = {"code": "not_found", "message": f"there is no stream {name!r}", "hint": "See /api/v1/status."}
        return JSONResponse({"error": redacted(problem, redact)}, status_code=404)
    try:
        return JSONResponse(redacted(document(), redact))
    except TidegateError as error:
        return JSONResponse({"error": redacted(error.to_dict(), redact)}, status_code=409)


def _limit(request: Request, usual: int, *, name: str = "limit") -> int:
    given = request.query_params.get(name, "")
    return min(max(int(given), 1), MOST) if given.isdecimal() and len(given) < 7 else usual


def _state(request: Request) -> State:
    state: State = request.app.state.tidegate
    return state
